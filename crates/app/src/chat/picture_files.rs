//! Pictures that users have shown and that calls have brought back, as files of the data folder: one file for one content, under its
//! hash, bounded in bytes together. A picture is removed once no model was shown it for as long as a conversation is kept. The log of a
//! conversation names them. Knows no session.

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use windlass_contract::json::hex;
use windlass_contract::private;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::log::Image;
use windlass_runtime::ids;
use windlass_runtime::text::SHOWN;
use windlass_session::client::MessageKey;
use windlass_store::{Entry, EntryEvent, NewEntry};

/// The folder's name in the data folder.
pub(crate) const FOLDER: &str = "pictures";
/// How often expired pictures are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

pub(crate) struct PictureFiles {
    folder: PathBuf,
    bytes_max: u64,
    kept_for: Duration,
    bytes: AtomicU64,
    /// Names of files that are being written.
    written: AtomicU64,
}

/// A picture's name in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PictureName {
    mime_type: String,
    hash: String,
    bytes: usize,
}

impl PictureFiles {
    /// The pictures of a data folder. Makes their folder where it is missing.
    pub(crate) fn open(data: &Path, bytes_max: u64, kept_for: Duration) -> io::Result<Self> {
        let folder = data.join(FOLDER);
        private::create_folder(&folder)?;
        let files = Self {
            folder,
            bytes_max,
            kept_for,
            bytes: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        files.remove_old(SystemTime::now())?;
        Ok(files)
    }

    /// Keeps a picture. `None` where it is not kept: there is no room, or its file cannot be written.
    pub(crate) fn keep(&self, image: &Image) -> Option<PictureName> {
        let data = image.data.expose();
        Some(PictureName {
            mime_type: image.mime_type.clone(),
            hash: self.keep_data(data)?,
            bytes: data.len(),
        })
    }

    /// The same by its data alone. Returns its digest.
    pub(crate) fn keep_data(&self, data: &[u8]) -> Option<String> {
        let hash = hex(&ids::digest(data));
        match self.write(&hash, data) {
            Ok(is_kept) => is_kept.then_some(hash),
            Err(error) => {
                tracing::warn!(%error, "a picture is not kept");
                None
            }
        }
    }

    fn write(&self, hash: &str, data: &[u8]) -> io::Result<bool> {
        let path = self.folder.join(hash);
        if touch(&path)? {
            return Ok(true);
        }
        let bytes = data.len() as u64;
        let more = |kept: u64| Some(kept + bytes).filter(|kept| *kept <= self.bytes_max);
        let (taken, seen) = (Ordering::AcqRel, Ordering::Acquire);
        if self.bytes.fetch_update(taken, seen, more).is_err() {
            return Ok(false);
        }
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!("{number}.part"));
        let mut options = private::options();
        options.create(true).truncate(true);
        let written = options
            .open(&part)
            .and_then(|mut file| file.write_all(data))
            .and_then(|()| fs::rename(&part, &path));
        if let Err(error) = written {
            self.bytes.fetch_sub(bytes, taken);
            return Err(error);
        }
        Ok(true)
    }

    /// A picture, if its file exists and is unchanged.
    pub(crate) fn read(&self, name: &PictureName) -> Option<Image> {
        let data = self.read_data(&name.hash, name.bytes)?;
        Some(Image {
            mime_type: name.mime_type.clone(),
            data: Sensitive(Arc::from(data)),
        })
    }

    /// The same by its digest, of at most so many bytes.
    pub(crate) fn read_data(&self, hash: &str, bytes_max: usize) -> Option<Vec<u8>> {
        if !is_hash(hash) {
            return None;
        }
        let path = self.folder.join(hash);
        let file = File::open(&path).ok()?;
        let mut data = Vec::new();
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut data)
            .ok()?;
        if hex(&ids::digest(&data)) != hash {
            return None;
        }
        // It is needed for as long as its conversation from now on.
        drop(touch(&path));
        Some(data)
    }

    /// Removes pictures that were not used for too long, and counts the rest.
    fn remove_old(&self, now: SystemTime) -> io::Result<()> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Ok(facts) = entry.metadata() else {
                continue;
            };
            let age = facts.modified().map(|shown| {
                let age = now.duration_since(shown);
                age.unwrap_or_default()
            })?;
            match age > self.kept_for {
                true => fs::remove_file(entry.path())?,
                false => bytes += facts.len(),
            }
        }
        self.bytes.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Removes old pictures again and again until the server is over.
    pub(crate) async fn sweep(self: Arc<Self>, mut is_over: watch::Receiver<bool>) {
        let pause = SWEEP_INTERVAL.min(self.kept_for);
        loop {
            tokio::select! {
                // An error says that the server is gone, too.
                _ = is_over.wait_for(|is_over| *is_over) => return,
                () = tokio::time::sleep(pause) => {}
            }
            let files = self.clone();
            let removed = tokio::task::spawn_blocking(move || files.remove_old(SystemTime::now()));
            if let Ok(Err(error)) = removed.await {
                tracing::warn!(%error, "old pictures cannot be removed");
            }
        }
    }
}

/// Marks a file as needed now. False if it does not exist.
fn touch(path: &Path) -> io::Result<bool> {
    let file = match private::options().open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    file.set_modified(SystemTime::now())?;
    Ok(true)
}

/// The log entry that names the pictures of a message.
pub(super) fn shown_entry(message: MessageKey, names: &[PictureName]) -> NewEntry {
    let pictures = names
        .iter()
        .map(|name| json!({"type": name.mime_type, "hash": name.hash, "bytes": name.bytes}));
    let message = String::from(message);
    let body = json!({
        "kind": "shown", "message": message, "pictures": pictures.collect::<Vec<_>>()
    });
    NewEntry {
        leg_number: None,
        key: Some(format!("{SHOWN}{message}")),
        event: EntryEvent::Said(Sensitive(body.to_string())),
    }
}

/// The pictures of messages that entries of a log name, oldest first. Known messages are left out.
pub(super) fn shown(
    entries: &[Entry],
    is_known: impl Fn(&MessageKey) -> bool,
) -> Vec<(MessageKey, Vec<PictureName>)> {
    let named = |entry: &Entry| {
        let EntryEvent::Said(text) = &entry.event else {
            return None;
        };
        let said: Value = serde_json::from_str(text.expose()).ok()?;
        let message = said.get("message")?.as_str()?.to_owned();
        let message = MessageKey::try_from(message).ok()?;
        let pictures = said.get("pictures")?.as_array()?.iter();
        Some((message, pictures.filter_map(name_of).collect()))
    };
    let named = entries.iter().filter_map(named);
    named.filter(|(message, _)| !is_known(message)).collect()
}

fn name_of(picture: &Value) -> Option<PictureName> {
    let hash = picture.get("hash")?.as_str()?;
    Some(PictureName {
        mime_type: picture.get("type")?.as_str()?.to_owned(),
        hash: is_hash(hash).then(|| hash.to_owned())?,
        bytes: usize::try_from(picture.get("bytes")?.as_u64()?).ok()?,
    })
}

fn is_hash(hash: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hash.len() == 64 && hash.bytes().all(is_digit)
}

/// Reads pictures, the newest that fit into one message. Returns them oldest first.
pub(super) fn read_shown(
    files: &PictureFiles,
    named: Vec<(MessageKey, Vec<PictureName>)>,
    images_max: usize,
    bytes_max: usize,
) -> Vec<(MessageKey, Vec<Image>)> {
    let (mut number, mut bytes) = (0, 0);
    let mut read = Vec::new();
    for (message, names) in named.into_iter().rev() {
        number += names.len();
        bytes += names.iter().map(|name| name.bytes).sum::<usize>();
        if number > images_max || bytes > bytes_max {
            break;
        }
        let images = names.iter().filter_map(|name| files.read(name)).collect();
        read.push((message, images));
    }
    read.reverse();
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_store::EntryNumber;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn image(byte: u8, length: usize) -> Image {
        Image {
            mime_type: "image/png".to_owned(),
            data: Sensitive(Arc::from(vec![byte; length])),
        }
    }

    #[test]
    fn one_content_is_one_file_and_all_are_bounded_and_removed_in_time() {
        let data = tempfile::tempdir().unwrap();
        let files = PictureFiles::open(data.path(), 250, DAY).unwrap();
        let first = files.keep(&image(1, 100)).unwrap();
        assert_eq!(files.keep(&image(1, 100)), Some(first.clone()));
        let second = files.keep(&image(2, 100)).unwrap();
        assert_eq!(files.keep(&image(3, 100)), None, "there is no room");
        assert_eq!(files.read(&first).unwrap().data, image(1, 100).data);
        let folder = data.path().join(FOLDER);
        let count = || fs::read_dir(&folder).unwrap().count();
        assert_eq!(count(), 2);
        // A picture whose file was changed is not shown.
        fs::write(folder.join(&second.hash), [9; 100]).unwrap();
        assert!(files.read(&second).is_none());
        files.remove_old(SystemTime::now() + DAY / 2).unwrap();
        assert_eq!(count(), 2);
        files.remove_old(SystemTime::now() + DAY * 2).unwrap();
        assert_eq!(count(), 0);
        assert!(files.read(&first).is_none());
        assert!(files.keep(&image(3, 100)).is_some());
        // The next process counts the existing files.
        let files = PictureFiles::open(data.path(), 150, DAY).unwrap();
        assert_eq!(files.keep(&image(4, 100)), None);
    }

    #[test]
    fn the_log_names_the_pictures_of_messages_and_the_newest_that_fit_are_read() {
        let data = tempfile::tempdir().unwrap();
        let files = PictureFiles::open(data.path(), 10_000, DAY).unwrap();
        let entry = |id: &str, byte: u8| {
            let name = files.keep(&image(byte, 100)).unwrap();
            let entry = shown_entry(MessageKey::of(id), &[name]);
            Entry {
                number: EntryNumber(1),
                at_unix_ms: 0,
                leg: None,
                leg_number: None,
                key: entry.key,
                event: entry.event,
            }
        };
        let entries = [entry("a", 1), entry("b", 2), entry("c", 3)];
        let keys = |known: &str| -> Vec<MessageKey> {
            let named = shown(&entries, |message| *message == MessageKey::of(known));
            let read = read_shown(&files, named, 8, 250);
            read.into_iter().map(|(message, _)| message).collect()
        };
        assert_eq!(keys("none"), [MessageKey::of("b"), MessageKey::of("c")]);
        assert_eq!(keys("c"), [MessageKey::of("a"), MessageKey::of("b")]);
    }
}
