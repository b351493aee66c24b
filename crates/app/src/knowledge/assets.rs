//! The files of photos, diagrams and videos: found by a record's id, and read from the knowledge base's folder. Gives only files that a
//! record names and its reader may read.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use windlass_contract::handler::{GetRequest, Knowledge, KnowledgeReader};
use windlass_knowledge::{AssetPlace, asset};

/// A file and its content.
pub(crate) struct AssetFile {
    pub(crate) mime_type: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// The file of a record; `None` where the user may not read the record, it names no file, or that is not there or longer.
pub(crate) async fn file(
    knowledge: Arc<dyn Knowledge>,
    folder: Arc<Path>,
    id: String,
    reader: KnowledgeReader,
    bytes_max: u64,
) -> Option<AssetFile> {
    let request = GetRequest {
        id,
        namespace: None,
        reader,
    };
    let record = knowledge.get(request).await.ok()?.ok()?;
    let asset = asset(&record)?;
    let (AssetPlace::File(path), Some(mime_type)) = (asset.place, asset.mime_type) else {
        return None;
    };
    let read = tokio::task::spawn_blocking(move || read(&folder, &path, bytes_max));
    let bytes = read.await.ok()??;
    Some(AssetFile { mime_type, bytes })
}

/// A file's bytes; `None` where it is not there, is too long, or lies elsewhere behind a link.
fn read(folder: &Path, path: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let root = folder.canonicalize().ok()?;
    let file = root.join(path).canonicalize().ok()?;
    if !file.starts_with(&root) || !file.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(file)
        .ok()?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}
