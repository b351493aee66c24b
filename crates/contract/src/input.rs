//! Questions of a service to the user before a call goes on: forms of flat fields, and links. Owns the limits of questions, how they are
//! shown, and whether an answer fits; knows no protocol and no session. The words are the service's own, and never this program's.

use crate::sensitive::Sensitive;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Questions of one request.
pub const ASKS_MAX: usize = 8;
/// Fields of one form.
pub const FIELDS_MAX: usize = 32;
/// Values that a field offers.
pub const OPTIONS_MAX: usize = 200;
/// Characters of a service's text about a question or a field, and of a name.
pub const WORDS_MAX: usize = 2_000;
pub const NAME_MAX: usize = 200;
/// Characters of a text that a user gives, where the form does not say less.
const TEXT_MAX: u64 = 10_000;

/// The questions of one run of a handler to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequest {
    /// The service that asks, by the name that the configuration has for it.
    pub from: String,
    pub asks: Vec<InputAsk>,
    /// The service's own state, which it gets back with the answer. No other code reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Sensitive<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputAsk {
    /// The name by which the service knows the answer.
    pub key: String,
    pub message: String,
    pub kind: AskKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    Form(Vec<InputField>),
    /// An address that the user may open. This program never opens it.
    Link(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputField {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub required: bool,
    pub kind: FieldKind,
    /// The value in the form before the user has changed it. It fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    Text {
        /// Characters.
        min: Option<u64>,
        max: Option<u64>,
        format: Option<TextFormat>,
    },
    Number {
        is_whole: bool,
        min: Option<Number>,
        max: Option<Number>,
    },
    Flag,
    Choice(Vec<InputOption>),
    /// Several of them.
    Choices {
        options: Vec<InputOption>,
        min: Option<u64>,
        max: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputOption {
    pub value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The user's decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputAction {
    Accept,
    Decline,
    /// The user did not want to decide.
    Cancel,
}

/// The user's input as it was sent, before any check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentInput {
    /// An object with a value for each field, by the questions' keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Sensitive<Value>>,
    /// On an answer that is not a yes: the user did not want to decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cancelled: bool,
}

/// The user's answer, which fits what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenInput {
    pub asked: Sensitive<InputRequest>,
    pub action: InputAction,
    /// The values of each form's fields, by the questions' keys, if the user accepts.
    pub content: Sensitive<BTreeMap<String, Map<String, Value>>>,
}

/// A call's facts about questions to its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputFacts {
    /// A run that ends with a question gets its answer.
    pub can_ask: bool,
    /// The answer with which a run goes on that had a question.
    pub given: Option<Arc<GivenInput>>,
}

impl InputRequest {
    /// The request as every client gets it, without the service's `state`.
    pub fn shown(&self) -> Value {
        let asks: Vec<Value> = self.asks.iter().map(InputAsk::shown).collect();
        json!({ "from": self.from, "asks": asks })
    }

    /// The words of the questions, for a client that shows no forms.
    pub fn words(&self) -> String {
        let asks = self.asks.iter();
        let words: Vec<&str> = asks.map(|ask| ask.message.as_str()).collect();
        format!("{} asks: {}", self.from, words.join(" · "))
    }

    /// Reads an acceptance.
    ///
    /// # Errors
    ///
    /// Which field does not fit, for the user. It quotes nothing that the user gave.
    pub fn accepted(
        &self,
        content: Option<&Value>,
    ) -> Result<BTreeMap<String, Map<String, Value>>, String> {
        let nothing = Map::new();
        let given = match content {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(given)) => given,
            Some(_) => return Err("`content` is no object".to_owned()),
        };
        for key in given.keys() {
            if !self.asks.iter().any(|ask| ask.key == *key) {
                return Err("`content` answers a question that nobody asked".to_owned());
            }
        }
        let mut accepted = BTreeMap::new();
        for ask in &self.asks {
            let fields = match given.get(&ask.key) {
                None | Some(Value::Null) => &nothing,
                Some(Value::Object(fields)) => fields,
                Some(_) => return Err(format!("`{}` is no object", ask.key)),
            };
            let form: &[InputField] = match &ask.kind {
                AskKind::Form(form) => form,
                AskKind::Link(_) => &[],
            };
            accepted.insert(ask.key.clone(), filled(form, fields)?);
        }
        Ok(accepted)
    }
}

fn filled(form: &[InputField], given: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    for name in given.keys() {
        if !form.iter().any(|field| field.name == *name) {
            return Err("a field is given that the form does not have".to_owned());
        }
    }
    let mut filled = Map::new();
    for field in form {
        let empty = |value: &&Value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty() && !field.required,
            _ => false,
        };
        match given.get(&field.name).filter(|value| !empty(value)) {
            Some(value) => {
                field.check(value)?;
                filled.insert(field.name.clone(), value.clone());
            }
            None if field.required => return Err(format!("`{}` is missing", field.name)),
            None => {}
        }
    }
    Ok(filled)
}

impl InputAsk {
    fn shown(&self) -> Value {
        let mut shown = json!({ "key": self.key, "message": self.message });
        match &self.kind {
            AskKind::Form(form) => {
                shown["form"] = form.iter().map(InputField::shown).collect();
            }
            AskKind::Link(link) => {
                shown["host"] = host_of(link).into();
                shown["link"] = link.as_str().into();
            }
        }
        shown
    }
}

/// Where a link leads.
fn host_of(link: &str) -> &str {
    let rest = link.split_once("://").map_or(link, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let place = &rest[..end];
    place.rsplit_once('@').map_or(place, |(_, host)| host)
}

impl InputField {
    /// Whether a value fits.
    ///
    /// # Errors
    ///
    /// Why it does not, for the user.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let name = &self.name;
        let wrong = |wanted: &str| Err(format!("`{name}` is no {wanted}"));
        match &self.kind {
            FieldKind::Text { min, max, format } => {
                let Value::String(text) = value else {
                    return wrong("text");
                };
                let length = text.chars().count() as u64;
                let longest = max.unwrap_or(TEXT_MAX).min(TEXT_MAX);
                if length < min.unwrap_or(0) {
                    let least = min.unwrap_or(0);
                    return Err(format!("`{name}` is shorter than {least} characters"));
                }
                if length > longest {
                    return Err(format!("`{name}` is longer than {longest} characters"));
                }
                match format.filter(|format| !format.fits(text)) {
                    Some(format) => wrong(format.words()),
                    None => Ok(()),
                }
            }
            FieldKind::Number { is_whole, min, max } => {
                let number = match value {
                    Value::Number(number) => number.as_f64(),
                    _ => None,
                };
                let Some(number) = number else {
                    return wrong("number");
                };
                if *is_whole && number.fract() != 0.0 {
                    return wrong("whole number");
                }
                let bound = |bound: &Option<Number>| bound.as_ref().and_then(Number::as_f64);
                if bound(min).is_some_and(|min| number < min) {
                    return Err(format!("`{name}` is less than it may be"));
                }
                if bound(max).is_some_and(|max| number > max) {
                    return Err(format!("`{name}` is more than it may be"));
                }
                Ok(())
            }
            FieldKind::Flag => match value {
                Value::Bool(_) => Ok(()),
                _ => wrong("yes or no"),
            },
            FieldKind::Choice(options) => match offers(options, value) {
                true => Ok(()),
                false => wrong("value that is offered"),
            },
            FieldKind::Choices { options, min, max } => {
                let Value::Array(values) = value else {
                    return wrong("list");
                };
                let count = values.len() as u64;
                let fits = count >= min.unwrap_or(0)
                    && count <= max.unwrap_or(u64::MAX)
                    && values.iter().all(|value| offers(options, value));
                match fits {
                    true => Ok(()),
                    false => wrong("choice among what is offered"),
                }
            }
        }
    }

    fn shown(&self) -> Value {
        let mut shown = json!({ "name": self.name, "required": self.required });
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                shown[name] = value;
            }
        };
        add("title", self.title.as_deref().map(Value::from));
        add("description", self.description.as_deref().map(Value::from));
        add("default", self.default.clone());
        let offered = |options: &[InputOption]| -> Value {
            let options = options.iter();
            options
                .map(|option| {
                    let title = option.title.as_ref().unwrap_or(&option.value);
                    json!({ "value": option.value, "title": title })
                })
                .collect()
        };
        let kind = match &self.kind {
            FieldKind::Text { min, max, format } => {
                add("minLength", min.map(Value::from));
                add("maxLength", max.map(Value::from));
                add("format", format.map(|format| json!(format)));
                "text"
            }
            FieldKind::Number { is_whole, min, max } => {
                add("minimum", min.clone().map(Value::Number));
                add("maximum", max.clone().map(Value::Number));
                if *is_whole { "integer" } else { "number" }
            }
            FieldKind::Flag => "boolean",
            FieldKind::Choice(options) => {
                add("options", Some(offered(options)));
                "choice"
            }
            FieldKind::Choices { options, min, max } => {
                add("options", Some(offered(options)));
                add("minItems", min.map(Value::from));
                add("maxItems", max.map(Value::from));
                "choices"
            }
        };
        shown["type"] = kind.into();
        shown
    }
}

fn offers(options: &[InputOption], value: &Value) -> bool {
    let Value::String(value) = value else {
        return false;
    };
    options.iter().any(|option| option.value == *value)
}

impl TextFormat {
    fn words(self) -> &'static str {
        match self {
            Self::Email => "address for mail",
            Self::Uri => "address of the web",
            Self::Date => "date such as 2026-07-28",
            Self::DateTime => "date with a time, such as 2026-07-28T09:30:00Z",
        }
    }

    fn fits(self, text: &str) -> bool {
        match self {
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty() && host.contains('.') && !text.contains(char::is_whitespace)
            }),
            Self::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
                !rest.is_empty()
                    && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                    && scheme.bytes().all(fits)
                    && !text.contains(char::is_whitespace)
            }),
            Self::Date => is_date(text),
            Self::DateTime => text
                .split_once(['T', 't'])
                .is_some_and(|(date, time)| is_date(date) && is_time(time)),
        }
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let within = |part: &str, digits: usize, most: u32| {
        number(part, digits).is_some_and(|part| (1..=most).contains(&part))
    };
    number(year, 4).is_some() && within(month, 2, 12) && within(day, 2, 31)
}

/// A time with an offset.
fn is_time(text: &str) -> bool {
    let (time, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(time) => (time, None),
        None => match text.rfind(['+', '-']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => return false,
        },
    };
    let is_clock = |text: &str, parts: usize| {
        let most = [23, 59, 60];
        let pieces: Vec<&str> = text.split(':').collect();
        let mut pieces_of = pieces.iter().zip(most);
        pieces.len() == parts
            && pieces_of.all(|(piece, most)| number(piece, 2).is_some_and(|piece| piece <= most))
    };
    let whole = time.split_once('.').map_or(time, |(whole, _)| whole);
    is_clock(whole, 3) && offset.is_none_or(|offset| is_clock(offset, 2))
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let fits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, required: bool, kind: FieldKind) -> InputField {
        InputField {
            name: name.to_owned(),
            title: None,
            description: None,
            required,
            kind,
            default: None,
        }
    }

    fn request() -> InputRequest {
        let text = |format| FieldKind::Text {
            min: Some(2),
            max: Some(12),
            format,
        };
        let options = || {
            ["red", "green"].map(|value| InputOption {
                value: value.to_owned(),
                title: None,
            })
        };
        InputRequest {
            from: "shop".to_owned(),
            asks: vec![
                InputAsk {
                    key: "who".to_owned(),
                    message: "Who are you?".to_owned(),
                    kind: AskKind::Form(vec![
                        field("name", true, text(None)),
                        field("mail", false, text(Some(TextFormat::Email))),
                        field(
                            "age",
                            false,
                            FieldKind::Number {
                                is_whole: true,
                                min: Some(18.into()),
                                max: Some(120.into()),
                            },
                        ),
                        field("news", false, FieldKind::Flag),
                        field("color", false, FieldKind::Choice(options().to_vec())),
                        field(
                            "colors",
                            false,
                            FieldKind::Choices {
                                options: options().to_vec(),
                                min: Some(1),
                                max: None,
                            },
                        ),
                    ]),
                },
                InputAsk {
                    key: "pay".to_owned(),
                    message: "Pay there.".to_owned(),
                    kind: AskKind::Link("https://me@pay.example:8443/a?b=1".to_owned()),
                },
            ],
            state: Some(Sensitive("s".to_owned())),
        }
    }

    /// Checks the values that an acceptance gives.
    fn check(content: &Value, expected: &str) {
        let shown = match request().accepted(Some(content)) {
            Ok(accepted) => serde_json::to_string(&accepted).expect("it is JSON"),
            Err(problem) => problem,
        };
        assert_eq!(shown, expected, "{content}");
    }

    #[test]
    fn an_answer_fits_its_form_or_says_which_field_does_not() {
        let who = |fields: Value| {
            let mut all = json!({"name": "Ada"});
            for (name, value) in fields.as_object().into_iter().flatten() {
                all[name] = value.clone();
            }
            json!({ "who": all })
        };
        check(&who(json!({})), r#"{"pay":{},"who":{"name":"Ada"}}"#);
        check(
            &who(
                json!({"mail": "", "age": null, "news": false, "color": "red", "colors": ["red", "green"]}),
            ),
            r#"{"pay":{},"who":{"color":"red","colors":["red","green"],"name":"Ada","news":false}}"#,
        );
        for (content, problem) in [
            (Value::Null, "`name` is missing"),
            (json!({}), "`name` is missing"),
            (json!([]), "`content` is no object"),
            (json!({"who": 1}), "`who` is no object"),
            (
                json!({"other": {}}),
                "`content` answers a question that nobody asked",
            ),
            (
                who(json!({"other": 1})),
                "a field is given that the form does not have",
            ),
            (
                who(json!({"name": "A"})),
                "`name` is shorter than 2 characters",
            ),
            (
                who(json!({"name": "Ada Lovelace!"})),
                "`name` is longer than 12 characters",
            ),
            (who(json!({"name": 7})), "`name` is no text"),
            (
                who(json!({"name": ""})),
                "`name` is shorter than 2 characters",
            ),
            (who(json!({"mail": "ada"})), "`mail` is no address for mail"),
            (who(json!({"age": 18.5})), "`age` is no whole number"),
            (who(json!({"age": "18"})), "`age` is no number"),
            (who(json!({"age": 17})), "`age` is less than it may be"),
            (who(json!({"age": 121})), "`age` is more than it may be"),
            (who(json!({"news": "yes"})), "`news` is no yes or no"),
            (
                who(json!({"color": "blue"})),
                "`color` is no value that is offered",
            ),
            (who(json!({"colors": "red"})), "`colors` is no list"),
            (
                who(json!({"colors": []})),
                "`colors` is no choice among what is offered",
            ),
            (
                who(json!({"colors": ["blue"]})),
                "`colors` is no choice among what is offered",
            ),
        ] {
            check(&content, problem);
        }
    }

    #[test]
    fn what_is_shown_holds_no_state_and_names_where_a_link_leads() {
        let shown = request().shown();
        assert!(shown.get("state").is_none(), "{shown}");
        assert_eq!(shown["from"], "shop");
        assert_eq!(
            shown["asks"][1],
            json!({"key": "pay", "message": "Pay there.", "link": "https://me@pay.example:8443/a?b=1",
                "host": "pay.example:8443"})
        );
        assert_eq!(
            shown["asks"][0]["form"][2],
            json!({"name": "age", "required": false, "type": "integer", "minimum": 18, "maximum": 120})
        );
        let text = serde_json::to_string(&request()).expect("it is JSON");
        let read: InputRequest = serde_json::from_str(&text).expect("it was written so");
        assert_eq!(read, request());
    }

    #[test]
    fn texts_of_a_format_are_of_that_format() {
        for (format, text, fits) in [
            (TextFormat::Uri, "https://a.example/", true),
            (TextFormat::Uri, "a.example", false),
            (TextFormat::Date, "2026-07-28", true),
            (TextFormat::Date, "2026-7-28", false),
            (TextFormat::Date, "2026-13-01", false),
            (TextFormat::DateTime, "2026-07-28T09:30:00Z", true),
            (TextFormat::DateTime, "2026-07-28T09:30:00.5+02:00", true),
            (TextFormat::DateTime, "2026-07-28T09:30", false),
            (TextFormat::DateTime, "2026-07-28", false),
        ] {
            assert_eq!(format.fits(text), fits, "{format:?} {text}");
        }
    }
}
