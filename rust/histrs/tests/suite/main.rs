//! What the crate promises, against slow definitions that share no code with it.
//!
//! One binary: the generic code of the crate is compiled once for all of it.

#![cfg(feature = "all")]
#![allow(clippy::unwrap_used)] // the helpers of a test fail as the test does

mod barycenters;
mod chi2;
mod clustering;
mod common;
mod counts;
mod cubic;
mod detection;
mod distances;
mod emd;
mod generalized;
mod hostile;
mod intersection;
mod knots;
mod levels;
mod lookup;
mod model;
mod quantization;
mod relaxed_transport;
mod robustness;
mod solve;
mod sparse_maps;
mod spd;
mod surface;
mod transport;
mod update;
mod wide;
