//! Files and folders for their owner alone: keys, and what users say, are the business of nobody else on this machine. Knows no
//! file.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Entries of a folder that are looked at. The rest of a folder that is for its owner alone is out of reach anyway.
const ENTRIES_MAX: usize = 100_000;
/// Folders in folders.
const LEVELS_MAX: usize = 16;

/// How a file is opened that is to be for its owner alone where it is made.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // On other systems a folder of the user's own is for the user alone.
    options.write(true);
    options
}

/// Makes a folder, and those above it, where they are missing.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Takes a file from everybody but its owner.
pub fn tighten_file(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return set_mode(path, 0o600);
    #[cfg(not(unix))]
    let _ = path;
    #[cfg(not(unix))]
    Ok(())
}

/// Takes a folder, and everything in it, from everybody but its owner. What a link leads to is left alone.
pub fn tighten(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    tighten_within(folder, LEVELS_MAX, &mut { ENTRIES_MAX })?;
    #[cfg(not(unix))]
    let _ = (folder, LEVELS_MAX, ENTRIES_MAX);
    Ok(())
}

#[cfg(unix)]
fn tighten_within(folder: &Path, levels: usize, entries: &mut usize) -> io::Result<()> {
    set_mode(folder, 0o700)?;
    if levels == 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        *entries = entries.saturating_sub(1);
        if *entries == 0 {
            return Ok(());
        }
        let kind = entry.file_type()?;
        let done = match (kind.is_dir(), kind.is_file()) {
            (true, _) => tighten_within(&entry.path(), levels - 1, entries),
            (_, true) => set_mode(&entry.path(), 0o600),
            _ => Ok(()),
        };
        match done {
            // Gone since: files are renamed while they are written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let mut permissions = std::fs::symlink_metadata(path)?.permissions();
    if permissions.mode() & 0o077 == 0 {
        return Ok(());
    }
    permissions.set_mode(mode);
    std::fs::set_permissions(path, permissions)
}
