use std::alloc::{Layout, alloc_zeroed};

use pulp::bytemuck::Zeroable;

use crate::error::{Error, Result};

/// Buffers of fewer bytes stay in pages of the usual size.
const LEAST_BYTES: usize = 4 << 20;
/// Bytes in the smallest page there is.
const LEAST_PAGE: usize = 1 << 12;

/// Asks for huge pages under a buffer that was not written yet.
///
/// A first touch of a page of four kilobytes costs about as much as writing it several times. Rows
/// read at random miss in the table of pages. Both are rare with pages of two megabytes. A request
/// only: where the system has none, nothing changes.
pub(crate) fn prefer_huge_pages<T>(data: &mut [T]) {
    #[cfg(target_os = "linux")]
    if size_of_val(data) >= LEAST_BYTES {
        let start = data.as_mut_ptr().cast::<u8>();
        // Whole pages inside the buffer, so that no other memory is meant.
        let skipped = start.align_offset(LEAST_PAGE).min(LEAST_PAGE);
        let len = (size_of_val(data) - skipped) / LEAST_PAGE * LEAST_PAGE;
        // SAFETY: the range lies inside `data`, which is borrowed exclusively; the advice changes
        // how the system backs the memory and never what it holds, and a refusal is no error.
        unsafe { libc::madvise(start.wrapping_add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data;
}

/// Writes zeros to every page of a buffer of zeros.
///
/// A page that is read before it is written is backed twice, first by one page of zeros that all
/// share. Taking that away again interrupts every core of the process.
pub(crate) fn touch_pages<T: Copy + Default>(zeros: &mut [T]) {
    // Or the compiler, who knows that there are zeros, would leave the writing out.
    for zero in std::hint::black_box(zeros).iter_mut().step_by(LEAST_PAGE / size_of::<T>()) {
        *zero = T::default();
    }
}

/// Zeros in pages that the system has ready, or an error where it has none.
pub(crate) fn zeroed<T: Zeroable>(shape: &[usize]) -> Result<Vec<T>> {
    let n = shape.iter().try_fold(1_usize, |n, &k| n.checked_mul(k));
    let layout = n.and_then(|n| Some((n, Layout::array::<T>(n).ok()?)));
    let Some((n, layout)) = layout else { return Err(Error::out_of_memory::<T>(shape)) };
    if layout.size() == 0 {
        // Of values without a size, too, any number fits.
        let mut nothing = Vec::new();
        nothing.resize_with(n, T::zeroed);
        return Ok(nothing);
    }
    // SAFETY: the layout has a size above zero. The memory is freed as the `Vec` would have got it:
    // from the global allocator, in the layout of an array of its capacity. Its bytes are zero, which
    // is a value of a `Zeroable` type.
    unsafe {
        let data = alloc_zeroed(layout).cast::<T>();
        if data.is_null() {
            Err(Error::out_of_memory::<T>(shape))
        } else {
            Ok(Vec::from_raw_parts(data, n, n))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_all_sizes_are_zero_and_can_be_written() {
        for n in [0, 1, LEAST_BYTES / 4 - 1, LEAST_BYTES / 4, LEAST_BYTES + 3] {
            let mut data = zeroed::<f32>(&[n]).unwrap();
            assert!(data.len() == n && data.iter().all(|x| *x == 0.0));
            data.fill(1.0);
            prefer_huge_pages(&mut data);
            assert!(data.iter().all(|x| *x == 1.0));
        }
    }
}
