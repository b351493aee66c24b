//! A backup: everything of a data folder that is not made again by itself, in one file, while a server goes on using the folder; and a
//! data folder out of such a file. Knows which files those are; none of their contents.

mod archive;

use crate::access::KeyFile;
use crate::clock;
use crate::failure::Failure;
use crate::records;
use crate::toolbox::ARTIFACT_FILE;
use archive::{ArchiveError, FILES_MAX, Reader, Writer};
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};
use windlass_config::Config;
use windlass_contract::envelope::rfc3339;
use windlass_contract::private;
use windlass_runtime::audit::{self, Standing};
use windlass_runtime::client_key::{self, ClientKey, ledger_key};
use windlass_store::{DATABASE_FILE, LOCK_FILE, SqliteStore, check_database, copy_database};

/// The backup's folder for the files of an audit outside of the data folder.
const AUDIT_OUTSIDE: &str = "audit-outside";
/// Folders in folders.
const LEVELS_MAX: usize = 16;

/// The result of a backup.
pub(crate) struct Made {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// The parts of the data folder that are not in it, each with the reason.
    pub(crate) left_out: Vec<String>,
}

/// The result of a restoration.
pub(crate) struct Restored {
    pub(crate) files: usize,
    pub(crate) made_at: String,
    /// The place of the audit's files, if they belong elsewhere.
    pub(crate) audit_outside: Option<PathBuf>,
}

/// Writes a backup. The file is there in the end, whole, or not at all.
pub(crate) fn make(config: &Config, target: &Path) -> Result<Made, Failure> {
    let data = &*config.folders.data;
    let failed = |error: io::Error| failure(target, error);
    let target = &std::path::absolute(target).map_err(failed)?;
    let (Some(folder), Some(_)) = (target.parent(), target.file_name()) else {
        return Err(Failure::Usage(format!(
            "{} is no name of a file",
            target.display()
        )));
    };
    if is_within(folder, data) {
        return Err(Failure::Usage(format!(
            "{} lies in the data folder that it is to be a backup of: name a file elsewhere",
            target.display()
        )));
    }
    if target.exists() {
        return Err(failure(target, "it is there already; name another file"));
    }
    let mut options = private::options();
    options.create(true).truncate(false);
    let part = beside(target, ".part");
    let file = options.open(&part).map_err(failed)?;
    // The lock keeps other backups from this name until the file is closed.
    file.try_lock()
        .map_err(|_| failure(target, "another backup is being written to it"))?;
    // A backup that was killed has left them.
    file.set_len(0).map_err(failed)?;
    let copy = beside(target, ".part.db");
    let written = write(config, file, &copy);
    let removed = remove_file(&copy);
    let made = match written.and_then(|made| removed.map(|()| made).map_err(failed)) {
        Ok(made) => made,
        Err(failure) => {
            // A left-over file says by its name that it is no backup.
            let _ = remove_file(&part);
            return Err(failure);
        }
    };
    fs::rename(&part, target).map_err(failed)?;
    sync_folder(folder).map_err(failed)?;
    Ok(made)
}

fn write(config: &Config, file: File, copy: &Path) -> Result<Made, Failure> {
    let data = &*config.folders.data;
    remove_file(copy).map_err(|error| failure(copy, error))?;
    copy_database(data, copy).map_err(Failure::of)?;
    // The rest is worthless without these two, and a server that has a database has them.
    for name in [client_key::FILE_NAME, client_key::LEDGER_FILE_NAME] {
        let path = data.join(name);
        if !path.is_file() {
            return Err(failure(&path, "it is not there; a server makes it"));
        }
    }
    let mut taking = Taking {
        archive: Writer::new(file),
        left_out: Vec::new(),
        audit: records::audit_path(config),
    };
    let database = File::open(copy).map_err(|error| failure(copy, error))?;
    taking.add(DATABASE_FILE, copy, database)?;
    taking.folder(data, "", LEVELS_MAX)?;
    // Last: a line that the ledger knows to be written is in it.
    taking.audit_of(data)?;
    taking.settings(config);
    let files = taking.archive.files();
    let made = Made {
        files: files.len(),
        bytes: files.iter().map(|file| file.bytes).sum(),
        left_out: taking.left_out,
    };
    let made_at = rfc3339(clock::now_unix_ms());
    let finished = taking.archive.finish(made_at);
    finished.map_err(|error| Failure::of(format!("the backup cannot be written: {error}")))?;
    Ok(made)
}

/// How a file or a folder at the top of a data folder is treated.
enum Place {
    Taken,
    /// It is backed up in another way, or matters to one process only.
    Passing,
    LeftOut(&'static str),
}

fn place(name: &str) -> Place {
    let of_database = name.strip_prefix(DATABASE_FILE);
    match (name, of_database) {
        (_, Some("" | "-wal" | "-shm" | "-journal")) => Place::Passing,
        (_, Some(rest)) if rest.starts_with(".old-") => {
            Place::LeftOut("a database of an earlier version, which nothing reads")
        }
        (LOCK_FILE | "access_keys.lock" | "access_keys.new", _) => Place::Passing,
        (ARTIFACT_FILE, _) => Place::LeftOut("made again at the next start"),
        ("knowledge", _) => Place::LeftOut("vectors, which are made again"),
        _ => Place::Taken,
    }
}

/// A backup that is being written.
struct Taking {
    archive: Writer,
    left_out: Vec<String>,
    audit: PathBuf,
}

impl Taking {
    fn add(&mut self, name: &str, path: &Path, content: impl Read) -> Result<(), Failure> {
        if self.archive.files().len() >= FILES_MAX {
            return Err(failure(
                path,
                format!("a backup has {FILES_MAX} files at most"),
            ));
        }
        let added = self.archive.add(name, content);
        added.map_err(|error| failure(path, error))
    }

    /// Adds a folder with everything in it, except files that are backed up in another way.
    fn folder(&mut self, folder: &Path, prefix: &str, levels: usize) -> Result<(), Failure> {
        let failed = |error: io::Error| failure(folder, error);
        let mut entries = fs::read_dir(folder)
            .and_then(Iterator::collect::<io::Result<Vec<_>>>)
            .map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if audit::is_of_audit(&path, &self.audit) {
                continue;
            }
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                self.leave_out(&path.to_string_lossy(), "its name is no text");
                continue;
            };
            if prefix.is_empty() {
                match place(&name) {
                    Place::Taken => {}
                    Place::Passing => continue,
                    Place::LeftOut(reason) => {
                        self.leave_out(&name, reason);
                        continue;
                    }
                }
            }
            let name = format!("{prefix}{name}");
            if !archive::is_name(&name) {
                self.leave_out(&name, "its name cannot be in a backup");
                continue;
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() && levels > 0 {
                self.folder(&path, &format!("{name}/"), levels - 1)?;
            } else if kind.is_file() {
                match File::open(&path) {
                    Ok(file) => {
                        // Bytes that are written meanwhile belong to the next backup.
                        let bytes = file.metadata().map_err(failed)?.len();
                        self.add(&name, &path, file.take(bytes))?;
                    }
                    // The oldest journals go.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(failure(&path, error)),
                }
            } else {
                self.leave_out(&name, "no file");
            }
        }
        Ok(())
    }

    fn audit_of(&mut self, data: &Path) -> Result<(), Failure> {
        let path = self.audit.clone();
        let parts = Standing::of(&path).and_then(Standing::parts);
        let is_inside = path.parent().is_some_and(|folder| is_same(folder, data));
        for part in parts.map_err(Failure::of)? {
            let Some(name) = part.name.to_str() else {
                return Err(failure(&path, "its name is no text"));
            };
            let name = match is_inside {
                true => name.to_owned(),
                false => format!("{AUDIT_OUTSIDE}/{name}"),
            };
            self.add(&name, &path, part.content)?;
        }
        Ok(())
    }

    /// Lists the folders that the configuration keeps elsewhere.
    fn settings(&mut self, config: &Config) {
        if let Some(folder) = config.journal.folder.as_deref()
            && !is_within(folder, &config.folders.data)
        {
            self.leave_out(
                &folder.to_string_lossy(),
                "journals outside of the data folder",
            );
        }
    }

    fn leave_out(&mut self, name: &str, reason: &str) {
        self.left_out.push(format!("{name} ({reason})"));
    }
}

/// Makes a data folder out of a backup. The folder is there in the end, whole, or as it was before.
pub(crate) fn restore(archive: &Path, data: &Path) -> Result<Restored, Failure> {
    let opened = File::open(archive).map_err(ArchiveError::Io);
    let mut reader = opened
        .and_then(Reader::open)
        .map_err(|error| failure(archive, error))?;
    let data = std::path::absolute(data).map_err(|error| failure(data, error))?;
    let failed = |error: io::Error| failure(&data, error);
    refuse_used(&data)?;
    let Some(folder) = data.parent() else {
        return Err(failure(&data, "a data folder cannot be there"));
    };
    let part = beside(&data, ".restoring");
    private::create_folder(folder).map_err(failed)?;
    private::create_folder(&part).map_err(failed)?;
    // The lock keeps other processes from this folder until this one ends.
    let lock = lock(&part)?;
    empty(&part).map_err(failed)?;
    let restored = fill(&mut reader, archive, &part).and_then(|restored| {
        sync_folders(&part).map_err(failed)?;
        // An empty folder gives way.
        fs::rename(&part, &data).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices => {
                failure(&data, "it is the root of a disk: name a folder within it")
            }
            io::ErrorKind::DirectoryNotEmpty => not_empty(&data),
            _ => failure(&data, error),
        })?;
        sync_folder(folder).map_err(failed)?;
        Ok(restored)
    });
    if restored.is_err() {
        // A left-over folder says by its name that it is no data folder.
        let _ = fs::remove_dir_all(&part);
    }
    drop(lock);
    let restored = restored?;
    Ok(Restored {
        audit_outside: restored.audit_outside.map(|name| data.join(name)),
        ..restored
    })
}

fn fill(reader: &mut Reader, archive: &Path, part: &Path) -> Result<Restored, Failure> {
    let files = reader.files().to_vec();
    let has = |name: &str| files.iter().any(|file| file.name == name);
    let needed = [
        DATABASE_FILE,
        client_key::FILE_NAME,
        client_key::LEDGER_FILE_NAME,
    ];
    if let Some(missing) = needed.into_iter().find(|name| !has(name)) {
        let error = ArchiveError::Damaged(format!("it has no {missing}"));
        return Err(failure(archive, error));
    }
    for file in &files {
        let is_taken = match file.name.split('/').next() {
            Some(DATABASE_FILE) => file.name == DATABASE_FILE,
            Some(top) => matches!(place(top), Place::Taken),
            None => false,
        };
        if !is_taken {
            let error = ArchiveError::Hostile(file.name.clone());
            return Err(failure(archive, error));
        }
        let path = part.join(&file.name);
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(|error| failure(folder, error))?;
        }
        let mut options = private::options();
        let mut target = options
            .create_new(true)
            .open(&path)
            .map_err(|error| failure(&path, error))?;
        reader
            .extract(file, &mut target)
            .map_err(|error| failure(archive, error))?;
    }
    // Files that a server would refuse at its start are refused here, under the archive's name.
    let usable = check_database(part).map_err(|error| error.to_string());
    let usable = usable.and_then(|()| match ClientKey::open(part).and(ledger_key(part)) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    });
    let usable = usable.and_then(|()| match KeyFile::of(part).read() {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    });
    usable.map_err(|problem| failure(archive, problem))?;
    let is_outside = |name: &str| name.starts_with(AUDIT_OUTSIDE);
    Ok(Restored {
        files: files.len(),
        made_at: reader.made_at().to_owned(),
        audit_outside: files
            .iter()
            .any(|file| is_outside(&file.name))
            .then(|| AUDIT_OUTSIDE.into()),
    })
}

/// A folder that is used, or has anything in it, is not written to.
fn refuse_used(data: &Path) -> Result<(), Failure> {
    if !data.exists() {
        return Ok(());
    }
    if let Some(holder) = SqliteStore::holder(data).map_err(Failure::of)? {
        return Err(failure(
            data,
            format!("it is in use by {holder}; name a new folder"),
        ));
    }
    match fs::read_dir(data).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(not_empty(data)),
        Err(error) => Err(failure(data, error)),
    }
}

fn not_empty(data: &Path) -> Failure {
    failure(data, "it is not empty; name a new folder")
}

/// The lock that a server takes of its data folder.
fn lock(folder: &Path) -> Result<File, Failure> {
    let mut options = private::options();
    options.create(true).truncate(false);
    let path = folder.join(LOCK_FILE);
    let file = options.open(&path).map_err(|error| failure(&path, error))?;
    file.try_lock()
        .map_err(|_| failure(folder, "another process restores to it"))?;
    Ok(file)
}

/// Removes everything but the lock: a restoration that was killed has left it.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK_FILE {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn failure(path: &Path, cause: impl Display) -> Failure {
    Failure::Failed(format!("{}: {cause}", path.display()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn is_within(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => false,
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A new name lasts only with its folder.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}
