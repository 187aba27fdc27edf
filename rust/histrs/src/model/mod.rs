//! Models that Python fitted and saved, served without Python.
//!
//! ```no_run
//! use histrs::{Executor, model::{Model, Scratch}};
//! use ndarray::array;
//!
//! let model = Model::load("digits.histrs")?;
//! let probabilities = model.predict_proba(&Executor::new(0)?, array![[0.0, 3.0]].view())?;
//!
//! let (mut scratch, mut out) = (Scratch::default(), vec![0.0; model.n_outputs()]);
//! model.score_row(&[0.0, 3.0], &mut scratch, &mut out)?;
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! `model.save("digits.histrs")` of a Gaussian process in Python writes a file, which
//! [`Model::load`] reads. Predictions are those of Python, to rounding. A row takes microseconds, and
//! [`Model::score_row`] allocates nothing after the first.
//!
//! | file | concept |
//! |---|---|
//! | `archive` | the file, whose every byte is looked at before it is believed |
//! | `additive` | sums of functions of columns and of pairs of columns |
//! | `table` | rows of a table as members take them, and probabilities from scores |

mod additive;
mod archive;
mod table;

use std::path::Path;

use ndarray::{Array2, ArrayView2};
use serde_json::Value;

use self::additive::Additive;
use self::archive::{Archive, damaged, require};
use self::table::{Corrections, Pool, Reader};
use crate::distances::{DistanceKernel, DistanceScores, Norm, Shape};
use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::simd::Element;

/// Rows that are scored together.
const ROWS: usize = 64;
const COLUMNS: &str = "the number of columns";
const OF_FIT: &str = "give those of the fit";

/// A model that was fitted and saved.
#[derive(Debug)]
pub struct Model {
    n_features: usize,
    n_outputs: usize,
    classes: Option<Vec<Label>>,
    names: Option<Vec<String>>,
    /// Of each column those that it may hold, if it is of categories.
    categories: Vec<Option<Vec<Label>>>,
    /// Whether rows are histograms.
    is_of_histograms: bool,
    reader: Option<Reader>,
    members: Vec<Member>,
    pool: Option<Pool>,
    corrections: Option<Corrections>,
}

/// The label of a class.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Label {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A truth value.
    Boolean(bool),
    /// A value that is missing.
    Missing,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(label) => write!(f, "{label}"),
            Self::Integer(label) => write!(f, "{label}"),
            Self::Number(label) => write!(f, "{label}"),
            Self::Boolean(label) => write!(f, "{label}"),
            Self::Missing => write!(f, "missing"),
        }
    }
}

/// What rows are computed in, which grows with the first row and is used again for others.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Vec<f64>,
    ranks: Vec<f64>,
    row: Vec<f64>,
    scores: Vec<f64>,
}

/// What a member takes of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum View {
    Row,
    Values,
    Ranks,
}

#[derive(Debug)]
enum Scores {
    Additive(Additive),
    Distances { scores: Box<DistanceScores>, axes: Axes },
}

/// Directions along which numbers are taken, a column each; none for the columns themselves.
#[derive(Debug)]
struct Axes(Array2<f64>);

impl Axes {
    /// Writes a row as the distance takes it.
    fn apply(&self, row: &[f64], taken: &mut [f64]) {
        taken.copy_from_slice(row);
        for (to, axis) in taken.iter_mut().zip(self.0.columns()) {
            *to = row.iter().zip(axis).map(|(x, a)| x * a).sum();
        }
    }
}

/// A part of a model, whose scores are added to those of others.
#[derive(Debug)]
struct Member {
    view: View,
    /// The output that its first score is added to.
    first: usize,
    n_outputs: usize,
    scores: Scores,
    /// What probabilities are multiplied by, where the scores are log odds.
    gains: Option<Vec<f64>>,
}

impl Model {
    /// Reads a file that `save` of a fitted model wrote in Python.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`], and as [`from_bytes`](Self::from_bytes).
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::Unreadable {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Self::from_bytes(&bytes)
    }

    /// Reads what is in such a file.
    ///
    /// Nothing is believed: whatever the bytes are, the result is a model or an error, and no more
    /// memory is taken than a multiple of their number.
    ///
    /// # Errors
    ///
    /// [`Error::NoModel`] says what is wrong, [`Error::OutOfMemory`], and as [`Executor::new`] for the
    /// environment variable `HISTRS_SIMD`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        crate::simd::check_setting()?;
        let mut archive = Archive::new(bytes)?;
        let n_features = archive.count("n_features")?;
        let n_outputs = archive.count("n_outputs")?;
        require(n_outputs > 0, "it has no output")?;
        let classes = labels(&archive.value("classes")?)?;
        if let Some(classes) = &classes {
            let expected = if classes.len() == 2 { 1 } else { classes.len() };
            require(classes.len() > 1 && n_outputs == expected, "its classes are not its outputs")?;
        }
        let names = labels(&archive.value("names")?)?
            .map(|names| names.iter().map(Label::to_string).collect::<Vec<_>>());
        require(
            names.as_ref().is_none_or(|names| names.len() == n_features),
            "its names are not those of its columns",
        )?;
        let mut categories = Vec::new();
        if let Value::Array(of_columns) = archive.value("categories")? {
            memory::reserve(&mut categories, of_columns.len())?;
            for of_column in &of_columns {
                categories.push(labels(of_column)?);
            }
        }
        let is_of_histograms = archive.value("histograms")? == Value::Bool(true);
        let reader = match archive.value("reader")? {
            Value::Bool(true) => Some(Reader::read(&mut archive, n_features)?),
            _ => None,
        };
        let pool = match (archive.value("pool")?, &classes) {
            (Value::Bool(true), Some(classes)) => Some(Pool::read(&mut archive, classes.len())?),
            _ => None,
        };
        let corrections = match archive.value("corrections")? {
            Value::Bool(true) => Some(Corrections::read(&mut archive, n_outputs)?),
            _ => None,
        };
        let Value::Array(described) = archive.value("members")? else {
            return Err(damaged("it has no members"));
        };
        let mut members: Vec<Member> = memory::with_capacity(described.len())?;
        for (k, of_member) in described.iter().enumerate() {
            let prefix = format!("{k}.");
            let view = match (of_member["view"].as_str(), &reader) {
                (Some("row"), None) => View::Row,
                (Some("values"), Some(_)) => View::Values,
                (Some("ranks"), Some(_)) => View::Ranks,
                _ => return Err(damaged("a member takes rows that are not there")),
            };
            let n_columns = reader.as_ref().map_or(n_features, Reader::n_columns);
            let (scores, of_scores) = match of_member["kind"].as_str() {
                Some("additive") => {
                    let additive = Additive::read(&mut archive, &prefix, n_columns)?;
                    let n_outputs = additive.n_outputs();
                    (Scores::Additive(additive), n_outputs)
                }
                Some("distances") => distances(&mut archive, &prefix, n_columns)?,
                _ => return Err(damaged("the kind of a member is not known")),
            };
            let first = of_member["output"].as_u64().and_then(|n| usize::try_from(n).ok());
            let fits = |first: &usize| {
                first.checked_add(of_scores).is_some_and(|end| of_scores > 0 && end <= n_outputs)
            };
            let first = first.filter(fits);
            let first = first.ok_or_else(|| damaged("a member has outputs that are not there"))?;
            let gains = match of_member["odds"] {
                Value::Bool(true) => {
                    Some(archive.numbers(&format!("{prefix}gains"), &[of_scores])?)
                }
                _ => None,
            };
            members.push(Member { view, first, n_outputs: of_scores, scores, gains });
        }
        archive.finish()?;
        let ends = members.iter().map(|member| member.first + member.n_outputs);
        require(ends.max() == Some(n_outputs), "no member has its last output")?;
        Ok(Self {
            n_features,
            n_outputs,
            classes,
            names,
            categories,
            is_of_histograms,
            reader,
            members,
            pool,
            corrections,
        })
    }

    /// Number of columns of rows.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// Number of scores of a row: one for each target; for two classes one, else one for each class.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    /// The labels in the order of the probabilities; nothing of a regression.
    #[must_use]
    pub fn classes(&self) -> Option<&[Label]> {
        self.classes.as_deref()
    }

    /// The names of the columns, where they had some.
    #[must_use]
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// The categories of a column, where it holds some.
    ///
    /// Rows hold the place of the category in this list; -1 for one that is not there. A missing value is
    /// the last, where training rows lacked some.
    #[must_use]
    pub fn categories(&self, column: usize) -> Option<&[Label]> {
        self.categories.get(column)?.as_deref()
    }

    /// The scores of every row, of shape `(n_rows, n_outputs)`: what a regression predicts, or the logits
    /// of classes, of which two have one, positive for the second.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `x` has another number of columns, [`Error::NotFinite`] at its first bad
    /// entry, [`Error::Negative`] where rows are histograms. NaN is a missing value where training rows lacked some in this column.
    pub fn predict<T: Element>(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, T>,
    ) -> Result<Array2<f64>> {
        self.of_rows(exec, x, self.n_outputs, |row, scratch, out| self.score_row(row, scratch, out))
    }

    /// The probabilities of classes of every row, of shape `(n_rows, n_classes)`.
    ///
    /// # Errors
    ///
    /// As [`predict`](Self::predict), and [`Error::NoClasses`] of a regression.
    pub fn predict_proba<T: Element>(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, T>,
    ) -> Result<Array2<f64>> {
        let n_classes = self.n_classes()?;
        self.of_rows(exec, x, n_classes, |row, scratch, out| self.proba_row(row, scratch, out))
    }

    fn n_classes(&self) -> Result<usize> {
        self.classes.as_ref().map(Vec::len).ok_or(Error::NoClasses)
    }

    fn of_rows<T: Element>(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, T>,
        width: usize,
        of_row: impl Fn(&[f64], &mut Scratch, &mut [f64]) -> Result<()> + Sync,
    ) -> Result<Array2<f64>> {
        check_length(COLUMNS, x.ncols(), self.n_features, OF_FIT)?;
        let mut scores = memory::zero_matrix((x.nrows(), width))?;
        exec.for_chunks(memory::flat_mut(&mut scores)?, ROWS * width, |block, out| {
            let mut scratch = Scratch::default();
            let mut row = memory::filled(0.0, self.n_features)?;
            for (i, out) in (block * ROWS..).zip(out.chunks_exact_mut(width)) {
                row.iter_mut().zip(x.row(i)).for_each(|(to, from)| *to = from.to_f64());
                of_row(&row, &mut scratch, out).map_err(|error| match error {
                    Error::NotFinite { column, value, .. } => {
                        Error::NotFinite { name: "X", row: i, column, value }
                    }
                    Error::Negative { column, value, .. } => {
                        Error::Negative { name: "X", row: i, column, value }
                    }
                    error => error,
                })?;
            }
            Ok(())
        })?;
        Ok(scores)
    }

    /// Writes the scores of one row, as [`predict`](Self::predict) has them.
    ///
    /// # Errors
    ///
    /// As [`predict`](Self::predict), and [`Error::Shape`] unless `out` has a place for each score.
    pub fn score_row(&self, row: &[f64], scratch: &mut Scratch, out: &mut [f64]) -> Result<()> {
        check_length(COLUMNS, row.len(), self.n_features, OF_FIT)?;
        check_length("the length of out", out.len(), self.n_outputs, "give one for each score")?;
        let may_lack = self.reader.is_some();
        let is_bad = |x: &f64| !(x.is_finite() || may_lack && x.is_nan());
        if let Some(column) = row.iter().position(is_bad) {
            return Err(Error::NotFinite { name: "row", row: 0, column, value: row[column] });
        }
        let negative = row.iter().position(|&x| self.is_of_histograms && x < 0.0);
        if let Some(column) = negative {
            return Err(Error::Negative { name: "row", row: 0, column, value: row[column] });
        }
        let Scratch { values, ranks, row: taken, scores } = scratch;
        if let Some(reader) = &self.reader {
            resize(values, reader.n_columns())?;
            resize(ranks, reader.n_columns())?;
            reader.apply(row, values, ranks)?;
        }
        out.fill(0.0);
        for member in &self.members {
            let seen = match member.view {
                View::Row => row,
                View::Values => values.as_slice(),
                View::Ranks => ranks.as_slice(),
            };
            resize(taken, seen.len())?;
            resize(scores, member.n_outputs)?;
            match &member.scores {
                Scores::Additive(additive) => {
                    taken.copy_from_slice(seen);
                    additive.score(taken, scores);
                }
                Scores::Distances { scores: distances, axes } => {
                    axes.apply(seen, taken);
                    scores.fill(0.0);
                    distances.add_row(taken, scores)?;
                }
            }
            if let Some(gains) = &member.gains {
                let pairs = scores.iter_mut().zip(gains);
                pairs.for_each(|(score, gain)| *score = gain / (1.0 + (-*score).exp()));
            }
            out[member.first..].iter_mut().zip(&*scores).for_each(|(out, score)| *out += score);
        }
        if let Some(pool) = &self.pool {
            pool.apply(out);
        }
        if let Some(corrections) = &self.corrections {
            corrections.apply(out);
        }
        Ok(())
    }

    /// Writes the probabilities of the classes of one row.
    ///
    /// # Errors
    ///
    /// As [`predict_proba`](Self::predict_proba), and [`Error::Shape`] unless `out` has a place for
    /// each class.
    pub fn proba_row(&self, row: &[f64], scratch: &mut Scratch, out: &mut [f64]) -> Result<()> {
        let n_classes = self.n_classes()?;
        check_length("the length of out", out.len(), n_classes, "give one for each class")?;
        // Of two classes, the first has a logit of 0.
        out[0] = 0.0;
        self.score_row(row, scratch, &mut out[n_classes - self.n_outputs..])?;
        let largest = out.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        out.iter_mut().for_each(|logit| *logit = (*logit - largest).exp());
        let sum: f64 = out.iter().sum();
        out.iter_mut().for_each(|part| *part /= sum);
        Ok(())
    }
}

fn resize(data: &mut Vec<f64>, n: usize) -> Result<()> {
    if data.len() < n {
        memory::reserve(data, n - data.len())?;
    }
    data.resize(n, 0.0);
    Ok(())
}

/// Labels of a list; nothing where there is none.
fn labels(value: &Value) -> Result<Option<Vec<Label>>> {
    let Value::Array(values) = value else {
        require(value.is_null(), "its labels are no list")?;
        return Ok(None);
    };
    let mut labels = memory::with_capacity(values.len())?;
    for value in values {
        labels.push(match value {
            Value::String(text) => Label::Text(text.clone()),
            Value::Bool(truth) => Label::Boolean(*truth),
            Value::Null => Label::Missing,
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Label::Integer(whole),
                (None, Some(number)) => Label::Number(number),
                _ => return Err(damaged("a label is out of range")),
            },
            _ => return Err(damaged("a label is no text and no number")),
        });
    }
    Ok(Some(labels))
}

/// Reads stored rows, their weights, and the kernel of distances to them.
fn distances(archive: &mut Archive<'_>, prefix: &str, n_columns: usize) -> Result<(Scores, usize)> {
    let named = |name: &str| format!("{prefix}{name}");
    let norm = match archive.value(&named("norm"))?.as_str() {
        Some("l1") => Norm::L1,
        Some("l2") => Norm::L2,
        _ => return Err(damaged("its norm is not known")),
    };
    let n_numbers = archive.count(&named("n_numbers"))?;
    let weights = archive.numbers(&named("weights"), &[n_columns])?;
    let (shape, axes) = archive.vector(&named("axes"))?;
    let n_axes = if axes.is_empty() { 0 } else { n_numbers };
    require(shape == [n_axes, n_axes], "its axes are not those of its numbers")?;
    let axes = Array2::from_shape_vec((n_axes, n_axes), axes);
    let axes = Axes(axes.map_err(|error| damaged(error.to_string()))?);
    let mut shapes = memory::with_capacity(2)?;
    for (name, shape) in
        [("laplace", Shape::Laplace as fn(f64) -> Shape), ("matern", Shape::Matern)]
    {
        let (_, lengths) = archive.vector(&named(name))?;
        memory::reserve(&mut shapes, lengths.len())?;
        shapes.extend(lengths.into_iter().map(shape));
    }
    let (_, amplitudes) = archive.vector(&named("amplitudes"))?;
    let of_kernel = |error: Error| damaged(error.to_string());
    let kernel = DistanceKernel::new(norm, n_numbers, weights, shapes, amplitudes);
    let kernel = kernel.map_err(of_kernel)?;
    let (shape, coefficients) = archive.vector(&named("coefficients"))?;
    let &[n_rows, n_outputs] = shape.as_slice() else {
        return Err(damaged("coefficients is no matrix"));
    };
    let rows = archive.numbers(&named("rows"), &[n_rows, n_columns])?;
    let rows = Array2::from_shape_vec((n_rows, n_columns), rows);
    let rows = rows.map_err(|error| damaged(error.to_string()))?;
    let coefficients = Array2::from_shape_vec((n_rows, n_outputs), coefficients);
    let coefficients = coefficients.map_err(|error| damaged(error.to_string()))?;
    let none = Array2::zeros((n_rows, 0));
    let scores = DistanceScores::new(kernel, rows.view(), coefficients.view(), none.view());
    let scores = scores.map_err(of_kernel)?;
    Ok((Scores::Distances { scores: Box::new(scores), axes }, n_outputs))
}
