//! Throughput of the histogram intersection kernel, in stored values per second.
//!
//! Sizes are small, so that the whole bench takes less than two minutes:
//! `cargo bench -p histrs`, or `cargo bench -p histrs -- product` for a part.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use histrs::intersection::{
    Interpolation, KnotProjection, LookupTable, ShapeFunctions, SortedColumns,
};
use histrs::kernels::AdditiveKernel;
use histrs::{CsrView, Executor, HistogramMatrix, Result};
use ndarray::Array2;

const INTERSECTION: AdditiveKernel = AdditiveKernel::Intersection;

const ROWS: usize = 20_000;
const COLUMNS: usize = 32;
const NEW_ROWS: usize = 2000;

fn main() -> Result<()> {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .configure_from_args();
    let exec = Executor::new(0)?;
    println!("{} threads, {:?}", exec.n_threads(), histrs::instruction_set());
    let data = Data::new()?;
    sort(&mut criterion, &exec, &data)?;
    product(&mut criterion, &exec, &data)?;
    score(&mut criterion, &exec, &data)?;
    blocks(&mut criterion, &exec, &data);
    knots(&mut criterion, &exec, &data)?;
    criterion.final_summary();
    Ok(())
}

/// Matrices of each kind that has an encoding of its own.
struct Data {
    /// A different value in every row.
    distinct: Array2<f64>,
    /// Small counts.
    counts: Array2<f64>,
    /// One entry in twenty, all different.
    sparse: Sparse,
}

struct Sparse {
    values: Vec<f64>,
    indices: Vec<i32>,
    indptr: Vec<i64>,
}

impl Data {
    fn new() -> Result<Self> {
        let mut random = Random(1);
        let shape = (ROWS, COLUMNS);
        let distinct = Array2::from_shape_simple_fn(shape, || random.unit());
        let counts = Array2::from_shape_simple_fn(shape, || (random.unit() * 9.0).floor());
        let mut sparse = Sparse { values: Vec::new(), indices: Vec::new(), indptr: vec![0] };
        for _ in 0..ROWS {
            for column in 0..20 * COLUMNS {
                if random.unit() < 0.05 {
                    sparse.values.push(random.unit());
                    sparse.indices.push(column as i32);
                }
            }
            sparse.indptr.push(sparse.values.len() as i64);
        }
        sparse.view()?;
        Ok(Self { distinct, counts, sparse })
    }

    fn all(&self) -> Result<[(&'static str, HistogramMatrix<'_, f64>); 3]> {
        Ok([
            ("counts", HistogramMatrix::dense(self.counts.view())),
            ("distinct", HistogramMatrix::dense(self.distinct.view())),
            ("sparse", self.sparse.view()?),
        ])
    }
}

impl Sparse {
    fn view(&self) -> Result<HistogramMatrix<'_, f64>> {
        let view = CsrView::new(&self.values, &self.indices, &self.indptr, 20 * COLUMNS)?;
        Ok(HistogramMatrix::csr(view))
    }
}

/// Times `work`, whose result is dropped; an error would show as an absurd throughput.
fn time<R>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, work: impl Fn() -> Result<R>) {
    group.bench_function(name, |bencher| bencher.iter(|| black_box(work())));
}

fn sort(criterion: &mut Criterion, exec: &Executor, data: &Data) -> Result<()> {
    let mut group = criterion.benchmark_group("sort");
    for (name, x) in data.all()? {
        let n_stored = SortedColumns::new(exec, &x)?.n_stored();
        group.throughput(Throughput::Elements(n_stored as u64));
        time(&mut group, name, || SortedColumns::new(exec, &x));
    }
    Ok(())
}

fn product(criterion: &mut Criterion, exec: &Executor, data: &Data) -> Result<()> {
    let mut group = criterion.benchmark_group("product");
    for (name, x) in data.all()? {
        let columns = SortedColumns::new(exec, &x)?;
        group.throughput(Throughput::Elements(columns.n_stored() as u64));
        for n_outputs in [1, 10] {
            let v = right_hand_side(ROWS, n_outputs);
            time(&mut group, &format!("double/{name}/{n_outputs}"), || {
                columns.product(exec, v.view())
            });
            time(&mut group, &format!("single/{name}/{n_outputs}"), || {
                columns.product_f32(exec, v.view())
            });
            time(&mut group, &format!("forms/{name}/{n_outputs}"), || {
                columns.quadratic_forms(exec, v.view())
            });
        }
    }
    Ok(())
}

fn score(criterion: &mut Criterion, exec: &Executor, data: &Data) -> Result<()> {
    let mut group = criterion.benchmark_group("score");
    let mut random = Random(2);
    let new = Array2::from_shape_simple_fn((NEW_ROWS, COLUMNS), || random.unit());
    let new = HistogramMatrix::dense(new.view());
    let columns = SortedColumns::new(exec, &HistogramMatrix::dense(data.distinct.view()))?;
    for n_outputs in [1, 10] {
        let alpha = right_hand_side(ROWS, n_outputs);
        group.throughput(Throughput::Elements((ROWS * COLUMNS) as u64));
        time(&mut group, &format!("cross_product/{n_outputs}"), || {
            columns.cross_product(exec, &new, alpha.view())
        });
        group.throughput(Throughput::Elements((NEW_ROWS * COLUMNS) as u64));
        let functions = ShapeFunctions::new(exec, &columns, alpha.view())?;
        time(&mut group, &format!("shape_functions/{n_outputs}"), || functions.predict(exec, &new));
        for (name, interpolation) in
            [("linear", Interpolation::Linear), ("nearest", Interpolation::Nearest)]
        {
            let table = LookupTable::new(exec, &columns, alpha.view(), 100, interpolation)?;
            time(&mut group, &format!("table/{name}/{n_outputs}"), || table.predict(exec, &new));
        }
    }
    Ok(())
}

fn blocks(criterion: &mut Criterion, exec: &Executor, data: &Data) {
    let mut group = criterion.benchmark_group("gram");
    let rows = ndarray::s![..1000, ..];
    let double = data.distinct.slice(rows);
    let single = double.mapv(|v| v as f32);
    group.throughput(Throughput::Elements((1000 * 1000 * COLUMNS) as u64));
    let all = HistogramMatrix::dense(double);
    time(&mut group, "double", || INTERSECTION.gram(exec, &all, Some(&all)));
    time(&mut group, "double/symmetric", || INTERSECTION.gram(exec, &all, None));
    let all = HistogramMatrix::dense(single.view());
    time(&mut group, "single", || INTERSECTION.gram(exec, &all, Some(&all)));
}

fn knots(criterion: &mut Criterion, exec: &Executor, data: &Data) -> Result<()> {
    let mut group = criterion.benchmark_group("knots");
    let columns = SortedColumns::new(exec, &HistogramMatrix::dense(data.distinct.view()))?;
    let projection = KnotProjection::new(exec, &columns, 16)?;
    group.throughput(Throughput::Elements(columns.n_stored() as u64));
    for n_outputs in [1, 10] {
        let v = right_hand_side(ROWS, n_outputs);
        let w = right_hand_side(projection.n_features(), n_outputs);
        time(&mut group, &format!("project/{n_outputs}"), || projection.project(exec, v.view()));
        time(&mut group, &format!("expand/{n_outputs}"), || projection.expand(exec, w.view()));
    }
    let pairs = COLUMNS * (COLUMNS + 1) / 2;
    group.throughput(Throughput::Elements((ROWS * pairs) as u64));
    time(&mut group, "gram", || projection.gram(exec));
    Ok(())
}

fn right_hand_side(n_rows: usize, n_outputs: usize) -> Array2<f64> {
    let mut random = Random(3);
    Array2::from_shape_simple_fn((n_rows, n_outputs), || random.unit() - 0.5)
}

/// The generator SplitMix64.
struct Random(u64);

impl Random {
    /// Uniform on `[0, 1)`.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
