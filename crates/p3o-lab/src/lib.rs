//! Experiments: many runs at once, what they show, and their pictures.
//!
//! [`sweep`] trains many runs side by side; [`reproduce`] holds the paper's experiments as data, plans their runs and
//! reports on them; [`statistics`] says what they show; [`figure`] draws them, with the [`letters`] that other pictures
//! use too.

pub mod figure;
pub mod letters;
pub mod reproduce;
pub mod statistics;
pub mod sweep;
