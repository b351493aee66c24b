//! The file of API keys in the data folder: named keys as hashes, with the rights of each key's holder. A writer holds the file's lock
//! and puts a whole new file in its place. Knows no request.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use windlass_contract::id::TenantId;
use windlass_contract::json::hex;
use windlass_contract::rights::Role;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::ids::{self, NoRandomness};

const FILE_NAME: &str = "access_keys.json";
const LOCK_NAME: &str = "access_keys.lock";
/// Bytes of the file; 100,000 keys take less.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The prefix of every key, so that a leaked key is recognized.
pub(crate) const KEY_PREFIX: &str = "wlk_";
/// Characters of a key's name.
const NAME_CHARACTERS_MAX: usize = 64;

/// A key as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StoredKey {
    pub(crate) name: String,
    /// SHA-256 of the key, in hexadecimal digits. It is 256 random bits, so that no slow hash is needed.
    pub(crate) sha256: String,
    pub(crate) created_at_unix_ms: u64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) roles: BTreeSet<Role>,
    /// The owner of the key. A key without an owner is a program's, which may name users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<TenantId>,
}

/// The properties of a new key.
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) roles: BTreeSet<Role>,
    pub(crate) user: Option<String>,
    pub(crate) tenant: Option<TenantId>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    keys: Vec<StoredKey>,
}

#[derive(Deserialize)]
struct Form {
    version: u32,
}

const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyFileError {
    #[error("the keys {} cannot be read: {cause}", .path.display())]
    Read { path: PathBuf, cause: String },
    #[error(
        "the keys {} were written by a newer windlass: they have version {found}, and this one knows version {VERSION}; run the newer one",
        .path.display()
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("the keys {} cannot be written: {source}; make the data folder writable", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("there is a key of the name {name:?} already; revoke it first, or choose another name")]
    NameTaken { name: String },
    #[error(
        "there is no key of the name {name:?}; `windlass keys list` names those that there are"
    )]
    Unknown { name: String },
    #[error(
        "{name:?} cannot be the name of a key; write 1 to 64 letters, digits and marks out of . _ -"
    )]
    BadName { name: String },
    #[error("there are {keys_max} keys already; revoke one, or raise access.keys_max")]
    Full { keys_max: usize },
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// One change of the file.
pub(crate) enum KeyChange<'a> {
    Add {
        key: NewKey,
        keys_max: usize,
        now_unix_ms: u64,
    },
    Revoke {
        name: &'a str,
    },
}

/// The file of one data folder.
#[derive(Clone, Debug)]
pub(crate) struct KeyFile {
    pub(crate) path: PathBuf,
    folder: PathBuf,
}

impl KeyFile {
    pub(crate) fn of(data_folder: &Path) -> Self {
        Self {
            path: data_folder.join(FILE_NAME),
            folder: data_folder.to_owned(),
        }
    }

    /// The keys; none where there is no file.
    pub(crate) fn read(&self) -> Result<Vec<StoredKey>, KeyFileError> {
        let unreadable = |cause: String| KeyFileError::Read {
            path: self.path.clone(),
            cause,
        };
        let text = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Ok(facts) if facts.len() > BYTES_MAX => {
                return Err(unreadable(format!("it is longer than {BYTES_MAX} bytes")));
            }
            Ok(_) | Err(_) => {
                fs::read(&self.path).map_err(|error| unreadable(error.to_string()))?
            }
        };
        let unreadable_json = |error: serde_json::Error| unreadable(error.to_string());
        // Checked before the rest, which another version may write otherwise.
        let form: Form = serde_json::from_slice(&text).map_err(unreadable_json)?;
        if form.version > VERSION {
            return Err(KeyFileError::Newer {
                path: self.path.clone(),
                found: form.version,
            });
        }
        let contents: Contents = serde_json::from_slice(&text).map_err(unreadable_json)?;
        match contents.version {
            VERSION => Ok(contents.keys),
            version => Err(unreadable(format!("there is no version {version} of it"))),
        }
    }

    /// Makes one change. Gives the new key, which is shown this once, where one was made.
    pub(crate) fn change(
        &self,
        change: KeyChange<'_>,
    ) -> Result<Option<Sensitive<String>>, KeyFileError> {
        let unwritable = |source| KeyFileError::Write {
            path: self.path.clone(),
            source,
        };
        // Checked before anything is made.
        if let KeyChange::Add { key, .. } = &change
            && !is_name(&key.name)
        {
            let name = key.name.clone();
            return Err(KeyFileError::BadName { name });
        }
        // Until the lock is dropped, no other process changes the file.
        let _lock = self.lock().map_err(unwritable)?;
        let mut keys = self.read()?;
        let made = match change {
            KeyChange::Add {
                key,
                keys_max,
                now_unix_ms,
            } => {
                if keys.iter().any(|known| known.name == key.name) {
                    return Err(KeyFileError::NameTaken { name: key.name });
                }
                if keys.len() >= keys_max {
                    return Err(KeyFileError::Full { keys_max });
                }
                let text = format!("{KEY_PREFIX}{}", ids::random_secret()?);
                keys.push(StoredKey {
                    name: key.name,
                    sha256: hex(&ids::digest(text.as_bytes())),
                    created_at_unix_ms: now_unix_ms,
                    roles: key.roles,
                    user: key.user,
                    tenant: key.tenant,
                });
                Some(Sensitive(text))
            }
            KeyChange::Revoke { name } => {
                let before = keys.len();
                keys.retain(|known| known.name != name);
                if keys.len() == before {
                    let name = name.to_owned();
                    return Err(KeyFileError::Unknown { name });
                }
                None
            }
        };
        self.write(keys).map_err(unwritable)?;
        Ok(made)
    }

    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let lock = private()
            .create(true)
            .truncate(false)
            .open(self.folder.join(LOCK_NAME))?;
        lock.lock()?;
        Ok(lock)
    }

    fn write(&self, keys: Vec<StoredKey>) -> io::Result<()> {
        let contents = Contents {
            version: VERSION,
            keys,
        };
        let mut text = serde_json::to_vec_pretty(&contents).map_err(io::Error::other)?;
        text.push(b'\n');
        let beside = self.path.with_extension("new");
        let mut file = private().create(true).truncate(true).open(&beside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        // The new name lasts only with its folder.
        #[cfg(unix)]
        File::open(&self.folder)?.sync_all()?;
        Ok(())
    }
}

/// A file that is its owner's alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn is_name(name: &str) -> bool {
    (1..=NAME_CHARACTERS_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_newer_version_are_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::of(folder.path());
        let newer = "{\"version\": 2, \"keys\": {}, \"more\": true}";
        fs::write(&file.path, newer).unwrap();
        let revoke = KeyChange::Revoke { name: "ci" };
        for error in [file.read().unwrap_err(), file.change(revoke).unwrap_err()] {
            assert_eq!(
                error.to_string(),
                format!(
                    "the keys {} were written by a newer windlass: they have version 2, and this one knows version 1; run the newer one",
                    file.path.display()
                )
            );
        }
        assert_eq!(fs::read_to_string(&file.path).unwrap(), newer);
    }

    #[test]
    fn what_says_no_version_holds_no_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::of(folder.path());
        for text in ["{}", "{\"keys\": []}", "{\"version\": 0, \"keys\": []}"] {
            fs::write(&file.path, text).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains("cannot be read: "), "{error}");
        }
        fs::write(&file.path, "{\"version\": 1, \"keys\": []}").unwrap();
        assert_eq!(file.read().unwrap(), []);
    }
}
