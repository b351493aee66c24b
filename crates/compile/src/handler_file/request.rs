//! Makes a request from its template and a call's arguments. An argument that would do harm in its place, such as a step up in a path or
//! a line break in a header, is refused here and never sent.

use super::HttpTemplate;
use super::template::{
    BodyTemplate, Expansion, NamedTemplate, Node, Operator, Piece, Template, ValueForm, argument,
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::StateValues;

/// The values for the places of a template.
#[derive(Clone, Copy)]
pub struct Filling<'a> {
    pub arguments: &'a Arguments,
    pub secrets: &'a BTreeMap<String, String>,
    /// The values that handlers keep for the conversation.
    pub state: &'a StateValues,
    pub effect_id: Option<&'a str>,
    /// The key by which an outside API recognises the effect.
    pub key: Option<&'a str>,
}

/// A finished request, ready to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An argument that does not fit its place in the template.
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
        for named in &self.query {
            for (name, value) in named.pairs(filling, IN_ADDRESS)? {
                let _ = write!(url, "{before}{name}={value}");
                before = '&';
            }
        }
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for (name, template) in &self.headers {
            let values = template.as_values(filling, IN_HEADER)?;
            if !values.is_empty() {
                // RFC 9110, section 5.3: a list is one value with commas.
                let value = values.join(",");
                // Other characters could end the header and begin another.
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
            if body.is_empty() && !matches!(template, BodyTemplate::Form(_)) {
                headers.retain(|header| !says_type(header));
            }
        }
        Ok(Rendered {
            method: self.method.clone(),
            url,
            headers,
            body,
        })
    }

    /// The names of its secrets.
    pub(super) fn secrets(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.path.add_secrets(&mut names);
        let values = self.query.iter().map(|named| &named.template);
        for template in values.chain(self.headers.iter().map(|(_, template)| template)) {
            template.add_secrets(&mut names);
        }
        match &self.body {
            Some(BodyTemplate::Json(node)) => node.add_secrets(&mut names),
            Some(BodyTemplate::Form(members)) => members
                .iter()
                .for_each(|named| named.template.add_secrets(&mut names)),
            Some(BodyTemplate::Text(template)) => template.add_secrets(&mut names),
            None => {}
        }
        names
    }
}

impl Piece {
    /// The value of a piece; `None` for an argument that the call leaves out.
    fn value(&self, filling: &Filling<'_>) -> Option<Value> {
        match self {
            Self::Text(text) => Some(text.as_str().into()),
            Self::Argument(path) => argument(filling.arguments.as_map(), path).cloned(),
            Self::Expansion(expansion) => {
                argument(filling.arguments.as_map(), &expansion.argument).cloned()
            }
            Self::Secret(name) => Some(filling.secrets.get(name)?.as_str().into()),
            Self::State(key) => filling.state.get(key).cloned(),
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
            let value = piece.value(filling);
            let written = value.and_then(|value| match piece {
                Piece::Expansion(expansion) => expanded(&value, expansion),
                _ => joined(&value, ",", ",", &encoded),
            });
            let Some(written) = written else {
                return refuse(
                    IN_ADDRESS,
                    "a text, a number, a truth value, or a list or an object of those has to stand there",
                );
            };
            let start = path.len();
            path.push_str(&written);
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

    /// The template's values: none where its only argument is left out, several where that is a list.
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
            Piece::Text(_)
            | Piece::Argument(_)
            | Piece::Expansion(_)
            | Piece::State(_)
            | Piece::EffectId
            | Piece::Key => None,
        }));
    }
}

/// A name and a value, both encoded.
type Pair = (String, String);

impl NamedTemplate {
    /// The pairs for the query or the form: none where the only argument is left out.
    fn pairs(&self, filling: &Filling<'_>, place: &'static str) -> Rendering<Vec<Pair>> {
        let name = encoded(&self.name);
        let encode: &dyn Fn(&str) -> String = match self.style.keeps_reserved {
            true => &encoded_but_reserved,
            false => &encoded,
        };
        if self.style.form == ValueForm::Plain {
            let values = self.template.as_values(filling, place)?;
            return Ok(values
                .iter()
                .map(|value| (name.clone(), encode(value)))
                .collect());
        }
        let value = self.template.whole().and_then(|piece| piece.value(filling));
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Ok(Vec::new());
        };
        let one = |value: Option<String>| value.map(|value| vec![(name.clone(), value)]);
        let pairs = match self.style.form {
            ValueForm::Plain => None,
            ValueForm::Exploded => match &value {
                Value::Array(items) => items
                    .iter()
                    .map(|item| Some((name.clone(), encode(&scalar(item)?))))
                    .collect(),
                Value::Object(members) => members
                    .iter()
                    .filter(|(_, member)| !member.is_null())
                    .map(|(name, member)| Some((encoded(name), encode(&scalar(member)?))))
                    .collect(),
                value => one(scalar(value).map(|text| encode(&text))),
            },
            ValueForm::Joined(between) => one(joined(&value, between, between, encode)),
            ValueForm::Deep => {
                let mut pairs = Vec::new();
                deep(&name, &value, encode, &mut pairs);
                Some(pairs)
            }
            ValueForm::Json => one(Some(encode(&value.to_string()))),
        };
        let problem =
            "a text, a number, a truth value, or a list or an object of those has to stand there";
        pairs.map_or_else(|| refuse(place, problem), Ok)
    }
}

/// A value as one text: items with `between` between them, and members as names and values with `behind_name` between the two. `None` for
/// a value with lists or objects inside.
fn joined(
    value: &Value,
    between: &str,
    behind_name: &str,
    encode: &dyn Fn(&str) -> String,
) -> Option<String> {
    let parts: Option<Vec<String>> = match value {
        Value::Array(items) => items
            .iter()
            .map(|item| scalar(item).map(|text| encode(&text)))
            .collect(),
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| {
                let value = encode(&scalar(member)?);
                Some(format!("{}{behind_name}{value}", encoded(name)))
            })
            .collect(),
        value => return scalar(value).map(|text| encode(&text)),
    };
    Some(parts?.join(between))
}

fn expanded(value: &Value, expansion: &Expansion) -> Option<String> {
    let name = expansion.argument.rsplit('.').next().unwrap_or_default();
    let (between, behind_name) = match (expansion.operator, expansion.explodes) {
        (_, false) => (",", ","),
        (Operator::Simple, true) => (",", "="),
        (Operator::Label, true) => (".", "="),
        (Operator::Matrix, true) if value.is_array() => {
            return Some(
                value
                    .as_array()?
                    .iter()
                    .map(|item| Some(format!(";{name}={}", encoded(&scalar(item)?))))
                    .collect::<Option<Vec<String>>>()?
                    .concat(),
            );
        }
        (Operator::Matrix, true) => (";", "="),
    };
    let text = joined(value, between, behind_name, &encoded)?;
    Some(match expansion.operator {
        Operator::Simple => text,
        Operator::Label => format!(".{text}"),
        Operator::Matrix if expansion.explodes && value.is_object() => format!(";{text}"),
        Operator::Matrix => format!(";{name}={text}"),
    })
}

/// Members and items under names in brackets, as the parsers of forms in Rails, PHP and Node read them.
fn deep(name: &str, value: &Value, encode: &dyn Fn(&str) -> String, pairs: &mut Vec<Pair>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (member, value) in members {
                deep(
                    &format!("{name}%5B{}%5D", encoded(member)),
                    value,
                    encode,
                    pairs,
                );
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                match scalar(item) {
                    Some(text) => pairs.push((format!("{name}%5B%5D"), encode(&text))),
                    None => deep(&format!("{name}%5B{index}%5D"), item, encode, pairs),
                }
            }
        }
        value => pairs.extend(scalar(value).map(|text| (name.to_owned(), encode(&text)))),
    }
}

impl BodyTemplate {
    /// Writes the body and returns its media type.
    fn write(&self, filling: &Filling<'_>, body: &mut Vec<u8>) -> Rendering<Option<&'static str>> {
        match self {
            Self::Json(node) => {
                // There is no body where its only argument is left out.
                let Some(value) = node.value(filling)? else {
                    return Ok(None);
                };
                body.extend_from_slice(value.to_string().as_bytes());
                Ok(Some("application/json"))
            }
            Self::Form(members) => {
                let mut form = String::new();
                for named in members {
                    for (name, value) in named.pairs(filling, IN_FORM)? {
                        let before = if form.is_empty() { "" } else { "&" };
                        let _ = write!(form, "{before}{name}={value}");
                    }
                }
                body.extend_from_slice(form.as_bytes());
                Ok(None)
            }
            Self::Text(template) => {
                let is_left_out = template
                    .whole()
                    .is_some_and(|piece| piece.value(filling).is_none_or(|value| value.is_null()));
                if !is_left_out {
                    let text = template.as_text(filling, "the body")?;
                    body.extend_from_slice(text.as_bytes());
                }
                Ok(None)
            }
        }
    }
}

impl Node {
    /// The value of a node; `None` for an argument that the call leaves out.
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

/// Percent-encodes all characters but letters, digits and `-._~`.
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

/// The same, but keeps signs that separate the parts of an address, except the separators of a query's values.
fn encoded_but_reserved(text: &str) -> String {
    const RESERVED: &str = ":/?@!$'()*,;";
    let mut written = String::with_capacity(text.len());
    for part in text.split_inclusive(|character| RESERVED.contains(character)) {
        let kept = part.chars().next_back();
        match kept.filter(|last| RESERVED.contains(*last)) {
            Some(last) => {
                written.push_str(&encoded(&part[..part.len() - 1]));
                written.push(last);
            }
            None => written.push_str(&encoded(part)),
        }
    }
    written
}
