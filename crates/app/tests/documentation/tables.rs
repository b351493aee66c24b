//! Tables and names in documents are those of the code.

use crate::documents::{code, read, root, rows};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use toml::Table;
use windlass_contract::error::ErrorType;
use windlass_contract::kind::Mode;
use windlass_provider::profile;
use windlass_session::limits::Limits;

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

/// Of the models and servers that a table's header names.
fn profiles(header: &[String]) -> Vec<Map<String, Value>> {
    let names = header[1..].iter().map(|cell| cell.split('`').nth(1));
    let names: Vec<&str> = names
        .map(|name| name.unwrap_or("nobody-knows-it"))
        .collect();
    let find = |name: &&str| match names[0] {
        "gemini-3" => profile::gemini_text(name),
        "gpt-realtime-2.1" => match *name {
            "https://api.x.ai/v1" | "https://NAME.services.ai.azure.com/voice-live/realtime" => {
                profile::openai_realtime(Some(name), "any")
            }
            name => profile::openai_realtime(None, name),
        },
        server if server.starts_with("https://") => profile::openai_chat(name, "any"),
        _ => profile::gemini_live(name),
    };
    let found = names.iter().map(|name| {
        let found = find(name);
        let is_named = name.starts_with("http") || found.row == *name;
        assert!(is_named || found.row.is_empty(), "{name} is no row");
        match serde_json::to_value(found.profile) {
            Ok(Value::Object(fields)) => fields,
            _ => panic!("a profile has fields"),
        }
    });
    found.collect()
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(names) if names.is_empty() => "none".to_owned(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join("`, `")
        }
        other => other.to_string(),
    };
    format!(" `{text}` |")
}

/// A table of profiles, with the fields that it has, and those behind them in which its profiles differ.
fn profile_table(header: &[String], shown: &[String]) -> String {
    let profiles = profiles(header);
    let fields = profiles[0].keys();
    let differing = fields.filter(|field| {
        let differs = |profile: &Map<String, Value>| profile[*field] != profiles[0][*field];
        !shown.contains(field) && profiles.iter().any(differs)
    });
    let lines = shown.iter().chain(differing).map(|field| {
        let cells = profiles.iter().map(|profile| cell(&profile[field]));
        format!("| `{field}` |{}\n", cells.collect::<String>())
    });
    lines.collect()
}

/// `UPDATE_EXPECT=1` writes the values, and a row for each new field; a new column's head is written by hand.
#[test]
fn the_model_profiles_are_those_in_force() {
    const PROVIDERS: &str = "docs/providers.md";
    let document = read(PROVIDERS);
    let mut lines = document.lines().peekable();
    let (mut expected, mut tables) = (String::new(), 0);
    while let Some(line) = lines.next() {
        expected += &format!("{line}\n");
        if !line.starts_with("| |") {
            continue;
        }
        tables += 1;
        expected += &format!("{}\n", lines.next().unwrap());
        let mut shown = Vec::new();
        while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
            shown.extend(row.split('`').nth(1).map(str::to_owned));
        }
        let cells = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned());
        expected += &profile_table(&cells.collect::<Vec<_>>(), &shown);
    }
    assert_eq!(tables, 4, "a table of profiles is not there");
    expect_test::expect_file![root().join(PROVIDERS)].assert_eq(&expected);
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
        let of_targets = manifest.get("target").and_then(toml::Value::as_table);
        let of_targets = of_targets.into_iter().flat_map(Table::values);
        let manifests = of_targets.filter_map(toml::Value::as_table);
        for manifest in manifests.chain([&manifest]) {
            let sections = ["dependencies", "dev-dependencies"];
            let tables =
                sections.map(|section| manifest.get(section).and_then(toml::Value::as_table));
            named.extend(tables.into_iter().flatten().flat_map(Table::keys).cloned());
        }
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
