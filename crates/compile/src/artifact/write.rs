//! Puts an artifact where it belongs, whole or not at all.

use super::Artifact;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("the artifact {path} cannot be written: {cause}")]
pub struct WriteError {
    pub path: String,
    pub cause: std::io::Error,
}

/// Writes an artifact atomically: a reader, and a machine that loses power, sees the old file or the new one and nothing between. Missing
/// folders are made, and symbolic links are followed.
///
/// # Errors
///
/// The system's error; also an existing entry that is not a regular file, because the new file would replace it.
pub fn write_artifact(artifact: &Artifact, path: &Path) -> Result<(), WriteError> {
    write(artifact, path).map_err(|cause| WriteError {
        path: path.display().to_string(),
        cause,
    })
}

/// Follows a path's links to a regular file, or to a free place.
fn destination(path: &Path) -> std::io::Result<PathBuf> {
    /// As many as Linux follows.
    const LINKS_MAX: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_symlink() => {
                let target = std::fs::read_link(&place)?;
                place = place.parent().unwrap_or(Path::new("")).join(target);
            }
            Ok(metadata) if metadata.is_file() => return Ok(place),
            Ok(_) => {
                return Err(std::io::Error::other(
                    "what is there is no regular file, and would be replaced; name another path",
                ));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(place),
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other(
        "it is a symbolic link that leads to no end; name another path",
    ))
}

fn write(artifact: &Artifact, path: &Path) -> std::io::Result<()> {
    let path = &destination(path)?;
    let Some(name) = path.file_name() else {
        return Err(std::io::Error::other("the path names no file"));
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(folder)?;
    // In the same folder, because a file moves atomically only within one file system.
    let draft = folder.join(format!(
        ".{}.{}.draft",
        name.to_string_lossy(),
        std::process::id()
    ));
    let written = write_draft(artifact, &draft).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        // The first error is returned; a draft that stays behind is overwritten by the next build.
        let _ = std::fs::remove_file(&draft);
    }
    written?;
    // The new name is durable once the folder is; where folders cannot be synced, the file's own sync has to do.
    if let Ok(folder) = std::fs::File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_draft(artifact: &Artifact, draft: &Path) -> std::io::Result<()> {
    let mut file = std::fs::File::create(draft)?;
    file.write_all(&artifact.to_json())?;
    file.sync_all()
}
