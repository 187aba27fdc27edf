//! What a step of the scaling is, in every domain.

/// What a step reads and writes, in rows of `stride` lanes of which `width` are in use.
pub(super) struct Step<'a, T> {
    pub(super) source: &'a [T],
    pub(super) target: &'a [T],
    /// Logarithm of the scaling of the source.
    pub(super) potential: &'a [T],
    /// Logarithm of what the next step multiplies the scaling by.
    pub(super) residual: &'a mut [T],
    /// The potential after the next step.
    pub(super) unaccelerated: &'a mut [T],
    /// L1 error of the marginal of the source; NaN where the numbers are out of range.
    pub(super) errors: &'a mut [T],
    pub(super) stride: usize,
    pub(super) width: usize,
}

/// A way to compute a step.
pub(super) trait Domain<T> {
    /// Number of bins of a source and of a target.
    fn shape(&self) -> (usize, usize);

    /// Both half-steps.
    fn step(&mut self, step: Step<'_, T>);

    /// Keeps the scalings of a lane of the last step for [`Domain::results`].
    fn keep(&mut self, lane: usize, slot: usize);

    /// Cost of transport and both potentials of the first `n` slots.
    fn results(&mut self, n: usize) -> Vec<(f64, [Vec<f64>; 2])>;
}
