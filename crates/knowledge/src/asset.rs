//! Records that stand for something visible: photos, diagrams, videos. Knows the place and the type of such a file; never opens it.

use serde_json::Value;
use windlass_contract::handler::Record;

/// The types of records that are assets.
const KINDS: [(&str, AssetKind); 3] = [
    ("photo", AssetKind::Photo),
    ("diagram", AssetKind::Diagram),
    ("video", AssetKind::Video),
];
/// The field that names a file, kept among the record's further fields.
pub(crate) const FILE_FIELD: &str = "file";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssetKind {
    Photo,
    Diagram,
    Video,
}

/// The place of an asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssetPlace {
    Url(String),
    /// A path below the knowledge base's folder, spelt with `/`, that does not leave it.
    File(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    pub kind: AssetKind,
    pub place: AssetPlace,
    /// The type by the name's ending; `None` for an unknown ending.
    pub mime_type: Option<&'static str>,
}

/// The asset that a record stands for, if any. A file precedes an address.
pub fn asset(record: &Record) -> Option<Asset> {
    let kind = kind(record)?;
    let place = match record.metadata.get(FILE_FIELD).and_then(Value::as_str) {
        Some(path) => AssetPlace::File(path.to_owned()),
        None => AssetPlace::Url(record.url.clone()?),
    };
    let (AssetPlace::Url(name) | AssetPlace::File(name)) = &place;
    Some(Asset {
        kind,
        mime_type: mime_type(name),
        place,
    })
}

pub(crate) fn kind(record: &Record) -> Option<AssetKind> {
    KINDS
        .iter()
        .find(|(name, _)| *name == record.record_type)
        .map(|(_, kind)| *kind)
}

/// Whether records of that type are assets.
pub(crate) fn is_kind(record_type: &str) -> bool {
    KINDS.iter().any(|(name, _)| *name == record_type)
}

fn mime_type(name: &str) -> Option<&'static str> {
    let name = name.split(['?', '#']).next().unwrap_or_default();
    let (_, ending) = name.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => Some("image/jpeg"),
        "png" => Some("image/png"),
        "webp" => Some("image/webp"),
        "gif" => Some("image/gif"),
        "svg" => Some("image/svg+xml"),
        "avif" => Some("image/avif"),
        "mp4" => Some("video/mp4"),
        "webm" => Some("video/webm"),
        _ => None,
    }
}
