//! Makes records of files that hold data rather than text: JSON, JSON Lines, YAML and CSV. Knows each format's shape and
//! lines; what makes a good record is not decided here.

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
        Format::JsonLines => Ok(json_lines(path, text)),
        Format::Yaml => yaml(path, text),
        Format::Csv => csv(path, text),
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

fn json_lines(path: &str, text: &str) -> Vec<Found> {
    text.lines()
        .zip(1..)
        .filter(|(text, _)| !text.trim().is_empty())
        .map(|(text, line)| {
            let line = Some(line);
            match strict_json::fields(text) {
                Ok(fields) => one(path, Format::JsonLines, Form::OneOfMany, line, fields),
                Err(error) => Found {
                    line,
                    record: Err(Fault::new(
                        line,
                        format!("the line is no JSON object: {}", reason(&error)),
                    )),
                },
            }
        })
        .collect()
}

fn yaml(path: &str, text: &str) -> Result<Vec<Found>, Fault> {
    match front_matter::yaml(text).map_err(|fault| fault.after("the file is not good YAML"))? {
        Value::Object(fields) => Ok(vec![one(path, Format::Yaml, Form::Single, Some(1), fields)]),
        Value::Array(items) => {
            // An item of a list that is written in blocks begins with a dash in the first column.
            let mut starts = text
                .lines()
                .zip(1..)
                .filter(|(line, _)| *line == "-" || line.starts_with("- "))
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

fn csv(path: &str, text: &str) -> Result<Vec<Found>, Fault> {
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
            Err(error) => {
                let fault = bad_row(&error);
                Found {
                    line: fault.line,
                    record: Err(fault),
                }
            }
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
            if let Some(Value::Object(inner)) = fields.remove("metadata") {
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
