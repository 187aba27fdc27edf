//! Detection against its definitions, and threads.

use crate::common::*;
use histrs::Error;
use histrs::detection::{
    Cells, Filter, N_FEATURES, Part, PartModel, distance_transform, hog_pyramid, placements,
};
use ndarray::{Array2, Array3, Array4, ArrayView4};
use proptest::prelude::*;

fn cost([by, ay, bx, ax]: [f64; 4], dy: f64, dx: f64) -> f64 {
    by * dy + ay * dy * dy + bx * dx + ax * dx * dx
}

/// Whole numbers, whose sums are exact.
fn whole(shape: (usize, usize, usize, usize), random: &mut Random) -> Array4<f32> {
    Array4::from_shape_fn(shape, |_| random.below(19) as f32 - 9.0)
}

/// The score of a filter at a location of a level, zero-padded nowhere.
fn filtered(
    codes: &[u8],
    first: usize,
    pitch: usize,
    w: ArrayView4<'_, f32>,
    y: usize,
    x: usize,
) -> f64 {
    let (h, width, n_blocks, _) = w.dim();
    let mut sum = 0.0;
    for dy in 0..h {
        for dx in 0..width {
            for m in 0..n_blocks {
                let cell = first + (y + dy) * pitch + x + dx;
                sum += f64::from(w[[dy, dx, m, usize::from(codes[cell * n_blocks + m])]]);
            }
        }
    }
    sum
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn a_part_is_at_its_best_location(
        rows in 1..9_usize,
        columns in 1..9_usize,
        linear in prop::array::uniform2(-2.0..2.0_f64),
        square in prop::array::uniform2(0.01..3.0_f64),
        scale in prop::sample::select(vec![0.0, 1.0, 100.0]),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let scores = Array2::from_shape_fn((rows, columns), |_| (scale * random.unit()) as f32);
        let deformation = [linear[0], square[0], linear[1], square[1]];
        let (best, locations) = distance_transform(scores.view(), deformation).unwrap();
        for ((y, x), &found) in best.indexed_iter() {
            let at = |q: (usize, usize)| {
                let (dy, dx) = (q.0 as f64 - y as f64, q.1 as f64 - x as f64);
                f64::from(scores[q]) - cost(deformation, dy, dx)
            };
            let most = scores.indexed_iter().map(|(q, _)| at(q)).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!((found - most).abs() <= 1e-9 * (1.0 + most.abs()));
            let [py, px] = locations[[y, x]];
            prop_assert!((at((py as usize, px as usize)) - most).abs() <= 1e-9 * (1.0 + most.abs()));
        }
    }

    #[test]
    fn placements_are_all_that_reach_the_threshold(
        (rows, columns) in (1..7_usize, 1..7_usize),
        root in (1..4_usize, 1..11_usize),
        part in (1..4_usize, 1..4_usize),
        n_parts in 0..3_usize,
        padding in 0..3_usize,
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let fine = (2 * rows + 1, 2 * columns);
        let shapes = [fine, (rows, columns)];
        let (n_blocks, n_codes) = (2, 5);
        let n_cells = fine.0 * fine.1 + rows * columns;
        let codes: Vec<u8> = (0..n_cells * n_blocks).map(|_| random.below(n_codes) as u8).collect();
        let root = whole((root.0, root.1, n_blocks, n_codes), &mut random);
        let parts: Vec<_> = (0..n_parts)
            .map(|i| {
                let weights = whole((part.0, part.1, n_blocks, n_codes), &mut random);
                (weights, [i as i64, 1 - i as i64], [0.5, 1.0, -0.25, 0.5])
            })
            .collect();
        let mut model = PartModel::new();
        let laid_out = |(w, anchor, deformation): &(Array4<f32>, [i64; 2], [f64; 4])| {
            Part::new(Filter::new(w.view()).unwrap(), *anchor, *deformation)
        };
        let own = parts.iter().map(laid_out).collect();
        model.push(Filter::new(root.view()).unwrap(), -1.5, own).unwrap();
        // A model without parts looks at every level.
        let octave = usize::from(n_parts > 0);
        let mut expected = Vec::new();
        for (level, &(n, m)) in shapes.iter().enumerate().skip(octave) {
            let first = if level == 1 { fine.0 * fine.1 } else { 0 };
            for y in 0..(n + 1).saturating_sub(root.dim().0) {
                for x in 0..(m + 1).saturating_sub(root.dim().1) {
                    let mut total = -1.5 + filtered(&codes, first, m, root.view(), y, x);
                    for (w, anchor, deformation) in &parts {
                        let ideal = |location: usize, anchor: i64| {
                            (2 * location as i64 - padding as i64 + anchor) as f64
                        };
                        let (iy, ix) = (ideal(y, anchor[0]), ideal(x, anchor[1]));
                        let mut best = f64::NEG_INFINITY;
                        for py in 0..(fine.0 + 1).saturating_sub(w.dim().0) {
                            for px in 0..(fine.1 + 1).saturating_sub(w.dim().1) {
                                let away = cost(*deformation, py as f64 - iy, px as f64 - ix);
                                let score = filtered(&codes, 0, fine.1, w.view(), py, px);
                                best = best.max(score - away);
                            }
                        }
                        total += best;
                    }
                    expected.push(([0, level as i32, y as i32, x as i32], total));
                }
            }
        }
        let cells = Cells::Short(&codes, n_blocks);
        for threshold in [f64::NEG_INFINITY, 0.0] {
            let kept: Vec<_> = expected.iter().filter(|e| e.1 >= threshold).collect();
            for exec in executors() {
                let found =
                    placements(exec, cells, &shapes, &model, octave, padding, threshold).unwrap();
                prop_assert_eq!(found.scores.len(), kept.len());
                for (row, (location, total)) in found.locations.rows().into_iter().zip(&kept) {
                    prop_assert_eq!(&row.to_vec()[..4], &location[..]);
                    prop_assert_eq!(row.len(), 4 + 2 * n_parts);
                    let score = f64::from(found.scores[kept.iter().position(|k| k.0 == *location).unwrap()]);
                    prop_assert!((score - total).abs() <= 1e-4 || score == *total);
                }
            }
        }
        // Features that are the codes, written out, score the same.
        let mut features = vec![0.0_f32; n_cells * n_blocks * n_codes];
        for (i, &code) in codes.iter().enumerate() {
            features[i * n_codes + usize::from(code)] = 1.0;
        }
        let flat = |w: &Array4<f32>| {
            let (h, width, m, d) = w.dim();
            Filter::new(w.view().into_shape_with_order((h, width, 1, m * d)).unwrap()).unwrap()
        };
        let mut written = PartModel::new();
        let own = parts.iter().map(|p| Part::new(flat(&p.0), p.1, p.2)).collect();
        written.push(flat(&root), -1.5, own).unwrap();
        let cells = (cells, Cells::Features(&features, n_blocks * n_codes));
        let all = |cells, model| {
            placements(exec(), cells, &shapes, model, octave, padding, f64::NEG_INFINITY).unwrap()
        };
        prop_assert_eq!(all(cells.0, &model), all(cells.1, &written));
    }

    #[test]
    fn features_are_shares_and_do_not_depend_on_threads(
        (rows, columns) in (1..40_usize, 1..40_usize),
        n_channels in 1..4_usize,
        cell in 1..9_usize,
        padding in 0..2_usize,
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let image = Array3::from_shape_fn((rows, columns, n_channels), |_| random.unit() as f32);
        let scales = [2.0, 1.0, 0.7, 0.5, 0.3];
        let found: Vec<_> = executors()
            .iter()
            .map(|exec| hog_pyramid(exec, image.view(), cell, &scales, padding).unwrap())
            .collect();
        prop_assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        let n: usize = found[0].shapes.iter().map(|(rows, columns)| rows * columns).sum();
        prop_assert_eq!(found[0].cells.dim(), (n, N_FEATURES));
        for features in found[0].cells.rows() {
            prop_assert!(features.iter().take(27).all(|x| (0.0..=0.4).contains(x)));
            prop_assert!(features.iter().skip(27).all(|x| (0.0..=0.2357 * 3.6 + 1e-5).contains(x)));
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let image = Array3::<f32>::zeros((4, 4, 1));
    let hog =
        |image: &Array3<f32>, cell, scale| hog_pyramid(exec(), image.view(), cell, &[scale], 0);
    assert!(hog(&image, 8, 1.0).is_ok());
    assert!(hog(&image, 0, 1.0).is_err());
    assert!(hog(&image, 8, 0.0).is_err());
    assert!(hog(&image, 8, f64::NAN).is_err());
    assert!(hog(&Array3::zeros((0, 4, 1)), 8, 1.0).is_err());
    let mut bad = image.clone();
    bad[[1, 2, 0]] = f32::NAN;
    let error = hog(&bad, 8, 1.0).unwrap_err();
    assert!(matches!(error, Error::NotFinite { row: 1, column: 2, .. }), "{error}");

    let scores = Array2::<f32>::zeros((2, 2));
    assert!(distance_transform(scores.view(), [0.0, 0.0, 0.0, 1.0]).is_err());
    assert!(distance_transform(scores.view(), [f64::NAN, 1.0, 0.0, 1.0]).is_err());

    assert!(Filter::new(Array4::zeros((0, 1, 1, 1)).view()).is_err());
    assert!(Filter::new(Array4::from_elem((1, 1, 1, 1), f32::NAN).view()).is_err());
    let filter = || Filter::new(Array4::zeros((1, 1, 2, 3)).view()).unwrap();
    let part = |square| Part::new(filter(), [0, 0], [0.0, square, 0.0, 1.0]);
    let mut model = PartModel::new();
    assert!(model.push(filter(), f64::INFINITY, Vec::new()).is_err());
    assert!(model.push(filter(), 0.0, vec![part(-1.0)]).is_err());
    model.push(filter(), 0.0, Vec::new()).unwrap();
    assert!(model.push(filter(), 0.0, vec![part(1.0)]).is_err());
    let find =
        |cells, shapes: &[(usize, usize)]| placements(exec(), cells, shapes, &model, 0, 0, 0.0);
    assert_eq!(find(Cells::Short(&[0, 2], 2), &[(1, 1)]).unwrap().scores, [0.0]);
    let error = find(Cells::Short(&[0, 3], 2), &[(1, 1)]).unwrap_err();
    assert_eq!(error, Error::CodeOutOfRange { row: 0, block: 1, code: 3, n_codes: 3 });
    assert!(find(Cells::Short(&[0, 1, 2], 3), &[(1, 1)]).is_err());
    assert!(find(Cells::Short(&[0, 1], 2), &[(1, 2)]).is_err());
    assert!(find(Cells::Features(&[0.0, 1.0], 2), &[(1, 1)]).is_err());
}
