//! Makes records of data files: JSON, JSON Lines, YAML and CSV, also from rows of questions and answers. Knows each format's structure
//! and lines; the rules for a good record are elsewhere.

use crate::access::Access;
use crate::asset;
use crate::csv_rows::{self, Rows};
use crate::documents::{Document, DocumentKind, DocumentReader};
use crate::front_matter::{self, Fault, Form, RecordFile, TextKind};
use crate::record;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::HashSet;
use windlass_contract::handler::Record;
use windlass_contract::json::{self, Members, ParseError};

/// The columns of a CSV file whose cells are lists, and the separator of their items.
const LIST_COLUMNS: [&str; 2] = ["aliases", "tags"];
const LIST_SEPARATOR: char = ';';
const COLUMNS_MAX: usize = 256;
/// The fields of a question with its answer, in upper or lower case.
const QUESTION: &str = "question";
const ANSWER: &str = "answer";
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The format of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Markdown,
    Mdx,
    Plain,
    Json,
    JsonLines,
    Yaml,
    Csv,
    Document(DocumentKind),
}

impl Format {
    pub(crate) fn of(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "mdx" => Some(Self::Mdx),
            "txt" => Some(Self::Plain),
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "yaml" | "yml" => Some(Self::Yaml),
            "csv" => Some(Self::Csv),
            "html" | "htm" => Some(Self::Document(DocumentKind::Html)),
            "pdf" => Some(Self::Document(DocumentKind::Pdf)),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Markdown | Self::Mdx => "markdown",
            Self::Plain => "text",
            Self::Json | Self::JsonLines => "json",
            Self::Yaml => "yaml",
            Self::Csv => "csv",
            Self::Document(kind) => kind.as_str(),
        }
    }

    fn text_kind(self) -> TextKind {
        match self {
            Self::Markdown => TextKind::Markdown,
            Self::Mdx => TextKind::Mdx,
            Self::Plain
            | Self::Json
            | Self::JsonLines
            | Self::Yaml
            | Self::Csv
            | Self::Document(_) => TextKind::Plain,
        }
    }
}

/// The settings for reading every file of a folder.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) access: &'a Access,
    pub(crate) documents: Option<&'a dyn DocumentReader>,
}

/// A record of a file or its problem, and the line where it begins.
pub(crate) struct Found {
    pub(crate) line: Option<usize>,
    pub(crate) record: Result<Record, Fault>,
}

/// The number of good records in a file of this name and content. `None` where its name or form allows none.
pub fn records_in(path: &str, bytes: &[u8]) -> Option<usize> {
    let (_, extension) = path.rsplit_once('.')?;
    let reading = Reading {
        access: &Access::open([]),
        documents: None,
    };
    let found = read(path, Format::of(extension)?, reading, bytes).ok()?;
    Some(found.iter().filter(|found| found.record.is_ok()).count())
}

/// Reads all records of a file. The error is for a file whose form allows no records.
pub(crate) fn read(
    path: &str,
    format: Format,
    reading: Reading<'_>,
    bytes: &[u8],
) -> Result<Vec<Found>, Fault> {
    let place = &RecordFile::of(path, format.as_str(), format.text_kind(), reading.access);
    if let (Format::Document(kind), Some(documents)) = (format, reading.documents) {
        let read = documents.read(kind, bytes);
        let read = read.map_err(|message| Fault::new(None, message))?;
        return Ok(vec![document(place, read)]);
    }
    // If records are lines or rows, a row that is no text costs only itself. Zero bytes occur in no text at all.
    if !bytes.contains(&0) {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        if format == Format::JsonLines {
            return Ok(json_lines(place, bytes));
        }
        if format == Format::Csv {
            return csv(place, bytes);
        }
    }
    let text = front_matter::text(bytes)?;
    match format {
        Format::Document(_) => Ok(Vec::new()),
        Format::Markdown | Format::Mdx | Format::Plain => {
            let (line, record) = front_matter::read(place, text)?;
            Ok(vec![Found {
                line,
                record: Ok(record),
            }])
        }
        Format::Json => json(place, text),
        Format::JsonLines => Ok(json_lines(place, text.as_bytes())),
        Format::Yaml => yaml(place, text),
        Format::Csv => csv(place, text.as_bytes()),
    }
}

/// The record of a document, which has only its title and its text.
fn document(place: &RecordFile<'_>, document: Document) -> Found {
    let mut fields = Map::new();
    let title = document.title.unwrap_or_else(|| place.name());
    fields.insert("title".to_owned(), title.into());
    fields.insert("body".to_owned(), document.text.into());
    one(place, Form::Single, None, fields)
}

fn json(place: &RecordFile<'_>, text: &str) -> Result<Vec<Found>, Fault> {
    let bad = |error: ParseError| {
        Fault::new(
            Some(error.line.max(1)),
            format!("the file is not good JSON: {}", reason(&error)),
        )
    };
    let list = match text.trim_start().starts_with('[') {
        true => Some(text),
        false => {
            let Members(members) = json::read::<Members<&RawValue>>(text).map_err(bad)?;
            only_list(
                members
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.get())),
                |list| {
                    list.strip_prefix('[')
                        .is_some_and(|items| items.trim_start().starts_with('{'))
                },
            )
        }
    };
    let Some(list) = list else {
        // Parsed again as a whole, to refuse repeated keys.
        let fields = fields(text).map_err(bad)?;
        return Ok(vec![one(place, Form::Single, Some(1), fields)]);
    };
    let items: Vec<&RawValue> = json::read(list).map_err(bad)?;
    let mut lines = Lines::new(text);
    Ok(items
        .into_iter()
        .map(|item| {
            // The items are slices of the text, so their positions follow from their addresses.
            let start = item.get().as_ptr().addr() - text.as_ptr().addr();
            let line = Some(lines.of(start));
            match fields(item.get()) {
                Ok(fields) => one(place, Form::OneOfMany, line, fields),
                Err(error) => Found {
                    line,
                    record: Err(Fault::new(
                        line,
                        format!("is no record: {}", reason(&error)),
                    )),
                },
            }
        })
        .collect())
}

fn json_lines(place: &RecordFile<'_>, bytes: &[u8]) -> Vec<Found> {
    bytes
        .split(|byte| *byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .map(|(bytes, line)| {
            let line = Some(line);
            let Ok(text) = std::str::from_utf8(bytes) else {
                return bad(Fault::new(
                    line,
                    "the line is not UTF-8: save the file as UTF-8",
                ));
            };
            match fields(text) {
                Ok(fields) => one(place, Form::OneOfMany, line, fields),
                Err(error) => bad(Fault::new(
                    line,
                    format!("the line is no JSON object: {}", reason(&error)),
                )),
            }
        })
        .collect()
}

fn bad(fault: Fault) -> Found {
    Found {
        line: fault.line,
        record: Err(fault),
    }
}

fn yaml(place: &RecordFile<'_>, text: &str) -> Result<Vec<Found>, Fault> {
    let read = match front_matter::yaml(text) {
        Ok(read) => read,
        Err(fault) => {
            return items_of_yaml(place, text).ok_or(fault.after("the file is not good YAML"));
        }
    };
    let of_objects = |list: &&Value| {
        list.as_array()
            .is_some_and(|items| items.first().is_some_and(Value::is_object))
    };
    let under_a_key = read.as_object().and_then(|fields| {
        only_list(
            fields.iter().map(|(key, value)| (key.as_str(), value)),
            of_objects,
        )
    });
    match under_a_key.cloned().unwrap_or(read) {
        Value::Object(fields) => Ok(vec![one(place, Form::Single, Some(1), fields)]),
        Value::Array(items) => {
            // An item of a block list begins with a dash in the first column.
            let mut starts = text
                .lines()
                .zip(1..)
                .filter(|(line, _)| begins_item(line))
                .map(|(_, number)| number);
            Ok(items
                .into_iter()
                .map(|item| {
                    let line = starts.next();
                    match item {
                        Value::Object(fields) => one(place, Form::OneOfMany, line, fields),
                        _ => Found {
                            line,
                            record: Err(Fault::new(line, "is no record: write its fields")),
                        },
                    }
                })
                .collect())
        }
        Value::Null => Ok(Vec::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(Fault::new(
            Some(1),
            "the file is neither a record nor a list of records",
        )),
    }
}

/// The list of records under a key, as in `{"assets": [...]}`: the only list of objects among the members of an object that is no record
/// itself.
fn only_list<'a, T>(
    members: impl Iterator<Item = (&'a str, T)>,
    is_list: impl Fn(&T) -> bool,
) -> Option<T> {
    const FIELDS_OF_RECORDS: [&str; 6] = ["id", "type", "title", "body", "text", QUESTION];
    let mut found = None;
    for (key, value) in members {
        if FIELDS_OF_RECORDS.contains(&key) || is_list(&value) && found.is_some() {
            return None;
        }
        if is_list(&value) {
            found = Some(value);
        }
    }
    found
}

/// Whether a line begins an item of a list that fills the file.
fn begins_item(line: &str) -> bool {
    line.trim_end() == "-" || line.starts_with("- ")
}

/// Reads each item of a list that fills the file by itself, so that a bad item costs no other. `None` where the file is no such list.
fn items_of_yaml(place: &RecordFile<'_>, text: &str) -> Option<Vec<Found>> {
    let mut items: Vec<(usize, &str)> = Vec::new();
    let (mut start, mut at, mut first_line) = (None, 0, 1);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let is_empty = line.trim().is_empty() || line.starts_with('#') || line.starts_with("---");
        match start {
            None if is_empty => {}
            None if !begins_item(line) => return None,
            None => (start, first_line) = (Some(at), number),
            Some(began) if begins_item(line) => {
                items.push((first_line, &text[began..at]));
                (start, first_line) = (Some(at), number);
            }
            Some(_) => {}
        }
        at += line.len();
    }
    items.push((first_line, &text[start?..]));
    let read = |(first_line, item): (usize, &str)| {
        let line = Some(first_line);
        match front_matter::yaml(item) {
            Ok(Value::Array(values)) => match <[Value; 1]>::try_from(values) {
                Ok([Value::Object(fields)]) => one(place, Form::OneOfMany, line, fields),
                Ok(_) | Err(_) => bad(Fault::new(line, "is no record: write its fields")),
            },
            Ok(_) => bad(Fault::new(line, "is no record: write its fields")),
            Err(fault) => {
                let fault = fault.after("the item is not good YAML");
                let line = first_line + fault.line.unwrap_or(1) - 1;
                bad(Fault::new(Some(line), fault.message))
            }
        }
    };
    Some(items.into_iter().map(read).collect())
}

fn csv(place: &RecordFile<'_>, bytes: &[u8]) -> Result<Vec<Found>, Fault> {
    let Rows { text, faults } = csv_rows::good_rows(bytes);
    let mut faults = faults.into_iter().peekable();
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let is_header = |line: &[u8]| line.iter().any(|byte| *byte != b'\r');
    let header = lines.position(is_header).map(|place| place + 1);
    // A file whose header cannot be read has no readable rows.
    if let Some(first) = faults.next_if(|fault| fault.line == header) {
        return Err(first);
    }
    let mut found = table(place, &text)?;
    found.extend(faults.map(bad));
    found.sort_by_key(|found| found.line);
    Ok(found)
}

fn table(place: &RecordFile<'_>, text: &str) -> Result<Vec<Found>, Fault> {
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let columns = reader.headers().map_err(|error| bad_row(&error))?.clone();
    if columns.len() > COLUMNS_MAX {
        let message = format!(
            "the file has {} columns: keep at most {COLUMNS_MAX}",
            columns.len()
        );
        return Err(Fault::new(Some(1), message));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = columns
        .iter()
        .map(str::trim)
        .find(|column| !column.is_empty() && !seen.insert(*column))
    {
        let message = format!("the column {twice:.60?} is there twice: keep one of the two");
        return Err(Fault::new(Some(1), message));
    }
    Ok(reader
        .into_records()
        .map(|row| match row {
            Ok(row) => {
                let line = row
                    .position()
                    .and_then(|place| usize::try_from(place.line()).ok());
                let fields = columns
                    .iter()
                    .map(str::trim)
                    .zip(&row)
                    .filter(|(column, cell)| !column.is_empty() && !cell.trim().is_empty())
                    .map(|(column, cell)| (column.to_owned(), cell_value(column, cell)))
                    .collect();
                one(place, Form::OneOfMany, line, fields)
            }
            Err(error) => bad(bad_row(&error)),
        })
        .collect())
}

fn cell_value(column: &str, cell: &str) -> Value {
    if !LIST_COLUMNS.contains(&column) {
        return Value::String(cell.to_owned());
    }
    let items = cell.split(LIST_SEPARATOR).map(str::trim);
    Value::Array(items.map(Value::from).collect())
}

fn bad_row(error: &csv::Error) -> Fault {
    let line = error
        .position()
        .and_then(|place| usize::try_from(place.line()).ok());
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("the row has {len} cells, not {expected_len} as the first row has"),
        _ => format!("the row cannot be read: {error}"),
    };
    Fault::new(line, message)
}

fn one(
    place: &RecordFile<'_>,
    form: Form,
    line: Option<usize>,
    mut fields: Map<String, Value>,
) -> Found {
    name_asset(&mut fields);
    let record = text(&mut fields, form)
        .and_then(|(form, body)| {
            if let Some(inner) = metadata(&mut fields)? {
                if let Some(twice) = inner.keys().find(|key| fields.contains_key(*key)) {
                    return Err(record::RecordError::new(
                        "metadata",
                        format!("has {twice:.60?}, and so has the record: keep one of the two"),
                    ));
                }
                fields.extend(inner);
            }
            front_matter::assemble(place, fields, &body, form)
        })
        .and_then(record::admit)
        .map_err(|error| Fault::new(line, error.to_string()));
    Found { line, record }
}

/// Renames the fields of an entry of a picture manifest to the names of assets.
fn name_asset(fields: &mut Map<String, Value>) {
    const KINDS: [&str; 3] = ["image", "picture", "photograph"];
    const PLACES: [&str; 4] = ["path", "filename", "src", "image"];
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let prefix = text("id").and_then(|id| id.split_once(':'));
    let prefix = prefix.map(|(prefix, _)| prefix);
    let kind = text("type").or(prefix).unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    let names_type = prefix.is_none();
    let is_other_name = KINDS.contains(&kind.as_str());
    if !is_other_name && !asset::is_kind(&kind) {
        return;
    }
    let has_place = [asset::FILE_FIELD, "url"]
        .iter()
        .any(|name| fields.contains_key(*name));
    if !has_place
        && let Some(name) = PLACES
            .into_iter()
            .find(|name| fields.get(*name).is_some_and(Value::is_string))
        && let Some(place) = fields.remove(name)
    {
        let is_address = place.as_str().is_some_and(|place| place.contains("://"));
        let name = if is_address { "url" } else { asset::FILE_FIELD };
        fields.insert(name.to_owned(), place);
    }
    let has_place = [asset::FILE_FIELD, "url"]
        .iter()
        .any(|name| fields.contains_key(*name));
    if is_other_name && names_type && has_place {
        fields.insert("type".to_owned(), "photo".into());
    }
}

/// The object under `metadata`, whose members are further fields.
fn metadata(
    fields: &mut Map<String, Value>,
) -> Result<Option<Map<String, Value>>, record::RecordError> {
    match fields.remove("metadata") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(inner)) => Ok(Some(inner)),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(record::RecordError::new(
                "metadata",
                "is no object: write its fields, or give it another name",
            ))
        }
    }
}

/// A record's text: the field `body`, or `text`, or, if it has neither and is no question, its `description`. For a question as title,
/// the answer.
fn text(
    fields: &mut Map<String, Value>,
    form: Form,
) -> Result<(Form, String), record::RecordError> {
    let mut body = front_matter::text_field(fields, "body")?;
    if body.is_none() {
        body = front_matter::text_field(fields, "text")?;
    }
    let is_described = fields.get("description").is_some_and(Value::is_string);
    if body.is_none() && fields.contains_key("title") && is_described {
        body = front_matter::text_field(fields, "description")?;
    }
    if fields.contains_key("title") {
        return Ok((form, body.unwrap_or_default()));
    }
    let Some(question) = taken(fields, QUESTION)? else {
        return Ok((form, body.unwrap_or_default()));
    };
    let mut body = match body {
        Some(body) => body,
        None => taken(fields, ANSWER)?.unwrap_or_default(),
    };
    let title = record::title(&question);
    // The title holds only the beginning of a long question.
    if title.len() < record::clean_line(&question).len() {
        body = format!("{question}\n\n{body}");
    }
    fields.insert("title".to_owned(), title.into());
    Ok((Form::Question, body))
}

/// Takes a non-empty text from a field, whose name may have any case.
fn taken(
    fields: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<String>, record::RecordError> {
    if !fields.contains_key(name) {
        let is_name = |key: &&String| key.eq_ignore_ascii_case(name);
        let key = fields.keys().find(is_name).cloned();
        if let Some(value) = key.and_then(|key| fields.remove(&key)) {
            fields.insert(name.to_owned(), value);
        }
    }
    let text = front_matter::text_field(fields, name)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn reason(error: &ParseError) -> String {
    record::clean_line(&error.message)
}

/// The fields of one object.
fn fields(text: &str) -> Result<Map<String, Value>, ParseError> {
    match json::parse(text.as_bytes())? {
        Value::Object(fields) => Ok(fields),
        _ => Err(ParseError {
            message: "it is no object with the fields of a record".to_owned(),
            line: 1,
            column: 1,
        }),
    }
}

/// Counts the lines of a text up to rising positions.
struct Lines<'a> {
    text: &'a str,
    place: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            place: 0,
            line: 1,
        }
    }

    fn of(&mut self, place: usize) -> usize {
        let place = place.clamp(self.place, self.text.len());
        self.line += self.text.as_bytes()[self.place..place]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        self.place = place;
        self.line
    }
}
