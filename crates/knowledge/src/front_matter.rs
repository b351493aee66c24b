//! Makes a record of one Markdown file: its front matter, its text, and what the path says where they are silent.
//! Knows no other file and no folder.

use crate::access::Access;
use crate::plain_fields;
use crate::record::{self, DEFAULT_NAMESPACE, RecordError};
use serde_json::{Map, Value};
use windlass_tool::handler::Record;

/// Bytes. Front matter holds a record's facts, not its text.
const FRONT_MATTER_BYTES_MAX: usize = 64 * 1024;

/// What is wrong with a file, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// From 1; `None` where the fault is in what is not there.
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(line: Option<usize>, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
        }
    }

    /// The same fault, said of something.
    pub(crate) fn after(self, subject: &str) -> Self {
        Self {
            message: format!("{subject}: {}", self.message),
            ..self
        }
    }
}

/// Whether a file holds one record, whose path then tells what the record does not, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Single,
    OneOfMany,
}

/// A file's bytes as text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + line_ends(&bytes[..error.valid_up_to()]);
        Fault::new(Some(line), "the file is not UTF-8: save it as UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads a record from the text of a file.
pub(crate) fn read(place: &RecordFile<'_>, text: &str) -> Result<Record, Fault> {
    let (front, body) = split(text)?;
    // Most of what a start takes would be the reading of YAML.
    let fields = match plain_fields::read(front) {
        Some(fields) => fields,
        None => fields(front)?,
    };
    assemble(place, fields, body, Form::Single)
        .and_then(record::admit)
        .map_err(|error| Fault::new(line_of(front, error.field), error.to_string()))
}

fn fields(front: &str) -> Result<Map<String, Value>, Fault> {
    match yaml(front).map_err(|fault| fault.after("the front matter is not good YAML"))? {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(Fault::new(
            Some(2),
            "the front matter is not good YAML: write its fields as `name: value`",
        )),
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// The front matter with its opening line, so that its lines are numbered as the file's are, and the text after it.
fn split(text: &str) -> Result<(&str, &str), Fault> {
    let mut lines = text.split_inclusive('\n');
    let Some(opening) = lines.next().filter(|line| line.trim_end() == "---") else {
        return Err(Fault::new(
            Some(1),
            "the file does not begin with front matter: write `---`, the fields, `---`, then the text",
        ));
    };
    let mut front_bytes = opening.len();
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            return Ok((&text[..front_bytes], &text[front_bytes + line.len()..]));
        }
        front_bytes += line.len();
        if front_bytes > FRONT_MATTER_BYTES_MAX {
            return Err(Fault::new(
                Some(1),
                format!(
                    "the front matter is longer than {FRONT_MATTER_BYTES_MAX} bytes: close it with `---` and keep the \
                     text below it"
                ),
            ));
        }
    }
    Err(Fault::new(
        Some(1),
        "the front matter has no end: close it with a line `---`",
    ))
}

/// Reads YAML; the fault says what is wrong with it and nothing more.
pub(crate) fn yaml(text: &str) -> Result<Value, Fault> {
    // Only `true` and `false` are truth values, so that a title `No` stays text.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error
            .location()
            .and_then(|location| usize::try_from(location.line()).ok())
            .filter(|line| *line > 0);
        let message = error.to_string();
        // The place stands before the message already.
        let message = message.split(" at line ").next().unwrap_or_default();
        Fault::new(line, record::clean_line(message))
    })
}

/// The line on which the front matter gives a field, or its first line where it does not.
pub(crate) fn line_of(front: &str, field: &str) -> Option<usize> {
    front
        .lines()
        .position(|line| {
            line.trim_start_matches(['"', '\''])
                .strip_prefix(field)
                .is_some_and(|rest| {
                    rest.trim_start_matches(['"', '\''])
                        .trim_start()
                        .starts_with(':')
                })
        })
        .or(Some(0))
        .map(|index| index + 1)
}

/// Makes a record of its fields and its text, with what the path says in place of what is missing.
pub(crate) fn assemble(
    place: &RecordFile<'_>,
    mut fields: Map<String, Value>,
    body: &str,
    form: Form,
) -> Result<Record, RecordError> {
    let namespace = text_field(&mut fields, "namespace")?
        .unwrap_or_else(|| place.namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned());
    let id = text_field(&mut fields, "id")?.map(|id| record::id(&id));
    let record_type = text_field(&mut fields, "type")?
        .or_else(|| Some(id.as_deref()?.split_once(':')?.0.to_owned()))
        .or_else(|| place.folders.first().map(|folder| (*folder).to_owned()))
        .unwrap_or_default();
    let id = match (id, form) {
        (Some(id), _) => id,
        (None, Form::Single) => place.id(&record_type)?,
        (None, Form::OneOfMany) => {
            return Err(RecordError::new(
                "id",
                "is missing: in a file of several records each one needs its own",
            ));
        }
    };
    let title = text_field(&mut fields, "title")?
        .or_else(|| heading(body))
        .unwrap_or_default();
    Ok(Record {
        id,
        namespace,
        record_type,
        title,
        aliases: list_field(&mut fields, "aliases")?,
        body: body.to_owned(),
        tags: list_field(&mut fields, "tags")?,
        url: text_field(&mut fields, "url")?,
        source_type: place.source_type.to_owned(),
        source_path: place.path.to_owned(),
        last_updated: text_field(&mut fields, "last_updated")?,
        metadata: fields,
    })
}

/// A file of records, and what its path says about them: `namespace/type/more/name.md`. The first folder is a namespace only
/// where the configuration names it so.
pub(crate) struct RecordFile<'a> {
    /// Relative to the base's folder and spelt with `/`.
    path: &'a str,
    source_type: &'static str,
    namespace: Option<&'a str>,
    /// Those below the namespace.
    pub(crate) folders: Vec<&'a str>,
    pub(crate) stem: &'a str,
}

impl<'a> RecordFile<'a> {
    pub(crate) fn of(path: &'a str, source_type: &'static str, access: &Access) -> Self {
        let mut folders: Vec<&str> = path.split('/').collect();
        let name = folders.pop().unwrap_or_default();
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let is_namespace = |folder: &&str| *folder == DEFAULT_NAMESPACE || access.names(folder);
        let namespace = folders.first().copied().filter(is_namespace);
        if namespace.is_some() {
            folders.remove(0);
        }
        Self {
            path,
            source_type,
            namespace,
            folders,
            stem,
        }
    }

    /// `type:slug`, the slug made of all that the path says below the namespace and a folder named like the type.
    fn id(&self, record_type: &str) -> Result<String, RecordError> {
        let is_of_type = self.folders.first() == Some(&record_type);
        let below = usize::from(is_of_type);
        let mut slug = String::new();
        for part in self.folders[below..].iter().chain([&self.stem]) {
            for byte in part.bytes() {
                match byte {
                    b'a'..=b'z' | b'0'..=b'9' => slug.push(char::from(byte)),
                    b'A'..=b'Z' => slug.push(char::from(byte.to_ascii_lowercase())),
                    b' ' | b'-' | b'_' | b'.' => slug.push('_'),
                    _ => {
                        return Err(RecordError::new(
                            "id",
                            format!(
                                "is missing, and the path has characters that an id cannot have: add an id to {}, or \
                                 rename the file",
                                record::fields_of(self.source_type)
                            ),
                        ));
                    }
                }
            }
            slug.push('_');
        }
        Ok(format!("{record_type}:{}", slug.trim_matches('_')))
    }
}

fn heading(body: &str) -> Option<String> {
    let first = body.lines().find(|line| !line.trim().is_empty())?;
    Some(first.strip_prefix("# ")?.to_owned())
}

pub(crate) fn text_field(
    fields: &mut Map<String, Value>,
    field: &'static str,
) -> Result<Option<String>, RecordError> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
        Some(Value::Bool(_) | Value::Number(_)) => {
            Err(RecordError::new(field, "is not text: put it in quotes"))
        }
        Some(Value::Array(_) | Value::Object(_)) => {
            Err(RecordError::new(field, "is not text: write one value"))
        }
    }
}

fn list_field(
    fields: &mut Map<String, Value>,
    field: &'static str,
) -> Result<Vec<String>, RecordError> {
    let not_a_list =
        || RecordError::new(field, "is not a list of texts: write `[\"one\", \"two\"]`");
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                // A year is a good tag and needs no quotes.
                Value::Number(number) => Ok(number.to_string()),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    Err(not_a_list())
                }
            })
            .collect(),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            Err(not_a_list())
        }
    }
}
