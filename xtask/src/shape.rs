//! The shape of the house in figures, and a seeded sample of its sentences for a reader to judge: comments, names of functions, commit
//! subjects and sentences of the documents. Judges none of them.

use crate::report::Problem;
use crate::tidy::{self, FILE_LINES_ADVISED};
use crate::workspace::Workspace;
use std::collections::BTreeMap;

const COMMENTS: usize = 40;
const OTHERS: usize = 20;
/// The newest commits whose subjects are sampled.
const SUBJECTS_MAX: usize = 200;

/// The seed of a command's arguments: `--seed N`, or 1.
pub(crate) fn seed_of(arguments: &[String]) -> Option<u64> {
    match arguments {
        [] => Some(1),
        [flag, seed] if flag == "--seed" => seed.parse().ok(),
        _ => None,
    }
}

/// The figures and the sample, as they are printed.
pub(crate) fn shape(workspace: &Workspace, seed: u64) -> Result<String, Problem> {
    let files = workspace.files()?;
    let mut lines_of_crates: BTreeMap<String, usize> = BTreeMap::new();
    let (mut comments, mut names, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    let (mut long_files, mut hidden) = (0, 0);
    for file in &files {
        if is_source(file) {
            let content = workspace.read(file)?;
            let product = without_tests(&content);
            let name = file.split('/').nth(1).unwrap_or_default();
            *lines_of_crates.entry(name.to_owned()).or_default() += product.lines().count();
            hidden += tidy::hidden_subjects(product).count();
            long_files += usize::from(product.lines().count() > FILE_LINES_ADVISED);
            let placed = |text: String| format!("{file}: {text}");
            comments.extend(comments_of(product).map(placed));
            names.extend(names_of(product).map(|name| format!("{file}: {name}")));
        } else if is_document(file) {
            let content = workspace.read(file)?;
            sentences.extend(sentences_of(&content).map(|text| format!("{file}: {text}")));
        }
    }
    let mut report = String::new();
    for (name, lines) in &lines_of_crates {
        report += &format!("{lines:>8} lines without tests  {name}\n");
    }
    report += &format!(
        "{:>8} lines without tests in all\n{long_files:>8} files of over {FILE_LINES_ADVISED} of them\n{:>8} comments that hide their subject\n",
        lines_of_crates.values().sum::<usize>(),
        hidden,
    );
    for (title, of, most) in [
        ("comments", comments, COMMENTS),
        ("names", names, OTHERS),
        ("commit subjects", subjects(workspace), OTHERS),
        ("sentences of documents", sentences, OTHERS),
    ] {
        report += &format!("\n{title}, of {}:\n", of.len());
        for text in sample(of, most, seed) {
            report += &format!("* {text}\n");
        }
    }
    Ok(report)
}

fn is_source(file: &str) -> bool {
    let is_rust = file.rsplit_once('.').is_some_and(|(_, end)| end == "rs");
    is_rust && file.starts_with("crates/") && file.contains("/src/") && !file.ends_with("/tests.rs")
}

fn is_document(file: &str) -> bool {
    let is_markdown = file.rsplit_once('.').is_some_and(|(_, end)| end == "md");
    is_markdown && (file.starts_with("docs/") || file == "README.md" || file == "ARCHITECTURE.md")
}

/// The content before a module of tests, which stands last in a file.
fn without_tests(content: &str) -> &str {
    let end = content.find("#[cfg(test)]\nmod tests");
    end.map_or(content, |end| &content[..end])
}

/// Comments over several lines are one.
fn comments_of(content: &str) -> impl Iterator<Item = String> {
    let mut comments: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in content.lines() {
        let text = line.trim_start().strip_prefix("//");
        let text = text.map(|text| text.trim_start_matches(['/', '!']).trim());
        match (text, comments.last_mut()) {
            (Some(""), _) | (None, _) => is_open = false,
            (Some(text), Some(open)) if is_open => *open += &format!(" {text}"),
            (Some(text), _) => {
                comments.push(text.to_owned());
                is_open = true;
            }
        }
    }
    comments.into_iter()
}

fn names_of(content: &str) -> impl Iterator<Item = &str> {
    content.lines().filter_map(|line| {
        let (before, rest) = line.split_once("fn ")?;
        let is_declared = before.trim().is_empty() || before.trim_start().starts_with("pub");
        let end = rest.find(['(', '<']).filter(|_| is_declared)?;
        Some(&rest[..end])
    })
}

/// Sentences of paragraphs and of items of lists; tables, headings and code have none.
fn sentences_of(content: &str) -> impl Iterator<Item = String> {
    let mut paragraphs = vec![String::new()];
    let mut is_code = false;
    for line in content.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let is_text = !is_code && !line.starts_with(['|', '#', '<', '`', '!', '-']);
        let item = line.strip_prefix("* ");
        if item.is_some() || line.is_empty() || !is_text {
            paragraphs.push(String::new());
        }
        if let Some(open) = paragraphs.last_mut().filter(|_| is_text) {
            *open += &format!(" {}", item.unwrap_or(line));
        }
    }
    let sentences = paragraphs.into_iter().flat_map(|paragraph| {
        let sentences = paragraph.split_inclusive(['.', '?']).map(str::to_owned);
        joined(sentences.collect())
    });
    sentences.filter(|sentence| sentence.split_whitespace().count() > 3)
}

/// A point without a blank behind it ends no sentence.
fn joined(pieces: Vec<String>) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for piece in pieces {
        match sentences.last_mut() {
            Some(open) if !piece.starts_with(' ') => *open += &piece,
            Some(_) | None => sentences.push(piece),
        }
    }
    let trimmed = sentences.into_iter().map(|text| text.trim().to_owned());
    trimmed.collect()
}

fn subjects(workspace: &Workspace) -> Vec<String> {
    let mut git = workspace.command("git", "");
    git.args(["log", "--no-merges", "--format=%s"]);
    git.arg(format!("--max-count={SUBJECTS_MAX}"));
    let output = git.output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines().map(str::to_owned).collect()
}

/// So many of these, the same ones for the same seed.
fn sample(mut of: Vec<String>, most: usize, seed: u64) -> Vec<String> {
    let mut state = seed;
    let mut chosen = Vec::new();
    while chosen.len() < most && !of.is_empty() {
        // SplitMix64, <https://prng.di.unimi.it/splitmix64.c>.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let place = (mixed ^ (mixed >> 31)) % (of.len() as u64);
        chosen.push(of.swap_remove(usize::try_from(place).unwrap_or_default()));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_names_and_sentences_are_found() {
        let source = "//! Owns a thing.\n//! Knows no other.\n\n/// Reads it.\npub(crate) fn read(a: u8) {}\n    fn write<T>() {}\nlet a = 1; // fn none(\n#[cfg(test)]\nmod tests { /// Not this.\n}";
        let product = without_tests(source);
        let comments: Vec<String> = comments_of(product).collect();
        assert_eq!(comments, ["Owns a thing. Knows no other.", "Reads it."]);
        assert_eq!(names_of(product).collect::<Vec<_>>(), ["read", "write"]);
        let document = "# A heading that is long\n\nOne file is a.toml here. It goes\non here.\n\n* An item has one too.\n\n```sh\nthis is no sentence at all.\n```\n| a | table that is long. |\n";
        let sentences: Vec<String> = sentences_of(document).collect();
        let expected = [
            "One file is a.toml here.",
            "It goes on here.",
            "An item has one too.",
        ];
        assert_eq!(sentences, expected);
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        let of = || (0..100).map(|number: u32| number.to_string()).collect();
        let (one, two) = (sample(of(), 5, 7), sample(of(), 5, 8));
        assert_eq!(one, sample(of(), 5, 7));
        assert_ne!(one, two);
        assert_eq!(sample(vec!["a".to_owned()], 5, 7), ["a"]);
        assert_eq!(seed_of(&[]), Some(1));
        assert_eq!(seed_of(&["--seed".to_owned(), "a".to_owned()]), None);
    }
}
