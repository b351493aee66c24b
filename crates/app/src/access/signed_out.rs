//! Cookies of the page that were signed out before their time, in memory and in a file of the data folder. Knows no request.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use windlass_contract::json::hex;
use windlass_contract::private;
use windlass_runtime::ids;

/// The file's name in the data folder. A line of its form is followed by one for each cookie: its digest, and until when it would
/// have counted, in milliseconds since 1970.
pub(crate) const FILE_NAME: &str = "signed_out.txt";
const FORM: &str = "windlass-signed-out";
const VERSION: u32 = 1;
/// Cookies that are remembered. Each was once given to a user with a proven identity.
const COOKIES_MAX: usize = 100_000;
/// Bytes of the file that are read: more than all of these take.
const BYTES_MAX: u64 = 32 << 20;

/// Why the signed-out cookies are not known, or cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignedOutError {
    #[error("the list of signed-out browsers {} cannot be read: {cause}; restore it, or remove it: then cookies count again that were signed out", .path.display())]
    Read { path: PathBuf, cause: String },
    #[error(
        "the list of signed-out browsers {} was written by a newer windlass: it has version {found}, and this one knows version {VERSION}; run the newer one",
        .path.display()
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("the list of signed-out browsers {} cannot be written: {source}; make the data folder writable", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{COOKIES_MAX} browsers were signed out and their cookies have not run out yet; shorten access.page_minutes"
    )]
    Full,
}

/// The cookies that do not count any more.
pub(crate) struct SignedOut {
    path: PathBuf,
    ended: Mutex<Ended>,
}

#[derive(Default)]
struct Ended {
    until_unix_ms: HashMap<String, u64>,
    /// Lines of the file, expired ones included.
    lines: usize,
}

impl SignedOut {
    /// Reads the list of a data folder.
    pub(crate) fn open(data_folder: &Path, now_unix_ms: u64) -> Result<Self, SignedOutError> {
        let path = data_folder.join(FILE_NAME);
        let ended = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ended::default(),
            Err(error) => return Err(unread(&path, error.to_string())),
            Ok(known) if known.len() > BYTES_MAX => {
                return Err(unread(&path, "it is too long".to_owned()));
            }
            Ok(_) => read(&path, now_unix_ms)?,
        };
        Ok(Self {
            path,
            ended: Mutex::new(ended),
        })
    }

    /// Whether a cookie was signed out.
    pub(crate) fn has(&self, cookie: &str) -> bool {
        let ended = self.lock();
        !ended.until_unix_ms.is_empty() && ended.until_unix_ms.contains_key(&name(cookie))
    }

    /// A cookie does not count from now on, and will not after a restart.
    pub(crate) fn add(
        &self,
        cookie: &str,
        until_unix_ms: u64,
        now_unix_ms: u64,
    ) -> Result<(), SignedOutError> {
        let mut ended = self.lock();
        ended.until_unix_ms.retain(|_, until| now_unix_ms < *until);
        if ended.until_unix_ms.len() >= COOKIES_MAX {
            return Err(SignedOutError::Full);
        }
        let name = name(cookie);
        ended.until_unix_ms.insert(name.clone(), until_unix_ms);
        let written = match ended.lines == 0 || ended.lines > 2 * ended.until_unix_ms.len() + 100 {
            true => rewrite(&self.path, &ended.until_unix_ms).map(|()| {
                ended.lines = ended.until_unix_ms.len();
            }),
            false => append(&self.path, &name, until_unix_ms).map(|()| ended.lines += 1),
        };
        written.map_err(|source| SignedOutError::Write {
            path: self.path.clone(),
            source,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Only a digest is kept: a thief could use the cookie itself.
fn name(cookie: &str) -> String {
    hex(&ids::digest(cookie.as_bytes()))
}

fn unread(path: &Path, cause: String) -> SignedOutError {
    SignedOutError::Read {
        path: path.to_owned(),
        cause,
    }
}

fn read(path: &Path, now_unix_ms: u64) -> Result<Ended, SignedOutError> {
    let text = fs::read_to_string(path).map_err(|error| unread(path, error.to_string()))?;
    let mut lines = text.lines();
    let version = lines
        .next()
        .and_then(|form| form.strip_prefix(FORM)?.trim().parse().ok());
    match version {
        Some(VERSION) => {}
        Some(found) => {
            return Err(SignedOutError::Newer {
                path: path.to_owned(),
                found,
            });
        }
        None => {
            return Err(unread(
                path,
                format!("its first line is not \"{FORM} {VERSION}\""),
            ));
        }
    }
    let mut ended = Ended::default();
    for line in lines {
        ended.lines += 1;
        // The last line is cut where the machine stopped in the middle of it; then its writing was never confirmed.
        let Some((name, until)) = line.split_once(' ') else {
            continue;
        };
        if let Ok(until) = until.parse::<u64>()
            && now_unix_ms < until
        {
            ended.until_unix_ms.insert(name.to_owned(), until);
        }
    }
    Ok(ended)
}

/// A whole new file takes the place of the old one.
fn rewrite(path: &Path, ended: &HashMap<String, u64>) -> io::Result<()> {
    let mut text = format!("{FORM} {VERSION}\n");
    for (name, until) in ended {
        text.push_str(&format!("{name} {until}\n"));
    }
    let new = path.with_extension("new");
    let mut file = private::options().create(true).truncate(true).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn append(path: &Path, name: &str, until_unix_ms: u64) -> io::Result<()> {
    let mut file = private::options().append(true).open(path)?;
    file.write_all(format!("{name} {until_unix_ms}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000_000;

    #[test]
    fn a_cookie_that_was_signed_out_does_not_count_until_it_has_run_out() {
        let folder = tempfile::tempdir().unwrap();
        let open = |now| SignedOut::open(folder.path(), now).unwrap();
        let signed_out = open(NOW);
        for number in 0..500 {
            let until = NOW + 1_000 * number;
            signed_out
                .add(&format!("cookie {number}"), until, NOW + 999)
                .unwrap();
        }
        for known in [&signed_out, &open(NOW + 1_000)] {
            for (number, is_out) in [(2, true), (499, true), (500, false)] {
                assert_eq!(known.has(&format!("cookie {number}")), is_out, "{number}");
            }
        }
        let text = fs::read_to_string(folder.path().join(FILE_NAME)).unwrap();
        assert!(!text.contains("cookie"), "{text:.200}");
        let late = open(NOW + 400_000);
        assert!(!late.has("cookie 100"));
        // The next entry removes the expired ones from the file.
        late.add("cookie 500", NOW + 500_000, NOW + 400_000)
            .unwrap();
        let text = fs::read_to_string(folder.path().join(FILE_NAME)).unwrap();
        assert_eq!(text.lines().count(), 1 + 99 + 1);
        assert!(open(NOW + 400_000).has("cookie 500"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_a_cut_line_is_not() {
        let name = name("cookie");
        for (text, problem) in [
            (
                format!("windlass-signed-out 1\n{name} 9000000000000\n0123"),
                None,
            ),
            (
                "windlass-signed-out 2\n".to_owned(),
                Some("a newer windlass"),
            ),
            ("something else".to_owned(), Some("its first line")),
            (String::new(), Some("its first line")),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(FILE_NAME), &text).unwrap();
            match (SignedOut::open(folder.path(), NOW), problem) {
                (Ok(known), None) => assert!(known.has("cookie")),
                (Err(error), Some(problem)) => {
                    assert!(error.to_string().contains(problem), "{error}");
                }
                (Ok(_), Some(problem)) => panic!("{text:?} was read: {problem}"),
                (Err(error), None) => panic!("{error}"),
            }
        }
    }
}
