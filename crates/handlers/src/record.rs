//! Evidence: how one record of the knowledge base is put into an answer. Knows fields and lengths, not how records are
//! found.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_contract::handler::{ASSETS, ContentPart, Context, Record};

/// An optional field that a caller may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Field {
    Snippet,
    FullText,
    Metadata,
    Sources,
    Url,
}

/// The fields of a record that every answer shows, so that it can be cited.
pub(crate) fn citation(record: &Record) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("id".into(), record.id.as_str().into());
    object.insert("type".into(), record.record_type.as_str().into());
    object.insert("title".into(), record.title.as_str().into());
    object.insert("source_type".into(), record.source_type.as_str().into());
    object.insert("last_updated".into(), record.last_updated.clone().into());
    object
}

/// Adds one of the fields that every tool shows in the same way. Snippets and texts are up to each tool.
pub(crate) fn add_field(object: &mut Map<String, Value>, record: &Record, field: Field) {
    match field {
        Field::Metadata => {
            object.insert("metadata".into(), Value::Object(record.metadata.clone()));
        }
        Field::Sources => {
            let source =
                json!({"source_type": record.source_type, "source_path": record.source_path});
            object.insert("sources".into(), Value::Array(vec![source]));
        }
        Field::Url => {
            object.insert("url".into(), record.url.clone().into());
        }
        Field::Snippet | Field::FullText => {}
    }
}

/// The types of records that stand for a picture.
const PICTURES: [&str; 2] = ["photo", "diagram"];
/// Pictures that one call shows, at most.
const PICTURES_MAX: usize = 3;

/// Shows the client the pictures that records stand for, in their order. A client that has gone sees none.
pub(crate) fn show_pictures<'a>(context: &Context, records: impl Iterator<Item = &'a Record>) {
    for record in records.take(PICTURES_MAX) {
        if let Some(address) = picture(record) {
            let message = json!({"type": "image", "url": address, "caption": record.title});
            let _ = context.send_message(message);
        }
    }
}

/// The address at which a client finds a record's picture: a file of the base on this server, or the address elsewhere.
pub(crate) fn picture(record: &Record) -> Option<String> {
    if !is_picture(record) {
        return None;
    }
    match record.metadata.contains_key("file") {
        true => Some(format!("{ASSETS}{}", record.id)),
        false => record.url.clone(),
    }
}

pub(crate) fn is_picture(record: &Record) -> bool {
    PICTURES.contains(&record.record_type.as_str())
}

/// The picture as a content part for a model that sees: a file of this server, or an address that the model's provider can fetch, in a
/// format that all models read.
pub(crate) fn picture_part(record: &Record) -> Option<ContentPart> {
    let url = picture(record)?;
    let path = match record.metadata.get("file").and_then(Value::as_str) {
        Some(path) => path,
        None if url.starts_with("https://") => url.split(['?', '#']).next().unwrap_or_default(),
        None => return None,
    };
    let (_, ending) = path.rsplit_once('.')?;
    let mime_type = match ending.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        _ => return None,
    };
    Some(ContentPart::Image {
        mime_type: mime_type.to_owned(),
        url,
    })
}

/// The beginning of a text, at most `characters_max` long: whole sentences where that keeps half of it or more, else
/// whole words and an ellipsis. `None` where the text fits as it is.
pub(crate) fn beginning(text: &str, characters_max: usize) -> Option<String> {
    let (end, _) = text.char_indices().nth(characters_max)?;
    let head = &text[..end];
    let sentence_end = head
        .rmatch_indices(['.', '!', '?', '。'])
        .map(|(at, mark)| at + mark.len())
        .find(|at| text[*at..].starts_with(char::is_whitespace))
        .filter(|at| *at >= head.len() / 2);
    if let Some(at) = sentence_end {
        return Some(head[..at].to_owned());
    }
    // The ellipsis takes the place of the last character.
    let head = head
        .char_indices()
        .next_back()
        .map_or(head, |(last, _)| &head[..last]);
    let words = head
        .rfind(char::is_whitespace)
        .filter(|at| *at >= head.len() / 2)
        .map_or(head, |at| &head[..at]);
    Some(format!("{}…", words.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn a_long_text_is_cut_at_a_sentence_else_at_a_word_else_anywhere() {
        for (text, characters_max, expected) in [
            ("short", 5, None),
            ("", 0, None),
            (
                "One is here. Two is there. Three",
                28,
                Some("One is here. Two is there."),
            ),
            (
                "A. then a long clause without an end",
                20,
                Some("A. then a long…"),
            ),
            ("version 1.25 of something long", 14, Some("version 1.25…")),
            ("ééééééééé", 4, Some("ééé…")),
            ("x y", 1, Some("…")),
        ] {
            let cut = beginning(text, characters_max);
            assert_eq!(cut.as_deref(), expected, "{text:?}");
        }
    }
}
