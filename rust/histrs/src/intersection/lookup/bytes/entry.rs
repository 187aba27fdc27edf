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

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Element>(of: fn(f64) -> T) {
        for valid in [0.0, -0.0, 1e-30, 7.5, 3e38] {
            assert!(of(valid).is_valid(), "{valid}");
        }
        for invalid in [-1e-30, -2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!(!of(invalid).is_valid(), "{invalid}");
        }
    }

    #[test]
    fn numbers_from_zero_on_are_valid() {
        check::<f64>(|x| x);
        check::<f32>(|x| x as f32);
        assert!((0..=255_u8).all(Entry::is_valid));
    }
}
