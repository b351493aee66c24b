//! A folder of calendars: `NAME.ics` for each. Keeps a parsed file until the file changes, and writes a change as a whole or not at
//! all. Only this module touches the disk.

use crate::edit::{Change, EditError, Kind, Target, apply, id_of, uid_of};
use crate::event::{Event, Status};
use crate::expand::{ExpandError, Occurrence, expand};
use crate::read::{Calendar, read};
use crate::{FILE_BYTES_MAX, Span};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The calendar that is always there, and into which events are written.
pub const PRIMARY: &str = "primary";
const ENDING: &str = "ics";
const NAME_BYTES_MAX: usize = 64;
/// Calendars of a folder.
const CALENDARS_MAX: usize = 200;
/// How often a change is made anew because another program has written the file meanwhile.
const ATTEMPTS: usize = 3;

/// A text is no name of a calendar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name of a calendar; use small letters, digits, - and _, 64 at most")]
pub struct NameProblem(String);

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error(transparent)]
    Name(#[from] NameProblem),
    #[error("there is no calendar {name:?}; there are: {}", .known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    #[error("{} cannot be {doing}: {error}", .path.display())]
    File {
        path: PathBuf,
        doing: &'static str,
        error: io::Error,
    },
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    #[error("{} is not written in UTF-8, and stays as it is", .0.display())]
    Encoding(PathBuf),
    #[error("another program keeps writing {}; try again", .0.display())]
    Contended(PathBuf),
    #[error("the time is taken")]
    Taken { busy: Vec<Span> },
    #[error(transparent)]
    Expand(#[from] ExpandError),
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// An event as it stands after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub id: String,
    pub title: Option<String>,
    pub span: Span,
    pub attendees: Vec<String>,
    /// The place of the event, or the address of its conference.
    pub location: Option<String>,
    pub is_all_day: bool,
    pub is_cancelled: bool,
    /// Whether it was changed now, and not before.
    pub is_new: bool,
}

/// The version of a file that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    modified: SystemTime,
    length: u64,
}

impl Version {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            length: metadata.len(),
        }
    }
}

pub struct Folder {
    path: PathBuf,
    zone: TimeZone,
    known: Mutex<BTreeMap<String, (Version, Arc<Calendar>)>>,
    /// Held by the one change that is being made.
    writing: Mutex<()>,
}

impl Folder {
    /// The folder may be missing. `zone` is the calendars' zone: it holds for whole days and for times without a zone.
    pub fn new(path: impl Into<PathBuf>, zone: TimeZone) -> Self {
        Self {
            path: path.into(),
            zone,
            known: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The calendars that there are, by name.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let is_calendar = path.extension().is_some_and(|ending| ending == ENDING);
                let name = path.file_stem()?.to_str()?.to_owned();
                (is_calendar && check_name(&name).is_ok()).then_some(name)
            })
            .take(CALENDARS_MAX)
            .collect();
        names.push(PRIMARY.to_owned());
        names.sort();
        names.dedup();
        names
    }

    /// The events of a calendar as its file has them now.
    ///
    /// # Errors
    ///
    /// The calendar does not exist, or its file cannot be read.
    pub fn calendar(&self, name: &str) -> Result<Arc<Calendar>, FolderError> {
        let path = self.file(name)?;
        let version = match fs::metadata(&path) {
            Ok(metadata) => Version::of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.missing(name),
            Err(error) => return Err(unreadable(&path, error)),
        };
        if let Some((known, calendar)) = self.known().get(name)
            && *known == version
        {
            return Ok(calendar.clone());
        }
        let bytes = bytes_of(&path)?;
        let calendar = Arc::new(read(&String::from_utf8_lossy(&bytes), &self.zone));
        let mut known = self.known();
        if known.len() >= CALENDARS_MAX {
            known.clear();
        }
        known.insert(name.to_owned(), (version, calendar.clone()));
        Ok(calendar)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (Version, Arc<Calendar>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self, name: &str) -> Result<Arc<Calendar>, FolderError> {
        match name {
            PRIMARY => Ok(Arc::default()),
            name => Err(FolderError::Unknown {
                name: name.to_owned(),
                known: self.names(),
            }),
        }
    }

    fn file(&self, name: &str) -> Result<PathBuf, FolderError> {
        check_name(name)?;
        Ok(self.path.join(format!("{name}.{ENDING}")))
    }

    /// Makes a change in a calendar, or finds that it was made before. With `overlaps` false it is refused where the new time is taken.
    ///
    /// # Errors
    ///
    /// The change was not made.
    pub fn change(
        &self,
        name: &str,
        change: &Change<'_>,
        overlaps: bool,
    ) -> Result<Found, FolderError> {
        let path = self.file(name)?;
        let _only_one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ATTEMPTS {
            let bytes = match bytes_of(&path) {
                Ok(bytes) => Some(bytes),
                Err(FolderError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                    self.missing(name)?;
                    None
                }
                Err(error) => return Err(error),
            };
            let before = bytes.clone().unwrap_or_default();
            let text = String::from_utf8(before);
            let text = text.map_err(|_| FolderError::Encoding(path.clone()))?;
            let calendar = read(&text, &self.zone);
            if let Some(found) = self.found(&calendar, change.key) {
                return Ok(found);
            }
            if !overlaps {
                self.require_free(&calendar, change)?;
            }
            let after = apply(&text, &calendar, &self.zone, change)?;
            if after.len() > FILE_BYTES_MAX {
                return Err(FolderError::TooLong(path));
            }
            // A change that could not be read back would be lost, and made again with each attempt.
            let found = self.found(&read(&after, &self.zone), change.key);
            let found = found.ok_or(FolderError::Edit(EditError::Unreadable))?;
            // Another program may have written the file since.
            if bytes_of(&path).ok() != bytes {
                continue;
            }
            self.write(&path, &after)?;
            self.known().remove(name);
            return Ok(Found {
                is_new: true,
                ..found
            });
        }
        Err(FolderError::Contended(path))
    }

    /// The event that a change with this key has made or changed, if it was made.
    ///
    /// # Errors
    ///
    /// The calendar cannot be read, so the answer is unknown.
    pub fn find(&self, name: &str, key: &str) -> Result<Option<Found>, FolderError> {
        let calendar = self.calendar(name)?;
        Ok(self.found(&calendar, key))
    }

    fn found(&self, calendar: &Calendar, key: &str) -> Option<Found> {
        let uid = uid_of(key);
        let has_key =
            |event: &&Event| event.uid == uid || event.changes.iter().any(|change| change == key);
        let event = calendar.events.iter().find(has_key)?;
        let of_series = event.instance.as_ref().map(|instance| &instance.of);
        let start = event.start.timestamp(&self.zone)?;
        let end = event.end(&self.zone)?;
        Some(Found {
            id: id_of(event, of_series),
            title: event.summary.clone(),
            span: Span { start, end },
            attendees: (event.attendees.iter())
                .map(|attendee| attendee.email.clone())
                .collect(),
            location: event.location.clone(),
            is_all_day: event.is_all_day(),
            is_cancelled: event.status == Status::Cancelled,
            is_new: false,
        })
    }

    /// Refuses a change to a time that another event has.
    fn require_free(&self, calendar: &Calendar, change: &Change<'_>) -> Result<(), FolderError> {
        let (span, moved) = match &change.kind {
            Kind::Add(event) => (
                Span {
                    start: event.start,
                    end: event.end,
                },
                None,
            ),
            Kind::Move { id, start, end, .. } => {
                Target::find(calendar, &self.zone, id, change.owner)?;
                (
                    Span {
                        start: *start,
                        end: *end,
                    },
                    Some(*id),
                )
            }
            Kind::Cancel { .. } | Kind::Locate { .. } => return Ok(()),
        };
        let (occurrences, _) = expand(calendar, &self.zone, span.start, span.end)?;
        let busy: Vec<Span> = occurrences
            .iter()
            .filter(|other| other.event.is_busy() && other.start < other.end)
            .filter(|other| moved != Some(other.id().as_str()))
            .map(Occurrence::span)
            .collect();
        match busy.is_empty() {
            true => Ok(()),
            false => Err(FolderError::Taken { busy }),
        }
    }

    /// Writes beside the file and puts the whole in its place, for its owner alone.
    fn write(&self, path: &Path, text: &str) -> Result<(), FolderError> {
        let failed = |error| FolderError::File {
            path: path.to_owned(),
            doing: "written",
            error,
        };
        fs::create_dir_all(&self.path).map_err(failed)?;
        let beside = path.with_extension("ics.new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside).map_err(failed)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        written
            .and_then(|()| fs::rename(&beside, path))
            .map_err(failed)?;
        // Without this a power cut may bring the older file back. Not every system can do it.
        if let Ok(folder) = File::open(&self.path) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Occurrence<'_> {
    /// The name by which a change addresses the occurrence.
    pub fn id(&self) -> String {
        id_of(self.event, self.of_series.as_ref())
    }

    pub fn span(&self) -> Span {
        Span {
            start: self.start,
            end: self.end,
        }
    }

    pub fn is_all_day(&self) -> bool {
        self.event.is_all_day()
    }
}

fn check_name(name: &str) -> Result<(), NameProblem> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(fits) {
        true => Ok(()),
        false => Err(NameProblem(name.chars().take(NAME_BYTES_MAX).collect())),
    }
}

fn unreadable(path: &Path, error: io::Error) -> FolderError {
    FolderError::File {
        path: path.to_owned(),
        doing: "read",
        error,
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, FolderError> {
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, error))?;
    match bytes.len() > FILE_BYTES_MAX {
        true => Err(FolderError::TooLong(path.to_owned())),
        false => Ok(bytes),
    }
}
