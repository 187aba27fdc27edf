//! The square root of the first of two bins, learned from 200 rows.
use histrs::prelude::*;

fn main() -> histrs::Result<()> {
    let part = |i: usize| (i as f64 * 0.618).fract();
    let x = ndarray::Array2::from_shape_fn((200, 2), |(i, d)| (part(i) - d as f64).abs());
    let y = ndarray::Array2::from_shape_fn((200, 1), |(i, _)| part(i).sqrt());
    let (exec, rows) = (Executor::new(0)?, HistogramMatrix::dense(x.view()));
    let columns = SortedColumns::new(&exec, &rows)?;
    let solution = columns.solve(&exec, 1e-3, y.view(), Solve::default())?;
    let mean = ShapeFunctions::new(&exec, &columns, solution.alpha.view())?;
    println!("{}", (mean.predict(&exec, &rows)? - y).abs().mean().unwrap_or(f64::NAN));
    Ok(())
}
