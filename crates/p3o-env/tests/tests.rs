//! The crate's promises, one module each.

mod ant;
mod ant_circle;
mod ant_textbook;
mod bodies;
mod buttons;
mod car_contacts;
mod circle;
mod cubes;
mod episodes;
mod every_task;
mod gather;
mod layouts;
mod original_engine;
mod robot;
mod robots;
mod scenes;
mod snapshots;
mod spread;
mod statistics;
mod task_list;
mod util;
mod vases;
mod vector;
mod velocity;
