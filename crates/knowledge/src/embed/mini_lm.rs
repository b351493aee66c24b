//! The sentence model all-MiniLM-L6-v2: six layers of BERT, the mean of all pieces, length 1. Knows how to compute it,
//! not where its files come from.
//!
//! Sizes are those of the model's `config.json`; the cut at 256 pieces is that of `sentence_bert_config.json`.

use crate::embed::kernel::{Kernel, Linear, Scratch, rounded};
use crate::embed::safetensors::{TensorError, Tensors};
use crate::embed::word_piece::WordPieces;
use std::path::Path;

pub(crate) const DIMENSION: usize = 384;
pub(crate) const PIECES_MAX: usize = 256;
const VOCABULARY: usize = 30_522;
const LAYERS: usize = 6;
const HEADS: usize = 12;
const INNER: usize = 1_536;
const POSITIONS: usize = 512;

#[derive(Debug)]
pub(crate) struct MiniLm {
    kernel: Kernel,
    /// One row for each piece, as the upper halves of its floats.
    pieces: Vec<u16>,
    /// One row for each position in the text, with the row of the only segment added.
    places: Vec<f32>,
    first: Normalisation,
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Normalisation {
    gain: Vec<f32>,
    shift: Vec<f32>,
}

#[derive(Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    after_attention: Normalisation,
    widen: Linear,
    narrow: Linear,
    after_widening: Normalisation,
}

/// The rows of one computation, reused from layer to layer.
#[derive(Default)]
struct Rows {
    state: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    attended: Vec<f32>,
    wide: Vec<f32>,
    result: Vec<f32>,
    scratch: Scratch,
}

impl MiniLm {
    pub(crate) fn load(path: &Path) -> Result<Self, TensorError> {
        let mut tensors = Tensors::open(path)?;
        let kernel = Kernel::of_this_processor();
        let mut pieces = Vec::with_capacity(VOCABULARY * DIMENSION);
        tensors.each(
            "embeddings.word_embeddings.weight",
            &[VOCABULARY, DIMENSION],
            |number| pieces.push((rounded(number) >> 16) as u16),
        )?;
        let mut places = tensors.read(
            "embeddings.position_embeddings.weight",
            &[POSITIONS, DIMENSION],
        )?;
        places.truncate(PIECES_MAX * DIMENSION);
        let segments = tensors.read("embeddings.token_type_embeddings.weight", &[2, DIMENSION])?;
        for place in places.chunks_exact_mut(DIMENSION) {
            for (number, segment) in place.iter_mut().zip(&segments) {
                *number += segment;
            }
        }
        let first = normalisation(&mut tensors, "embeddings.LayerNorm")?;
        let layers = (0..LAYERS)
            .map(|number| layer(&mut tensors, kernel, number))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            kernel,
            pieces,
            places,
            first,
            layers,
        })
    }

    /// Whether a vocabulary is this model's, by its size.
    pub(crate) fn fits(word_pieces: &WordPieces) -> bool {
        word_pieces.len() == VOCABULARY
    }

    /// The vector of a text given as pieces, of length 1. At most [`PIECES_MAX`] pieces count.
    pub(crate) fn embed(&self, pieces: &[u32]) -> Vec<f32> {
        let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
        let kernel = self.kernel;
        let mut rows = Rows::default();
        for piece in pieces {
            // A piece that the table lacks cannot come from its own vocabulary; the first row is padding.
            let start = *piece as usize * DIMENSION;
            let row = self
                .pieces
                .get(start..start + DIMENSION)
                .unwrap_or(&self.pieces[..DIMENSION]);
            rows.state.extend(
                row.iter()
                    .map(|half| f32::from_bits(u32::from(*half) << 16)),
            );
        }
        kernel.add_and_normalise(
            &mut rows.state,
            &self.places,
            &self.first.gain,
            &self.first.shift,
        );
        for layer in &self.layers {
            layer.run(kernel, &mut rows, pieces.len());
        }
        mean_of_length_1(&rows.state)
    }
}

impl Layer {
    fn run(&self, kernel: Kernel, rows: &mut Rows, count: usize) {
        let scratch = &mut rows.scratch;
        kernel.apply(&self.query, &rows.state, &mut rows.query, scratch);
        kernel.apply(&self.key, &rows.state, &mut rows.key, scratch);
        kernel.apply(&self.value, &rows.state, &mut rows.value, scratch);
        kernel.attend(
            &rows.query,
            &rows.key,
            &rows.value,
            HEADS,
            &mut rows.attended,
            count,
        );
        kernel.apply(&self.attended, &rows.attended, &mut rows.result, scratch);
        let after = &self.after_attention;
        kernel.add_and_normalise(&mut rows.state, &rows.result, &after.gain, &after.shift);
        kernel.apply(&self.widen, &rows.state, &mut rows.wide, scratch);
        kernel.gelu(&mut rows.wide);
        kernel.apply(&self.narrow, &rows.wide, &mut rows.result, scratch);
        let after = &self.after_widening;
        kernel.add_and_normalise(&mut rows.state, &rows.result, &after.gain, &after.shift);
    }
}

fn mean_of_length_1(rows: &[f32]) -> Vec<f32> {
    let mut sum = vec![0.0; DIMENSION];
    for row in rows.chunks_exact(DIMENSION) {
        for (total, number) in sum.iter_mut().zip(row) {
            *total += number;
        }
    }
    super::normalise(&mut sum);
    sum
}

fn normalisation(tensors: &mut Tensors, name: &str) -> Result<Normalisation, TensorError> {
    Ok(Normalisation {
        gain: tensors.read(&format!("{name}.weight"), &[DIMENSION])?,
        shift: tensors.read(&format!("{name}.bias"), &[DIMENSION])?,
    })
}

fn layer(tensors: &mut Tensors, kernel: Kernel, number: usize) -> Result<Layer, TensorError> {
    let mut linear = |name: &str, outputs: usize, inputs: usize| {
        let name = format!("encoder.layer.{number}.{name}");
        let weights = tensors.read(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = tensors.read(&format!("{name}.bias"), &[outputs])?;
        Ok::<_, TensorError>(
            kernel
                .linear(&weights, bias)
                .expect("the model's sizes are multiples of every processor's vectors"),
        )
    };
    let query = linear("attention.self.query", DIMENSION, DIMENSION)?;
    let key = linear("attention.self.key", DIMENSION, DIMENSION)?;
    let value = linear("attention.self.value", DIMENSION, DIMENSION)?;
    let attended = linear("attention.output.dense", DIMENSION, DIMENSION)?;
    let widen = linear("intermediate.dense", INNER, DIMENSION)?;
    let narrow = linear("output.dense", DIMENSION, INNER)?;
    let mut norm = |name: &str| normalisation(tensors, &format!("encoder.layer.{number}.{name}"));
    Ok(Layer {
        query,
        key,
        value,
        attended,
        after_attention: norm("attention.output.LayerNorm")?,
        widen,
        narrow,
        after_widening: norm("output.LayerNorm")?,
    })
}
