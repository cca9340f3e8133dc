//! Small neural networks on the CPU.
//!
//! Rows go through all layers in tiles that fit the second-level cache ([`Tiles`]), on hand-written kernels for AVX-512,
//! AVX2 or any processor, chosen at run time. The results are the same bits for any number of threads and any of these
//! instruction sets. This crate does not depend on environments or algorithms, and is the only one with `unsafe`.

mod activation;
mod block;
mod buffer;
mod cell;
mod gru;
mod init;
mod isa;
mod kernels;
mod matrix;
mod mlp;
mod network;
mod peak;
mod real;
mod reduce;
mod sequences;
mod simd;
mod tiles;
mod workspace;

pub mod adam;
pub mod categorical;
pub mod gaussian;
pub mod multi_categorical;

pub use activation::Activation;
pub use adam::Adam;
pub use buffer::Buffer;
pub use cell::EPSILON as NORM_EPSILON;
pub use gru::{Gru, GruPassWorkspace, GruStepWorkspace};
pub use init::Init;
pub use isa::{Isa, IsaError, instruction_set};
pub use mlp::{Mlp, MlpPassWorkspace, MlpStepWorkspace};
pub use network::{Batch, Network, PassWorkspace, Source, StepWorkspace};
pub use peak::peak_gflops;
pub use real::Real;
pub use reduce::{MAX_PARTS, Peers, parts, parts_of};
pub use sequences::Sequences;
pub use tiles::{TILE_ROWS, Tiles};
