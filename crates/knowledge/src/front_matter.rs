//! Makes a record of one text file: from its front matter, its text, and the path for missing facts. Knows no other file and no folder.

use crate::access::Access;
use crate::asset;
use crate::markdown;
use crate::plain_fields;
use crate::record::{self, DEFAULT_NAMESPACE, RecordError};
use crate::slug;
use serde_json::{Map, Value};
use windlass_contract::handler::Record;

/// The most bytes of front matter. It holds a record's facts, not its text.
const FRONT_MATTER_BYTES_MAX: usize = 64 * 1024;

/// A file's problem, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// From 1; `None` where something is missing.
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

    /// The same fault with its subject before the message.
    pub(crate) fn after(self, subject: &str) -> Self {
        Self {
            message: format!("{subject}: {}", self.message),
            ..self
        }
    }
}

/// The type of a text without a type and a folder.
const USUAL_TYPE: &str = "document";
/// The type of a question with its answer, in the same case.
const QUESTION_TYPE: &str = "faq";

/// The source of a record's name, where it has no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The only record of its file: the path names it.
    Single,
    /// One of several records: it has no name.
    OneOfMany,
    /// A question with its answer: the path and the question name it.
    Question,
}

/// A file's bytes as text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + line_ends(&bytes[..error.valid_up_to()]);
        Fault::new(Some(line), "the file is not UTF-8: save it as UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads a record from the text of a file, with the line where it begins.
pub(crate) fn read(place: &RecordFile<'_>, text: &str) -> Result<(Option<usize>, Record), Fault> {
    let (front, body) = match place.kind {
        TextKind::Markdown | TextKind::Mdx => split(text)?,
        TextKind::Plain => ("", text),
    };
    if front.is_empty() && body.trim().is_empty() {
        return Err(Fault::new(None, "the file is empty: write its text"));
    }
    let without_modules;
    let body = match place.kind {
        TextKind::Mdx => {
            without_modules = markdown::without_modules(body);
            &without_modules
        }
        TextKind::Markdown | TextKind::Plain => body,
    };
    // Parsing YAML would take most of a start's time.
    let fields = match plain_fields::read(front) {
        Some(fields) => fields,
        None if front.is_empty() => Map::new(),
        None => fields(front)?,
    };
    assemble(place, fields, body, Form::Single)
        .and_then(record::admit)
        .map(|record| (line_of(front, "id"), record))
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

/// Splits off the front matter with its opening line, so that its lines have the file's numbers, and the text after it. A text without
/// that first line has no front matter.
fn split(text: &str) -> Result<(&str, &str), Fault> {
    let mut lines = text.split_inclusive('\n');
    let Some(opening) = lines.next().filter(|line| line.trim_end() == "---") else {
        return Ok(("", text));
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

/// Reads YAML; the fault contains only the problem.
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
        // The message is preceded by the line already.
        let message = message.split(" at line ").next().unwrap_or_default();
        Fault::new(line, record::clean_line(message))
    })
}

/// The line of the front matter that sets a field; its first line where none does.
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

/// Makes a record of its fields and its text, with the path's facts for missing fields.
pub(crate) fn assemble(
    place: &RecordFile<'_>,
    mut fields: Map<String, Value>,
    body: &str,
    form: Form,
) -> Result<Record, RecordError> {
    let namespace = text_field(&mut fields, "namespace")?
        .unwrap_or_else(|| place.namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned());
    let id = id_field(&mut fields)?;
    let prefix = id.as_deref().and_then(|id| id.split_once(':'));
    let record_type = text_field(&mut fields, "type")?
        .or_else(|| Some(prefix?.0.to_owned()))
        .or_else(|| place.record_type(&fields))
        .or_else(|| Some(place.usual_type(form)?.to_owned()))
        .unwrap_or_default();
    let title = text_field(&mut fields, "title")?
        .or_else(|| markdown::first_heading(body).map(|heading| record::title(&heading)))
        .or_else(|| place.is_text().then(|| record::title(&place.name())));
    let title = title.unwrap_or_default();
    let id = match (id, form) {
        (Some(id), _) if !id.contains(':') => format!("{record_type}:{id}"),
        (Some(id), _) => id,
        (None, Form::Single) => place.id(&record_type, None),
        (None, Form::Question) => place.id(&record_type, Some(&title)),
        (None, Form::OneOfMany) => {
            return Err(RecordError::new(
                "id",
                "is missing: in a file of several records each one needs its own",
            ));
        }
    };
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

/// The structure of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Optional front matter, then the text.
    Markdown,
    /// The same with modules, which are code.
    Mdx,
    /// Text only.
    Plain,
}

/// A file of records, and the facts in its path: `namespace/type/more/name.md`. The first folder is a namespace only if the configuration
/// names it so.
pub(crate) struct RecordFile<'a> {
    /// Relative to the base's folder, with `/`.
    path: &'a str,
    source_type: &'static str,
    kind: TextKind,
    namespace: Option<&'a str>,
    /// The folders below the namespace.
    folders: Vec<&'a str>,
    stem: &'a str,
}

impl<'a> RecordFile<'a> {
    pub(crate) fn of(
        path: &'a str,
        source_type: &'static str,
        kind: TextKind,
        access: &Access,
    ) -> Self {
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
            kind,
            namespace,
            folders,
            stem,
        }
    }

    /// The first folder as a type. A folder named like an asset type does not apply to a text without an asset.
    fn record_type(&self, fields: &Map<String, Value>) -> Option<String> {
        let has_asset = || {
            ["url", asset::FILE_FIELD]
                .iter()
                .any(|field| fields.contains_key(*field))
        };
        slug::word(self.folders.first()?)
            .filter(|word| !self.is_text() || !asset::is_kind(word) || has_asset())
    }

    fn usual_type(&self, form: Form) -> Option<&'static str> {
        match form {
            Form::Question => Some(QUESTION_TYPE),
            Form::Single | Form::OneOfMany => self.is_text().then_some(USUAL_TYPE),
        }
    }

    /// The file's name as words.
    pub(crate) fn name(&self) -> String {
        self.stem.replace(['_', '-'], " ")
    }

    /// Whether the file is a text, and not data.
    fn is_text(&self) -> bool {
        matches!(self.source_type, "markdown" | "text" | "html" | "pdf")
    }

    /// `type:slug`. The slug is made of the path below the namespace and below a folder named like the type, and of the record's own name
    /// if the file holds several.
    fn id(&self, record_type: &str, name: Option<&str>) -> String {
        let first = self.folders.first().and_then(|folder| slug::word(folder));
        let below = usize::from(first.as_deref() == Some(record_type));
        let mut parts = self.folders[below..].to_vec();
        parts.push(self.stem);
        parts.extend(name);
        let room = record::ID_BYTES_MAX.saturating_sub(record_type.len() + 1);
        format!("{record_type}:{}", slug::slug(&parts, room))
    }
}

/// Reads an id, which may be a number, as in many tables.
fn id_field(fields: &mut Map<String, Value>) -> Result<Option<String>, RecordError> {
    if let Some(Value::Number(number)) = fields.get("id")
        && (number.is_u64() || number.is_i64())
    {
        let id = number.to_string();
        fields.remove("id");
        return Ok(Some(id));
    }
    let id = text_field(fields, "id")?;
    Ok(id.map(|id| record::id(&id)))
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
                // A year is a valid tag and needs no quotes.
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
