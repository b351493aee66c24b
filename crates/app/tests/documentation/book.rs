//! The documents as a book: every page has its place, every link in it leads to a heading that is there, and the list for language models
//! names what people are offered.

use crate::documents::{blocks, read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const CONTENTS: &str = "SUMMARY.md";

/// A page's lines without its blocks of code.
fn prose(file: &str) -> Vec<String> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in read(file).lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// The targets of the links in a text, without those in `code`.
fn links(text: &str) -> Vec<String> {
    let plain: Vec<&str> = text.split('`').step_by(2).collect();
    let plain = plain.join("`");
    plain
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// What a heading is called in an address, on GitHub and in the book.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The pages below `docs`, each with the anchors of its headings.
fn pages() -> BTreeMap<String, BTreeSet<String>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != CONTENTS {
            let lines = prose(&format!("docs/{name}"));
            let headings = lines.iter().filter(|line| line.starts_with('#'));
            let anchors = headings.map(|line| anchor(line.trim_start_matches('#')));
            pages.insert(name, anchors.collect());
        }
    }
    pages
}

#[test]
fn every_page_has_one_place_in_the_book() {
    let mut places = links(&read(&format!("docs/{CONTENTS}")));
    places.sort();
    let pages: Vec<String> = pages().into_keys().collect();
    assert_eq!(places, pages, "docs/{CONTENTS} and the files beside it");
    let book: toml::Table = read("book.toml").parse().unwrap();
    assert_eq!(book["book"]["src"].as_str(), Some("docs"));
}

#[test]
fn every_link_in_the_book_leads_to_a_heading_or_a_picture_of_it() {
    let pages = pages();
    let mut followed = 0;
    for (page, own) in &pages {
        for link in prose(&format!("docs/{page}"))
            .iter()
            .flat_map(|line| links(line))
        {
            if link.contains("://") {
                continue;
            }
            let (file, part) = link.split_once('#').unwrap_or((&link, ""));
            let anchors = match file {
                "" => Some(own),
                file => pages.get(file),
            };
            let leads = match anchors {
                Some(anchors) => part.is_empty() || anchors.contains(part),
                // Whatever is no page is copied into the book as it is; what lies outside of it is not there.
                None => {
                    !file.ends_with(".md")
                        && !file.contains("..")
                        && root().join("docs").join(file).exists()
                }
            };
            assert!(leads, "docs/{page} links to {link}, which leads nowhere");
            followed += 1;
        }
    }
    assert!(followed > 100, "only {followed} links were found");
}

#[test]
fn the_list_for_language_models_names_every_page() {
    let list = read("docs/llms.txt");
    assert!(
        list.starts_with("# Windlass\n\n> "),
        "it has a title and a summary"
    );
    let named: BTreeSet<String> = links(&list).into_iter().collect();
    assert_eq!(named, pages().into_keys().collect());
}

#[test]
fn the_skill_names_files_and_commands_that_there_are() {
    const SKILL: &str = "skills/windlass/SKILL.md";
    let text = read(SKILL);
    let (head, _) = text
        .strip_prefix("---\n")
        .unwrap()
        .split_once("\n---\n")
        .unwrap();
    for field in ["name: windlass", "description: "] {
        assert!(head.lines().any(|line| line.starts_with(field)), "{field}");
    }
    assert!(blocks(SKILL).is_empty(), "its commands stand in the text");
    let names = text.split('`').skip(1).step_by(2);
    let files: Vec<&str> = names.filter(|name| name.starts_with("docs/")).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert!(root().join(file).exists(), "{file}");
    }
}
