//! The definition of a good record: the rules for its fields, their limits, and the cleaning of its texts. Knows no file and no index.

use crate::asset;
use crate::date::{self, DayEdge};
use serde_json::Value;
use windlass_contract::handler::Record;

/// The namespace of a record without one.
pub const DEFAULT_NAMESPACE: &str = "public";

pub(crate) const ID_BYTES_MAX: usize = 128;
pub(crate) const WORD_BYTES_MAX: usize = 63;
const TITLE_CHARACTERS_MAX: usize = 300;
const ALIASES_MAX: usize = 64;
const ALIAS_CHARACTERS_MAX: usize = 200;
const TAGS_MAX: usize = 64;
const TAG_CHARACTERS_MAX: usize = 64;
const URL_BYTES_MAX: usize = 2_048;

/// The problem of a record's field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct RecordError {
    /// The field's name as the front matter spells it.
    pub field: &'static str,
    /// The problem and its cure, to be read after the field's name.
    pub problem: String,
}

impl RecordError {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }
}

/// Cleans a record's text and checks its fields against the rules.
pub(crate) fn admit(mut record: Record) -> Result<Record, RecordError> {
    let fields = fields_of(&record.source_type);
    check_word("type", &record.record_type, fields)?;
    check_word("namespace", &record.namespace, fields)?;
    record.id = id(&record.id);
    check_id(&record.id, &record.record_type)?;
    record.title = clean_line(&record.title);
    if record.title.is_empty() {
        return Err(RecordError::new(
            "title",
            format!("is missing: add it to {fields}, or begin the text with a heading"),
        ));
    }
    check_length("title", &record.title, TITLE_CHARACTERS_MAX)?;
    record.aliases = clean_list(record.aliases, clean_line);
    check_list(
        "aliases",
        &record.aliases,
        ALIASES_MAX,
        ALIAS_CHARACTERS_MAX,
    )?;
    record.tags = clean_list(record.tags, tag);
    check_list("tags", &record.tags, TAGS_MAX, TAG_CHARACTERS_MAX)?;
    if let Some(url) = &record.url {
        check_url(url)?;
    }
    check_asset(&record)?;
    if let Some(text) = &record.last_updated
        && date::parse(text, DayEdge::First).is_none()
    {
        return Err(RecordError::new(
            "last_updated",
            format!(
                "is {:?}, which is no date: write 2024-05-31 or 2024-05-31T18:00:00Z",
                shortened(text)
            ),
        ));
    }
    record.body = clean_body(&record.body);
    record.metadata = record
        .metadata
        .into_iter()
        .map(|(key, value)| (clean_line(&key), clean_value(value)))
        .collect();
    Ok(record)
}

/// The form in which ids are stored and compared.
pub(crate) fn id(text: &str) -> String {
    text.trim().to_ascii_lowercase()
}

/// The form in which tags are stored and compared.
pub(crate) fn tag(text: &str) -> String {
    clean_line(text).to_lowercase()
}

/// A title from a text that was not written as a title.
pub(crate) fn title(text: &str) -> String {
    let mut line = clean_line(text);
    if let Some((end, _)) = line.char_indices().nth(TITLE_CHARACTERS_MAX) {
        line.truncate(end);
        line.truncate(line.trim_end().len());
    }
    line
}

/// Whether a text can be a word of the base's own vocabulary: a type or a namespace.
pub(crate) fn is_word(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && text.len() <= WORD_BYTES_MAX
}

/// The container of a record's fields in a file of that kind, as messages name it.
pub(crate) fn fields_of(source_type: &str) -> &'static str {
    match source_type {
        "markdown" => "the front matter",
        "json" => "the JSON object",
        "yaml" => "the YAML mapping",
        "csv" => "the row",
        _ => "the record",
    }
}

fn check_word(field: &'static str, text: &str, fields: &'static str) -> Result<(), RecordError> {
    if text.is_empty() {
        return Err(RecordError::new(
            field,
            format!("is missing: add it to {fields}"),
        ));
    }
    if is_word(text) {
        return Ok(());
    }
    Err(RecordError::new(
        field,
        format!(
            "is {:?}: use at most {WORD_BYTES_MAX} lower-case letters, digits and `_`, beginning with a letter",
            shortened(text)
        ),
    ))
}

fn check_id(id: &str, record_type: &str) -> Result<(), RecordError> {
    let Some((prefix, slug)) = id.split_once(':') else {
        return Err(RecordError::new(
            "id",
            format!("is {:?}: write it as `type:name`", shortened(id)),
        ));
    };
    let is_slug = slug.bytes().all(|byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.')
    });
    if !is_slug || slug.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(RecordError::new(
            "id",
            format!(
                "is {:?}: after the colon use letters, digits, `_`, `-` and `.`, at most {ID_BYTES_MAX} bytes in all",
                shortened(id)
            ),
        ));
    }
    if prefix != record_type {
        return Err(RecordError::new(
            "id",
            format!(
                "begins with {:?} but the type is {record_type:?}: make them the same",
                shortened(prefix)
            ),
        ));
    }
    Ok(())
}

fn check_length(field: &'static str, text: &str, characters_max: usize) -> Result<(), RecordError> {
    let characters = text.chars().count();
    if characters <= characters_max {
        return Ok(());
    }
    Err(RecordError::new(
        field,
        format!("has {characters} characters: shorten it to {characters_max}"),
    ))
}

fn check_list(
    field: &'static str,
    list: &[String],
    items_max: usize,
    characters_max: usize,
) -> Result<(), RecordError> {
    if list.len() > items_max {
        return Err(RecordError::new(
            field,
            format!("has {} items: keep at most {items_max}", list.len()),
        ));
    }
    list.iter()
        .try_for_each(|item| check_length(field, item, characters_max))
}

fn check_url(url: &str) -> Result<(), RecordError> {
    let is_web = ["https://", "http://"].iter().any(|scheme| {
        url.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    });
    let is_plain = !url
        .chars()
        .any(|character| character.is_whitespace() || is_unwanted(character));
    if is_web && is_plain && url.len() <= URL_BYTES_MAX {
        return Ok(());
    }
    Err(RecordError::new(
        "url",
        format!(
            "is {:?}: write an http or https address of at most {URL_BYTES_MAX} bytes without spaces",
            shortened(url)
        ),
    ))
}

/// Checks that an asset names its file or address.
fn check_asset(record: &Record) -> Result<(), RecordError> {
    if asset::kind(record).is_none() {
        return Ok(());
    }
    match record.metadata.get(asset::FILE_FIELD) {
        None if record.url.is_some() => Ok(()),
        None => Err(RecordError::new(
            "url",
            "is missing: a photo, diagram or video needs a `url` or a `file`",
        )),
        Some(Value::String(path)) if stays_inside(path) => Ok(()),
        Some(_) => Err(RecordError::new(
            "file",
            "is no path below the knowledge base's folder: write it like `photos/fram.jpg`",
        )),
    }
}

fn stays_inside(path: &str) -> bool {
    !path.is_empty()
        && path.len() <= 1_024
        && path
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', ':']))
}

/// The beginning of a bad value, long enough to recognise it.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Characters without meaning in a record's text that can mislead a reader on a screen, or carry hidden text to a model: control
/// characters, marks that change the direction of writing, characters without width that join no letters, fillers, and variations and
/// tags.
fn is_unwanted(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// A text without its unwanted characters. The mark that turns the symbol before it into a picture stays, once.
fn wanted(text: &str) -> impl Iterator<Item = char> {
    let mut before = '\0';
    text.chars().filter(move |character| {
        let may_be_drawn = matches!(before, '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}');
        let stays = match character {
            '\u{fe0f}' => may_be_drawn,
            '\n' | '\t' => true,
            character => !is_unwanted(*character),
        };
        if stays {
            before = *character;
        }
        stays
    })
}

/// The text as one line: without unwanted characters, and with single spaces.
pub(crate) fn clean_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let before = line.len();
        line.extend(wanted(word));
        if line.len() > before {
            line.push(' ');
        }
    }
    line.truncate(line.trim_end().len());
    line
}

fn clean_body(text: &str) -> String {
    // Most text is plain, which its bytes show cheaply.
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
    {
        return text.trim().to_owned();
    }
    let text: String = wanted(text).collect();
    text.trim().to_owned()
}

fn clean_list(items: Vec<String>, clean: fn(&str) -> String) -> Vec<String> {
    let mut cleaned: Vec<String> = Vec::with_capacity(items.len().min(TAGS_MAX));
    for item in items {
        let item = clean(&item);
        if !item.is_empty() && !cleaned.contains(&item) {
            cleaned.push(item);
        }
    }
    cleaned
}

fn clean_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean_body(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(clean_value).collect()),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (clean_line(&key), clean_value(value)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Record {
        Record {
            id: "person:colin_archer".to_owned(),
            namespace: "public".to_owned(),
            record_type: "person".to_owned(),
            title: "Colin Archer".to_owned(),
            ..Record::default()
        }
    }

    fn check(change: impl FnOnce(&mut Record), field: Option<&'static str>) {
        let mut record = good();
        change(&mut record);
        let shown = format!("{record:?}");
        let outcome = admit(record).err().map(|error| error.field);
        assert_eq!(outcome, field, "{shown:.300}");
    }

    #[test]
    fn every_field_has_its_rule() {
        check(|_| (), None);
        check(|record| record.id = "colin_archer".into(), Some("id"));
        check(|record| record.id = "person:".into(), Some("id"));
        check(|record| record.id = "Person:Colin_ARCHER".into(), None);
        check(|record| record.id = "person:Æ".into(), Some("id"));
        check(|record| record.id = "person:a b".into(), Some("id"));
        check(|record| record.id = "person:../a".into(), Some("id"));
        check(
            |record| record.id = "project:colin_archer".into(),
            Some("id"),
        );
        check(
            |record| record.id = format!("person:{}", "a".repeat(121)),
            None,
        );
        check(
            |record| record.id = format!("person:{}", "a".repeat(122)),
            Some("id"),
        );
        check(|record| record.record_type = String::new(), Some("type"));
        check(|record| record.record_type = "Person".into(), Some("type"));
        check(|record| record.namespace = "a/b".into(), Some("namespace"));
        check(|record| record.title = " \u{7} ".into(), Some("title"));
        check(|record| record.title = "å".repeat(301), Some("title"));
        check(
            |record| record.aliases = vec!["a".repeat(201)],
            Some("aliases"),
        );
        check(
            |record| record.tags = (0..65).map(|number| format!("t{number}")).collect(),
            Some("tags"),
        );
        check(
            |record| record.url = Some("javascript:alert(1)".into()),
            Some("url"),
        );
        check(|record| record.url = Some("https://".into()), Some("url"));
        check(
            |record| record.url = Some("https://a b".into()),
            Some("url"),
        );
        check(
            |record| record.url = Some("https://frammuseum.no/".into()),
            None,
        );
        check(
            |record| record.last_updated = Some("last May".into()),
            Some("last_updated"),
        );
    }

    #[test]
    fn unwanted_characters_do_not_get_in() {
        let record = admit(Record {
            title: "Colin\u{0}\n Archer\u{202e}".to_owned(),
            tags: vec![
                " Ship\tBuilder".to_owned(),
                "ship builder".to_owned(),
                "\u{1b}".to_owned(),
            ],
            body: "\u{feff}one\r\n\u{1b}[31mtwo\tthree\u{2066}\n\n".to_owned(),
            metadata: serde_json::json!({"a\u{0}": ["b\u{9b}c"]})
                .as_object()
                .cloned()
                .unwrap(),
            ..good()
        })
        .unwrap();
        assert_eq!(record.title, "Colin Archer");
        assert_eq!(record.tags, ["ship builder"]);
        assert_eq!(record.body, "one\n[31mtwo\tthree");
        assert_eq!(
            Value::Object(record.metadata),
            serde_json::json!({"a": ["bc"]})
        );
    }
}
