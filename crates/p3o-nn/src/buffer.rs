//! Memory that vectors like: aligned to cache lines, zero at birth.

use crate::real::Real;
use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block<E>([E; 16]);

/// A fixed-length slice of numbers aligned to 64 bytes.
#[derive(Clone)]
pub struct Buffer<E> {
    blocks: Vec<Block<E>>,
    len: usize,
}

impl<E: Real> Buffer<E> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Buffer { blocks: vec![Block([E::ZERO; 16]); len.div_ceil(16)], len }
    }

    /// Makes room for at least `len` elements; what was there is lost when it grows.
    pub fn reserve_zeroed(&mut self, len: usize) {
        if len > self.blocks.len() * 16 {
            *self = Buffer::zeros(len);
        }
        self.len = len;
    }
}

impl<E> Deref for Buffer<E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        // SAFETY: a Block is sixteen E in C layout without padding, and len never exceeds what the blocks hold.
        unsafe { std::slice::from_raw_parts(self.blocks.as_ptr().cast(), self.len) }
    }
}

impl<E> DerefMut for Buffer<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast(), self.len) }
    }
}
