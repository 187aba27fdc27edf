//! Product quantisation against its definitions, and threads.

use crate::common::*;
use histrs::quantization::{
    Code, Codebooks, Metric, Quantizer, QuantizerParameters, code_scores_into, code_sums,
    decode_into, encode_into, neighbors,
};
use histrs::{Element, Error, HistogramMatrix};
use ndarray::{Array1, Array2, Array3, ArrayView1, array};
use proptest::prelude::*;

const METRICS: [Metric; 4] =
    [Metric::Euclidean, Metric::Hellinger, Metric::Chi2, Metric::Intersection];

fn distance(metric: Metric, x: f64, z: f64) -> f64 {
    match metric {
        Metric::Euclidean => (x - z).powi(2),
        Metric::Hellinger => (x.sqrt() - z.sqrt()).powi(2),
        Metric::Chi2 if x + z > 0.0 => (x - z).powi(2) / (x + z),
        Metric::Chi2 => 0.0,
        Metric::Intersection => (x - z).abs(),
        _ => unreachable!("METRICS has no other"),
    }
}

/// Values of which about a third are 0.
fn values(n: usize, random: &mut Random) -> Vec<f64> {
    (0..n).map(|_| (random.unit() * 1.5 - 0.5).max(0.0)).collect()
}

fn check_nearest<T: Element>(
    n: usize,
    widths: &[usize],
    n_codes: usize,
    metric: Metric,
    seed: u64,
) {
    let mut random = Random(seed);
    let mut offsets = vec![0];
    for width in widths {
        offsets.push(offsets[offsets.len() - 1] + *width as i64);
    }
    let d = offsets[widths.len()] as usize;
    let width = *widths.iter().max().unwrap();
    let x = Array2::from_shape_vec((n, d), values(n * d, &mut random)).unwrap();
    let shape = (widths.len(), n_codes, width);
    let z = Array3::from_shape_vec(shape, values(widths.len() * n_codes * width, &mut random));
    let (x, z) = (x.mapv(T::from_f64), z.unwrap().mapv(T::from_f64));
    let codebooks = Codebooks::new(metric, z.view(), &offsets).unwrap();
    let results: Vec<Vec<u16>> = executors()
        .iter()
        .map(|exec| {
            let mut codes = vec![0; n * widths.len()];
            encode_into(exec, &HistogramMatrix::dense(x.view()), &codebooks, &mut codes).unwrap();
            codes
        })
        .collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    let slack = if size_of::<T>() == 4 { 1e-4 } else { 1e-12 };
    for (i, codes) in results[0].chunks(widths.len()).enumerate() {
        for (m, code) in codes.iter().enumerate() {
            let columns = offsets[m] as usize..offsets[m + 1] as usize;
            let at = |k: usize| -> f64 {
                columns
                    .clone()
                    .map(|d| {
                        let z = z[[m, k, d - columns.start]].to_f64();
                        distance(metric, x[[i, d]].to_f64(), z)
                    })
                    .sum()
            };
            let least = (0..n_codes).map(at).fold(f64::INFINITY, f64::min);
            assert!(at(code.index()) <= least + slack);
        }
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn codes_are_the_nearest_codewords(
        n in prop::sample::select(vec![0_usize, 1, 4, 5, 64, 65, 130]),
        widths in prop::collection::vec(1..10_usize, 1..4),
        n_codes in prop::sample::select(vec![1_usize, 2, 63, 64, 65, 257]),
        metric in prop::sample::select(METRICS.to_vec()),
        seed in any::<u64>(),
    ) {
        check_nearest::<f64>(n, &widths, n_codes, metric, seed);
        check_nearest::<f32>(n, &widths, n_codes, metric, seed);
    }

    #[test]
    fn sums_are_the_transpose_of_scores(
        n in prop::sample::select(vec![0_usize, 1, 1025, 4097]),
        n_blocks in 1..20_usize,
        n_codes in prop::sample::select(vec![1_usize, 3, 256]),
        n_classes in prop::sample::select(vec![1_usize, 2, 3, 16, 17, 33]),
        density in prop::sample::select(vec![0.05, 1.0]),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let codes = Array2::from_shape_fn((n, n_blocks), |_| random.below(n_codes) as u8);
        // Integers, whose sums are exact.
        let shape = (n_blocks, n_codes, n_classes);
        let tables = Array3::from_shape_fn(shape, |_| random.below(19) as f64 - 9.0);
        let weights = Array2::from_shape_fn((n_classes, n), |_| {
            let kept = random.unit() < density;
            if kept { random.below(5) as f64 - 2.0 } else { 0.0 }
        });
        for exec in executors() {
            let mut scores = vec![f64::NAN; n_classes * n];
            code_scores_into(exec, codes.view(), tables.view(), &mut scores).unwrap();
            let sums = code_sums(exec, codes.view(), n_codes, weights.view()).unwrap();
            let left: f64 = scores.iter().zip(&weights).map(|(s, w)| s * w).sum();
            prop_assert_eq!(left, (&sums * &tables).sum());
        }
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn neighbors_have_the_least_sums(
        n in prop::sample::select(vec![1_usize, 2, 15, 17, 300, 32_769]),
        n_blocks in 1..6_usize,
        n_codes in prop::sample::select(vec![1_usize, 3, 256]),
        n_queries in prop::sample::select(vec![0_usize, 1, 2, 3, 15, 16, 17, 33]),
        n_neighbors in prop::sample::select(vec![1_usize, 2, 17, 400]),
        is_biased in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let n_neighbors = n_neighbors.min(n);
        let codes = Array2::from_shape_fn((n, n_blocks), |_| random.below(n_codes) as u8);
        // Integers, whose sums are exact, and often equal.
        let shape = (n_blocks, n_codes, n_queries);
        let tables = Array3::from_shape_fn(shape, |_| random.below(19) as f32 - 9.0);
        let biases = is_biased.then(|| Array1::from_shape_fn(n, |_| random.below(9) as f32));
        let biases = biases.as_ref().map(|biases| biases.view());
        let found: Vec<_> = executors()
            .iter()
            .map(|exec| {
                neighbors(exec, codes.view(), tables.view(), biases, n_neighbors).unwrap()
            })
            .collect();
        prop_assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        let (rows, sums) = &found[0];
        for query in 0..n_queries {
            let mut all: Vec<(i64, i64)> = (0..n)
                .map(|row| {
                    let entry = |m: usize| tables[[m, usize::from(codes[[row, m]]), query]];
                    let sum: f32 = (0..n_blocks).map(entry).sum();
                    ((sum + biases.map_or(0.0, |biases| biases[row])) as i64, row as i64)
                })
                .collect();
            all.sort_unstable();
            for (k, &(sum, row)) in all[..n_neighbors].iter().enumerate() {
                prop_assert_eq!((sums[[query, k]] as i64, rows[[query, k]]), (sum, row));
            }
        }
    }
}

#[test]
fn a_search_that_has_no_answer_says_so() {
    let codes = array![[0_u8, 1], [2, 0]];
    let tables = Array3::<f64>::zeros((2, 3, 1));
    let search = |tables: &Array3<f64>, biases: Option<&[f64]>, n_neighbors| {
        let biases = biases.map(ArrayView1::from);
        neighbors(exec(), codes.view(), tables.view(), biases, n_neighbors)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(search(&tables, None, 2), Ok(()));
    let of_two = Array3::zeros((2, 2, 1));
    assert!(search(&of_two, None, 1).unwrap_err().contains("codes[1, 0] = 2"));
    assert!(search(&tables, None, 3).unwrap_err().contains("n_neighbors = 3"));
    assert!(search(&tables, None, 0).unwrap_err().contains("n_neighbors = 0"));
    assert!(search(&tables, Some(&[0.0]), 1).unwrap_err().contains("biases"));
    assert!(search(&tables, Some(&[0.0, f64::NAN]), 1).unwrap_err().contains("a bias"));
    for bad in [f64::NAN, f64::INFINITY, f64::MAX] {
        let error = search(&tables.mapv(|_| bad), None, 1).unwrap_err();
        assert!(error.contains("an entry of a table"), "{error}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let codes = array![[0_u8, 1], [2, 0]];
    let tables = Array3::<f64>::zeros((2, 2, 1));
    let error = code_scores_into(exec(), codes.view(), tables.view(), &mut [0.0; 2]).unwrap_err();
    assert_eq!(error, Error::CodeOutOfRange { row: 1, block: 0, code: 2, n_codes: 2 });
    assert!(code_scores_into(exec(), codes.view(), tables.view(), &mut [0.0; 3]).is_err());
    assert!(code_sums(exec(), codes.view(), 3, Array2::zeros((1, 3)).view()).is_err());
    assert!(decode_into(exec(), codes.view(), tables.view(), &[0, 1, 3], &mut [0.0; 6]).is_err());
    let book = |offsets: &[i64]| Codebooks::new(Metric::Chi2, tables.view(), offsets);
    for offsets in [&[0_i64, 1][..], &[1, 2, 3], &[0, 0, 1], &[0, 1, 3], &[0, 1, -1]] {
        assert!(book(offsets).is_err(), "{offsets:?}");
    }
    let codebooks = book(&[0, 1, 2]).unwrap();
    let x = array![[0.0, -1.0]];
    let error = encode_into(exec(), &HistogramMatrix::dense(x.view()), &codebooks, &mut [0_u8; 2]);
    assert!(error.unwrap_err().to_string().contains("X[0, 1] = -1"));
    let wide = Array3::<f64>::zeros((1, 257, 1));
    let codebooks = Codebooks::new(Metric::Euclidean, wide.view(), &[0, 1]).unwrap();
    let x = array![[1.0]];
    let error = encode_into(exec(), &HistogramMatrix::dense(x.view()), &codebooks, &mut [0_u8]);
    assert!(error.unwrap_err().to_string().contains("n_codes = 257"));
    for name in ["cosine", "jensen_shannon"] {
        let error = name.parse::<Metric>().unwrap_err().to_string();
        for known in ["euclidean", "hellinger", "chi2", "intersection"] {
            assert!(error.contains(&format!("{known:?}")), "{error}");
            assert!(known.parse::<Metric>().is_ok());
        }
    }
}

#[test]
fn a_quantizer_learns_what_an_index_searches() {
    let mut random = Random(5);
    let x = Array2::from_shape_simple_fn((300, 7), || random.unit());
    let parameters = QuantizerParameters::default().with_n_codes(16).with_seed(3);
    let quantizer = Quantizer::fit(exec(), x.view(), 3, parameters).unwrap();
    assert_eq!((quantizer.offsets(), quantizer.codebooks().dim()), (&[0, 3, 5, 7][..], (3, 16, 3)));
    let codes = quantizer.encode(exec(), x.view()).unwrap();
    let decoded = quantizer.decode(exec(), codes.view()).unwrap();
    let of = |a: &Array2<f64>, b: &Array2<f64>| (a - b).mapv(|d| d * d).sum();
    let mean = x.mean_axis(ndarray::Axis(0)).unwrap();
    assert!(of(&decoded, &x) < 0.25 * (&x - &mean).mapv(|d| d * d).sum());
    let queries = x.slice(ndarray::s![..4, ..]).to_owned();
    let index = quantizer.index(exec(), x.view()).unwrap();
    let (rows, distances) = index.nearest(exec(), queries.view(), 5).unwrap();
    for (q, query) in queries.rows().into_iter().enumerate() {
        let square = |row: ndarray::ArrayView1<'_, f64>| (&row - &query).mapv(|d| d * d).sum();
        let mut all: Vec<f64> = decoded.rows().into_iter().map(square).collect();
        for k in 0..5 {
            let row = usize::try_from(rows[[q, k]]).unwrap();
            assert!((distances[[q, k]] - all[row]).abs() < 1e-12);
        }
        all.sort_by(f64::total_cmp);
        assert!(all.iter().zip(distances.row(q)).all(|(a, b)| (a - b).abs() < 1e-12));
    }
    let again = Quantizer::fit(exec(), x.view(), 3, parameters).unwrap();
    assert_eq!(again.codebooks(), quantizer.codebooks());
    let other = Quantizer::fit(exec(), x.view(), 3, parameters.with_seed(4)).unwrap();
    assert_ne!(other.codebooks(), quantizer.codebooks());
    // More codewords than rows are as many as rows: nothing is lost.
    let few = x.slice(ndarray::s![..9, ..]);
    let exact = Quantizer::fit(exec(), few, 7, QuantizerParameters::default()).unwrap();
    let codes = exact.encode(exec(), few).unwrap();
    assert_eq!(exact.decode(exec(), codes.view()).unwrap(), few);
    for (n_blocks, n_codes) in [(0, 4), (8, 4), (2, 0), (2, 257)] {
        let parameters = QuantizerParameters::default().with_n_codes(n_codes);
        let refused = Quantizer::fit(exec(), few, n_blocks, parameters).unwrap_err();
        assert!(matches!(refused, Error::Parameter { .. }));
    }
}
