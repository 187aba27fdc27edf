//! The file: named arrays and texts in the layout of safetensors. `docs/format.md` describes it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::memory;

const VERSION: &str = "1";
const LENGTH: usize = 8;
/// What a header begins with, before the digits of the checksum, which is taken with zeros there.
const BEGINNING: &[u8] = b"{\"__metadata__\":{\"crc32\":\"";
const ZEROS: &[u8] = b"00000000";
/// Bytes of a header, at most.
const MOST_HEADER: usize = 16 << 20;

/// The error of a file that says something else than a model does.
pub(super) fn damaged(complaint: impl Into<String>) -> Error {
    Error::NoModel(complaint.into())
}

/// Fails with the complaint unless the condition holds.
pub(super) fn require(condition: bool, complaint: &str) -> Result<()> {
    if condition { Ok(()) } else { Err(damaged(complaint)) }
}

/// An array of the file, of which nothing is known but that its bytes are there.
struct Tensor<'a> {
    dtype: String,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

/// The texts and the arrays of a file, each of which is taken out once.
pub(super) struct Archive<'a> {
    texts: Map<String, Value>,
    tensors: BTreeMap<String, Tensor<'a>>,
}

impl<'a> Archive<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self> {
        let digits = LENGTH + BEGINNING.len();
        let rest = digits + ZEROS.len();
        require(
            bytes.get(LENGTH..digits) == Some(BEGINNING) && bytes.len() > rest,
            "it does not begin as one",
        )?;
        let checksum = [&bytes[..digits], ZEROS, &bytes[rest..]].iter().fold(!0, crc32);
        require(
            format!("{:08x}", !checksum).as_bytes() == &bytes[digits..rest],
            "its checksum does not fit",
        )?;
        let length = bytes.first_chunk::<LENGTH>().map_or(0, |n| u64::from_le_bytes(*n));
        let end = usize::try_from(length).ok().filter(|&n| n <= MOST_HEADER).map(|n| LENGTH + n);
        let (header, data) = end
            .and_then(|end| bytes.split_at_checked(end))
            .ok_or_else(|| damaged("its header is too long"))?;
        let header: Map<String, Value> = serde_json::from_slice(&header[LENGTH..])
            .map_err(|error| damaged(error.to_string()))?;
        let mut texts = Map::new();
        let mut tensors = BTreeMap::new();
        let mut ranges = memory::with_capacity(header.len())?;
        for (name, value) in header {
            if name == "__metadata__" {
                let Value::Object(metadata) = value else {
                    return Err(damaged("its metadata are no texts"));
                };
                texts = metadata;
                continue;
            }
            let (tensor, range) = tensor_of(&name, &value, data)?;
            ranges.push(range);
            tensors.insert(name, tensor);
        }
        ranges.sort_unstable();
        let mut place = 0;
        for (start, end) in ranges {
            require(start == place, "its arrays do not lie one behind the other")?;
            place = end;
        }
        require(place == data.len(), "there is more behind its arrays")?;
        let mut archive = Self { texts, tensors };
        let _ = archive.texts.remove("crc32");
        require(archive.raw("kind")? == "model", "its kind is not \"model\"")?;
        require(archive.raw("version")? == VERSION, "its version is not known here")?;
        Ok(archive)
    }

    fn raw(&mut self, name: &str) -> Result<String> {
        match self.texts.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(damaged(format!("it has no {name}"))),
        }
    }

    /// What a text says, which is JSON.
    pub(super) fn value(&mut self, name: &str) -> Result<Value> {
        let text = self.raw(name)?;
        serde_json::from_str(&text).map_err(|error| damaged(format!("{name}: {error}")))
    }

    /// A number of things.
    pub(super) fn count(&mut self, name: &str) -> Result<usize> {
        let value = self.value(name)?;
        let count = value.as_u64().and_then(|n| usize::try_from(n).ok());
        count.ok_or_else(|| damaged(format!("{name} is no number of things")))
    }

    /// Finite numbers, in an array of this shape.
    pub(super) fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f64>> {
        let (found, numbers) = self.vector(name)?;
        require(found == shape, &format!("{name} has another shape than its parts ask for"))?;
        Ok(numbers)
    }

    /// The shape of an array of finite numbers, and these.
    pub(super) fn vector(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f64>)> {
        let tensor = self.tensor(name, "F64")?;
        let entries = tensor.bytes.as_chunks::<8>().0.iter().map(|&b| f64::from_le_bytes(b));
        let numbers: Vec<f64> = memory::collected(entries)?;
        require(
            numbers.iter().all(|x| x.is_finite()),
            &format!("{name} has numbers that are not finite"),
        )?;
        Ok((tensor.shape, numbers))
    }

    /// Places that ascend from 0: where parts of an array begin, and where the last ends.
    pub(super) fn offsets(&mut self, name: &str, n_parts: usize) -> Result<Vec<usize>> {
        let offsets = self.indices(name, usize::MAX)?;
        require(
            offsets.first() == Some(&0)
                && offsets.len().checked_sub(1) == Some(n_parts)
                && offsets.is_sorted(),
            &format!("{name} does not ascend from 0 over its parts"),
        )?;
        Ok(offsets)
    }

    /// Whole numbers from 0, each below a bound.
    pub(super) fn indices(&mut self, name: &str, bound: usize) -> Result<Vec<usize>> {
        let tensor = self.tensor(name, "I64")?;
        let mut indices = memory::with_capacity(tensor.bytes.len() / 8)?;
        for &bytes in tensor.bytes.as_chunks::<8>().0 {
            let index = usize::try_from(i64::from_le_bytes(bytes)).ok().filter(|&n| n < bound);
            indices.push(index.ok_or_else(|| damaged(format!("{name} names what is not there")))?);
        }
        Ok(indices)
    }

    fn tensor(&mut self, name: &str, dtype: &str) -> Result<Tensor<'a>> {
        let tensor = self.tensors.remove(name).filter(|tensor| tensor.dtype == dtype);
        tensor.ok_or_else(|| damaged(format!("it has no {name} of {dtype}")))
    }

    /// Fails if there is an array that nothing has asked for.
    pub(super) fn finish(self) -> Result<()> {
        match self.tensors.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(damaged(format!("nothing asks for {name}"))),
        }
    }
}

/// The array that an entry of the header describes, and where it is in the data.
fn tensor_of<'a>(
    name: &str,
    value: &Value,
    data: &'a [u8],
) -> Result<(Tensor<'a>, (usize, usize))> {
    let wrong = || damaged(format!("the place of {name} is not that of an array"));
    let counts = |value: &Value| -> Option<Vec<usize>> {
        let numbers = value.as_array()?.iter();
        numbers.map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect()
    };
    let dtype = value["dtype"].as_str().ok_or_else(wrong)?;
    let size = match dtype {
        "F64" | "I64" => 8_usize,
        "F32" => 4,
        "U8" => 1,
        _ => return Err(wrong()),
    };
    let shape = counts(&value["shape"]).ok_or_else(wrong)?;
    let ends = counts(&value["data_offsets"]).ok_or_else(wrong)?;
    let &[start, end] = ends.as_slice() else { return Err(wrong()) };
    let bytes = data.get(start..end).ok_or_else(wrong)?;
    let length = shape.iter().try_fold(size, |n, &k| n.checked_mul(k));
    require(length == Some(bytes.len()), &format!("{name} has not the length of its shape"))?;
    Ok((Tensor { dtype: dtype.to_owned(), shape, bytes }, (start, end)))
}

/// The checksum of what went before, inverted, with further bytes.
fn crc32(before: u32, bytes: &&[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut rest = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                rest = if rest & 1 == 1 { 0xEDB8_8320 ^ (rest >> 1) } else { rest >> 1 };
                bit += 1;
            }
            table[byte] = rest;
            byte += 1;
        }
        table
    };
    bytes
        .iter()
        .fold(before, |crc, &byte| TABLE[((crc ^ u32::from(byte)) & 255) as usize] ^ (crc >> 8))
}
