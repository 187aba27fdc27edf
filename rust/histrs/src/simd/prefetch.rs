/// Asks for the cache line of `data[index]`; an index outside asks for nothing useful.
///
/// Random rows of a panel larger than the second-level cache arrive sooner when they are asked
/// for some iterations ahead.
#[inline(always)]
pub(crate) fn prefetch<T>(data: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = data.as_ptr().wrapping_add(index).cast::<i8>();
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address;
        // `wrapping_add` forms the address without claiming that it lies inside `data`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, index);
}
