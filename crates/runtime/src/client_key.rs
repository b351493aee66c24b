//! The keys in the data folder. One signs texts that clients show again, such as the ids of anonymous clients, so that a blocked
//! one cannot pick another id. The ledger's derives keys of effects and tokens of approvals. The third is that of users'
//! connections. Owns the files; knows no cookie, no block and no ledger.

use crate::ids::{self, NoRandomness};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use windlass_contract::id::ClientId;
use windlass_contract::json::hex;
use windlass_contract::private;
use windlass_store::ServerKey;

/// The file's name in the data folder.
pub const FILE_NAME: &str = "client.key";
/// The file name of the ledger's key.
pub const LEDGER_FILE_NAME: &str = "ledger.key";
/// The file name of the key that encrypts tokens of users' connections.
pub const CONNECTIONS_FILE_NAME: &str = "connections.key";
const KEY_BYTES: usize = 32;
/// The beginning of a file in any form but that of version 1, which is the bytes of the key alone. The version follows.
const VERSION_MARK: &[u8] = b"windlass-key ";
const ID_DIGITS: usize = 32;

type KeyBytes = [u8; KEY_BYTES];

/// Signs and checks texts that clients keep.
pub struct ClientKey {
    key: KeyBytes,
}

impl std::fmt::Debug for ClientKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ClientKey(<redacted>)")
    }
}

/// The purpose of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Ticket,
    /// The browser is signed in on the page.
    Page,
    /// The browser is on its way to sign in.
    SignIn,
    /// The address of a picture, and the end of its validity.
    Picture,
    /// The conversation that decides about a call from elsewhere.
    RemoteCall,
    /// An approval request that a client is to send back with the answer.
    RemoteQuestion,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Ticket => "ticket",
            Self::Page => "page",
            Self::SignIn => "sign-in",
            Self::Picture => "picture",
            Self::RemoteCall => "remote call",
            Self::RemoteQuestion => "remote question",
        }
    }
}

/// The reason why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key {} cannot be read: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "the key {} cannot be created: {source}; make the data folder writable or choose another with --data",
        .path.display()
    )]
    Create { path: PathBuf, source: io::Error },
    #[error(
        "the key {} has {bytes} bytes instead of {KEY_BYTES}; restore it from a backup, or remove the file to have a new one made",
        .path.display()
    )]
    Length { path: PathBuf, bytes: usize },
    #[error(
        "the key {} was written by a newer windlass: it has version {found}, and this one knows version 1; run the newer one",
        .path.display()
    )]
    Newer { path: PathBuf, found: String },
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// The ledger's key of a data folder, made on the first start. If it is lost, open approval requests are asked again, and earlier
/// changes are not recognised.
pub fn ledger_key(data_folder: &Path) -> Result<ServerKey, KeyError> {
    open(data_folder, LEDGER_FILE_NAME).map(ServerKey::new)
}

/// Encrypts the data of users' connections, and the links by which they connect.
pub struct ConnectionsKey {
    key: KeyBytes,
}

impl std::fmt::Debug for ConnectionsKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ConnectionsKey(<redacted>)")
    }
}

impl ConnectionsKey {
    /// The key of a data folder, made on its first use. If it is lost, all earlier connections are of no use.
    pub fn open(data_folder: &Path) -> Result<Self, KeyError> {
        open(data_folder, CONNECTIONS_FILE_NAME).map(|key| Self { key })
    }

    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }
}

/// Signs the audit's checkpoints. Derived from the ledger's key, so that a server has one more secret and no more files.
pub struct CheckpointKey {
    key: KeyBytes,
}

impl std::fmt::Debug for CheckpointKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("CheckpointKey(<redacted>)")
    }
}

impl CheckpointKey {
    /// The key of a data folder.
    pub fn open(data_folder: &Path) -> Result<Self, KeyError> {
        let ledger = open(data_folder, LEDGER_FILE_NAME)?;
        let mut mac = mac(&ledger);
        mac.update(b"windlass audit checkpoints");
        let key = mac.finalize().into_bytes().into();
        Ok(Self { key })
    }

    pub(crate) fn sign(&self, text: &str) -> [u8; 32] {
        let mut mac = mac(&self.key);
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Checks a signature in constant time, wherever a wrong signature differs.
    pub(crate) fn has_signed(&self, text: &str, signature: &str) -> bool {
        let mut mac = mac(&self.key);
        mac.update(text.as_bytes());
        unhex(signature).is_some_and(|signature| mac.verify_slice(&signature).is_ok())
    }
}

/// A key for a ledger that does not outlive the process.
pub fn passing_ledger_key() -> Result<ServerKey, NoRandomness> {
    let mut key = KeyBytes::default();
    ids::fill(&mut key)?;
    Ok(ServerKey::new(key))
}

/// Reads a key from the data folder, or makes it on the first start. Creates a missing folder.
fn open(data_folder: &Path, name: &str) -> Result<KeyBytes, KeyError> {
    let path = data_folder.join(name);
    match fs::read(&path) {
        Ok(bytes) => of_version_1(&bytes, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(data_folder, path),
        Err(source) => Err(KeyError::Read { path, source }),
    }
}

fn of_version_1(bytes: &[u8], path: PathBuf) -> Result<KeyBytes, KeyError> {
    if let Ok(key) = bytes.try_into() {
        return Ok(key);
    }
    Err(match bytes.strip_prefix(VERSION_MARK) {
        Some(rest) => KeyError::Newer {
            path,
            found: rest
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .map(|byte| char::from(*byte))
                .collect(),
        },
        None => KeyError::Length {
            path,
            bytes: bytes.len(),
        },
    })
}

fn create(data_folder: &Path, path: PathBuf) -> Result<KeyBytes, KeyError> {
    let mut key = KeyBytes::default();
    ids::fill(&mut key)?;
    let written = private::create_folder(data_folder).and_then(|()| write_private(&path, &key));
    match written {
        Ok(()) => Ok(key),
        // Another process was faster; its key counts.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let bytes = fs::read(&path).map_err(|source| KeyError::Read {
                path: path.clone(),
                source,
            })?;
            of_version_1(&bytes, path)
        }
        Err(source) => Err(KeyError::Create { path, source }),
    }
}

/// A client id as a cookie holds it: `id.signature`.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedClientId {
    pub client_id: ClientId,
    pub text: String,
}

impl ClientKey {
    /// The key of a data folder, made on the first start.
    pub fn open(data_folder: &Path) -> Result<Self, KeyError> {
        open(data_folder, FILE_NAME).map(|key| Self { key })
    }

    /// A key that does not outlive the process.
    pub fn passing() -> Result<Self, NoRandomness> {
        let mut key = KeyBytes::default();
        ids::fill(&mut key)?;
        Ok(Self { key })
    }

    /// The signature of a text for one purpose, in hexadecimal digits. It counts for no other purpose.
    pub fn sign(&self, purpose: Purpose, text: &str) -> String {
        hex(&self.mac_of(purpose, text).finalize().into_bytes())
    }

    /// Whether the text was signed with this key for this purpose. Takes the same time wherever a wrong signature differs.
    pub fn has_signed(&self, purpose: Purpose, text: &str, signature: &str) -> bool {
        let mac = self.mac_of(purpose, text);
        unhex(signature).is_some_and(|signature| mac.verify_slice(&signature).is_ok())
    }

    fn mac_of(&self, purpose: Purpose, text: &str) -> Hmac<Sha256> {
        let mut mac = mac(&self.key);
        // No id of a client has a zero byte.
        mac.update(purpose.name().as_bytes());
        mac.update(&[0]);
        mac.update(text.as_bytes());
        mac
    }

    /// Mints a client id and signs it.
    pub fn mint(&self) -> Result<SignedClientId, NoRandomness> {
        let id = ids::random_hex()?;
        let text = format!("{id}.{}", hex(&self.signature(&id)));
        Ok(SignedClientId {
            client_id: ClientId::new(id),
            text,
        })
    }

    /// The client id in a text that this server signed; `None` for any other text. Takes the same time wherever a wrong
    /// signature differs.
    pub fn verify(&self, text: &str) -> Option<ClientId> {
        let (id, signature) = text.split_once('.')?;
        let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let signature = is_id.then(|| unhex(signature)).flatten()?;
        let mut mac = mac(&self.key);
        mac.update(id.as_bytes());
        mac.verify_slice(&signature).ok()?;
        Some(ClientId::new(id))
    }

    fn signature(&self, id: &str) -> [u8; 32] {
        let mut mac = mac(&self.key);
        mac.update(id.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

fn mac(key: &KeyBytes) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of every length")
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}

/// Creates the file for its owner alone, and never replaces one.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private::options().create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_signed_by_this_server_verify_also_after_a_restart_and_no_others_do() {
        let folder = tempfile::tempdir().unwrap();
        let signed = ClientKey::open(folder.path()).unwrap().mint().unwrap();
        let key = ClientKey::open(folder.path()).unwrap();
        assert_eq!(key.verify(&signed.text), Some(signed.client_id.clone()));
        let (id, signature) = signed.text.split_once('.').unwrap();
        let other = ClientKey {
            key: [7; KEY_BYTES],
        };
        let foreign = other.mint().unwrap().text;
        for forged in [
            String::new(),
            id.to_owned(),
            format!("{id}."),
            format!("{id}.{}", &signature[2..]),
            format!("{id}.{}0", &signature[..63]).replace("00", "01"),
            format!("{}.{signature}", "0".repeat(32)),
            format!("{id}.{}", "é".repeat(32)),
            foreign,
        ] {
            if forged != signed.text {
                assert_eq!(key.verify(&forged), None, "{forged}");
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_key_files_are_their_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        ClientKey::open(folder.path()).unwrap();
        ledger_key(folder.path()).unwrap();
        for name in [FILE_NAME, LEDGER_FILE_NAME] {
            let metadata = fs::metadata(folder.path().join(name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn the_ledgers_key_outlives_its_process_and_is_not_the_clients() {
        let folder = tempfile::tempdir().unwrap();
        ClientKey::open(folder.path()).unwrap();
        ledger_key(folder.path()).unwrap();
        let read = |name| fs::read(folder.path().join(name)).unwrap();
        let before = read(LEDGER_FILE_NAME);
        ledger_key(folder.path()).unwrap();
        assert_eq!(read(LEDGER_FILE_NAME), before);
        assert_ne!(read(FILE_NAME), before);
    }

    #[test]
    fn a_key_of_a_newer_version_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let newer = "windlass-key 2\nsome other form";
        for name in [FILE_NAME, LEDGER_FILE_NAME] {
            fs::write(folder.path().join(name), newer).unwrap();
        }
        let errors = [
            ClientKey::open(folder.path()).unwrap_err(),
            ledger_key(folder.path()).unwrap_err(),
        ];
        for (error, name) in errors.iter().zip([FILE_NAME, LEDGER_FILE_NAME]) {
            let file = folder.path().join(name);
            assert_eq!(
                error.to_string(),
                format!(
                    "the key {} was written by a newer windlass: it has version 2, and this one knows version 1; run the newer one",
                    file.display()
                )
            );
            assert_eq!(fs::read_to_string(file).unwrap(), newer);
        }
    }

    #[test]
    fn a_damaged_key_and_a_folder_that_is_none_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE_NAME);
        fs::write(&file, b"short").unwrap();
        let error = ClientKey::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "has 5 bytes instead of 32; restore it from a backup, or remove the file to have a new one made"
            )
        );
        let error = ClientKey::open(&file.join("inner"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("the key "), "{error}");
    }
}
