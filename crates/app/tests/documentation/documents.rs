//! Reads the project's documents as blocks of code and rows of tables. Knows their form and nothing of what they say.

use std::fs;
use std::path::{Path, PathBuf};
use windlass_contract::json;

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every document for users and contributors.
pub(crate) fn documents() -> Vec<String> {
    let mut files: Vec<String> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(str::to_owned)
        .into();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            files.push(format!("docs/{name}"));
        }
    }
    files.sort();
    files
}

/// A fenced block of code.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// For messages: file and line.
    pub(crate) place: String,
    pub(crate) language: String,
    pub(crate) text: String,
    /// The last heading of second and of third order before it.
    pub(crate) section: String,
    pub(crate) heading: String,
}

pub(crate) fn blocks(file: &str) -> Vec<Block> {
    let content = read(file);
    let mut blocks = Vec::new();
    let (mut section, mut heading) = (String::new(), String::new());
    let mut open: Option<(String, Block)> = None;
    for (index, line) in content.lines().enumerate() {
        if let Some((fence, block)) = &mut open {
            if line == fence {
                blocks.extend(open.take().map(|(_, block)| block));
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if line.starts_with("```") {
            let language = line.trim_start_matches('`');
            let fence = line[..line.len() - language.len()].to_owned();
            let block = Block {
                place: format!("{file}:{}", index + 1),
                language: language.to_owned(),
                text: String::new(),
                section: section.clone(),
                heading: heading.clone(),
            };
            open = Some((fence, block));
        } else if let Some(title) = line.strip_prefix("## ") {
            (section, heading) = (title.to_owned(), String::new());
        } else if let Some(title) = line.strip_prefix("### ") {
            heading = title.to_owned();
        }
    }
    assert!(open.is_none(), "{file} leaves a block of code open");
    blocks
}

pub(crate) fn blocks_in(file: &str, language: &str) -> Vec<Block> {
    let mut blocks = blocks(file);
    blocks.retain(|block| block.language == language);
    blocks
}

/// The cells of every row of every table, without headers' rules.
pub(crate) fn rows(file: &str) -> Vec<Vec<String>> {
    read(file)
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("| ---"))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// A cell without its `code` marks; `None` where it holds anything else.
pub(crate) fn code(cell: &str) -> Option<&str> {
    let code = cell.strip_prefix('`')?.strip_suffix('`')?;
    (!code.contains('`')).then_some(code)
}

#[test]
fn every_json_block_is_json_without_a_repeated_key() {
    for file in documents() {
        for block in blocks_in(&file, "json") {
            if let Err(error) = json::parse(block.text.as_bytes()) {
                panic!("{}: {error}", block.place);
            }
        }
    }
}
