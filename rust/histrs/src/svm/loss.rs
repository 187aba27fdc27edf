//! Losses of a margin, and their derivatives.

use crate::error::from_name;
use crate::simd::Elementary;

/// The loss of a margin `z = y f(x)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// `max(0, 1 - z)`.
    Hinge,
    /// `max(0, 1 - z)^2`.
    SquaredHinge,
    /// `log(1 + exp(-z))`.
    Logistic,
}

from_name! { Loss, "loss", "use \"hinge\", \"squared_hinge\" or \"logistic\"",
    "hinge" => Hinge,
    "squared_hinge" => SquaredHinge,
    "logistic" => Logistic,
}

/// A loss known at compile time, so that loops over margins become vector instructions.
pub(super) trait Margin {
    /// The loss and its derivative; a subgradient where it has a corner.
    fn at(z: f64) -> (f64, f64);

    /// The tangent at `z`, where it passes 0: minus the conjugate of the loss at that derivative,
    /// `l(z) - z l'(z)` without the difference of large numbers.
    fn offset(z: f64) -> f64;
}

pub(super) struct Hinge;

impl Margin for Hinge {
    #[inline(always)]
    fn at(z: f64) -> (f64, f64) {
        let short = 1.0 - z;
        if short > 0.0 { (short, -1.0) } else { (0.0, 0.0) }
    }

    #[inline(always)]
    fn offset(z: f64) -> f64 {
        if 1.0 - z > 0.0 { 1.0 } else { 0.0 }
    }
}

pub(super) struct SquaredHinge;

impl Margin for SquaredHinge {
    #[inline(always)]
    fn at(z: f64) -> (f64, f64) {
        let short = 1.0 - z;
        let short = if short > 0.0 { short } else { 0.0 };
        (short * short, -2.0 * short)
    }

    #[inline(always)]
    fn offset(z: f64) -> f64 {
        let short = 1.0 - z;
        if short > 0.0 { short * (2.0 - short) } else { 0.0 }
    }
}

pub(super) struct Logistic;

/// A margin whose exponential is almost the least number.
const FAR: f64 = 700.0;

impl Margin for Logistic {
    #[inline(always)]
    fn at(z: f64) -> (f64, f64) {
        // Of the smaller exponential, which does not overflow.
        let t = (-z.abs()).exp_in_range();
        let below = if z < 0.0 { -z } else { 0.0 };
        let share = if z < 0.0 { 1.0 } else { t };
        (below + (1.0 + t).ln_of_normal(), -share / (1.0 + t))
    }

    #[inline(always)]
    fn offset(z: f64) -> f64 {
        // The same for both signs of `z`: the entropy of the two shares, which vanishes far out.
        let size = if z.abs() < FAR { z.abs() } else { FAR };
        let t = (-size).exp_in_range();
        (1.0 + t).ln_of_normal() + size * (t / (1.0 + t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const MARGINS: [f64; 11] = [-700.0, -30.0, -1.5, -0.2, 0.0, 0.3, 0.99, 1.01, 2.0, 40.0, 700.0];

    /// Beside the definition, and the slope beside a difference quotient where there is no corner.
    fn check<M: Margin>(definition: impl Fn(f64) -> f64) {
        for z in MARGINS {
            let (loss, slope) = M::at(z);
            let want = definition(z);
            assert!((loss - want).abs() <= 1e-15 * (1.0 + want), "{z}: {loss} {want}");
            let h = 1e-6 * (1.0 + z.abs());
            let quotient = (definition(z + h) - definition(z - h)) / (2.0 * h);
            assert!((slope - quotient).abs() <= 1e-8 * (1.0 + slope.abs()), "{z}: {slope}");
        }
    }

    #[test]
    fn losses_and_slopes_are_their_definitions() {
        check::<Hinge>(|z| (1.0 - z).max(0.0));
        check::<SquaredHinge>(|z| (1.0 - z).max(0.0).powi(2));
        check::<Logistic>(|z| if z < 0.0 { (z.exp()).ln_1p() - z } else { (-z).exp().ln_1p() });
    }

    /// What a tangent is at 0 follows from its value and slope, where these are not large.
    #[test]
    fn tangents_pass_zero_where_they_should() {
        fn check<M: Margin>() {
            for z in MARGINS {
                let (loss, slope) = M::at(z);
                let rounding = 1e-13 * (1.0 + loss + (z * slope).abs());
                assert!((M::offset(z) - (loss - z * slope)).abs() <= rounding, "{z}");
            }
        }
        check::<Hinge>();
        check::<SquaredHinge>();
        check::<Logistic>();
        for z in [-1e300, 1e300] {
            assert!((0.0..1e-300).contains(&Logistic::offset(z)));
        }
        assert_eq!((Hinge::offset(-1e300), Hinge::offset(1e300)), (1.0, 0.0));
        // At its corner the plane is that of the slope which was taken.
        let (loss, slope) = Hinge::at(1.0);
        assert_eq!(Hinge::offset(1.0), loss - slope);
    }

    #[test]
    fn at_the_corner_of_the_hinge_is_a_subgradient() {
        let (loss, slope) = Hinge::at(1.0);
        assert_eq!(loss, 0.0);
        assert!((-1.0..=0.0).contains(&slope));
        assert_eq!(SquaredHinge::at(1.0), (0.0, 0.0));
    }

    #[test]
    fn huge_margins_stay_in_range() {
        let (loss, slope) = Logistic::at(-1e300);
        assert_eq!((loss, slope), (1e300, -1.0 / (1.0 + Logistic::at(1e300).1.abs())));
        let (loss, slope) = Logistic::at(1e300);
        assert!((0.0..1e-300).contains(&loss) && (-1e-300..=0.0).contains(&slope));
    }

    #[test]
    fn losses_are_known_by_name() {
        for (name, loss) in [
            ("hinge", Loss::Hinge),
            ("squared_hinge", Loss::SquaredHinge),
            ("logistic", Loss::Logistic),
        ] {
            assert_eq!(name.parse(), Ok(loss));
        }
        let error = "squared-hinge".parse::<Loss>();
        assert!(matches!(error, Err(Error::Parameter { name: "loss", .. })));
    }
}
