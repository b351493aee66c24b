//! Makes files and folders accessible to their owner alone, since they hold keys and users' words. Knows no file.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// The most entries of a folder that are tightened. The rest lies in a folder that others cannot enter anyway.
const ENTRIES_MAX: usize = 100_000;
/// The deepest nesting of folders.
const LEVELS_MAX: usize = 16;

/// Options that create a file for its owner alone.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // On other systems a user's own folder is accessible to that user alone.
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

/// Makes a file accessible to its owner alone.
pub fn tighten_file(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return set_mode(path, 0o600);
    #[cfg(not(unix))]
    let _ = path;
    #[cfg(not(unix))]
    Ok(())
}

/// Makes a folder, and everything in it, accessible to its owner alone. Targets of links are left alone.
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
            // The file has gone: files are renamed while they are written.
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
