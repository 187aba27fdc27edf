//! Files of models, written without a line of the crate.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Texts and arrays, from which a file is made.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) arrays: Vec<Tensor>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl File {
    pub(crate) fn text(mut self, name: &str, json: &str) -> Self {
        self.texts.insert(name.to_owned(), json.to_owned());
        self
    }

    pub(crate) fn numbers(self, name: &str, shape: &[usize], numbers: &[f64]) -> Self {
        self.array(name, "F64", shape, numbers.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    pub(crate) fn whole(self, name: &str, shape: &[usize], numbers: &[i64]) -> Self {
        self.array(name, "I64", shape, numbers.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    fn array(mut self, name: &str, dtype: &'static str, shape: &[usize], bytes: Vec<u8>) -> Self {
        self.arrays.push(Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes });
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut header = String::from("{\"__metadata__\":{\"crc32\":\"00000000\"");
        for (name, text) in &self.texts {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            write!(header, ",\"{name}\":\"{quoted}\"").unwrap();
        }
        header.push('}');
        let mut data = Vec::new();
        for Tensor { name, dtype, shape, bytes } in &self.arrays {
            let (start, end) = (data.len(), data.len() + bytes.len());
            write!(
                header,
                ",\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}"
            )
            .unwrap();
            data.extend_from_slice(bytes);
        }
        header.push('}');
        let length = (header.len() as u64).to_le_bytes();
        sealed([&length, header.as_bytes(), &data].concat())
    }

    /// A sum of functions of two columns, and of both: three classes.
    pub(crate) fn additive() -> Self {
        Self::default()
            .text("kind", "model")
            .text("version", "1")
            .text("n_features", "2")
            .text("n_outputs", "3")
            .text("classes", "[\"a\",7,1.5]")
            .text("names", "[\"x\",\"y\"]")
            .text("categories", "null")
            .text("reader", "false")
            .text("pool", "false")
            .text("corrections", "true")
            .whole("corrections.starts", &[4], &[0, 2, 3, 4])
            .numbers("corrections.at", &[4], &[0.0, 2.0, 0.0, 0.0])
            .numbers("corrections.added", &[4], &[0.5, -0.5, 0.0, 1.0])
            .text("histograms", "true")
            .text(
                "members",
                "[{\"kind\":\"additive\",\"view\":\"row\",\"output\":0,\"odds\":false}]",
            )
            .functions("0.", &[2.0, 0.5], 3)
            .numbers("0.offset", &[3], &[1.0, 0.0, -1.0])
    }

    /// Functions with knots at 0 and 1 of each column: lines times the number of the output, and with two
    /// columns a pair of these.
    fn functions(self, prefix: &str, weights: &[f64], n_outputs: usize) -> Self {
        let named = |name: &str| format!("{prefix}{name}");
        let (n, m) = (weights.len(), n_outputs);
        let outputs: Vec<f64> = (0..m).map(|i| i as f64).collect();
        let of_column = [vec![0.0; 3 * m], outputs.clone(), outputs, vec![0.0; m]].concat();
        let knots: Vec<f64> = (0..2 * n).map(|k| (k % 2) as f64).collect();
        let starts: Vec<i64> = (0..=n as i64).map(|d| 2 * d).collect();
        let n_pairs = usize::from(n == 2);
        let cells: Vec<f64> = (0..4 * m * n_pairs).map(|k| k as f64).collect();
        self.text(&named("transform"), "\"identity\"")
            .text(&named("steps"), "false")
            .numbers(&named("exponent"), &[1], &[1.0])
            .numbers(&named("weights"), &[n], weights)
            .whole(&named("starts"), &[n + 1], &starts)
            .numbers(&named("knots"), &[2 * n], &knots)
            .numbers(&named("terms"), &[3 * n, 2, m], &of_column.repeat(n))
            .whole(&named("pair_features"), &[n_pairs, 2], &[0, 1][..2 * n_pairs])
            .whole(&named("pair_starts"), &[2 * n_pairs + 1], &[0, 2, 4][..2 * n_pairs + 1])
            .numbers(&named("pair_nodes"), &[4 * n_pairs], &[0.0, 1.0, 0.0, 1.0][..4 * n_pairs])
            .numbers(&named("pair_cells"), &[4 * n_pairs, m], &cells)
    }

    /// A table of two numbers, the first of which may be missing, and a category: two classes, by log
    /// odds and by three stored rows.
    pub(crate) fn table() -> Self {
        let column = [0.5, 2.0, 0.1, 1.0, 0.7, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0];
        Self::default()
            .text("kind", "model")
            .text("version", "1")
            .text("n_features", "3")
            .text("n_outputs", "1")
            .text("classes", "[false,true]")
            .text("names", "null")
            .text("categories", "[null,[\"no\",true,null],null]")
            .text("reader", "true")
            .text("pool", "true")
            .text("corrections", "false")
            .text("histograms", "false")
            .text(
                "members",
                "[{\"kind\":\"additive\",\"view\":\"values\",\"output\":0,\"odds\":true},\
                  {\"kind\":\"distances\",\"view\":\"ranks\",\"output\":0,\"odds\":false}]",
            )
            .whole("reader.numbers", &[2], &[0, 2])
            .whole("reader.categories", &[1], &[1])
            .whole("reader.missing", &[1], &[0])
            .whole("reader.skewed", &[1], &[1])
            .numbers("reader.scales", &[2, 11], &column.repeat(2))
            .whole("reader.rank_starts", &[3], &[0, 2, 3])
            .numbers("reader.rank_values", &[3], &[-1.0, 1.0, 0.0])
            .numbers("reader.ranks", &[3], &[0.1, 0.9, 0.5])
            .numbers("pool.least", &[1], &[1e-3])
            .numbers("pool.terms", &[2, 3], &[0.1, 0.5, 0.2, -0.1, 0.5, 0.2])
            .functions("0.", &[1.0; 4], 1)
            .numbers("0.offset", &[1], &[0.25])
            .numbers("0.gains", &[1], &[0.5])
            .text("1.norm", "\"l1\"")
            .text("1.n_numbers", "3")
            .numbers("1.weights", &[4], &[1.0, 0.5, 0.0, 2.0])
            .numbers("1.axes", &[3, 3], &[0.8, 0.6, 0.0, -0.6, 0.8, 0.0, 0.0, 0.0, 1.0])
            .numbers("1.laplace", &[1], &[1.5])
            .numbers("1.matern", &[1], &[0.5])
            .numbers("1.amplitudes", &[4], &[0.3, 0.2, 0.1, 0.0])
            .numbers("1.coefficients", &[3, 1], &[0.2, -0.1, 0.3])
            .numbers(
                "1.rows",
                &[3, 4],
                &[0.0, 1.0, 0.5, 2.0, 0.1, 0.2, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0],
            )
    }
}

/// A file with the checksum that fits.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let place = 8 + "{\"__metadata__\":{\"crc32\":\"".len();
    if let Some(digits) = bytes.get_mut(place..place + 8) {
        digits.fill(b'0');
        let mut crc = !0_u32;
        for &byte in &bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            }
        }
        bytes[place..place + 8].copy_from_slice(format!("{:08x}", !crc).as_bytes());
    }
    bytes
}
