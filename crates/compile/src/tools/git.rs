//! The commit that is checked out around the tools, read from git's own files. Knows nothing of later changes.

use std::path::{Path, PathBuf};

/// The commit's id, or `None` outside a repository and before its first commit.
pub(super) fn commit(tools: &Path) -> Option<String> {
    let start = std::path::absolute(tools).ok()?;
    let directory = start.ancestors().find_map(git_directory)?;
    let head = read_line(&directory.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else {
        return is_commit(&head).then_some(head);
    };
    // A linked worktree has its own HEAD and shares the references.
    let shared = read_line(&directory.join("commondir"))
        .map_or_else(|| directory.clone(), |path| directory.join(path));
    let well_formed = reference.starts_with("refs/") && !reference.contains("..");
    [&directory, &shared]
        .into_iter()
        .filter(|_| well_formed)
        .find_map(|folder| read_line(&folder.join(reference)).filter(|text| is_commit(text)))
        .or_else(|| packed(&shared.join("packed-refs"), reference))
}

/// The `.git` of a folder: a directory, or a file that names it.
fn git_directory(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let line = read_line(&git)?;
    Some(folder.join(line.strip_prefix("gitdir: ")?))
}

fn packed(path: &Path, reference: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| {
        line.split_once(' ')
            .is_some_and(|(_, name)| name == reference)
    })?;
    let (commit, _) = line.split_once(' ')?;
    is_commit(commit).then(|| commit.to_owned())
}

fn read_line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

/// SHA-1 or SHA-256 in lower-case hexadecimal.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::commit;
    use std::fs;

    #[test]
    fn the_commit_is_found_loose_packed_detached_and_in_a_worktree() {
        let root = tempfile::tempdir().unwrap();
        let tools = root.path().join("tools");
        fs::create_dir_all(&tools).unwrap();
        let git = root.path().join(".git");
        let (first, second) = ("a".repeat(40), "b".repeat(40));
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(commit(&tools), None, "before the first commit");

        fs::write(
            git.join("packed-refs"),
            format!("# pack-refs\n{first} refs/heads/main\n"),
        )
        .unwrap();
        assert_eq!(commit(&tools), Some(first.clone()));
        fs::write(git.join("refs/heads/main"), format!("{second}\n")).unwrap();
        assert_eq!(commit(&tools), Some(second.clone()));
        fs::write(git.join("HEAD"), format!("{first}\n")).unwrap();
        assert_eq!(commit(&tools), Some(first.clone()));
        fs::write(git.join("HEAD"), "ref: refs/../../secret\n").unwrap();
        assert_eq!(commit(&tools), None);

        let worktree = tempfile::tempdir().unwrap();
        let private = git.join("worktrees/other");
        fs::create_dir_all(&private).unwrap();
        fs::write(private.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(private.join("commondir"), "../..\n").unwrap();
        fs::write(
            worktree.path().join(".git"),
            format!("gitdir: {}\n", private.display()),
        )
        .unwrap();
        assert_eq!(commit(worktree.path()), Some(second));
    }
}
