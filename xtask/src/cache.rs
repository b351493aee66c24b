//! The cache that this machine has for all clones: tools, downloads, environments. Knows where it lies and how an entry is made, whole
//! or not at all; knows nothing of the entries.

use crate::parts::Missing;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The variable with which a contributor names another folder for the cache.
pub(crate) const VARIABLE: &str = "WINDLASS_CACHE";

pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// `fallback` is for machines whose user has no folder of their own.
    pub(crate) fn of_this_machine(fallback: &Path) -> Self {
        let folder = folder_of(|name| std::env::var_os(name)).unwrap_or_else(|| fallback.into());
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The path of the entry of this name. If it is missing, `make` is given the path to make it at. Waits for another run that makes
    /// the same entry, and removes the unfinished work of an earlier run.
    pub(crate) fn entry(
        &self,
        name: &str,
        make: impl FnOnce(&Path) -> Result<(), Missing>,
    ) -> Result<PathBuf, Missing> {
        let entry = self.folder.join(name);
        if entry.exists() {
            return Ok(entry);
        }
        let failed = |error: io::Error| Missing(format!("{}: {error}", entry.display()));
        let folder = entry.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(failed)?;
        let beside = |ending: &str| {
            let mut path = entry.clone().into_os_string();
            path.push(ending);
            PathBuf::from(path)
        };
        let lock = File::create(beside(".lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        if entry.exists() {
            return Ok(entry);
        }
        let part = beside(".part");
        remove(&part).map_err(failed)?;
        let made = make(&part);
        if let Err(missing) = made {
            remove(&part).map_err(failed)?;
            return Err(missing);
        }
        fs::rename(&part, &entry).map_err(failed)?;
        Ok(entry)
    }
}

/// A short name for some contents, so that other contents lie elsewhere.
pub(crate) fn fingerprint(contents: &[&[u8]]) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn folder_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(chosen) = value(VARIABLE) {
        return std::path::absolute(chosen).ok();
    }
    let caches = value("XDG_CACHE_HOME").map(PathBuf::from);
    // The standard says so: a relative path in that variable counts for nothing.
    let caches = caches.filter(|caches| caches.is_absolute());
    let caches = caches.or_else(|| Some(PathBuf::from(value("HOME")?).join(".cache")));
    caches.map(|caches| caches.join("windlass"))
}

/// Removes a file, a folder or a link, but not a link's target. A missing path is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_one_that_is_named_or_the_users() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(
                folder_of(variable),
                expected.map(PathBuf::from),
                "{variables:?}"
            );
        };
        let home = ("HOME", "/h/a");
        check(&[home], Some("/h/a/.cache/windlass"));
        check(&[home, ("XDG_CACHE_HOME", "/c")], Some("/c/windlass"));
        check(
            &[home, ("XDG_CACHE_HOME", "c")],
            Some("/h/a/.cache/windlass"),
        );
        check(&[home, (VARIABLE, "/own")], Some("/own"));
        check(&[home, (VARIABLE, "")], Some("/h/a/.cache/windlass"));
        check(&[], None);
    }

    #[test]
    fn an_entry_is_made_once_and_whole() {
        let folder = std::env::temp_dir().join(format!("windlass-cache-{}", std::process::id()));
        let cache = Cache {
            folder: folder.clone(),
        };
        let never = |_: &Path| panic!("it is there");
        // A run that was killed has left this.
        fs::create_dir_all(folder.join("tools/one.part/half")).unwrap();
        let made = cache.entry("tools/one", |path| {
            assert!(!path.exists());
            fs::create_dir(path).unwrap();
            Ok(())
        });
        assert!(matches!(&made, Ok(path) if path.is_dir()));
        assert!(cache.entry("tools/one", never).is_ok());

        let refused = cache.entry("two", |path| {
            fs::write(path, "half").unwrap();
            Err(Missing("no network".to_owned()))
        });
        assert!(matches!(refused, Err(Missing(cause)) if cause == "no network"));
        let second = cache.entry("two", |path| {
            fs::write(path, "whole").unwrap();
            Ok(())
        });
        assert!(matches!(&second, Ok(path) if fs::read(path).unwrap() == b"whole"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn other_contents_have_another_name() {
        let name = fingerprint(&[b"one", b"two"]);
        assert_eq!(name, fingerprint(&[b"one", b"two"]));
        assert_ne!(name, fingerprint(&[b"onet", b"wo"]));
    }
}
