//! Makes records of files that hold data rather than text: JSON, JSON Lines, YAML and CSV. Knows each format's shape and
//! lines; what makes a good record is not decided here.

use crate::csv_rows::{self, Rows};
#[cfg(feature = "documents")]
use crate::documents;
use crate::front_matter::{self, Fault, Form};
use crate::record;
use crate::strict_json;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::HashSet;
use windlass_tool::handler::Record;

/// The columns of a CSV file whose cells are lists, and what separates their items.
const LIST_COLUMNS: [&str; 2] = ["aliases", "tags"];
const LIST_SEPARATOR: char = ';';
const COLUMNS_MAX: usize = 256;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a file's name says of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Markdown,
    Json,
    JsonLines,
    Yaml,
    Csv,
    #[cfg(feature = "documents")]
    Html,
    #[cfg(feature = "documents")]
    Pdf,
}

impl Format {
    pub(crate) fn of(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "md" => Some(Self::Markdown),
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "yaml" | "yml" => Some(Self::Yaml),
            "csv" => Some(Self::Csv),
            #[cfg(feature = "documents")]
            "html" | "htm" => Some(Self::Html),
            #[cfg(feature = "documents")]
            "pdf" => Some(Self::Pdf),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Json | Self::JsonLines => "json",
            Self::Yaml => "yaml",
            Self::Csv => "csv",
            #[cfg(feature = "documents")]
            Self::Html => "html",
            #[cfg(feature = "documents")]
            Self::Pdf => "pdf",
        }
    }
}

/// A record of a file, or what is wrong with it, and the line where it begins.
pub(crate) struct Found {
    pub(crate) line: Option<usize>,
    pub(crate) record: Result<Record, Fault>,
}

/// Reads all records of a file. The error is that of a file that holds none because of its form.
pub(crate) fn read(path: &str, format: Format, bytes: &[u8]) -> Result<Vec<Found>, Fault> {
    #[cfg(feature = "documents")]
    if format == Format::Pdf {
        return Ok(vec![document(path, format, documents::pdf(bytes)?)]);
    }
    // Where a record is a line or a row, one that is no text costs itself alone. Zeros are of no text at all.
    if !bytes.contains(&0) {
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        if format == Format::JsonLines {
            return Ok(json_lines(path, bytes));
        }
        if format == Format::Csv {
            return csv(path, bytes);
        }
    }
    let text = front_matter::text(bytes)?;
    match format {
        #[cfg(feature = "documents")]
        Format::Html | Format::Pdf => Ok(vec![document(path, format, documents::html(text)?)]),
        Format::Markdown => {
            let record = front_matter::read(path, text)?;
            let line = front_matter::line_of(text, "id");
            Ok(vec![Found {
                line,
                record: Ok(record),
            }])
        }
        Format::Json => json(path, text),
        Format::JsonLines => Ok(json_lines(path, text.as_bytes())),
        Format::Yaml => yaml(path, text),
        Format::Csv => csv(path, text.as_bytes()),
    }
}

/// The record of a document, which says nothing of itself but its title and its text.
#[cfg(feature = "documents")]
fn document(path: &str, format: Format, document: documents::Document) -> Found {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let mut fields = Map::new();
    let title = document
        .title
        .unwrap_or_else(|| stem.replace(['_', '-'], " "));
    fields.insert("title".to_owned(), title.into());
    fields.insert("body".to_owned(), document.text.into());
    if !folders.contains('/') {
        fields.insert("type".to_owned(), "document".into());
    }
    one(path, format, Form::Single, None, fields)
}

fn json(path: &str, text: &str) -> Result<Vec<Found>, Fault> {
    let bad = |error: serde_json::Error| {
        Fault::new(
            Some(error.line().max(1)),
            format!("the file is not good JSON: {}", reason(&error)),
        )
    };
    if !text.trim_start().starts_with('[') {
        let fields = strict_json::fields(text).map_err(bad)?;
        return Ok(vec![one(path, Format::Json, Form::Single, Some(1), fields)]);
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(bad)?;
    let mut lines = Lines::new(text);
    Ok(items
        .into_iter()
        .map(|item| {
            // The items are parts of the text, so that their places are those of their addresses.
            let place = item.get().as_ptr().addr() - text.as_ptr().addr();
            let line = Some(lines.of(place));
            match strict_json::fields(item.get()) {
                Ok(fields) => one(path, Format::Json, Form::OneOfMany, line, fields),
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

fn json_lines(path: &str, bytes: &[u8]) -> Vec<Found> {
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
            match strict_json::fields(text) {
                Ok(fields) => one(path, Format::JsonLines, Form::OneOfMany, line, fields),
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

fn yaml(path: &str, text: &str) -> Result<Vec<Found>, Fault> {
    let read = match front_matter::yaml(text) {
        Ok(read) => read,
        Err(fault) => {
            return items_of_yaml(path, text).ok_or(fault.after("the file is not good YAML"));
        }
    };
    match read {
        Value::Object(fields) => Ok(vec![one(path, Format::Yaml, Form::Single, Some(1), fields)]),
        Value::Array(items) => {
            // An item of a list that is written in blocks begins with a dash in the first column.
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
                        Value::Object(fields) => {
                            one(path, Format::Yaml, Form::OneOfMany, line, fields)
                        }
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

/// Whether a line begins an item of a list that is the whole file.
fn begins_item(line: &str) -> bool {
    line.trim_end() == "-" || line.starts_with("- ")
}

/// Each item of a list that is the whole file read by itself, so that a bad one costs no other. `None` where the file is no
/// such list.
fn items_of_yaml(path: &str, text: &str) -> Option<Vec<Found>> {
    let mut items: Vec<(usize, &str)> = Vec::new();
    let (mut start, mut place, mut first_line) = (None, 0, 1);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let is_empty = line.trim().is_empty() || line.starts_with('#') || line.starts_with("---");
        match start {
            None if is_empty => {}
            None if !begins_item(line) => return None,
            None => (start, first_line) = (Some(place), number),
            Some(began) if begins_item(line) => {
                items.push((first_line, &text[began..place]));
                (start, first_line) = (Some(place), number);
            }
            Some(_) => {}
        }
        place += line.len();
    }
    items.push((first_line, &text[start?..]));
    let read = |(first_line, item): (usize, &str)| {
        let line = Some(first_line);
        match front_matter::yaml(item) {
            Ok(Value::Array(values)) => match <[Value; 1]>::try_from(values) {
                Ok([Value::Object(fields)]) => {
                    one(path, Format::Yaml, Form::OneOfMany, line, fields)
                }
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

fn csv(path: &str, bytes: &[u8]) -> Result<Vec<Found>, Fault> {
    let Rows { text, faults } = csv_rows::good_rows(bytes);
    let mut faults = faults.into_iter().peekable();
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let is_header = |line: &[u8]| line.iter().any(|byte| *byte != b'\r');
    let header = lines.position(is_header).map(|place| place + 1);
    // Without the names of its columns nothing of the file can be read.
    if let Some(first) = faults.next_if(|fault| fault.line == header) {
        return Err(first);
    }
    let mut found = table(path, &text)?;
    found.extend(faults.map(bad));
    found.sort_by_key(|found| found.line);
    Ok(found)
}

fn table(path: &str, text: &str) -> Result<Vec<Found>, Fault> {
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
                one(path, Format::Csv, Form::OneOfMany, line, fields)
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
    path: &str,
    format: Format,
    form: Form,
    line: Option<usize>,
    mut fields: Map<String, Value>,
) -> Found {
    let record = body(&mut fields)
        .and_then(|body| {
            if let Some(inner) = metadata(&mut fields)? {
                if let Some(twice) = inner.keys().find(|key| fields.contains_key(*key)) {
                    return Err(record::RecordError::new(
                        "metadata",
                        format!("has {twice:.60?}, and so has the record: keep one of the two"),
                    ));
                }
                fields.extend(inner);
            }
            front_matter::assemble(path, fields, &body, form)
        })
        .and_then(|mut record| {
            record.source_type = format.as_str().to_owned();
            record::admit(record)
        })
        .map_err(|error| Fault::new(line, error.to_string()));
    Found { line, record }
}

/// What stands under `metadata`, whose members are further fields.
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

/// A record's text: the field `body`, or `text`.
fn body(fields: &mut Map<String, Value>) -> Result<String, record::RecordError> {
    let body = front_matter::text_field(fields, "body")?;
    Ok(match body {
        Some(body) => body,
        None => front_matter::text_field(fields, "text")?.unwrap_or_default(),
    })
}

/// What serde_json has to say, without the place, which the report has already.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    record::clean_line(message)
}

/// Counts lines of a text up to rising places.
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
