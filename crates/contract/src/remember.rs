//! Approvals that may be remembered: the user agrees once to all calls with the same values. Defines which values have to be equal; who
//! may agree, when and for how long is decided elsewhere.

use crate::arguments::Arguments;
use crate::json;
use crate::reference::argument_of;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The rule for remembered approvals in a tool's `schema.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    pub scope: RememberScope,
    /// JSON pointers of the arguments whose values have to be equal, sorted.
    pub arguments: Vec<String>,
    /// The most minutes until the user is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
}

/// The reach of a remembered approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RememberScope {
    Session,
}

/// The most arguments that an approval may be remembered by.
pub const ARGUMENTS_MAX: usize = 8;
/// The most minutes that a tool may set: a day.
pub const MINUTES_MAX: u64 = 1_440;

impl Remember {
    /// The call's values that have to be equal, by their pointers. Arguments that are left out are not included.
    pub fn values(&self, arguments: &Arguments) -> Value {
        let values = self.arguments.iter().filter_map(|pointer| {
            let value = arguments.get(&argument_of(pointer))?;
            Some((pointer.clone(), value))
        });
        Value::Object(values.collect::<Map<_, _>>())
    }

    /// The values as text: texts are equal exactly where the values are. A different spelling is a different value.
    pub fn text(values: &Value) -> String {
        let bytes = json::canonical(values);
        String::from_utf8(bytes).expect("canonical JSON is made of texts, which are UTF-8")
    }

    /// Words for people: the values that an approval is remembered by, and its longest duration.
    pub fn words(&self) -> String {
        let names: Vec<String> = self
            .arguments
            .iter()
            .map(|pointer| argument_of(pointer))
            .collect();
        let until = match self.minutes {
            Some(1) => " or for 1 minute".to_owned(),
            Some(minutes) => format!(" or for {minutes} minutes"),
            None => String::new(),
        };
        format!(
            "calls with the same {}, until the session ends{until}",
            names.join(" and ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(arguments: &str) -> String {
        let remember = Remember {
            scope: RememberScope::Session,
            arguments: vec!["/a~1b".to_owned(), "/folder".to_owned()],
            minutes: None,
        };
        let object: Map<String, Value> = serde_json::from_str(arguments).unwrap();
        Remember::text(&remember.values(&object.into()))
    }

    #[test]
    fn values_are_the_same_where_they_are_equal_and_not_where_they_are_alike() {
        let known = text(r#"{"folder": "Reports", "a/b": 1, "name": "x"}"#);
        assert_eq!(known, r#"{"/a~1b":1,"/folder":"Reports"}"#);
        for (arguments, is_same) in [
            (
                r#"{"name": "other", "a/b": 1.0, "folder": "Reports"}"#,
                true,
            ),
            (r#"{"folder": "Reports", "a/b": 1e0}"#, true),
            (r#"{"folder": "reports", "a/b": 1}"#, false),
            (r#"{"folder": "Reports ", "a/b": 1}"#, false),
            (r#"{"folder": "R\u0065ports", "a/b": 1}"#, true),
            (r#"{"folder": "Re\u0301ports", "a/b": 1}"#, false),
            (r#"{"folder": "Reports", "a/b": "1"}"#, false),
            (
                r#"{"folder": "Reports", "a/b": 1.0000000000000000001}"#,
                false,
            ),
            (r#"{"folder": ["Reports"], "a/b": 1}"#, false),
            (r#"{"folder": "Reports"}"#, false),
            (r#"{"folder": "Reports", "a/b": null}"#, false),
        ] {
            assert_eq!(text(arguments) == known, is_same, "{arguments}");
        }
    }

    #[test]
    fn what_is_remembered_is_said_in_words() {
        let remember: Remember = serde_json::from_value(json!({
            "scope": "session", "arguments": ["/folder", "/a~1b"], "minutes": 30,
        }))
        .unwrap();
        assert_eq!(
            remember.words(),
            "calls with the same folder and a/b, until the session ends or for 30 minutes"
        );
    }
}
