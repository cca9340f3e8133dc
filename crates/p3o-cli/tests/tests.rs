//! What the binary promises, one module each. Every test runs the real `p3o` in a folder of its own.

mod bench;
mod cluster;
mod compare;
mod device;
mod env_step;
mod evaluate;
mod export;
mod full_disk;
mod instructions;
mod interruption;
mod memory;
mod plot;
mod render;
mod reproduce;
mod settings;
mod shards;
mod storm;
mod streams;
mod train;
mod usage;
mod util;
mod verify;
mod versions;
