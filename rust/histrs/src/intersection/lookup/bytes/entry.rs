//! What values of rows are looked up: single or double precision, or bytes.

use crate::simd::Element;

/// A value that rows can have.
pub(in crate::intersection::lookup) trait Entry:
    Copy + Default + Send + Sync
{
    fn single(self) -> f32;
    fn is_valid(self) -> bool;
    fn singles(_: &[Self]) -> Option<&[f32]> {
        None
    }
    fn bytes(_: &[Self]) -> Option<&[u8]> {
        None
    }
}

impl<T: Element> Entry for T {
    #[allow(clippy::cast_possible_truncation)] // codes are of single precision
    fn single(self) -> f32 {
        self.to_f64() as f32
    }
    fn is_valid(self) -> bool {
        self >= T::default() && self.to_f64() < f64::INFINITY
    }
    fn singles(x: &[Self]) -> Option<&[f32]> {
        T::singles(x)
    }
}

impl Entry for u8 {
    fn single(self) -> f32 {
        f32::from(self)
    }
    fn is_valid(self) -> bool {
        true
    }
    fn bytes(x: &[Self]) -> Option<&[u8]> {
        Some(x)
    }
}
