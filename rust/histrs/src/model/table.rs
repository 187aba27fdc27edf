//! Rows of a table as members take them, and probabilities from the scores of classes.

use super::archive::{Archive, require};
use crate::error::{Error, Result};
use crate::memory;

/// Standard deviations beyond which values count as those there.
const MOST: f64 = 6.0;
/// Of values in units of the largest of the fit, the largest.
const LARGEST: f64 = 1e150;
/// How far apart rows with and without a number are.
const STEP_OF_MISSING: f64 = std::f64::consts::SQRT_2;
/// Numbers that describe a column.
const N_SCALES: usize = 11;

/// Takes mean and standard deviation away.
#[derive(Debug)]
struct Scale {
    size: f64,
    mean: f64,
    factor: f64,
}

impl Scale {
    fn apply(&self, x: f64) -> f64 {
        ((x / self.size).clamp(-LARGEST, LARGEST) - self.mean) * self.factor
    }
}

#[derive(Debug)]
struct Number {
    source: usize,
    /// What stands for a missing value, where a mark says that it is missing.
    filling: Option<f64>,
    scale: Scale,
    power: Option<(f64, Scale)>,
    scale_out: Scale,
    /// Some values and their ranks.
    ranks: Vec<(f64, f64)>,
}

/// Standardises and ranks columns of numbers, and puts those of categories behind.
#[derive(Debug)]
pub(super) struct Reader {
    numbers: Vec<Number>,
    n_marks: usize,
    categories: Vec<usize>,
}

impl Reader {
    pub(super) fn read(archive: &mut Archive<'_>, n_features: usize) -> Result<Self> {
        let sources = archive.indices("reader.numbers", n_features)?;
        let categories = archive.indices("reader.categories", n_features)?;
        let n = sources.len();
        require(
            n + categories.len() == n_features,
            "a column is neither of numbers nor of categories",
        )?;
        let (missing, skewed) =
            (archive.indices("reader.missing", n)?, archive.indices("reader.skewed", n)?);
        require(missing.is_sorted_by(|a, b| a < b), "its columns with marks do not ascend")?;
        let scales = archive.numbers("reader.scales", &[n, N_SCALES])?;
        let starts = archive.offsets("reader.rank_starts", n)?;
        let values = archive.numbers("reader.rank_values", &[starts[n]])?;
        let ranks = archive.numbers("reader.ranks", &[starts[n]])?;
        let mut numbers = memory::with_capacity(n)?;
        for (k, source) in sources.into_iter().enumerate() {
            let of_column = &scales[k * N_SCALES..(k + 1) * N_SCALES];
            let scale = |first: usize| {
                let (size, mean, factor) =
                    (of_column[first], of_column[first + 1], of_column[first + 2]);
                require(size > 0.0, "a column has a size that is not positive")?;
                Ok::<_, Error>(Scale { size, mean, factor })
            };
            let range = starts[k]..starts[k + 1];
            require(
                !range.is_empty() && values[range.clone()].is_sorted_by(|a, b| a < b),
                "values of ranks do not ascend",
            )?;
            numbers.push(Number {
                source,
                filling: missing.binary_search(&k).ok().map(|_| of_column[0]),
                scale: scale(1)?,
                power: skewed
                    .contains(&k)
                    .then(|| scale(5).map(|scale| (of_column[4], scale)))
                    .transpose()?,
                scale_out: scale(8)?,
                ranks: memory::collected(range.map(|i| (values[i], ranks[i])))?,
            });
        }
        Ok(Self { numbers, n_marks: missing.len(), categories })
    }

    /// How many columns members take.
    pub(super) fn n_columns(&self) -> usize {
        self.numbers.len() + self.n_marks + self.categories.len()
    }

    /// Writes values and ranks of a row, in which NaN is a missing value.
    pub(super) fn apply(&self, row: &[f64], values: &mut [f64], ranks: &mut [f64]) -> Result<()> {
        let n = self.numbers.len();
        let mut mark = n;
        for (k, number) in self.numbers.iter().enumerate() {
            let x = row[number.source];
            let filled = match number.filling {
                None if x.is_nan() => return Err(missing(number.source)),
                None => x,
                Some(filling) => {
                    values[mark] = if x.is_nan() { STEP_OF_MISSING } else { 0.0 };
                    ranks[mark] = f64::from(u8::from(x.is_nan()));
                    mark += 1;
                    if x.is_nan() { filling } else { x }
                }
            };
            let standard = number.scale.apply(filled);
            let straight = match &number.power {
                None => standard,
                Some((power, scale)) => scale.apply(yeo_johnson(standard, *power)),
            };
            values[k] = number.scale_out.apply(straight.clamp(-MOST, MOST));
            ranks[k] = interpolated(&number.ranks, standard);
        }
        for (k, &source) in (n + self.n_marks..).zip(&self.categories) {
            if row[source].is_nan() {
                return Err(missing(source));
            }
            (values[k], ranks[k]) = (row[source], row[source]);
        }
        Ok(())
    }
}

fn missing(column: usize) -> Error {
    Error::NotFinite { name: "row", row: 0, column, value: f64::NAN }
}

/// `((1 + x)^p - 1) / p`, of negative numbers `-((1 - x)^(2 - p) - 1) / (2 - p)`.
fn yeo_johnson(x: f64, power: f64) -> f64 {
    let log = x.abs().ln_1p();
    let exponent = if x >= 0.0 { power } else { 2.0 - power };
    let straight = if exponent == 0.0 { log } else { (log * exponent).exp_m1() / exponent };
    straight.copysign(x)
}

/// The line between the neighbours of a number, and beyond all the last.
fn interpolated(known: &[(f64, f64)], x: f64) -> f64 {
    let above = known.partition_point(|&(value, _)| value <= x);
    let (left, right) = (known[above.saturating_sub(1)], known[above.min(known.len() - 1)]);
    if left.0 == right.0 || above == 0 {
        return left.1;
    }
    left.1 + (right.1 - left.1) / (right.0 - left.0) * (x - left.0)
}

/// What is added to each output, linear in it between places.
#[derive(Debug)]
pub(super) struct Corrections(Vec<Vec<(f64, f64)>>);

impl Corrections {
    pub(super) fn read(archive: &mut Archive<'_>, n_outputs: usize) -> Result<Self> {
        let starts = archive.offsets("corrections.starts", n_outputs)?;
        let at = archive.numbers("corrections.at", &[starts[n_outputs]])?;
        let added = archive.numbers("corrections.added", &[starts[n_outputs]])?;
        let mut of_outputs = memory::with_capacity(n_outputs)?;
        for range in starts.windows(2).map(|ends| ends[0]..ends[1]) {
            require(
                !range.is_empty() && at[range.clone()].is_sorted(),
                "places of corrections do not ascend",
            )?;
            of_outputs.push(memory::collected(range.map(|i| (at[i], added[i])))?);
        }
        Ok(Self(of_outputs))
    }

    pub(super) fn apply(&self, scores: &mut [f64]) {
        for (score, known) in scores.iter_mut().zip(&self.0) {
            *score += interpolated(known, *score);
        }
    }
}

/// Logits of classes from scores that are nearly probabilities.
#[derive(Debug)]
pub(super) struct Pool {
    /// How near to 0 and 1 a score is read.
    least: f64,
    /// Of each class, a constant, and the slopes of the logit of the score and of the score.
    terms: Vec<f64>,
}

impl Pool {
    pub(super) fn read(archive: &mut Archive<'_>, n_classes: usize) -> Result<Self> {
        let least = archive.numbers("pool.least", &[1])?[0];
        require(least > 0.0 && least < 0.5, "its least probability is none")?;
        Ok(Self { least, terms: archive.numbers("pool.terms", &[n_classes, 3])? })
    }

    /// The logit of a class with this score.
    fn logit(&self, class: usize, score: f64) -> f64 {
        let inside = score.clamp(self.least, 1.0 - self.least);
        let terms = &self.terms[3 * class..3 * class + 3];
        terms[0] + terms[1] * (inside.ln() - (-inside).ln_1p()) + terms[2] * score
    }

    /// Logits in place of scores: one of two classes, or of each.
    pub(super) fn apply(&self, scores: &mut [f64]) {
        if let [score] = scores {
            *score = self.logit(1, *score) - self.logit(0, 1.0 - *score);
            return;
        }
        for (class, score) in scores.iter_mut().enumerate() {
            *score = self.logit(class, *score);
        }
    }
}
