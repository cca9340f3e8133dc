//! Numbers aligned to cache lines.

use crate::real::Real;
use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Aligned<E>([E; 16]);

/// A fixed-length slice of numbers aligned to 64 bytes.
#[derive(Clone)]
pub struct Buffer<E> {
    data: Vec<Aligned<E>>,
    len: usize,
}

impl<E: Real> Buffer<E> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Buffer { data: vec![Aligned([E::ZERO; 16]); len.div_ceil(16)], len }
    }

    /// Sets the length. If that takes a new allocation all elements become zero; otherwise they stay as they are.
    pub fn reserve_zeroed(&mut self, len: usize) {
        if len > self.data.len() * 16 {
            *self = Buffer::zeros(len);
        }
        self.len = len;
    }
}

impl<E> Deref for Buffer<E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        // SAFETY: an `Aligned` is sixteen E in C layout without padding, and len never exceeds what `data` holds.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast(), self.len) }
    }
}

impl<E> DerefMut for Buffer<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_mut_ptr().cast(), self.len) }
    }
}
