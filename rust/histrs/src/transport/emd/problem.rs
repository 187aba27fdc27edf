//! The bins of a pair that exchange mass, and their costs in whole units.

use std::cmp::Ordering;

use crate::error::Result;
use crate::memory;
use crate::transport::emd::ground::Ground;
use crate::transport::emd::histograms::Histogram;
use crate::transport::emd::powers::{exponent, factors};

/// Reduced costs have fewer bits: sums of three of them fit.
pub(super) const BITS: u32 = 60;

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
    /// The power of two that is just above all finite costs, the same of the smallest positive one,
    /// and the unit of costs.
    pub(super) exponent: i32,
    pub(super) smallest_exponent: i32,
    pub(super) unit: i32,
    /// What is left of costs after whole units, once they were refined: infinite where a cell is
    /// closed.
    pub(super) rests: Vec<f64>,
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

    /// Only the excess of a bin over the other histogram. Under a metric the rest stays: mass that
    /// leaves a bin which also takes some can be replaced by a direct move.
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
        let path = self.path_bits();
        let Self { sources, targets, costs, .. } = self;
        let (mut largest, mut smallest, mut forbids) = (0.0_f64, f64::INFINITY, false);
        for &source in &*sources {
            let row = ground.row(source);
            for &target in &*targets {
                let cost = row[target];
                forbids |= cost == f64::INFINITY;
                largest = if cost > largest && cost < f64::INFINITY { cost } else { largest };
                smallest = if cost > 0.0 { smallest.min(cost) } else { smallest };
            }
        }
        self.exponent = exponent(largest);
        self.smallest_exponent = exponent(smallest.min(largest));
        self.rests.clear();
        // What replaces a forbidden arc has no more arcs of a direction than a path.
        let bits = BITS - if forbids { 2 * path } else { path };
        let detour = 1_i64 << (bits + if forbids { path } else { 0 });
        self.unit = self.exponent - bits as i32;
        let [first, second, third] = factors(-self.unit);
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

    /// The bits of the most arcs of a direction that a path has.
    pub(super) fn path_bits(&self) -> u32 {
        usize::BITS - (self.sources.len().min(self.targets.len()) + 1).leading_zeros()
    }
}

fn copy<T: Copy>(to: &mut Vec<T>, from: &[T]) -> Result<()> {
    memory::reserve(to, from.len())?;
    to.extend_from_slice(from);
    Ok(())
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;
    use crate::exec::Executor;

    fn histogram<'a>(bins: &'a [usize], units: &'a [i64]) -> Histogram<'a> {
        Histogram { bins, units, ratio: 1.0 }
    }

    #[test]
    fn under_a_metric_only_the_excess_moves() {
        let m = Array2::from_shape_fn((5, 5), |(i, j)| (i as f64 - j as f64).abs());
        let m = m.view();
        let exec = Executor::on_caller().unwrap();
        let a = histogram(&[0, 1, 3], &[4, 7, 9]);
        let b = histogram(&[0, 1, 2, 4], &[4, 2, 10, 4]);
        let mut problem = Problem::default();
        for _ in 0..2 {
            problem.set(&Ground::new(&m).unwrap().with_metric(&exec).unwrap(), [a, b]).unwrap();
            assert_eq!((&problem.sources[..], &problem.supplies[..]), (&[1, 3][..], &[5, 9][..]));
            assert_eq!((&problem.targets[..], &problem.demands[..]), (&[2, 4][..], &[10, 4][..]));
            assert_eq!(problem.costs.len(), 4);
            problem.set(&Ground::new(&m).unwrap(), [a, b]).unwrap();
            assert_eq!((&problem.sources[..], &problem.supplies[..]), (a.bins, a.units));
            assert_eq!((&problem.targets[..], &problem.demands[..]), (b.bins, b.units));
        }
    }

    #[test]
    fn costs_are_counted_as_finely_as_their_sums_allow() {
        for n in [1_usize, 2, 3, 4, 7, 8, 100] {
            for forbids in [false, true] {
                for scale in [1.0, 1e-300, 1e300] {
                    let mut m = Array2::from_shape_fn((n, n + 2), |(i, j)| {
                        scale * (1.0 + (i + 2 * j) as f64 / (3 * n + 4) as f64)
                    });
                    if forbids {
                        m[[n / 2, 1]] = f64::INFINITY;
                    }
                    let bins: Vec<usize> = (0..n + 2).collect();
                    let units = vec![1; n + 2];
                    let pair = [histogram(&bins[..n], &units[..n]), histogram(&bins, &units)];
                    let (mut problem, view) = (Problem::default(), m.view());
                    problem.set(&Ground::new(&view).unwrap(), pair).unwrap();
                    let finite = m.iter().zip(&problem.costs).filter(|(m, _)| m.is_finite());
                    let most = finite.clone().map(|(_, &cost)| cost).max().unwrap();
                    let detour = *problem.costs.iter().max().unwrap();
                    // Of n arcs there and back, and three such sums.
                    let sum = n as i64 * if forbids { detour } else { most };
                    assert!(sum <= 1 << 60, "{n}: {sum:x}");
                    if forbids {
                        assert!(detour > (n as i64) * most, "{n}: {detour:x} {most:x}");
                    } else {
                        assert!(8 * (n as i64 + 1) * most >= 1 << 60, "{n}: {most:x}");
                    }
                    let unit = finite.clone().map(|(m, &cost)| m / cost as f64).fold(0.0, f64::max);
                    for (m, &cost) in finite {
                        assert!((m / unit - cost as f64).abs() <= 1e-9 * cost as f64, "{n}");
                    }
                }
            }
        }
        let m = array![[f64::INFINITY, f64::INFINITY]];
        let (mut problem, m) = (Problem::default(), m.view());
        let pair = [histogram(&[0], &[2]), histogram(&[0, 1], &[1, 1])];
        problem.set(&Ground::new(&m).unwrap(), pair).unwrap();
        assert!(problem.costs[0] > 0 && problem.costs[0] == problem.costs[1]);
    }
}
