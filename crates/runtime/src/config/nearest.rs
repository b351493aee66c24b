//! Which key somebody may have meant who wrote one that there is not: the only one of that name beneath the same table, else
//! one of the table that is written nearly alike, else the only one of that name anywhere. Names none where that says nothing;
//! knows no values.

use super::keys::Key;
use super::path::KeyPath;
use windlass_tool::registry::edit_distance;

/// Bytes of a name that are compared.
const COMPARED_BYTES: usize = 64;

/// The key, or the table, that may be meant by a path whose table is known.
pub(super) fn key(keys: &[Key], path: &KeyPath) -> Option<String> {
    let (table, own) = path.split();
    let depth = table.segments().len();
    let beneath = || keys.iter().filter(|key| key.is_beneath(&table));
    let is_namesake = |key: &&Key| key.path.rsplit('.').next() == Some(own);
    if let Some(namesake) = only(beneath().filter(is_namesake)) {
        return Some(namesake.named_after(&table));
    }
    let names = beneath().filter_map(|key| key.path.split('.').nth(depth));
    if let Some(name) = alike(names, own) {
        return Some(table.child(name).to_string());
    }
    // Whose path holds names of the user's is of another table of theirs.
    let namesake = only(keys.iter().filter(is_namesake))?;
    (!namesake.path.contains('*')).then(|| namesake.path.clone())
}

/// The variable of the same section that may be meant by a name.
pub(super) fn variable(keys: &[Key], name: &str) -> Option<String> {
    let own = keys.iter().find_map(|key| key.own_of_variable(name))?;
    let section = name.strip_suffix(own)?;
    let known: Vec<String> = keys.iter().filter_map(Key::variable).collect();
    let names = known.iter().filter_map(|known| known.strip_prefix(section));
    alike(names, own).map(|name| format!("{section}{name}"))
}

/// The name that differs least from one, where that is in no more than half of it.
fn alike<'k>(names: impl Iterator<Item = &'k str>, own: &str) -> Option<&'k str> {
    let (distance, name) = names
        .map(|name| (edit_distance(name, own), name))
        .min_by_key(|(distance, _)| *distance)?;
    let length = name.len().max(own.len()).min(COMPARED_BYTES);
    (distance * 2 <= length).then_some(name)
}

fn only<'k>(mut keys: impl Iterator<Item = &'k Key>) -> Option<&'k Key> {
    let first = keys.next()?;
    keys.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{Case, NOTHING, load};

    const NONE: &str = "docs/configuration.md lists those that there are";

    fn cure(case: &Case<'_>) -> String {
        let refused = load(case).unwrap_err().to_string();
        let (problem, cure) = refused.split_once("; ").unwrap();
        assert!(problem.starts_with("there is no "), "{refused}");
        cure.to_owned()
    }

    #[test]
    fn an_unknown_key_is_answered_with_one_that_may_be_meant() {
        for (file, nearest) in [
            ("[server]\nlisten_on = \"x\"", "server.listen"),
            ("[servr]\nlisten = \"x\"", "server"),
            (
                "[voice.limits.turn]\ncall_max = 1",
                "voice.limits.turn.calls_max",
            ),
            (
                "[models.\"gemini-3.8\"]\ncall = 1",
                "models.\"gemini-3.8\".calls",
            ),
            (
                "[tools.kb_search]\ntimeout = 1",
                "tools.kb_search.timeout_ms",
            ),
            // Of another table only what has the same name, and where it is the only one.
            (
                "[tools.kb_search]\nwindow_ms = 1",
                "tools.kb_search.rate_limit.window_ms",
            ),
            ("listen = \"x\"", "server.listen"),
            ("[server]\nlanguage = \"de\"", "voice.language"),
        ] {
            let expected = format!("the nearest one is {nearest}");
            assert_eq!(cure(&Case { file, ..NOTHING }), expected, "{file}");
        }
    }

    #[test]
    fn an_unknown_key_that_is_like_none_is_not_answered_with_one_of_another_table() {
        for file in [
            "[tools.kb_search]\nfoo = 1",
            "[tools.kb_search]\nexact_max = 1",
            "[server]\ntemperature = 1",
            "[server]\ntimeout_ms = 1",
            "[models.m]\nx = 1",
            "foo = 1",
            "\"\" = 1",
            "[server]\n\"*\" = 1",
            &format!("[server]\n{} = 1", "x".repeat(10_000)),
        ] {
            assert_eq!(cure(&Case { file, ..NOTHING }), NONE, "{file}");
        }
    }

    #[test]
    fn an_unknown_variable_is_answered_with_one_of_its_section() {
        for (variable, expected) in [
            (
                "WINDLASS_SERVER_LISTN",
                "the nearest one is WINDLASS_SERVER_LISTEN",
            ),
            ("WINDLASS_SERVER_FOO", NONE),
            ("WINDLASS_TOOLS_KB_SEARCH_TIMEOUT_MS", NONE),
            ("WINDLASS_AUDIT_", NONE),
        ] {
            let environment = &[(variable, "x")][..];
            let case = Case {
                environment,
                ..NOTHING
            };
            assert_eq!(cure(&case), expected, "{variable}");
        }
    }
}
