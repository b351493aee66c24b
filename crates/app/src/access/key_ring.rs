//! The API keys as a running server has them: found by their hashes, and read anew when their file changes, so that the sessions of a
//! revoked key end. Knows no request.

use super::key_file::{KeyFile, KeyFileError, StoredKey};
use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use windlass_contract::json::hex;
use windlass_runtime::caller::{Proven, ProvenName, Validity};
use windlass_runtime::ids;

/// How often it is looked whether the file has changed.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// A key, as tickets and cookies that were given for it name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct KeyId(Arc<str>);

pub(crate) struct KeyRing {
    file: KeyFile,
    keys: ArcSwap<HashMap<KeyId, Arc<HeldKey>>>,
    seen: Mutex<Option<Stamp>>,
}

struct HeldKey {
    stored: StoredKey,
    proven: Proven,
    is_withdrawn: watch::Sender<bool>,
}

/// The marks by which an unchanged file is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    changed: Option<SystemTime>,
    bytes: u64,
    number: u64,
}

impl KeyRing {
    pub(crate) fn open(data_folder: &Path) -> Result<Self, KeyFileError> {
        let ring = Self {
            file: KeyFile::of(data_folder),
            keys: ArcSwap::default(),
            seen: Mutex::default(),
        };
        ring.refresh()?;
        Ok(ring)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.load().is_empty()
    }

    /// The holder of a key. It is looked up by its hash, so that the time that takes says nothing of other keys.
    pub(crate) fn find(&self, key: &str) -> Option<(KeyId, Proven)> {
        let id = KeyId(hex(&ids::digest(key.as_bytes())).into());
        let held = self.keys.load().get(&id).cloned()?;
        Some((id, held.proven.clone()))
    }

    /// Whether a key still counts, and when it ceases to; `None` where it does not any more.
    pub(crate) fn validity(&self, id: &KeyId) -> Option<Validity> {
        let keys = self.keys.load();
        keys.get(id).map(|held| held.proven.validity.clone())
    }

    /// Reads the file, where it has changed.
    pub(crate) fn refresh(&self) -> Result<(), KeyFileError> {
        let stamp = Stamp::of(&self.file.path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == Some(stamp) {
            return Ok(());
        }
        let stored = self.file.read()?;
        let before = self.keys.load_full();
        let keys: HashMap<KeyId, Arc<HeldKey>> = stored
            .into_iter()
            .map(|key| {
                let id = KeyId(key.sha256.as_str().into());
                let same = before.get(&id).filter(|held| held.stored == key).cloned();
                (id, same.unwrap_or_else(|| Arc::new(HeldKey::new(key))))
            })
            .collect();
        self.keys.store(Arc::new(keys));
        let keys = self.keys.load();
        for (id, held) in before.iter() {
            let is_held = keys.get(id).is_some_and(|new| Arc::ptr_eq(new, held));
            if !is_held {
                tracing::info!(name = held.stored.name, "an API key was revoked");
                held.is_withdrawn.send_replace(true);
            }
        }
        *seen = Some(stamp);
        Ok(())
    }

    /// Takes up changes of the file, until the server is over. Keys that cannot be read stay as they were.
    pub(crate) async fn follow(self: Arc<Self>, mut is_over: watch::Receiver<bool>) {
        let mut was_bad = false;
        loop {
            tokio::select! {
                // An error says that the server is gone, too.
                _ = is_over.wait_for(|is_over| *is_over) => return,
                () = tokio::time::sleep(LOOK_PAUSE) => {}
            }
            match self.refresh() {
                Ok(()) => was_bad = false,
                Err(error) if !was_bad => {
                    tracing::error!(%error, "the API keys stay as they were");
                    was_bad = true;
                }
                Err(_) => {}
            }
        }
    }
}

impl HeldKey {
    fn new(stored: StoredKey) -> Self {
        let is_withdrawn = watch::Sender::new(false);
        let name = match &stored.user {
            Some(user) => ProvenName::User(user.clone()),
            None => ProvenName::Program(stored.name.clone()),
        };
        let proven = Proven {
            tenant: stored.tenant.clone().unwrap_or_default(),
            name,
            roles: Arc::new(stored.roles.clone()),
            zone: None,
            validity: Validity::until(is_withdrawn.subscribe()),
        };
        Self {
            stored,
            proven,
            is_withdrawn,
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let facts = std::fs::metadata(path).ok();
        #[cfg(unix)]
        let number = facts
            .as_ref()
            .map_or(0, std::os::unix::fs::MetadataExt::ino);
        #[cfg(not(unix))]
        let number = 0;
        Self {
            changed: facts.as_ref().and_then(|facts| facts.modified().ok()),
            bytes: facts.as_ref().map_or(0, std::fs::Metadata::len),
            number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::key_file::{KeyChange, NewKey};
    use windlass_contract::id::TenantId;

    fn add(file: &KeyFile, name: &str, user: Option<&str>) -> Result<String, KeyFileError> {
        let key = NewKey {
            name: name.to_owned(),
            roles: Default::default(),
            user: user.map(str::to_owned),
            tenant: Some(TenantId::new("acme")),
        };
        let change = KeyChange::Add {
            key,
            keys_max: 3,
            now_unix_ms: 1,
        };
        Ok(file.change(change)?.unwrap().into_inner())
    }

    #[test]
    fn a_key_is_found_until_it_is_revoked_and_no_other_text_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::of(folder.path());
        let ring = KeyRing::open(folder.path()).unwrap();
        assert!(ring.is_empty());
        let (shop, ada) = (
            add(&file, "shop", None).unwrap(),
            add(&file, "ada", Some("ada")).unwrap(),
        );
        assert!(ring.find(&shop).is_none(), "the file was not looked at yet");
        ring.refresh().unwrap();
        let (id, program) = ring.find(&shop).unwrap();
        assert_eq!(program.name, ProvenName::Program("shop".to_owned()));
        let (_, user) = ring.find(&ada).unwrap();
        assert_eq!(user.name, ProvenName::User("ada".to_owned()));
        assert_eq!(user.tenant.as_str(), "acme");
        for other in ["", "wlk_", &shop[..shop.len() - 1], &shop.to_uppercase()] {
            assert!(ring.find(other).is_none(), "{other}");
        }
        let text = std::fs::read_to_string(&file.path).unwrap();
        assert!(!text.contains(&shop[4..]), "only the hash is kept");

        file.change(KeyChange::Revoke { name: "shop" }).unwrap();
        ring.refresh().unwrap();
        assert!(ring.find(&shop).is_none() && ring.validity(&id).is_none());
        assert!(program.validity.is_over() && !user.validity.is_over());
    }

    #[test]
    fn two_keys_of_one_name_too_many_and_odd_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::of(folder.path());
        add(&file, "a", None).unwrap();
        let refused = |name| add(&file, name, None).unwrap_err().to_string();
        assert!(refused("a").starts_with("there is a key of the name \"a\" already"));
        let long = "n".repeat(65);
        for odd in ["", "two words", "ä", &long] {
            assert!(
                refused(odd).contains("cannot be the name of a key"),
                "{odd}"
            );
        }
        add(&file, "b", None).unwrap();
        add(&file, "c", None).unwrap();
        assert!(refused("d").starts_with("there are 3 keys already"));
        let unknown = file.change(KeyChange::Revoke { name: "d" }).unwrap_err();
        assert!(
            unknown
                .to_string()
                .starts_with("there is no key of the name \"d\"")
        );
    }

    #[test]
    fn damaged_keys_stop_the_start_and_change_nothing_later() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::of(folder.path());
        let key = add(&file, "a", None).unwrap();
        let ring = KeyRing::open(folder.path()).unwrap();
        for damage in ["", "{", r#"{"version": 2, "keys": []}"#] {
            std::fs::write(&file.path, damage).unwrap();
            assert!(KeyRing::open(folder.path()).is_err(), "{damage}");
            assert!(ring.refresh().is_err(), "{damage}");
            assert!(ring.find(&key).is_some(), "{damage}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::of(folder.path());
        add(&file, "a", None).unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{:?}", entry.path());
        }
    }
}
