//! Tables and names in documents are those of the code.

use crate::documents::{code, read, root, rows};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use toml::Table;
use windlass_provider::profile;
use windlass_session::limits::Limits;
use windlass_tool::error::ErrorType;
use windlass_tool::kind::Mode;

const POLICIES: &str = "docs/policies.md";

/// `1,500` is 1500.
fn number(cell: &str) -> Option<u64> {
    cell.replace(',', "").parse().ok()
}

#[test]
fn the_limits_of_turns_and_sessions_are_those_in_force() {
    let [voice, text] = [Mode::Voice, Mode::Text].map(|mode| {
        let limits = serde_json::to_value(Limits::of(mode)).unwrap();
        limits.as_object().unwrap().clone()
    });
    let turns = [&voice["turn"], &text["turn"]];
    let mut shown = BTreeSet::new();
    for row in rows(POLICIES) {
        let Some(key) = row.get(1).and_then(|cell| code(cell)) else {
            continue;
        };
        match row.len() {
            4 => {
                for (cell, turn) in row[2..].iter().zip(turns) {
                    assert_eq!(number(cell), turn[key].as_u64(), "{key}");
                }
            }
            _ if number(&row[2]).is_some() => {
                assert_eq!(number(&row[2]), voice[key].as_u64(), "{key}");
                assert_eq!(voice[key], text[key], "{key}");
            }
            _ => {
                let expected = format!("{} in voice, {} in text", voice[key], text[key]);
                assert_eq!(
                    row[2].replace(',', "").replace("voice ", "voice, "),
                    expected
                );
            }
        }
        shown.insert(key.to_owned());
    }
    let turn = turns[0].as_object().unwrap();
    for key in voice.keys().chain(turn.keys()) {
        if key != "turn" {
            assert!(shown.contains(key), "{POLICIES} does not show {key}");
        }
    }
}

#[test]
fn every_type_of_error_is_explained() {
    let policies = read(POLICIES);
    for error_type in ErrorType::ALL {
        let name = format!("`{}`", error_type.code());
        assert!(policies.contains(&name), "{POLICIES} does not have {name}");
    }
}

#[test]
fn the_model_profiles_are_those_in_force() {
    let rows = rows("docs/providers.md");
    let mut tables = 0;
    for (at, header) in rows.iter().enumerate().filter(|(_, row)| row[0].is_empty()) {
        let names = header[1..].iter().map(|cell| cell.split('`').nth(1));
        let names: Vec<&str> = names
            .map(|name| name.unwrap_or("nobody-knows-it"))
            .collect();
        let find = |name: &&str| match names[0] {
            "gemini-3" => profile::gemini_text(name),
            server if server.starts_with("https://") => profile::openai_chat(name, "any"),
            _ => profile::gemini_live(name),
        };
        let found: Vec<_> = names.iter().map(find).collect();
        for (name, found) in names.iter().zip(&found) {
            let is_named = name.starts_with("http") || found.row == *name;
            assert!(is_named || found.row.is_empty(), "{name} is no row");
        }
        let profiles = found
            .into_iter()
            .map(|found| serde_json::to_value(found.profile).unwrap());
        let profiles: Vec<Value> = profiles.collect();
        let mut shown = BTreeSet::new();
        for row in rows[at + 1..]
            .iter()
            .take_while(|row| row.len() == header.len())
        {
            let field = code(&row[0]).unwrap();
            for (cell, profile) in row[1..].iter().zip(&profiles) {
                let value = &profile[field];
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                assert_eq!(code(cell), Some(text.as_str()), "{field} in {header:?}");
            }
            shown.insert(field);
        }
        for (field, value) in profiles[0].as_object().unwrap() {
            let differs = profiles.iter().any(|profile| profile[field] != *value);
            assert!(
                !differs || shown.contains(field.as_str()),
                "{field} has no row in {header:?}"
            );
        }
        tables += 1;
    }
    assert_eq!(tables, 3, "a table of profiles is not there");
}

#[test]
fn every_dependency_has_its_reason() {
    let named = dependencies();
    let architecture = read("ARCHITECTURE.md");
    let (_, dependencies) = architecture.split_once("## Dependencies").unwrap();
    let explained: BTreeSet<String> = dependencies
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .filter(|name| !["dependency", "---"].contains(name))
        .map(str::to_owned)
        .collect();
    assert_eq!(explained, named, "ARCHITECTURE.md and the manifests differ");
}

/// What the crates take up from outside.
fn dependencies() -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path().join("Cargo.toml");
        let manifest: Table = fs::read_to_string(path).unwrap().parse().unwrap();
        let sections = ["dependencies", "dev-dependencies"];
        let tables = sections.map(|section| manifest.get(section).and_then(toml::Value::as_table));
        named.extend(tables.into_iter().flatten().flat_map(Table::keys).cloned());
    }
    named.retain(|name| !name.starts_with("windlass-"));
    named
}

/// `runtime/voice/link.rs` is short for `crates/runtime/src/voice/link.rs`.
#[test]
fn every_source_file_that_the_architecture_names_is_there() {
    let content = read("ARCHITECTURE.md");
    let mut named = 0;
    for path in content.split('`').skip(1).step_by(2) {
        let Some((package, rest)) = path.split_once('/') else {
            continue;
        };
        if path.ends_with(".rs") {
            let file = root().join("crates").join(package).join("src").join(rest);
            assert!(
                file.exists(),
                "ARCHITECTURE.md names {path}, which is not there"
            );
            named += 1;
        }
    }
    assert!(named > 20, "ARCHITECTURE.md names only {named} files");
}
