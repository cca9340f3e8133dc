//! The compiled module `p3o._p3o` of the Python package; what users import stands in `python/p3o/`.
//!
//! Nothing of it needs Python but the module behind the feature `extension`, which maturin turns on.

#[cfg(feature = "extension")]
mod python;
#[cfg(feature = "extension")]
mod threads;
pub mod worlds;
