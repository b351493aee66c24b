//! Configuration in documents is taken by the program.

use crate::documents::{blocks_in, documents};
use std::fs;
use windlass_config::{Loaded, Sources};

#[test]
fn every_configuration_in_a_document_is_taken() {
    let mut taken = 0;
    for file in documents() {
        for block in blocks_in(&file, "toml") {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("windlass.toml");
            fs::write(&path, &block.text).unwrap();
            let sources = Sources {
                file: Some(path),
                working_directory: folder.path().to_owned(),
                ..Sources::default()
            };
            if let Err(error) = Loaded::load(&sources) {
                panic!("{}: {error}", block.place);
            }
            taken += 1;
        }
    }
    assert!(taken > 0, "no document has a configuration");
}
