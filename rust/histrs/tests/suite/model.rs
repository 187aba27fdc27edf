//! Models from files: what is in them, and that nothing else gets in.

use crate::common::saved::{self, File, sealed};
use crate::common::*;
use histrs::Error;
use histrs::model::{Label, Model, Scratch};
use ndarray::array;
use proptest::prelude::*;

fn refused(bytes: &[u8], complaint: &str) {
    let error = Model::from_bytes(bytes).unwrap_err();
    assert!(
        matches!(&error, Error::NoModel(found) if found.contains(complaint)),
        "{complaint}: {error}"
    );
}

#[test]
fn scores_are_sums_of_functions() {
    let model = Model::from_bytes(&File::additive().bytes()).unwrap();
    assert_eq!((model.n_features(), model.n_outputs()), (2, 3));
    assert_eq!(model.names().unwrap(), ["x", "y"]);
    let labels = [Label::Text("a".into()), Label::Integer(7), Label::Number(1.5)];
    assert_eq!(model.classes().unwrap(), labels);
    assert_eq!(labels.map(|label| label.to_string()), ["a", "7", "1.5"]);
    // Rows as the functions see them: (0, 0), (0.5, 0.25), (1, 1) and beyond.
    let x = array![[0.0, 0.0], [0.25, 0.5], [0.5, 2.0], [9.0, 9.0]];
    let pair = |u: f64, v: f64, i: f64| 6.0 * u + 3.0 * v + i;
    // To the first is added what falls from 0.5 at 0 to -0.5 at 2, to the last 1.
    let added = |i: f64, y: f64| match i {
        0.0 => 0.5 - 0.5 * y.clamp(0.0, 2.0),
        1.0 => 0.0,
        _ => 1.0,
    };
    let score = |u: f64, v: f64, i: f64| 1.0 - i + i * (u + v) + pair(u, v, i);
    let expected =
        |u: f64, v: f64| [0.0, 1.0, 2.0].map(|i| score(u, v, i) + added(i, score(u, v, i)));
    let scores = model.predict(exec(), x.view()).unwrap();
    let rows = [(0.0, 0.0), (0.5, 0.25), (1.0, 1.0), (1.0, 1.0)];
    for (found, (u, v)) in scores.rows().into_iter().zip(rows) {
        for (found, expected) in found.iter().zip(expected(u, v)) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
    let single = model.predict(exec(), x.mapv(|x| x as f32).view()).unwrap();
    assert_eq!(single, scores);
    let probabilities = model.predict_proba(exec(), x.view()).unwrap();
    for (p, s) in probabilities.rows().into_iter().zip(scores.rows()) {
        let sum: f64 = s.iter().map(|s| s.exp()).sum();
        assert!(p.iter().zip(s).all(|(p, s)| (p - s.exp() / sum).abs() < 1e-12));
    }
}

/// Every step of a table, written out for one row.
#[test]
fn tables_are_read_blended_and_pooled() {
    let model = Model::from_bytes(&File::table().bytes()).unwrap();
    let held = [Label::Text("no".into()), Label::Boolean(true), Label::Missing];
    assert_eq!(model.categories(1).unwrap(), held);
    assert!(model.categories(0).is_none() && model.categories(9).is_none());
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    for (row, missing) in [([3.0, 2.0, 1.4], false), ([f64::NAN, 5.0, 0.0], true)] {
        let standard = |x: f64| x / 2.0 - 0.1;
        let first = standard(if missing { 0.5 } else { row[0] });
        let second = standard(row[2]);
        let (power, bend) = if second >= 0.0 { (0.7, second) } else { (1.3, -second) };
        let straight = (((1.0 + bend).powf(power) - 1.0) / power).copysign(second);
        let mark = f64::from(u8::from(missing));
        let step = |x: f64| x.clamp(0.0, 1.0) * 0.0;
        let values = [first, straight, mark * 2.0_f64.sqrt(), row[1]];
        let odds = 0.25 + values.iter().map(|&x| step(x)).sum::<f64>();
        let rank = |x: f64| 0.1 + 0.8 * (x.clamp(-1.0, 1.0) + 1.0) / 2.0;
        let (x, y) = (rank(first), 0.5);
        let seen = [0.8 * x - 0.6 * y, 0.6 * x + 0.8 * y, mark, row[1]];
        let stored = [[0.0, 1.0, 0.5, 2.0], [0.1, 0.2, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]];
        let norm = |x: &[f64]| x[0].abs() + 0.5 * x[1].abs() + 2.0;
        let mut score = 0.5 * logistic(odds);
        for (other, weight) in stored.iter().zip([0.2, -0.1, 0.3]) {
            let apart = f64::from(u8::from(seen[3] != other[3]));
            let d = (seen[0] - other[0]).abs() + 0.5 * (seen[1] - other[1]).abs() + 2.0 * apart;
            let s = 3.0_f64.sqrt() * d / 0.5;
            let k = 0.3 * (-d / 1.5).exp()
                + 0.2 * (1.0 + s) * (-s).exp()
                + 0.05 * (norm(&seen) + norm(other) - d);
            score += weight * k;
        }
        let logit = |p: f64| (p / (1.0 - p)).ln();
        let of_class = |s: f64, b: f64| b + 0.5 * logit(s.clamp(1e-3, 1.0 - 1e-3)) + 0.2 * s;
        let expected = of_class(score, -0.1) - of_class(1.0 - score, 0.1);
        let mut out = [0.0];
        model.score_row(&row, &mut Scratch::default(), &mut out).unwrap();
        assert!((out[0] - expected).abs() < 1e-9, "{} {expected}", out[0]);
        let mut probabilities = [0.0; 2];
        model.proba_row(&row, &mut Scratch::default(), &mut probabilities).unwrap();
        assert!((probabilities[1] - logistic(expected)).abs() < 1e-9);
        assert!((probabilities[0] + probabilities[1] - 1.0).abs() < 1e-12);
    }
}

#[test]
fn rows_alone_and_together_have_the_same_bits_on_any_number_of_threads() {
    fn sent<T: Send + Sync>(_: &T) {}
    let model = Model::from_bytes(&File::table().bytes()).unwrap();
    sent(&model);
    let mut random = Random(1);
    let x = ndarray::Array2::from_shape_simple_fn((301, 3), || 4.0 * random.unit() - 2.0);
    let [one, two, seven] = executors().each_ref().map(|e| model.predict(e, x.view()).unwrap());
    assert!(one == two && two == seven);
    let (mut scratch, mut out) = (Scratch::default(), [0.0]);
    for (row, expected) in x.rows().into_iter().zip(&one) {
        model.score_row(row.as_slice().unwrap(), &mut scratch, &mut out).unwrap();
        assert_eq!(out[0].to_bits(), expected.to_bits());
    }
}

#[test]
fn bad_rows_are_named() {
    let additive = Model::from_bytes(&File::additive().bytes()).unwrap();
    let table = Model::from_bytes(&File::table().bytes()).unwrap();
    let refused = |model: &Model, x: ndarray::Array2<f64>| model.predict(exec(), x.view()).err();
    let at = |error: Option<Error>| match error {
        Some(Error::NotFinite { row, column, .. } | Error::Negative { row, column, .. }) => {
            (row, column)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(at(refused(&additive, array![[0.0, 1.0], [1.0, f64::NAN]])), (1, 1));
    assert_eq!(at(refused(&additive, array![[0.0, 1.0], [-1.0, 0.0]])), (1, 0));
    assert_eq!(at(refused(&table, array![[0.0, 1.0, f64::NAN]])), (0, 2));
    assert_eq!(at(refused(&table, array![[0.0, f64::NAN, 0.0]])), (0, 1));
    assert_eq!(at(refused(&table, array![[f64::INFINITY, 0.0, 0.0]])), (0, 0));
    assert!(matches!(refused(&table, array![[0.0]]), Some(Error::Shape { .. })));
    let short = additive.score_row(&[0.0, 0.0], &mut Scratch::default(), &mut [0.0]);
    assert!(matches!(short, Err(Error::Shape { .. })));
    let one = File::additive().text("classes", "null");
    let regression = Model::from_bytes(&one.bytes()).unwrap();
    let found = regression.predict_proba(exec(), array![[0.0, 0.0]].view());
    assert_eq!(found.unwrap_err(), Error::NoClasses);
    assert!(matches!(Model::load("/no/such/file"), Err(Error::Unreadable { .. })));
}

#[test]
fn what_is_wrong_is_said() {
    let good = File::additive();
    let bytes = good.bytes();
    refused(b"", "does not begin");
    refused(b"my thesis, which is longer than the header of a file", "does not begin");
    for place in [4, 40, bytes.len() / 2, bytes.len() - 1] {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1;
        refused(&flipped, "");
    }
    let mut long = bytes.clone();
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    refused(&sealed(long), "header is too long");
    refused(&sealed([bytes.as_slice(), &[0; 8]].concat()), "more behind");
    refused(&sealed(bytes[..bytes.len() - 8].to_vec()), "is not that of an array");
    refused(&good.clone().text("kind", "moments").bytes(), "kind");
    refused(&good.clone().text("version", "2").bytes(), "version");
    refused(&good.clone().numbers("more", &[1], &[0.0]).bytes(), "nothing asks for more");
    let with = |name: &str, change: &dyn Fn(&mut saved::Tensor)| {
        let mut file = good.clone();
        change(file.arrays.iter_mut().find(|array| array.name == name).unwrap());
        file.bytes()
    };
    let number = |x: f64| {
        move |array: &mut saved::Tensor| array.bytes[..8].copy_from_slice(&x.to_le_bytes())
    };
    let count = |k: i64| {
        move |array: &mut saved::Tensor| array.bytes[..8].copy_from_slice(&k.to_le_bytes())
    };
    refused(&with("0.terms", &number(f64::NAN)), "not finite");
    refused(&with("0.knots", &number(2.0)), "knots do not ascend");
    refused(&with("0.pair_nodes", &number(2.0)), "nodes do not ascend");
    refused(&with("corrections.at", &number(3.0)), "corrections do not ascend");
    refused(&with("0.exponent", &number(0.0)), "exponent");
    refused(&with("0.starts", &count(1)), "does not ascend from 0");
    refused(&with("0.pair_features", &count(2)), "names what is not there");
    refused(&with("0.pair_features", &count(-1)), "names what is not there");
    for shape in [vec![usize::MAX, 8], vec![1 << 62, 1 << 62], vec![7], vec![]] {
        refused(&with("0.terms", &|array| array.shape = shape.clone()), "length of its shape");
    }
    refused(&with("0.terms", &|array| array.shape = vec![2, 6, 3]), "not those of its knots");
    refused(&with("0.offset", &|array| array.dtype = "I64"), "no 0.offset of F64");
    let mut table = File::table();
    table.arrays.iter_mut().find(|array| array.name == "1.axes").unwrap().shape = vec![9];
    refused(&table.bytes(), "axes are not those of its numbers");
    refused(&good.clone().text("n_features", "9000000000000000000").bytes(), "");
    refused(&good.clone().text("n_outputs", "9000000000000000000").bytes(), "");
    refused(&good.clone().text("members", "[]").bytes(), "");
    refused(&good.clone().text("names", &"[".repeat(10_000)).bytes(), "names");
}

fn wild(random: &mut Random) -> [u8; 8] {
    let floats = [f64::NAN, f64::INFINITY, f64::MAX, -1.0, 0.0, 5e-324, 1e300];
    match random.below(3) {
        0 => floats[random.below(floats.len())].to_le_bytes(),
        1 => [i64::MIN, -1, 0, 1, 2, 3, i64::MAX][random.below(7)].to_le_bytes(),
        _ => random.bits().to_le_bytes(),
    }
}

/// A file with a few parts replaced, and the checksum that fits.
fn mutated(seed: u64) -> Vec<u8> {
    const TEXTS: [&str; 12] = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "2",
        "18446744073709551615",
        "[]",
        "[1,2]",
        "\"l2\"",
        "{}",
        "\"power\"",
    ];
    let mut random = Random(seed);
    let mut file = if random.below(2) == 0 { File::additive() } else { File::table() };
    for _ in 0..random.below(4) {
        if random.below(3) == 0 {
            let k = random.below(file.texts.len());
            let text = file.texts.values_mut().nth(k).unwrap();
            *text = TEXTS[random.below(TEXTS.len())].to_owned();
            continue;
        }
        let k = random.below(file.arrays.len());
        let array = &mut file.arrays[k];
        match random.below(6) {
            0 => array.shape.push([0, 1, 1 << 40][random.below(3)]),
            1 => drop(array.shape.pop()),
            2 => array.dtype = ["F64", "I64", "F32", "U8", "X"][random.below(5)],
            _ if array.bytes.is_empty() => (),
            _ => {
                let place = random.below(array.bytes.len() / 8);
                array.bytes[8 * place..8 * place + 8].copy_from_slice(&wild(&mut random));
            }
        }
    }
    let mut bytes = file.bytes();
    if random.below(3) == 0 {
        for _ in 0..random.below(4) {
            let place = random.below(bytes.len());
            bytes[place] = random.bits() as u8;
        }
        bytes.truncate(bytes.len() - random.below(2) * random.below(bytes.len()));
    }
    sealed(bytes)
}

proptest! {
    #![proptest_config(config(20_000))]

    /// A file gives a model that predicts, or an error.
    #[test]
    fn hostile_files_give_a_model_or_an_error(seed: u64) {
        let Ok(model) = Model::from_bytes(&mutated(seed)) else { return Ok(()) };
        let (mut random, mut scratch) = (Random(seed), Scratch::default());
        prop_assert!(model.n_features() <= 4 && model.n_outputs() <= 4);
        for _ in 0..4 {
            let row: Vec<f64> = (0..model.n_features())
                .map(|_| f64::from_le_bytes(wild(&mut random)))
                .collect();
            let mut out = vec![0.0; model.n_outputs()];
            let found = model.score_row(&row, &mut scratch, &mut out);
            let known = matches!(
                found,
                Ok(()) | Err(Error::NotFinite { .. } | Error::Negative { .. } | Error::Shape { .. })
            );
            prop_assert!(known, "{:?}", found);
        }
    }
}
