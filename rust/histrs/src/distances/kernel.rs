//! The mixture of functions of a distance.

use crate::error::{Error, Result, check_length};

/// Powers above which an exponential of its own is as fast, and more precise.
const MOST_POWER: f64 = 16.0;

/// How differences of columns make a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// The sum of their magnitudes.
    L1,
    /// The root of the sum of their squares.
    L2,
}

/// A function of the distance `D`, with its length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// `exp(-r)`, `r = D / length`.
    Laplace(f64),
    /// `(1 + s) exp(-s)`, `s = sqrt(3) D / length` (Rasmussen and Williams, 2006, eq. 4.17).
    Matern(f64),
}

impl Shape {
    /// What the distance is multiplied by.
    pub(super) fn rate(self) -> f64 {
        match self {
            Self::Laplace(length) => 1.0 / length,
            Self::Matern(length) => 3.0_f64.sqrt() / length,
        }
    }
}

/// The kernel `sum_k a_k phi_k(D) + e (|x| + |y| - D) / 2 + c` of rows with a weighted distance `D`.
///
/// `|x|` is the distance from a row whose numbers are 0, and whose categories are no others'. The
/// term in `e` is the covariance of a Brownian motion in space (Lévy's), which is 0 there.
#[derive(Debug, Clone)]
pub struct DistanceKernel {
    pub(super) norm: Norm,
    pub(super) n_numbers: usize,
    pub(super) weights: Vec<f64>,
    pub(super) shapes: Vec<Shape>,
    pub(super) amplitudes: Vec<f64>,
    pub(super) decays: Vec<Decay>,
}

/// An exponential of the distance, and the shapes that have a whole power of it.
///
/// A power takes a few products, where an exponential takes some thirty operations.
#[derive(Debug, Clone)]
pub(super) struct Decay {
    pub(super) rate: f64,
    /// Which shapes, and the power of each.
    pub(super) powers: Vec<(usize, u32)>,
}

impl Decay {
    /// All that shapes have: the slowest first.
    fn of(shapes: &[Shape]) -> Vec<Self> {
        let mut order: Vec<usize> = (0..shapes.len()).collect();
        order.sort_by(|&a, &b| shapes[a].rate().total_cmp(&shapes[b].rate()));
        let mut found: Vec<Self> = Vec::new();
        for shape in order {
            let rate = shapes[shape].rate();
            let slower = found.iter_mut().find_map(|decay| {
                let power = whole_power(rate / decay.rate)?;
                Some((decay, power))
            });
            match slower {
                Some((decay, power)) => decay.powers.push((shape, power)),
                None => found.push(Self { rate, powers: vec![(shape, 1)] }),
            }
        }
        found
    }
}

/// The ratio of two rates, where it is a small whole number but for rounding.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small whole number
fn whole_power(ratio: f64) -> Option<u32> {
    let whole = ratio.round();
    let is_whole = (ratio - whole).abs() <= 4.0 * f64::EPSILON * whole;
    (is_whole && (1.0..=MOST_POWER).contains(&whole)).then_some(whole as u32)
}

impl DistanceKernel {
    /// A kernel of rows whose first `n_numbers` columns are numbers, and whose others are categories.
    ///
    /// `weights` has one for each column, `amplitudes` one for each shape, and then `e` and `c`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when there are more or fewer, [`Error::Parameter`] when a weight or an amplitude
    /// is negative or not finite, or a length not positive and finite.
    pub fn new(
        norm: Norm,
        n_numbers: usize,
        weights: Vec<f64>,
        shapes: Vec<Shape>,
        amplitudes: Vec<f64>,
    ) -> Result<Self> {
        if n_numbers > weights.len() {
            let cure = "give a weight for each column";
            check_length("the number of weights", weights.len(), n_numbers, cure)?;
        }
        let cure = "give one for each shape, and two more";
        check_length("the number of amplitudes", amplitudes.len(), shapes.len() + 2, cure)?;
        for shape in &shapes {
            let (Shape::Laplace(value) | Shape::Matern(value)) = *shape;
            if !(value > 0.0 && shape.rate() > 0.0 && shape.rate().is_finite()) {
                let expected = "give a positive number";
                return Err(Error::parameter("length", value, expected));
            }
        }
        for (name, values) in [("weights", &weights), ("amplitudes", &amplitudes)] {
            if let Some(&value) = values.iter().find(|&&v| !(v >= 0.0 && v.is_finite())) {
                let expected = "give numbers that are not negative";
                return Err(Error::parameter(name, value, expected));
            }
        }
        let decays = Decay::of(&shapes);
        Ok(Self { norm, n_numbers, weights, shapes, amplitudes, decays })
    }

    /// What two categories of a column add to a distance, or to its square.
    pub(super) fn part_of_column(&self, d: usize) -> f64 {
        let weight = self.weights[d];
        if self.norm == Norm::L2 { weight * weight } else { weight }
    }

    /// The amplitude of the Brownian motion.
    pub(super) fn energy(&self) -> f64 {
        self.amplitudes[self.shapes.len()]
    }

    /// The kernel of a row at this distance from one of zeros with itself.
    pub(super) fn variance(&self, norm: f64) -> f64 {
        let of_shapes: f64 = self.amplitudes[..self.shapes.len()].iter().sum();
        of_shapes + self.energy() * norm + self.constant()
    }

    /// The constant.
    pub(super) fn constant(&self) -> f64 {
        self.amplitudes[self.shapes.len() + 1]
    }
}
