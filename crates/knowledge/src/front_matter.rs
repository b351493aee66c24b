//! Makes a record of one Markdown file: its front matter, its text, and what the path says where they are silent.
//! Knows no other file and no folder.

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
}

/// Reads a record from the bytes of the file at `path`, which is relative to the base's folder and spelt with `/`.
pub(crate) fn read(path: &str, bytes: &[u8]) -> Result<Record, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + line_ends(&bytes[..error.valid_up_to()]);
        Fault::new(Some(line), "the file is not UTF-8: save it as UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (front, body) = split(text)?;
    let fields = parse(front)?;
    assemble(path, fields, body)
        .and_then(record::admit)
        .map_err(|error| Fault::new(line_of(front, error.field), error.to_string()))
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

fn parse(front: &str) -> Result<Map<String, Value>, Fault> {
    // Only `true` and `false` are truth values, so that a title `No` stays text.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(front, options).map_err(|error| {
        let line = error
            .location()
            .and_then(|location| usize::try_from(location.line()).ok())
            .filter(|line| *line > 0);
        let message = error.to_string();
        // The place stands before the message already.
        let message = message.split(" at line ").next().unwrap_or_default();
        let message = record::clean_line(message);
        Fault::new(
            line,
            format!("the front matter is not good YAML: {message}"),
        )
    })
}

/// The line on which the front matter gives a field, or its first line where it does not.
fn line_of(front: &str, field: &str) -> Option<usize> {
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

fn assemble(path: &str, mut fields: Map<String, Value>, body: &str) -> Result<Record, RecordError> {
    let place = Place::of(path);
    let namespace = text(&mut fields, "namespace")?
        .or_else(|| place.folders.first().map(|folder| (*folder).to_owned()))
        .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let id = text(&mut fields, "id")?;
    let record_type = text(&mut fields, "type")?
        .or_else(|| place.folders.get(1).map(|folder| (*folder).to_owned()))
        .or_else(|| {
            let (prefix, _) = id.as_deref()?.split_once(':')?;
            Some(prefix.to_owned())
        })
        .unwrap_or_default();
    let id = match id {
        Some(id) => id,
        None => place.id(&record_type)?,
    };
    let title = text(&mut fields, "title")?
        .or_else(|| heading(body))
        .unwrap_or_default();
    Ok(Record {
        id,
        namespace,
        record_type,
        title,
        aliases: list(&mut fields, "aliases")?,
        body: body.to_owned(),
        tags: list(&mut fields, "tags")?,
        url: text(&mut fields, "url")?,
        source_type: "markdown".to_owned(),
        source_path: path.to_owned(),
        last_updated: text(&mut fields, "last_updated")?,
        metadata: fields,
    })
}

/// What a file's path says about its record: `namespace/type/more/name.md`.
struct Place<'a> {
    folders: Vec<&'a str>,
    stem: &'a str,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Self {
        let mut folders: Vec<&str> = path.split('/').collect();
        let name = folders.pop().unwrap_or_default();
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        Self { folders, stem }
    }

    /// `type:slug`, the slug made of all that the path says below the namespace and a folder named like the type.
    fn id(&self, record_type: &str) -> Result<String, RecordError> {
        let below = match self.folders.get(1) {
            Some(folder) if *folder == record_type => 2,
            Some(_) | None => 1.min(self.folders.len()),
        };
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
                            "is missing, and the path has characters that an id cannot have: add an id to the front \
                             matter",
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

fn text(
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

fn list(fields: &mut Map<String, Value>, field: &'static str) -> Result<Vec<String>, RecordError> {
    let not_a_list = || RecordError::new(field, "is not a list of texts: write `[one, \"two\"]`");
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
