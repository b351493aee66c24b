//! The arithmetic of a small transformer on one thread: products of matrices, normalisation, attention. Uses the widest
//! vectors that the processor has. Knows no model and no text.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch};

/// The rows of a product that are computed with one panel of weights. More rows would push the rows themselves out of the nearer caches.
const ROWS_AT_ONCE: usize = 48;

/// The processor's vector instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    level: Level,
}

/// A linear layer. Weights are stored as the upper halves of their floats: half the memory, half the time to fetch them, and a cosine to
/// the exact result above 0.9999.
///
/// Weights lie in panels of two vectors' width. One number of a panel holds a weight of the first vector in its lower half and one of the
/// second in its upper half, so that one load serves both.
#[derive(Debug)]
pub(crate) struct Linear {
    panels: Vec<u32>,
    bias: Vec<f32>,
    inputs: usize,
    lanes: usize,
}

/// Space for packed rows, reused from product to product.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<f32>);

/// The height of the next tile, and its position.
#[derive(Clone, Copy)]
struct Tile {
    first_row: usize,
    rows: usize,
}

impl Kernel {
    pub(crate) fn of_this_processor() -> Self {
        Self {
            level: Level::new(),
        }
    }

    fn lanes(self) -> usize {
        dispatch!(self.level, simd => lanes(simd))
    }

    /// Packs weights in rows, one row for each output. `None` where the sizes do not fit together.
    pub(crate) fn linear(self, weights: &[f32], bias: Vec<f32>) -> Option<Linear> {
        let outputs = bias.len();
        let lanes = self.lanes();
        let width = 2 * lanes;
        let fits = outputs > 0 && outputs.is_multiple_of(width);
        if !fits || !weights.len().is_multiple_of(outputs) {
            return None;
        }
        let inputs = weights.len() / outputs;
        let mut panels = Vec::with_capacity(weights.len() / 2);
        for first in (0..outputs).step_by(width) {
            for input in 0..inputs {
                for lane in 0..lanes {
                    let low = rounded(weights[(first + lane) * inputs + input]);
                    let high = rounded(weights[(first + lanes + lane) * inputs + input]);
                    panels.push(low >> 16 | high);
                }
            }
        }
        Some(Linear {
            panels,
            bias,
            inputs,
            lanes,
        })
    }

    /// `outputs = inputs · weights + bias`, row by row.
    pub(crate) fn apply(
        self,
        linear: &Linear,
        inputs: &[f32],
        outputs: &mut Vec<f32>,
        scratch: &mut Scratch,
    ) {
        let rows = inputs.len() / linear.inputs;
        outputs.clear();
        outputs.resize(rows * linear.bias.len(), 0.0);
        let ins = inputs.chunks(ROWS_AT_ONCE * linear.inputs);
        let outs = outputs.chunks_mut(ROWS_AT_ONCE * linear.bias.len());
        for (ins, outs) in ins.zip(outs) {
            dispatch!(self.level, simd => multiply(simd, linear, ins, outs, &mut scratch.0));
        }
    }

    /// Adds the second to the first, then normalises every row to mean 0 and variance 1, scaled and shifted.
    pub(crate) fn add_and_normalise(
        self,
        values: &mut [f32],
        added: &[f32],
        gain: &[f32],
        shift: &[f32],
    ) {
        dispatch!(self.level, simd => add_and_normalise(simd, values, added, gain, shift));
    }

    /// Applies the Gaussian error linear unit to every value.
    pub(crate) fn gelu(self, values: &mut [f32]) {
        dispatch!(self.level, simd => gelu(simd, values));
    }

    /// Attention of all heads: `queries`, `keys` and `values` are rows of `heads` times `width` numbers.
    pub(crate) fn attend(
        self,
        queries: &[f32],
        keys: &[f32],
        values: &[f32],
        heads: usize,
        outputs: &mut Vec<f32>,
        rows: usize,
    ) {
        outputs.clear();
        outputs.resize(queries.len(), 0.0);
        let shape = Heads {
            heads,
            rows,
            width: queries.len() / rows.max(1) / heads,
        };
        dispatch!(self.level, simd => attend(simd, queries, keys, values, shape, outputs));
    }
}

/// The bits of the nearest float whose lower half is zero.
pub(crate) fn rounded(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_nan() {
        return 0;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1))) & 0xffff_0000
}

#[inline(always)]
fn lanes<S: Simd>(_: S) -> usize {
    S::f32s::LEN
}

#[inline(always)]
fn multiply<S: Simd>(
    simd: S,
    linear: &Linear,
    inputs: &[f32],
    outputs: &mut [f32],
    packed: &mut Vec<f32>,
) {
    let width = linear.bias.len();
    let rows = inputs.len() / linear.inputs;
    // The tallest tile whose sums fit in the registers: twelve rows where there are 32 registers of 16 lanes.
    let tallest = if S::f32s::LEN >= 16 { 12 } else { 6 };
    let mut tiles = [Tile {
        first_row: 0,
        rows: 0,
    }; ROWS_AT_ONCE];
    let mut tile_count = 0;
    let mut first_row = 0;
    while first_row < rows {
        let left = rows - first_row;
        let height = [tallest, 6, 4, 2, 1]
            .into_iter()
            .find(|height| *height <= left)
            .unwrap_or(1);
        tiles[tile_count] = Tile {
            first_row,
            rows: height,
        };
        tile_count += 1;
        first_row += height;
    }
    let tiles = &tiles[..tile_count];
    pack(inputs, linear.inputs, tiles, packed);
    let panel_numbers = linear.inputs * linear.lanes;
    for (index, panel) in linear.panels.chunks_exact(panel_numbers).enumerate() {
        let column = index * 2 * linear.lanes;
        let bias = &linear.bias[column..][..2 * linear.lanes];
        for tile in tiles {
            let ins = &packed[tile.first_row * linear.inputs..][..tile.rows * linear.inputs];
            let outs = &mut outputs[tile.first_row * width + column..];
            match tile.rows {
                12 => multiply_tile::<S, 12>(simd, ins, panel, bias, outs, width),
                6 => multiply_tile::<S, 6>(simd, ins, panel, bias, outs, width),
                4 => multiply_tile::<S, 4>(simd, ins, panel, bias, outs, width),
                2 => multiply_tile::<S, 2>(simd, ins, panel, bias, outs, width),
                _ => multiply_tile::<S, 1>(simd, ins, panel, bias, outs, width),
            }
        }
    }
}

/// Packs the rows of each tile so that the numbers of one column are neighbours.
fn pack(inputs: &[f32], width: usize, tiles: &[Tile], packed: &mut Vec<f32>) {
    packed.clear();
    packed.resize(inputs.len(), 0.0);
    for tile in tiles {
        let place = tile.first_row * width;
        let target = &mut packed[place..][..tile.rows * width];
        for row in 0..tile.rows {
            let source = &inputs[place + row * width..][..width];
            for (column, value) in source.iter().enumerate() {
                target[column * tile.rows + row] = *value;
            }
        }
    }
}

#[inline(always)]
fn multiply_tile<S: Simd, const ROWS: usize>(
    simd: S,
    inputs: &[f32],
    panel: &[u32],
    bias: &[f32],
    outputs: &mut [f32],
    stride: usize,
) {
    // A separate call: the compiler keeps the sums of each height in registers.
    simd.vectorize(
        #[inline(always)]
        || {
            let lanes = S::f32s::LEN;
            let mut low = [S::f32s::from_slice(simd, &bias[..lanes]); ROWS];
            let mut high = [S::f32s::from_slice(simd, &bias[lanes..2 * lanes]); ROWS];
            let mask = S::u32s::splat(simd, 0xffff_0000);
            let (columns, _) = inputs.as_chunks::<ROWS>();
            for (column, pair) in columns.iter().zip(panel.chunks_exact(lanes)) {
                let pair = S::u32s::from_slice(simd, pair);
                let first: S::f32s = (pair << 16).bitcast();
                let second: S::f32s = (pair & mask).bitcast();
                for row in 0..ROWS {
                    let input = S::f32s::splat(simd, column[row]);
                    low[row] = first.mul_add(input, low[row]);
                    high[row] = second.mul_add(input, high[row]);
                }
            }
            for row in 0..ROWS {
                let target = &mut outputs[row * stride..][..2 * lanes];
                low[row].store_slice(&mut target[..lanes]);
                high[row].store_slice(&mut target[lanes..]);
            }
        },
    );
}

/// The constant added to a variance before its root is taken, as in BERT's configuration.
const VARIANCE_FLOOR: f32 = 1e-12;

#[inline(always)]
fn add_and_normalise<S: Simd>(
    simd: S,
    values: &mut [f32],
    added: &[f32],
    gain: &[f32],
    shift: &[f32],
) {
    let lanes = S::f32s::LEN;
    let width = gain.len();
    for (row, added) in values
        .chunks_exact_mut(width)
        .zip(added.chunks_exact(width))
    {
        let mut sum = S::f32s::splat(simd, 0.0);
        for (value, added) in row.chunks_exact_mut(lanes).zip(added.chunks_exact(lanes)) {
            let total = S::f32s::from_slice(simd, value) + S::f32s::from_slice(simd, added);
            total.store_slice(value);
            sum += total;
        }
        let mean = S::f32s::splat(simd, sum.reduce_sum() / width as f32);
        let mut squares = S::f32s::splat(simd, 0.0);
        for value in row.chunks_exact(lanes) {
            let distance = S::f32s::from_slice(simd, value) - mean;
            squares = distance.mul_add(distance, squares);
        }
        let variance = squares.reduce_sum() / width as f32;
        let scale = S::f32s::splat(simd, 1.0 / (variance + VARIANCE_FLOOR).sqrt());
        for ((value, gain), shift) in row
            .chunks_exact_mut(lanes)
            .zip(gain.chunks_exact(lanes))
            .zip(shift.chunks_exact(lanes))
        {
            let normal = (S::f32s::from_slice(simd, value) - mean) * scale;
            let gain = S::f32s::from_slice(simd, gain);
            let shift = S::f32s::from_slice(simd, shift);
            normal.mul_add(gain, shift).store_slice(value);
        }
    }
}

/// `e` to the power of every lane: a power of two and a polynomial of degree 6, with a relative error under 2e-7. The
/// coefficients are those of Taylor's series; the argument of the polynomial is at most half of ln 2.
#[inline(always)]
fn exponential<S: Simd>(simd: S, power: S::f32s) -> S::f32s {
    // Ln 2 in two parts, so that the difference is exact: the first part has few enough bits for an exact product.
    const LN_2_FIRST: f32 = 0.693_359_4;
    const LN_2_REST: f32 = -2.121_944_4e-4;
    let lane = |value: f32| S::f32s::splat(simd, value);
    let power = power.max(lane(-87.0)).min(lane(88.0));
    let twos = (power * lane(std::f32::consts::LOG2_E)).round_ties_even();
    let rest = twos.mul_add(lane(-LN_2_FIRST), power);
    let rest = twos.mul_add(lane(-LN_2_REST), rest);
    let mut sum = lane(1.0 / 720.0);
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum.mul_add(rest, lane(coefficient));
    }
    let exponent = twos.to_int::<S::i32s>() + S::i32s::splat(simd, 127);
    let scale: S::f32s = (exponent << 23).bitcast();
    sum * scale
}

/// `x · Φ(x)`, with the error function of Abramowitz and Stegun, formula 7.1.26, whose error is under 1.5e-7.
#[inline(always)]
fn gelu<S: Simd>(simd: S, values: &mut [f32]) {
    let lane = |value: f32| S::f32s::splat(simd, value);
    let one = lane(1.0);
    for value in values.chunks_exact_mut(S::f32s::LEN) {
        let x = S::f32s::from_slice(simd, value);
        let scaled = x * lane(std::f32::consts::FRAC_1_SQRT_2);
        let size = scaled.abs();
        let t = one / size.mul_add(lane(0.327_591_1), one);
        let mut sum = lane(1.061_405_4);
        for coefficient in [-1.453_152, 1.421_413_8, -0.284_496_74, 0.254_829_6] {
            sum = sum.mul_add(t, lane(coefficient));
        }
        let tail = sum * t * exponential(simd, -(size * size));
        let error = (one - tail).copysign(scaled);
        (x * lane(0.5) * (one + error)).store_slice(value);
    }
}

#[derive(Clone, Copy)]
struct Heads {
    heads: usize,
    rows: usize,
    /// Numbers of one head in one row.
    width: usize,
}

#[inline(always)]
fn attend<S: Simd>(
    simd: S,
    queries: &[f32],
    keys: &[f32],
    values: &[f32],
    shape: Heads,
    outputs: &mut [f32],
) {
    let Heads { heads, rows, width } = shape;
    let lanes = S::f32s::LEN;
    let stride = heads * width;
    let padded = rows.next_multiple_of(lanes);
    let mut turned = vec![0.0_f32; width * padded];
    let mut weights = vec![0.0_f32; padded];
    let scale = 1.0 / (width as f32).sqrt();
    for head in 0..heads {
        let offset = head * width;
        for row in 0..rows {
            for (place, key) in keys[row * stride + offset..][..width].iter().enumerate() {
                turned[place * padded + row] = *key;
            }
        }
        for row in 0..rows {
            weights.fill(0.0);
            let query = &queries[row * stride + offset..][..width];
            for (part, key) in query.iter().zip(turned.chunks_exact(padded)) {
                let part = S::f32s::splat(simd, part * scale);
                for (weight, key) in weights.chunks_exact_mut(lanes).zip(key.chunks_exact(lanes)) {
                    let key = S::f32s::from_slice(simd, key);
                    let sum = key.mul_add(part, S::f32s::from_slice(simd, weight));
                    sum.store_slice(weight);
                }
            }
            soften(simd, &mut weights, rows);
            let output = &mut outputs[row * stride + offset..][..width];
            for (other, weight) in weights[..rows].iter().enumerate() {
                let weight = S::f32s::splat(simd, *weight);
                let value = &values[other * stride + offset..][..width];
                for (output, value) in output
                    .chunks_exact_mut(lanes)
                    .zip(value.chunks_exact(lanes))
                {
                    let value = S::f32s::from_slice(simd, value);
                    let sum = value.mul_add(weight, S::f32s::from_slice(simd, output));
                    sum.store_slice(output);
                }
            }
        }
    }
}

/// Softmax of the first `count` weights; later weights become 0.
#[inline(always)]
fn soften<S: Simd>(simd: S, weights: &mut [f32], count: usize) {
    weights[count..].fill(f32::NEG_INFINITY);
    let mut most = S::f32s::splat(simd, f32::NEG_INFINITY);
    for weight in weights.chunks_exact(S::f32s::LEN) {
        most = most.max(S::f32s::from_slice(simd, weight));
    }
    let most = S::f32s::splat(simd, most.reduce_max());
    let mut sum = 0.0;
    for weight in weights.chunks_exact_mut(S::f32s::LEN) {
        let power = exponential(simd, S::f32s::from_slice(simd, weight) - most);
        power.store_slice(weight);
        sum += power.reduce_sum();
    }
    // The exponential of minus infinity becomes a number so small that it changes no sum.
    let share = S::f32s::splat(simd, 1.0 / sum);
    for weight in weights.chunks_exact_mut(S::f32s::LEN) {
        (S::f32s::from_slice(simd, weight) * share).store_slice(weight);
    }
}
