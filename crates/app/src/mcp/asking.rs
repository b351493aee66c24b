//! The request that a person sees before a call of an MCP client runs, and how the answer is read. The client shows it as a form, or the
//! page does. Knows no store and no socket.

use serde_json::{Map, Value, json};
use windlass_contract::characters::is_unsafe_to_show;
use windlass_contract::kind::Mode;
use windlass_session::client::{because, warning};
use windlass_store::Question;

/// The name of the request among those that a result asks for.
pub(super) const REQUEST: &str = "approval";
/// Why a person is asked about a tool that asks nobody by itself.
const FOREIGN_MODEL: &str = "the model that wants it may have read anything";
/// The answer in a form.
const APPROVE: &str = "approve";

/// A request for an approval, in words in which nothing hides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownRequest {
    pub(crate) tool: String,
    /// In the words of the tool's author, where it has some.
    pub(crate) preview: Option<String>,
    pub(crate) arguments: String,
    pub(crate) warning: Option<String>,
    pub(crate) because: Option<String>,
    pub(crate) mode: Mode,
}

pub(crate) fn shown_request(question: &Question) -> ShownRequest {
    let preview = question.preview.expose();
    ShownRequest {
        tool: question.tool.as_str().to_owned(),
        preview: (!preview.is_empty()).then(|| plain(preview)),
        arguments: plain(question.arguments.expose()),
        warning: warning(question).as_deref().map(plain),
        because: match question.because.is_none() && question.hazards.external_content {
            true => Some(FOREIGN_MODEL.to_owned()),
            false => because(question).as_deref().map(plain),
        },
        mode: question.mode,
    }
}

impl ShownRequest {
    /// The same in a few lines.
    pub(super) fn lines(&self) -> String {
        let mut lines = Vec::new();
        lines.extend(
            self.warning
                .as_ref()
                .map(|text| format!("Look twice: {text}")),
        );
        lines.extend(self.preview.clone());
        lines.push(format!("{} {}", self.tool, self.arguments));
        lines.extend(
            self.because
                .as_ref()
                .map(|text| format!("You are asked because: {text}")),
        );
        lines.join("\n")
    }
}

/// The form by which a person decides.
pub(super) fn form(shown: &ShownRequest) -> Value {
    json!({
        "mode": "form",
        "message": format!("May this call run?\n{}", shown.lines()),
        "requestedSchema": {
            "type": "object",
            "properties": {
                APPROVE: {
                    "type": "boolean", "title": "Approve",
                    "description": "Whether the call may run, with exactly these arguments",
                },
            },
            "required": [APPROVE],
        },
    })
}

/// The same on the page.
pub(super) fn link(shown: &ShownRequest, url: &str) -> Value {
    json!({
        "mode": "url",
        "url": url,
        "message": format!("A call of {} waits for your approval. The page shows it.", shown.tool),
    })
}

/// The user's action, as the client reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Approved,
    Denied,
    /// The user has agreed to open the page.
    Opened,
    /// The user has decided nothing.
    Nothing,
}

/// Reads the answer to a form or a link. Only a plain yes in the form is one.
pub(super) fn said(answer: &Map<String, Value>) -> Said {
    let content = answer
        .get("content")
        .and_then(|content| content.get(APPROVE));
    match (answer.get("action").and_then(Value::as_str), content) {
        (Some("accept"), Some(Value::Bool(true))) => Said::Approved,
        (Some("accept"), Some(Value::Bool(false))) | (Some("decline"), _) => Said::Denied,
        (Some("accept"), None) => Said::Opened,
        _ => Said::Nothing,
    }
}

/// A text with everything escaped that could hide or reorder what stands beside it.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unsafe_to_show(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_is_one() {
        for (answer, expected) in [
            (
                r#"{"action":"accept","content":{"approve":true}}"#,
                Said::Approved,
            ),
            (
                r#"{"action":"accept","content":{"approve":false}}"#,
                Said::Denied,
            ),
            (
                r#"{"action":"accept","content":{"approve":"true"}}"#,
                Said::Nothing,
            ),
            (
                r#"{"action":"accept","content":{"approve":1}}"#,
                Said::Nothing,
            ),
            (r#"{"action":"accept"}"#, Said::Opened),
            (r#"{"action":"accept","content":{}}"#, Said::Opened),
            (r#"{"action":"decline"}"#, Said::Denied),
            (r#"{"action":"cancel"}"#, Said::Nothing),
            (
                r#"{"action":"cancel","content":{"approve":true}}"#,
                Said::Nothing,
            ),
            (r#"{"content":{"approve":true}}"#, Said::Nothing),
            (r#"{}"#, Said::Nothing),
        ] {
            let read: Map<String, Value> = serde_json::from_str(answer).unwrap();
            assert_eq!(said(&read), expected, "{answer}");
        }
    }

    #[test]
    fn nothing_hides_in_what_a_person_reads() {
        assert_eq!(plain("pay \u{202e}10\n"), "pay \\u{202e}10\\u{a}");
    }
}
