//! Writes the effective configuration as TOML, with each value's origin beside it. Shows no secret.

use super::layers::Values;
use super::path::KeyPath;
use std::fmt::Write;

/// What stands in place of a secret.
const MASK: &str = "\"********\"";

pub(super) fn to_toml(values: &Values) -> String {
    let mut text = String::new();
    let mut open = KeyPath::default();
    for path in paths(values) {
        let (table, name) = path.split();
        if table != open {
            if !text.is_empty() {
                text.push('\n');
            }
            line(&mut text, format_args!("[{table}]"));
            open.clone_from(&table);
        }
        let name = super::path::segment_text(name);
        match values.found().get(&path) {
            None => line(&mut text, format_args!("# {name} is not set")),
            Some(found) => {
                let value = if values.is_secret(&path) {
                    MASK.to_owned()
                } else {
                    found.value.to_string()
                };
                line(
                    &mut text,
                    format_args!("{name} = {value}  # {}", found.origin),
                );
            }
        }
    }
    text
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("writing to a string cannot fail");
}

/// All keys in the order of their list, those with names of the user's once for each name.
fn paths(values: &Values) -> Vec<KeyPath> {
    let mut paths = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for key in values.keys() {
        match key.path.split_once(".*.") {
            None => paths.push(KeyPath::from(key.path.as_str())),
            Some((section, _)) if named.contains(&section) => {}
            Some((section, _)) => {
                named.push(section);
                let prefix = KeyPath::from(section);
                // A table's own keys come before the tables in it.
                let mut set: Vec<KeyPath> = values
                    .found()
                    .keys()
                    .filter(|path| path.behind(&prefix).is_some())
                    .cloned()
                    .collect();
                set.sort_by(|left, right| left.split().cmp(&right.split()));
                paths.extend(set);
            }
        }
    }
    paths
}
