//! Replacing a file so that a reader, a kill or a full disk never meets half of it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Replaces the content of `path` with `bytes`, all or nothing.
///
/// The bytes go to `.NAME.scratch` in the same folder, are synced to disk and then renamed over `path`; at the end the
/// folder is synced so that the rename survives a power cut. On an error the scratch file is removed and the old file
/// keeps its content. The one exception is an error of that last sync: the new content is already in place then, but
/// the disk has not confirmed it.
///
/// Two writers of the same path would share one scratch file; [`RunLock`](super::RunLock) keeps them apart.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, || Ok(())).map_err(|error| failed("write", path, &error))
}

/// The same, and what `path` held before goes to `previous`. At every moment one of the two names leads to a whole file, and
/// `path` does from its first write on.
pub fn write_keeping(path: &Path, previous: &Path, bytes: &[u8]) -> io::Result<()> {
    let keep = || {
        let scratch = scratch_path(previous)?;
        // Left by a kill.
        fs::remove_file(&scratch).ok();
        match fs::hard_link(path, &scratch) {
            Ok(()) => {}
            // There is nothing to keep.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // A file system without links.
            Err(_) => drop(fs::copy(path, &scratch)?),
        }
        fs::rename(&scratch, previous).map_err(|error| discard(&scratch, error))
    };
    replace(path, bytes, keep).map_err(|error| failed("write", path, &error))
}

/// Makes a folder and those above it that are missing, each of them on disk when this returns.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
    let made = fs::create_dir_all(path).and_then(|()| missing.iter().try_for_each(|made| sync_folder(folder_of(made))));
    made.map_err(|error| failed("make", path, &error))
}

/// `error` with what was attempted and on which file, of the same kind.
pub(super) fn failed(verb: &str, path: &Path, error: &io::Error) -> io::Error {
    let reason = match error.kind() {
        ErrorKind::StorageFull => "no space left on device".to_owned(),
        ErrorKind::QuotaExceeded => "disk quota exceeded".to_owned(),
        ErrorKind::FileTooLarge => "file too large (see ulimit -f)".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("cannot {verb} {}: {reason}", path.display()))
}

/// `before` is called when the new content is on disk, just before it takes the old one's place.
fn replace(path: &Path, bytes: &[u8], before: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let scratch = scratch_path(path)?;
    let file = File::create(&scratch)?;
    let written = fill(file, bytes).and_then(|()| before()).and_then(|()| fs::rename(&scratch, path));
    if let Err(error) = written {
        return Err(discard(&scratch, error));
    }
    sync_folder(folder_of(path))
}

fn scratch_path(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the path names no file"))?;
    let mut scratch = OsString::from(".");
    scratch.push(name);
    scratch.push(".scratch");
    Ok(path.with_file_name(scratch))
}

/// Takes the file by value: it is closed before the rename, which some systems require.
fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes the scratch file and hands `error` back, with a remark if the removal failed as well.
fn discard(scratch: &Path, error: io::Error) -> io::Error {
    match fs::remove_file(scratch) {
        Ok(()) => error,
        Err(leftover) => {
            let text = format!("{error}; {} could not be removed either: {leftover}", scratch.display());
            io::Error::new(error.kind(), text)
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some network and user-space file systems have no sync of folders at all: there is nothing to wait for.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        outcome => outcome,
    }
}

/// Folders cannot be opened as files here; the rename itself is as durable as the system makes it.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn creates_and_replaces_and_leaves_no_scratch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        write_atomic(&path, b"first, and longer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first, and longer");
        write_atomic(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names_in(folder.path()), ["checkpoint"]);
    }

    #[test]
    fn what_was_there_before_is_kept_under_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, previous) = (folder.path().join("latest"), folder.path().join("previous"));
        let content = || [&path, &previous].map(|p| fs::read(p).ok());
        write_keeping(&path, &previous, b"one").unwrap();
        assert_eq!(content(), [Some(b"one".to_vec()), None]);
        write_keeping(&path, &previous, b"two").unwrap();
        // A kill between link and rename leaves this.
        fs::write(folder.path().join(".previous.scratch"), b"half").unwrap();
        write_keeping(&path, &previous, b"three").unwrap();
        assert_eq!(content(), [Some(b"three".to_vec()), Some(b"two".to_vec())]);
        assert_eq!(names_in(folder.path()), ["latest", "previous"]);
    }

    #[test]
    fn folders_are_made_with_all_above_them() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        create_folder(&deep).unwrap();
        create_folder(&deep).unwrap();
        assert!(deep.is_dir());
        fs::write(deep.join("file"), b"").unwrap();
        let error = create_folder(&deep.join("file/below")).unwrap_err();
        assert!(error.to_string().starts_with("cannot make "), "{error}");
    }

    #[test]
    fn a_scratch_file_left_by_a_kill_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        fs::write(folder.path().join(".checkpoint.scratch"), b"half of something much longer").unwrap();
        write_atomic(&path, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names_in(folder.path()), ["checkpoint"]);
    }

    #[test]
    fn a_failed_rename_removes_the_scratch_file_and_keeps_the_target() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"old").unwrap();
        let error = write_atomic(&path, b"new").unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot write {}: ", path.display())), "{error}");
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"old");
        assert_eq!(names_in(folder.path()), ["taken"]);
    }

    #[test]
    fn a_missing_folder_or_a_file_in_its_place_is_an_error_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("nowhere").join("checkpoint");
        let error = write_atomic(&missing, b"new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");

        let parent = folder.path().join("plain");
        fs::write(&parent, b"old").unwrap();
        let error = write_atomic(&parent.join("checkpoint"), b"new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        assert_eq!(fs::read(&parent).unwrap(), b"old");
        assert_eq!(names_in(folder.path()), ["plain"]);
    }

    #[test]
    fn a_path_without_a_file_name_is_refused() {
        assert_eq!(write_atomic(Path::new("/"), b"new").unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    /// The scratch name leads to a device that is always full, so the write itself fails.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named_and_the_old_file_survives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        write_atomic(&path, b"old").unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join(".checkpoint.scratch")).unwrap();
        let error = write_atomic(&path, b"new").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(error.to_string(), format!("cannot write {}: no space left on device", path.display()));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names_in(folder.path()), ["checkpoint"]);
    }

    #[test]
    fn a_bare_name_lies_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("checkpoint")), Path::new("."));
        assert_eq!(folder_of(Path::new("run/checkpoint")), Path::new("run"));
    }
}
