//! Minima in registers of NEON.

use core::arch::aarch64::*;

use super::{CHUNK, Line, Rows, TILE};

#[inline]
#[target_feature(enable = "neon")]
fn zero() -> int32x4_t {
    vdupq_n_s32(0)
}

#[inline]
#[target_feature(enable = "neon")]
fn step_bytes(acc: int32x4_t, x: uint8x16_t, y: uint8x16_t) -> int32x4_t {
    let pairs = vpaddlq_u8(vminq_u8(x, y));
    vreinterpretq_s32_u32(vpadalq_u16(vreinterpretq_u32_s32(acc), pairs))
}

#[inline]
#[target_feature(enable = "neon")]
fn step_words(acc: int32x4_t, x: int16x8_t, y: int16x8_t) -> int32x4_t {
    vpadalq_s16(acc, vminq_s16(x, y))
}

#[inline]
#[target_feature(enable = "neon")]
fn totals(acc: [[int32x4_t; 4]; TILE]) -> [[i32; 4]; TILE] {
    let mut totals = [[0; 4]; TILE];
    for (totals, acc) in totals.iter_mut().zip(acc) {
        for (total, acc) in totals.iter_mut().zip(acc) {
            *total = vaddvq_s32(acc);
        }
    }
    totals
}

strip!(bytes_neon, "neon", uint8x16_t, 4, 4, totals, zero, step_bytes);
strip!(words_neon, "neon", int16x8_t, 4, 4, totals, zero, step_words);
