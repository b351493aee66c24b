//! Log lines on tools that their server does not list as they were imported: each tool once, and all tools of a server in one line. Knows
//! no connection.

use super::listing::{Listed, ListedTools};
use std::collections::BTreeMap;
use windlass_compile::handler_file::DefinitionHash;

/// Tools that one line names.
const NAMED_MAX: usize = 20;
/// Characters of a tool's name.
const NAME_CHARACTERS_MAX: usize = 100;
/// States of one tool that are kept as said.
const STATES_MAX: usize = 8;

/// The differences that were logged already.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// By tool, each state in which it was found; `None` for a tool that was not listed.
    states: BTreeMap<String, Vec<Option<Listed>>>,
    /// The server lists for each user: users may see different tools, and no state is logged twice.
    is_of_users: bool,
}

impl Said {
    pub(super) fn of_users(is_of_users: bool) -> Self {
        Self {
            states: BTreeMap::new(),
            is_of_users,
        }
    }

    /// The tools that are found for the first time as they are now, with what is other about each; `None` where there are none.
    pub(super) fn news(
        &mut self,
        wanted: &BTreeMap<String, DefinitionHash>,
        tools: &ListedTools,
    ) -> Option<String> {
        let mut news = Vec::new();
        for (tool, pinned) in wanted {
            let listed = tools.get(tool).cloned();
            let problem = match &listed {
                Some(Listed::Once { definition, .. }) if definition == pinned => {
                    if !self.is_of_users {
                        self.states.remove(tool);
                    }
                    continue;
                }
                Some(Listed::Once { .. }) => "changed",
                Some(Listed::Twice) => "listed twice",
                Some(Listed::Misplaced) => "against the rules of the protocol",
                None => "not listed any more",
            };
            let said = self.states.entry(tool.clone()).or_default();
            let is_known = match self.is_of_users {
                true => said.contains(&listed),
                false => said.last() == Some(&listed),
            };
            if is_known {
                continue;
            }
            if said.len() >= STATES_MAX {
                said.remove(0);
            }
            said.push(listed);
            let name = tool.escape_debug().take(NAME_CHARACTERS_MAX);
            news.push(format!("{} ({problem})", name.collect::<String>()));
        }
        let others = news.len().saturating_sub(NAMED_MAX);
        news.truncate(NAMED_MAX);
        let named = news.join(", ");
        match (named.is_empty(), others) {
            (true, _) => None,
            (false, 0) => Some(named),
            (false, 1) => Some(format!("{named} and 1 other")),
            (false, others) => Some(format!("{named} and {others} others")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hash(text: &str) -> DefinitionHash {
        let definition = json!({ "description": text });
        DefinitionHash::of(definition.as_object().expect("it is an object"))
    }

    fn once(text: &str) -> Listed {
        Listed::Once {
            definition: hash(text),
            headers: Vec::new(),
        }
    }

    /// A server's list, and the log line on it.
    type Seen<'a> = (&'a [(&'a str, Listed)], Option<&'a str>);

    /// Lists of a server one after the other. Every tool was imported as `as it was`.
    fn check(is_of_users: bool, wanted: &[&str], lists: &[Seen<'_>]) {
        let wanted: BTreeMap<String, DefinitionHash> = wanted
            .iter()
            .map(|name| ((*name).to_owned(), hash("as it was")))
            .collect();
        let mut said = Said::of_users(is_of_users);
        for (number, (listed, expected)) in lists.iter().enumerate() {
            let listed = listed.iter().cloned();
            let tools: ListedTools = listed
                .map(|(name, listed)| (name.to_owned(), listed))
                .collect();
            let news = said.news(&wanted, &tools);
            assert_eq!(news.as_deref(), *expected, "list {number}");
        }
    }

    #[test]
    fn all_that_a_server_has_changed_is_one_line_and_is_said_once() {
        let same = || once("as it was");
        check(
            false,
            &["a", "b", "c", "d"],
            &[
                (
                    &[("a", same()), ("b", same()), ("c", same()), ("d", same())],
                    None,
                ),
                (
                    &[("a", once("other")), ("b", Listed::Twice), ("c", same())],
                    Some("a (changed), b (listed twice), d (not listed any more)"),
                ),
                (
                    &[("a", once("other")), ("b", Listed::Twice), ("c", same())],
                    None,
                ),
                (
                    &[
                        ("a", once("a third")),
                        ("b", Listed::Twice),
                        ("c", Listed::Misplaced),
                    ],
                    Some("a (changed), c (against the rules of the protocol)"),
                ),
                (
                    &[("a", same()), ("b", same()), ("c", same()), ("d", same())],
                    None,
                ),
                (
                    &[
                        ("a", once("other")),
                        ("b", same()),
                        ("c", same()),
                        ("d", same()),
                    ],
                    Some("a (changed)"),
                ),
            ],
        );
    }

    #[test]
    fn what_one_user_sees_and_another_does_not_is_said_once() {
        check(
            true,
            &["a"],
            &[
                (&[], Some("a (not listed any more)")),
                (&[("a", once("as it was"))], None),
                (&[], None),
                (&[("a", once("other"))], Some("a (changed)")),
                (&[], None),
            ],
        );
    }

    #[test]
    fn a_line_names_a_few_and_nothing_that_steers() {
        let names: Vec<String> = (0..30).map(|number| format!("tool{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let named: Vec<String> = names[..20]
            .iter()
            .map(|name| format!("{name} (not listed any more)"))
            .collect();
        let expected = format!("{} and 10 others", named.join(", "));
        check(false, &names, &[(&[], Some(&expected))]);
        check(
            false,
            &["a\n\u{202e}b"],
            &[(&[], Some("a\\n\\u{202e}b (not listed any more)"))],
        );
    }
}
