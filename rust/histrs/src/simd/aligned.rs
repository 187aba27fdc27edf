use std::ops::{Deref, DerefMut};

use pulp::bytemuck::Zeroable;

use crate::error::Result;
use crate::simd::pages::{prefer_huge_pages, touch_pages, zeroed};

/// Bytes in a cache line, and in the widest vector.
const LINE: usize = 64;

/// A buffer that starts on a cache line, so that no vector straddles two.
#[derive(Debug, Clone)]
pub(crate) struct AlignedVec<T> {
    data: Vec<T>,
    offset: usize,
    len: usize,
}

impl<T: Copy + Default + Zeroable> AlignedVec<T> {
    /// `len` zeros.
    pub(crate) fn zeros(len: usize) -> Result<Self> {
        let mut data = zeroed::<T>(&[len.saturating_add(LINE / size_of::<T>())])?;
        prefer_huge_pages(&mut data);
        touch_pages(&mut data);
        // `align_offset` may refuse; an unaligned buffer is slower, not wrong.
        let offset = data.as_ptr().align_offset(LINE).min(LINE / size_of::<T>());
        Ok(Self { data, offset, len })
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.data[self.offset..self.offset + self.len]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.offset..self.offset + self.len]
    }
}
