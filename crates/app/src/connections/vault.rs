//! The tokens of users' connections: a file each in the data folder, encrypted and bound to the user, the connection and the file. Nothing
//! of them stays in memory, so that removing a file ends the connection at once. Knows no authorization server.

use super::sealing::Sealer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use windlass_contract::id::{ClientId, TenantId};
use windlass_contract::json::hex;
use windlass_contract::private;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::ids::NoRandomness;
use windlass_services::oauth::Granted;

/// The folder in the data folder, and the ending of its files' names.
const FOLDER: &str = "connections";
const ENDING: &str = ".json";
const PART_ENDING: &str = ".part";
/// The lock that each change of a file holds.
const LOCK_NAME: &str = "lock";
/// Digits of a file's name.
const NAME_DIGITS: usize = 40;
const FILE_BYTES_MAX: u64 = 256 * 1024;
const VERSION: u32 = 1;
/// A token is not used in its last moments, because the request has a way to go.
const MARGIN_MS: u64 = 30_000;

/// One user's connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectionId {
    pub(crate) tenant: TenantId,
    /// The user, by the id that no other caller can claim.
    pub(crate) owner: ClientId,
    /// Its name in the configuration.
    pub(crate) connection: String,
}

impl ConnectionId {
    /// The name of its file, which says nothing of the user.
    pub(super) fn name(&self) -> String {
        let mut hasher = Sha256::new();
        let parts = [
            self.tenant.as_str(),
            self.owner.as_str(),
            self.connection.as_str(),
        ];
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        let mut name = hex(&hasher.finalize());
        name.truncate(NAME_DIGITS);
        name
    }

    fn purpose(&self) -> String {
        format!("connection {}", self.name())
    }
}

/// The tokens of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) access_token: Sensitive<String>,
    pub(super) refresh_token: Option<Sensitive<String>>,
    /// When the access token was given, and until when it counts, where that was said; in milliseconds since the Unix epoch.
    pub(super) granted_unix_ms: u64,
    pub(super) expires_unix_ms: Option<u64>,
    pub(super) scope: Option<String>,
    pub(super) connected_unix_ms: u64,
}

impl Kept {
    pub(super) fn new(granted: Granted, now_unix_ms: u64) -> Self {
        Self {
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            granted_unix_ms: now_unix_ms,
            expires_unix_ms: granted.expires_unix_ms,
            scope: granted.scope,
            connected_unix_ms: now_unix_ms,
        }
    }

    /// The connection after a refresh: fields that the answer leaves out stay as they were.
    pub(super) fn refreshed(self, granted: Granted, now_unix_ms: u64) -> Self {
        Self {
            refresh_token: granted.refresh_token.or(self.refresh_token),
            scope: granted.scope.or(self.scope),
            access_token: granted.access_token,
            granted_unix_ms: now_unix_ms,
            expires_unix_ms: granted.expires_unix_ms,
            connected_unix_ms: self.connected_unix_ms,
        }
    }

    /// Whether the access token can be used now, as far as is known here.
    pub(super) fn counts(&self, rejected: Option<&Sensitive<String>>, now_unix_ms: u64) -> bool {
        let is_in_time = self.expires_unix_ms.is_none_or(|until| {
            let half = until.saturating_sub(self.granted_unix_ms) / 2;
            now_unix_ms < until.saturating_sub(MARGIN_MS.min(half))
        });
        is_in_time && rejected != Some(&self.access_token)
    }
}

/// A connection, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: ConnectionId,
    pub(crate) connected_unix_ms: u64,
}

/// A file.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    #[serde(flatten)]
    id: ConnectionId,
    connected_unix_ms: u64,
    /// [`Kept`] as JSON.
    sealed: String,
}

/// Why nothing is kept or found. The texts are for operators.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VaultError {
    #[error("the connections in {}: {source}", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(
        "there are {0} connections of users, and no more are kept; end some, or raise store.user_connections_max"
    )]
    Full(usize),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

pub(super) struct Vault {
    folder: PathBuf,
    sealer: Sealer,
    kept_max: usize,
}

impl Vault {
    pub(super) fn new(data_folder: &Path, sealer: Sealer, kept_max: usize) -> Self {
        Self {
            folder: data_folder.join(FOLDER),
            sealer,
            kept_max,
        }
    }

    pub(super) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// A connection, if there is one. An unreadable connection counts as none, and the log says so: the user can connect anew.
    pub(super) fn read(&self, id: &ConnectionId) -> Result<Option<Kept>, VaultError> {
        let path = self.path(id);
        let text = match read_file(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(VaultError::Unusable { path, source }),
        };
        let kept = self.open(id, &text);
        if kept.is_none() {
            tracing::error!(
                file = %path.display(),
                "a connection cannot be read: it was changed, or encrypted under another connections.key; its user has to connect anew"
            );
        }
        Ok(kept)
    }

    fn open(&self, id: &ConnectionId, text: &[u8]) -> Option<Kept> {
        let written: Written = serde_json::from_slice(text).ok()?;
        if written.version != VERSION || written.id != *id {
            return None;
        }
        let kept = self.sealer.open(&id.purpose(), &written.sealed)?;
        serde_json::from_slice(&kept).ok()
    }

    /// Keeps a connection that a user has just made, in the place of an earlier one of the same name.
    pub(super) fn put(&self, id: &ConnectionId, kept: &Kept) -> Result<(), VaultError> {
        let _lock = self.lock()?;
        if !self.path(id).exists() {
            let count = self.files()?.len();
            if count >= self.kept_max {
                return Err(VaultError::Full(count));
            }
        }
        self.write(id, kept)
    }

    /// Keeps new tokens of a connection, unless it has ended meanwhile. Whether it was there.
    pub(super) fn replace(&self, id: &ConnectionId, kept: &Kept) -> Result<bool, VaultError> {
        let _lock = self.lock()?;
        if !self.path(id).exists() {
            return Ok(false);
        }
        self.write(id, kept).map(|()| true)
    }

    /// Ends a connection. Whether there was one.
    pub(super) fn remove(&self, id: &ConnectionId) -> Result<bool, VaultError> {
        let _lock = self.lock()?;
        let path = self.path(id);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(VaultError::Unusable { path, source }),
        }
    }

    /// All connections, by tenant, user and name.
    pub(super) fn list(&self) -> Result<Vec<Listed>, VaultError> {
        let mut listed = Vec::new();
        for path in self.files()? {
            let written = read_file(&path).ok();
            let written = written.and_then(|text| serde_json::from_slice::<Written>(&text).ok());
            match written {
                Some(written) if self.path(&written.id) == path => listed.push(Listed {
                    id: written.id,
                    connected_unix_ms: written.connected_unix_ms,
                }),
                Some(_) | None => {
                    tracing::warn!(file = %path.display(), "a file is no connection of this version, and is left out");
                }
            }
        }
        listed.sort_by(|one, other| {
            let [one, other] = [one, other].map(|listed| {
                let ConnectionId {
                    tenant,
                    owner,
                    connection,
                } = &listed.id;
                (tenant, owner, connection)
            });
            one.cmp(&other)
        });
        Ok(listed)
    }

    fn path(&self, id: &ConnectionId) -> PathBuf {
        self.folder.join(format!("{}{ENDING}", id.name()))
    }

    fn unusable(&self, source: io::Error) -> VaultError {
        VaultError::Unusable {
            path: self.folder.clone(),
            source,
        }
    }

    /// The files of connections; empty before the first connection.
    fn files(&self) -> Result<Vec<PathBuf>, VaultError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.unusable(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.unusable(error))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.ends_with(ENDING)) {
                files.push(path);
            }
        }
        Ok(files)
    }

    /// Until the lock is dropped, no other task and no other process changes a file.
    fn lock(&self) -> Result<File, VaultError> {
        let locked = || {
            private::create_folder(&self.folder)?;
            let mut options = private::options();
            options.create(true).truncate(false);
            let lock = options.open(self.folder.join(LOCK_NAME))?;
            lock.lock()?;
            Ok(lock)
        };
        locked().map_err(|error| self.unusable(error))
    }

    /// Replaces a file as a whole. It is durable when this returns.
    fn write(&self, id: &ConnectionId, kept: &Kept) -> Result<(), VaultError> {
        let unsealed = serde_json::to_vec(kept).expect("tokens are plain JSON");
        let sealed = self.sealer.seal(&id.purpose(), &unsealed)?;
        let written = Written {
            version: VERSION,
            id: id.clone(),
            connected_unix_ms: kept.connected_unix_ms,
            sealed,
        };
        let text = serde_json::to_vec(&written).expect("a connection is plain JSON");
        let part = self.folder.join(format!("{}{PART_ENDING}", id.name()));
        let write = || {
            let mut options = private::options();
            options.create(true).truncate(true);
            let mut file = options.open(&part)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&part, self.path(id))?;
            // The new name lasts only with its folder.
            #[cfg(unix)]
            File::open(&self.folder)?.sync_all()?;
            Ok(())
        };
        write().map_err(|error| self.unusable(error))
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(path)?;
    let count = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    match count as u64 > FILE_BYTES_MAX {
        true => Err(io::Error::other(format!(
            "it has more than {FILE_BYTES_MAX} bytes"
        ))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_runtime::client_key::ConnectionsKey;

    fn vault(folder: &Path, kept_max: usize) -> Vault {
        let key = ConnectionsKey::open(folder).unwrap();
        Vault::new(folder, Sealer::new(&key), kept_max)
    }

    fn id(owner: &str, connection: &str) -> ConnectionId {
        ConnectionId {
            tenant: TenantId::default(),
            owner: ClientId::new(owner),
            connection: connection.to_owned(),
        }
    }

    fn kept(token: &str) -> Kept {
        Kept {
            access_token: Sensitive(token.to_owned()),
            refresh_token: Some(Sensitive(format!("refresh-{token}"))),
            granted_unix_ms: 1_000_000,
            expires_unix_ms: Some(1_100_000),
            scope: Some("orders".to_owned()),
            connected_unix_ms: 1_000_000,
        }
    }

    #[test]
    fn a_connection_is_its_users_alone_and_lies_encrypted() {
        let folder = tempfile::tempdir().unwrap();
        let ada = id("user:ada", "shop");
        vault(folder.path(), 10).put(&ada, &kept("sesame")).unwrap();
        // A process of later finds it.
        let later = vault(folder.path(), 10);
        assert_eq!(later.read(&ada).unwrap(), Some(kept("sesame")));
        let mut of_tenant = ada.clone();
        of_tenant.tenant = TenantId::new("acme");
        for other in [id("user:bob", "shop"), id("user:ada", "desk"), of_tenant] {
            assert_eq!(later.read(&other).unwrap(), None, "{other:?}");
        }
        let text = fs::read_to_string(later.path(&ada)).unwrap();
        assert!(!text.contains("sesame"), "{text}");
        assert_eq!(later.list().unwrap()[0].id, ada);
    }

    #[test]
    fn a_file_in_the_place_of_another_is_no_connection() {
        let folder = tempfile::tempdir().unwrap();
        let (ada, bob) = (id("user:ada", "shop"), id("user:bob", "shop"));
        let vault = vault(folder.path(), 10);
        vault.put(&ada, &kept("sesame")).unwrap();
        fs::copy(vault.path(&ada), vault.path(&bob)).unwrap();
        assert_eq!(vault.read(&bob).unwrap(), None);
        // A file of another user is refused, even if it names this one.
        let text = fs::read_to_string(vault.path(&ada)).unwrap();
        fs::write(vault.path(&bob), text.replace("user:ada", "user:bob")).unwrap();
        assert_eq!(vault.read(&bob).unwrap(), None);
        fs::write(vault.path(&bob), "{").unwrap();
        assert_eq!(vault.read(&bob).unwrap(), None);
    }

    #[test]
    fn new_tokens_bring_no_connection_back_that_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let ada = id("user:ada", "shop");
        let vault = vault(folder.path(), 1);
        vault.put(&ada, &kept("one")).unwrap();
        assert!(vault.replace(&ada, &kept("two")).unwrap());
        assert!(matches!(
            vault.put(&id("user:bob", "shop"), &kept("three")),
            Err(VaultError::Full(1))
        ));
        // The same user connects anew.
        vault.put(&ada, &kept("four")).unwrap();
        assert!(vault.remove(&ada).unwrap());
        assert!(!vault.remove(&ada).unwrap());
        assert!(!vault.replace(&ada, &kept("five")).unwrap());
        assert_eq!(vault.read(&ada).unwrap(), None);
    }

    #[test]
    fn a_token_is_used_until_shortly_before_its_end() {
        let mut kept = kept("one");
        let other = Sensitive("two".to_owned());
        for (now, expected) in [(1_000_000, true), (1_069_999, true), (1_070_000, false)] {
            assert_eq!(kept.counts(None, now), expected, "{now}");
            assert_eq!(kept.counts(Some(&other), now), expected, "{now}");
            assert!(!kept.counts(Some(&kept.access_token), now));
        }
        // One of a few seconds is used for half of them.
        kept.expires_unix_ms = Some(1_010_000);
        assert!(kept.counts(None, 1_004_999) && !kept.counts(None, 1_005_000));
        kept.expires_unix_ms = None;
        assert!(kept.counts(None, u64::MAX));
    }
}
