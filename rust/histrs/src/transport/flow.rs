//! How much mass the allowed cells let through: the largest flow between two histograms.

/// Masses below this part of the larger total are rounding.
const ROUNDING: f64 = 1e-15;

/// The most of `a` that can become a part of `b` by moves from `i` to `j` that are allowed.
///
/// First every bin gives what it can, then paths that shift mass between bins are sought, the
/// shortest first (Edmonds and Karp).
pub(super) fn largest_flow([a, b]: [&[f64]; 2], is_allowed: impl Fn(usize, usize) -> bool) -> f64 {
    let filled =
        |mass: &[f64]| -> Vec<usize> { (0..mass.len()).filter(|&k| mass[k] > 0.0).collect() };
    let (sources, targets) = (filled(a), filled(b));
    let mut left: Vec<f64> = sources.iter().map(|&i| a[i]).collect();
    let mut room: Vec<f64> = targets.iter().map(|&j| b[j]).collect();
    let least = ROUNDING * left.iter().sum::<f64>().max(room.iter().sum());
    let m = targets.len();
    let allowed: Vec<bool> = sources
        .iter()
        .flat_map(|&i| targets.iter().map(move |&j| (i, j)))
        .map(|(i, j)| is_allowed(i, j))
        .collect();
    let mut plan = vec![0.0; allowed.len()];
    for (i, left) in left.iter_mut().enumerate() {
        for j in (0..m).filter(|j| allowed[i * m + j]) {
            let moved = left.min(room[j]);
            plan[i * m + j] += moved;
            *left -= moved;
            room[j] -= moved;
        }
    }
    while let Some(path) = shortest_path([&left, &room], &allowed, &plan, least) {
        let (first, last) = (path[0].0, path[path.len() - 1].1);
        // Between two forward moves lies one that is taken back.
        let back = path.windows(2).map(|pair| pair[1].0 * m + pair[0].1);
        let moved = back.clone().map(|cell| plan[cell]).fold(left[first].min(room[last]), f64::min);
        for cell in back {
            plan[cell] -= moved;
        }
        for &(i, j) in &path {
            plan[i * m + j] += moved;
        }
        left[first] -= moved;
        room[last] -= moved;
    }
    plan.iter().sum()
}

/// The forward moves of the shortest path from a bin with mass left to one with room.
fn shortest_path(
    [left, room]: [&[f64]; 2],
    allowed: &[bool],
    plan: &[f64],
    least: f64,
) -> Option<Vec<(usize, usize)>> {
    let (n, m) = (left.len(), room.len());
    // The target from which a source was reached, and the source from which a target was.
    let mut came: Vec<Option<usize>> = vec![None; n];
    let mut seen: Vec<bool> = left.iter().map(|&mass| mass > least).collect();
    let mut reached: Vec<Option<usize>> = vec![None; m];
    let mut queue: Vec<usize> = (0..n).filter(|&i| seen[i]).collect();
    let mut next = 0;
    while let Some(&i) = queue.get(next) {
        next += 1;
        for j in (0..m).filter(|j| allowed[i * m + j]) {
            if reached[j].is_some() {
                continue;
            }
            reached[j] = Some(i);
            if room[j] > least {
                return Some(path_to(j, &came, &reached));
            }
            for k in (0..n).filter(|k| plan[k * m + j] > least) {
                if !seen[k] {
                    seen[k] = true;
                    came[k] = Some(j);
                    queue.push(k);
                }
            }
        }
    }
    None
}

fn path_to(
    target: usize,
    came: &[Option<usize>],
    reached: &[Option<usize>],
) -> Vec<(usize, usize)> {
    let mut path = Vec::new();
    let mut at = Some(target);
    while let Some(j) = at {
        let Some(i) = reached[j] else { break };
        path.push((i, j));
        at = came[i];
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flow_shifts_what_stands_in_its_way() {
        // The first bin could take the place that only the second can use.
        let allowed = [[true, true], [true, false]];
        let flow = |a: [f64; 2], b: [f64; 2]| largest_flow([&a, &b], |i, j| allowed[i][j]);
        assert!((flow([0.5, 0.5], [0.5, 0.5]) - 1.0).abs() < 1e-15);
        assert!((flow([0.25, 0.75], [0.5, 0.5]) - 0.75).abs() < 1e-15);
        assert_eq!(flow([0.0, 1.0], [0.0, 1.0]), 0.0);
        assert_eq!(largest_flow([&[], &[]], |_, _| true), 0.0);
    }

    proptest! {
        #[test]
        fn the_largest_flow_is_the_least_cut(
            a in prop::collection::vec(0_u32..5, 0..7),
            b in prop::collection::vec(0_u32..5, 0..7),
            cells: u64,
            more: u64,
        ) {
            // A part of the cells, or nearly all.
            for cells in [cells & more, cells | more] {
                let allowed = |i: usize, j: usize| cells >> (7 * i + j) & 1 == 1;
                // Sources that do not give, and all targets that the others reach.
                let cut = |kept: usize| -> u32 {
                    let gives = |i: usize| kept >> i & 1 == 1;
                    let lost: u32 = (0..a.len()).filter(|&i| !gives(i)).map(|i| a[i]).sum();
                    let reached =
                        (0..b.len()).filter(|&j| (0..a.len()).any(|i| gives(i) && allowed(i, j)));
                    lost + reached.map(|j| b[j]).sum::<u32>()
                };
                let least = (0..1_usize << a.len()).map(cut).min().unwrap();
                for scale in [1.0, 0.1, 1e-200, 1e200] {
                    let [a, b] = [&a, &b].map(|masses| -> Vec<f64> {
                        masses.iter().map(|&mass| f64::from(mass) * scale).collect()
                    });
                    let found = largest_flow([&a, &b], allowed) / scale;
                    prop_assert!((found - f64::from(least)).abs() <= 1e-12, "{found} {least}");
                }
            }
        }
    }

    #[test]
    fn a_long_path_is_found() {
        // Bin i reaches i and i + 1; all shift by one.
        let n = 30;
        let (mut a, mut b) = (vec![1.0; n], vec![1.0; n + 1]);
        a.push(0.0);
        b[0] = 0.0;
        let flow = largest_flow([&a, &b], |i, j| j == i || j == i + 1);
        assert!((flow - n as f64).abs() < 1e-12);
    }
}
