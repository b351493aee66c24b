//! A request made of its template and a call's arguments. What an argument may not become, such as a step up in a path or a
//! line of a header, is refused here and never sent.

use super::HttpTemplate;
use super::template::{BodyTemplate, Node, Piece, Template, argument};
use crate::arguments::Arguments;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What the places of a template are filled with.
#[derive(Clone, Copy)]
pub struct Filling<'a> {
    pub arguments: &'a Arguments,
    pub secrets: &'a BTreeMap<String, String>,
    pub effect_id: Option<&'a str>,
    /// By which an outside API recognises the effect.
    pub key: Option<&'a str>,
}

/// A request that may be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An argument that cannot stand where its template has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} cannot be made of these arguments: {problem}")]
pub struct Unrenderable {
    place: &'static str,
    problem: &'static str,
}

type Rendering<T> = Result<T, Unrenderable>;

const IN_ADDRESS: &str = "the address";
const IN_HEADER: &str = "a header";
const IN_FORM: &str = "the form";

fn refuse<T>(place: &'static str, problem: &'static str) -> Rendering<T> {
    Err(Unrenderable { place, problem })
}

impl HttpTemplate {
    pub fn render(&self, filling: &Filling<'_>) -> Rendering<Rendered> {
        let mut url = self.origin.clone();
        url.push_str(&self.path.as_path(filling)?);
        let mut before = if url.contains('?') { '&' } else { '?' };
        for (name, template) in &self.query {
            for value in template.as_values(filling, IN_ADDRESS)? {
                let _ = write!(url, "{before}{}={}", encoded(name), encoded(&value));
                before = '&';
            }
        }
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for (name, template) in &self.headers {
            for value in template.as_values(filling, IN_HEADER)? {
                // What is no visible character of ASCII could end the header and begin another.
                let fits = value
                    .bytes()
                    .all(|byte| byte == b' ' || byte.is_ascii_graphic());
                if !fits {
                    return refuse(IN_HEADER, "it may hold visible ASCII characters alone");
                }
                headers.push((name.clone(), value));
            }
        }
        let mut body = Vec::new();
        if let Some(template) = &self.body {
            let media_type = template.write(filling, &mut body)?;
            let says_type =
                |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
            if let Some(media_type) = media_type
                && !headers.iter().any(says_type)
            {
                headers.push(("content-type".to_owned(), media_type.to_owned()));
            }
        }
        Ok(Rendered {
            method: self.method.clone(),
            url,
            headers,
            body,
        })
    }

    /// The names of the secrets in it.
    pub(super) fn secrets(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.path.add_secrets(&mut names);
        for (_, template) in self.query.iter().chain(&self.headers) {
            template.add_secrets(&mut names);
        }
        match &self.body {
            Some(BodyTemplate::Json(node)) => node.add_secrets(&mut names),
            Some(BodyTemplate::Form(members)) => members
                .iter()
                .for_each(|(_, template)| template.add_secrets(&mut names)),
            Some(BodyTemplate::Text(template)) => template.add_secrets(&mut names),
            None => {}
        }
        names
    }
}

impl Piece {
    /// The value of a piece; `None` of an argument that the call leaves out.
    fn value(&self, filling: &Filling<'_>) -> Option<Value> {
        match self {
            Self::Text(text) => Some(text.as_str().into()),
            Self::Argument(path) => argument(filling.arguments.as_map(), path).cloned(),
            Self::Secret(name) => Some(filling.secrets.get(name)?.as_str().into()),
            Self::EffectId => Some(filling.effect_id?.into()),
            Self::Key => Some(filling.key?.into()),
        }
    }
}

impl Template {
    /// Path and query, each argument one encoded segment or value.
    fn as_path(&self, filling: &Filling<'_>) -> Rendering<String> {
        let mut path = String::new();
        let mut filled = Vec::new();
        for piece in &self.0 {
            if let Piece::Text(text) = piece {
                path.push_str(text);
                continue;
            }
            let Some(value) = piece.value(filling).and_then(|value| scalar(&value)) else {
                return refuse(
                    IN_ADDRESS,
                    "a text, a number or a truth value has to stand there",
                );
            };
            let start = path.len();
            path.push_str(&encoded(&value));
            filled.push(start);
        }
        let end = path.find('?').unwrap_or(path.len());
        for start in filled.into_iter().filter(|start| *start <= end) {
            let segment_start = path[..start].rfind('/').map_or(0, |slash| slash + 1);
            let segment_end = path[start..end]
                .find('/')
                .map_or(end, |slash| start + slash);
            if matches!(&path[segment_start..segment_end], "" | "." | "..") {
                return refuse(
                    IN_ADDRESS,
                    "a part of its path would be empty, or a step to another path",
                );
            }
        }
        Ok(path)
    }

    /// Its values: none where its one argument is left out, several where that is a list.
    fn as_values(&self, filling: &Filling<'_>, place: &'static str) -> Rendering<Vec<String>> {
        let problem = "a text, a number, a truth value or a list of those has to stand there";
        if let Some(piece) = self.whole() {
            return match piece.value(filling) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::Array(items)) => {
                    let texts: Option<Vec<String>> = items.iter().map(scalar).collect();
                    texts.map_or_else(|| refuse(place, problem), Ok)
                }
                Some(value) => match scalar(&value) {
                    Some(text) => Ok(vec![text]),
                    None => refuse(place, problem),
                },
            };
        }
        Ok(vec![self.as_text(filling, place)?])
    }

    fn as_text(&self, filling: &Filling<'_>, place: &'static str) -> Rendering<String> {
        let mut text = String::new();
        for piece in &self.0 {
            let Some(value) = piece.value(filling).and_then(|value| scalar(&value)) else {
                return refuse(
                    place,
                    "a text, a number or a truth value has to stand there",
                );
            };
            text.push_str(&value);
        }
        Ok(text)
    }

    fn add_secrets<'t>(&'t self, names: &mut BTreeSet<&'t str>) {
        names.extend(self.0.iter().filter_map(|piece| match piece {
            Piece::Secret(name) => Some(name.as_str()),
            Piece::Text(_) | Piece::Argument(_) | Piece::EffectId | Piece::Key => None,
        }));
    }
}

impl BodyTemplate {
    /// Writes the body, and says its media type.
    fn write(&self, filling: &Filling<'_>, body: &mut Vec<u8>) -> Rendering<Option<&'static str>> {
        match self {
            Self::Json(node) => {
                let value = node.value(filling)?.unwrap_or(Value::Null);
                body.extend_from_slice(value.to_string().as_bytes());
                Ok(Some("application/json"))
            }
            Self::Form(members) => {
                let mut form = String::new();
                for (name, template) in members {
                    for value in template.as_values(filling, IN_FORM)? {
                        let before = if form.is_empty() { "" } else { "&" };
                        let _ = write!(form, "{before}{}={}", encoded(name), encoded(&value));
                    }
                }
                body.extend_from_slice(form.as_bytes());
                Ok(None)
            }
            Self::Text(template) => {
                let text = template.as_text(filling, "the body")?;
                body.extend_from_slice(text.as_bytes());
                Ok(None)
            }
        }
    }
}

impl Node {
    /// `None` of an argument that the call leaves out.
    fn value(&self, filling: &Filling<'_>) -> Rendering<Option<Value>> {
        Ok(match self {
            Self::Value(value) => Some(value.clone()),
            Self::Text(template) => match template.whole() {
                Some(piece) => piece.value(filling),
                None => Some(template.as_text(filling, "the body")?.into()),
            },
            Self::List(nodes) => {
                let mut items = Vec::with_capacity(nodes.len());
                for node in nodes {
                    items.extend(node.value(filling)?);
                }
                Some(Value::Array(items))
            }
            Self::Object(members) => {
                let mut object = Map::new();
                for (name, node) in members {
                    if let Some(value) = node.value(filling)? {
                        object.insert(name.clone(), value);
                    }
                }
                Some(Value::Object(object))
            }
        })
    }

    fn add_secrets<'t>(&'t self, names: &mut BTreeSet<&'t str>) {
        match self {
            Self::Value(_) => {}
            Self::Text(template) => template.add_secrets(names),
            Self::List(nodes) => nodes.iter().for_each(|node| node.add_secrets(names)),
            Self::Object(members) => members.iter().for_each(|(_, node)| node.add_secrets(names)),
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Everything but letters, digits and `-._~` as percent signs and digits.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                encoded.push(byte.into());
            }
            other => {
                let _ = write!(encoded, "%{other:02X}");
            }
        }
    }
    encoded
}
