//! The requests in typed sentences, by their words. Knows English phrases, nothing of tools or answers.

use super::words::Question;
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Greeting,
    Thanks,
    Guidance,
    Farewell,
    Rudeness,
    /// The user names a tool to call, with its arguments.
    Tool {
        name: String,
        args: Map<String, Value>,
    },
    Question(Question),
    Unclear,
}

const GREETINGS: &[&str] = &[
    "hello",
    "hi",
    "hey",
    "good morning",
    "good afternoon",
    "good evening",
    "greetings",
];
const THANKS: &[&str] = &["thanks", "thank you", "thank you very much", "many thanks"];
const GUIDANCE: &[&str] = &[
    "what can you do",
    "what can i ask",
    "what can i ask you",
    "who are you",
    "what are you",
    "help",
    "how does this work",
];
const FAREWELLS: &[&str] = &[
    "lets stop",
    "let us stop",
    "stop here",
    "goodbye",
    "good bye",
    "bye",
    "farewell",
    "thats all",
    "that is all",
    "end the session",
    "end this session",
    "end the call",
    "end the conversation",
    "hang up",
    "im done",
    "i am done",
];
const RUDE: &[&str] = &[
    "idiot",
    "stupid",
    "dumb",
    "moron",
    "shut up",
    "hate you",
    "useless",
    "fool",
    "trash",
    "you suck",
    "damn you",
    "go to hell",
];
const OPENINGS: &[&str] = &[
    "who", "whose", "whom", "what", "when", "where", "why", "how", "which", "did", "do", "does",
    "was", "were", "is", "are", "can", "could", "tell", "show", "explain", "describe", "find",
    "search", "look", "give", "and",
];
/// The most words of a name that counts as a question without a verb.
const BARE_WORDS_MAX: usize = 5;

pub(super) fn request(text: &str) -> Request {
    if let Some(request) = tool_request(text) {
        return request;
    }
    let text = super::cut(text);
    let plain = normalised(text);
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| contains_words(&plain, phrase));
    let is = |phrases: &[&str]| phrases.contains(&plain.as_str());
    if says(RUDE) {
        return Request::Rudeness;
    }
    let question = Question::new(text);
    let asks = text.contains('?')
        || plain
            .split(' ')
            .next()
            .is_some_and(|first| OPENINGS.contains(&first));
    if is(GUIDANCE) {
        return Request::Guidance;
    }
    if says(FAREWELLS) && !text.contains('?') {
        return Request::Farewell;
    }
    if asks && !question.is_empty() {
        return Request::Question(question);
    }
    if is(THANKS) || plain.starts_with("thank") {
        return Request::Thanks;
    }
    if GREETINGS
        .iter()
        .any(|greeting| plain == *greeting || plain.starts_with(&format!("{greeting} ")))
    {
        return Request::Greeting;
    }
    let words = plain.split(' ').count();
    if words <= BARE_WORDS_MAX && question.has_name() {
        return Request::Question(question);
    }
    Request::Unclear
}

/// Whether the user gives up the current matter.
pub(super) fn leaves(text: &str) -> bool {
    const LEAVING: &[&str] = &[
        "never mind",
        "nevermind",
        "forget it",
        "forget about it",
        "leave it",
        "stop",
        "cancel",
        "no",
        "no thanks",
        "no thank you",
        "no never mind",
        "nothing",
        "dont",
        "do not do it",
    ];
    LEAVING.contains(&normalised(super::cut(text)).as_str())
}

/// Whether the user agrees and adds nothing.
pub(super) fn is_yes(text: &str) -> bool {
    const YES: &[&str] = &[
        "yes",
        "yes please",
        "ok",
        "okay",
        "sure",
        "do it",
        "yes do it",
        "go ahead",
        "please do",
        "i agree",
    ];
    YES.contains(&normalised(super::cut(text)).as_str())
}

/// `call NAME {"argument": …}`: a way to try any tool.
fn tool_request(text: &str) -> Option<Request> {
    let text = text.trim();
    let rest = text
        .strip_prefix("call ")
        .or_else(|| text.strip_prefix("Call "))?
        .trim_start();
    let end = rest
        .find(|sign: char| !(sign.is_ascii_alphanumeric() || "_.-".contains(sign)))
        .unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    let arguments = arguments.trim();
    let args = if arguments.is_empty() {
        Map::new()
    } else {
        serde_json::from_str(arguments).ok()?
    };
    (!name.is_empty() && (name.contains('_') || !arguments.is_empty())).then(|| Request::Tool {
        name: name.to_owned(),
        args,
    })
}

/// The text in lower case, without apostrophes, and with a single space for other signs.
fn normalised(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars().flat_map(char::to_lowercase) {
        if character.is_alphanumeric() {
            plain.push(character);
        } else if !matches!(character, '\'' | '’') && !plain.ends_with(' ') && !plain.is_empty() {
            plain.push(' ');
        }
    }
    plain.trim_end().to_owned()
}

fn contains_words(plain: &str, phrase: &str) -> bool {
    plain.match_indices(phrase).any(|(start, _)| {
        let before = plain[..start].chars().next_back();
        let after = plain[start + phrase.len()..].chars().next();
        before.is_none_or(|sign| sign == ' ') && after.is_none_or(|sign| sign == ' ')
    })
}
