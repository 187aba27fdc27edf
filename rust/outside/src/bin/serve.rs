//! Probabilities of rows of numbers on standard input, by a model that Python fitted and saved.
use histrs::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::load(std::env::args().nth(1).ok_or("usage: serve MODEL < ROWS")?)?;
    let n_classes = model.classes().ok_or("the model has no classes")?.len();
    let (mut scratch, mut out) = (Scratch::default(), vec![0.0; n_classes]);
    for line in std::io::stdin().lines() {
        let row = line?.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        model.proba_row(&row, &mut scratch, &mut out)?;
        println!("{}", out.iter().map(f64::to_string).collect::<Vec<_>>().join(","));
    }
    Ok(())
}
