//! A model that Python fitted, served without Python: rows on standard input, predictions on standard output.
//!
//! In Python:
//!
//! ```python
//! from sklearn.datasets import load_digits
//! from histrs.gaussian_process import IntersectionGPClassifier
//!
//! X, y = load_digits(return_X_y=True)
//! IntersectionGPClassifier().fit(X, y).save("digits.histrs")
//! ```
//!
//! Then each line of numbers, with commas between them, is a row:
//!
//! ```sh
//! cargo run --release --example serve digits.histrs < rows.csv
//! ```

use std::error::Error;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use histrs::model::{Model, Scratch};

fn main() -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::args().nth(1) else {
        println!("usage: serve MODEL < ROWS, with a file that `save` of a model wrote in Python");
        return Ok(());
    };
    let model = Model::load(path)?;
    let classes = model.classes();
    let mut answer = vec![0.0; classes.map_or(model.n_outputs(), <[_]>::len)];
    let (mut row, mut scratch) = (Vec::new(), Scratch::default());
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        row.clear();
        for number in line?.split(',') {
            row.push(number.trim().parse()?);
        }
        match classes {
            Some(classes) => {
                model.proba_row(&row, &mut scratch, &mut answer)?;
                let of_classes = classes.iter().zip(&answer);
                let best = of_classes.max_by(|(_, a), (_, b)| a.total_cmp(b));
                if let Some((label, probability)) = best {
                    writeln!(out, "{label} {probability:.6}")?;
                }
            }
            None => {
                model.score_row(&row, &mut scratch, &mut answer)?;
                let scores: Vec<_> = answer.iter().map(f64::to_string).collect();
                writeln!(out, "{}", scores.join(","))?;
            }
        }
    }
    out.flush()?;
    Ok(())
}
