//! The bins of a pair that exchange mass, and their costs in whole units.

use std::cmp::Ordering;

use crate::error::Result;
use crate::memory;
use crate::transport::emd::ground::Ground;
use crate::transport::emd::histograms::Histogram;
use crate::transport::emd::powers::{exponent, factors};

/// Reduced costs have fewer bits: sums of three of them fit.
const BITS: u32 = 60;

/// A transportation problem, whose buffers are used for one pair after another.
#[derive(Default)]
pub(super) struct Problem {
    /// Bins that give mass, and those that take some.
    pub(super) sources: Vec<usize>,
    pub(super) targets: Vec<usize>,
    /// How many units they give and take: as many in all.
    pub(super) supplies: Vec<i64>,
    pub(super) demands: Vec<i64>,
    /// Costs of a unit, row after row.
    pub(super) costs: Vec<i64>,
    /// The power of two that is just above all finite costs.
    pub(super) exponent: i32,
}

impl Problem {
    /// Puts a pair in.
    pub(super) fn set(&mut self, ground: &Ground<'_>, [a, b]: [Histogram<'_>; 2]) -> Result<()> {
        self.sources.clear();
        self.targets.clear();
        self.supplies.clear();
        self.demands.clear();
        if ground.is_metric() {
            self.set_excess(a, b)?;
        } else {
            copy(&mut self.sources, a.bins)?;
            copy(&mut self.supplies, a.units)?;
            copy(&mut self.targets, b.bins)?;
            copy(&mut self.demands, b.units)?;
        }
        self.set_costs(ground)
    }

    /// Only what a bin has more than the other histogram: under a metric the rest stays, since what
    /// leaves a bin that takes some could have come from where that comes from.
    fn set_excess(&mut self, a: Histogram<'_>, b: Histogram<'_>) -> Result<()> {
        let (mut i, mut j) = (0, 0);
        while i < a.bins.len() || j < b.bins.len() {
            let bins = (a.bins.get(i), b.bins.get(j));
            let order = match bins {
                (Some(own), Some(other)) => own.cmp(other),
                (Some(_), None) => Ordering::Less,
                _ => Ordering::Greater,
            };
            let given = if order.is_le() { a.units[i] } else { 0 };
            let taken = if order.is_ge() { b.units[j] } else { 0 };
            if given > taken {
                memory::push(&mut self.sources, a.bins[i])?;
                memory::push(&mut self.supplies, given - taken)?;
            } else if taken > given {
                memory::push(&mut self.targets, b.bins[j])?;
                memory::push(&mut self.demands, taken - given)?;
            }
            i += usize::from(order.is_le());
            j += usize::from(order.is_ge());
        }
        Ok(())
    }

    fn set_costs(&mut self, ground: &Ground<'_>) -> Result<()> {
        let Self { sources, targets, costs, .. } = self;
        let (mut largest, mut forbids) = (0.0_f64, false);
        for &source in &*sources {
            let row = ground.row(source);
            for &target in &*targets {
                let cost = row[target];
                forbids |= cost == f64::INFINITY;
                largest = if cost > largest && cost < f64::INFINITY { cost } else { largest };
            }
        }
        self.exponent = exponent(largest);
        // A path has no more arcs of a direction, and so has what replaces a forbidden arc.
        let path = usize::BITS - (sources.len().min(targets.len()) + 1).leading_zeros();
        let bits = BITS - if forbids { 2 * path } else { path };
        let detour = 1_i64 << (bits + if forbids { path } else { 0 });
        let [first, second, third] = factors(bits as i32 - self.exponent);
        costs.clear();
        memory::reserve(costs, sources.len() * targets.len())?;
        for &source in &*sources {
            let row = ground.row(source);
            costs.extend(targets.iter().map(|&target| match row[target] {
                f64::INFINITY => detour,
                cost => (cost * first * second * third + 0.5) as i64,
            }));
        }
        Ok(())
    }
}

fn copy<T: Copy>(to: &mut Vec<T>, from: &[T]) -> Result<()> {
    memory::reserve(to, from.len())?;
    to.extend_from_slice(from);
    Ok(())
}
