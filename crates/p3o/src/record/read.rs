//! Reading a file whole, but never more of it than it may hold.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The content of a regular file, or of one that a link leads to, of at most `most` bytes.
///
/// Anything else, such as a pipe or a device, is refused before it is opened, since that alone could wait for ever.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if !about.is_file() {
        let what = if about.is_dir() { "a folder, not a file" } else { "not a regular file" };
        return Err(refused(path, ErrorKind::InvalidInput, &format!("it is {what}")));
    }
    if about.len() > most {
        return Err(too_long(path, most));
    }
    read_stream(path, most)
}

/// The same as text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(path, read_file(path, most)?)
}

/// Text of at most `most` bytes from anything that can be opened: a pipe such as a shell's `<(command)`, too.
pub fn read_text_stream(path: &Path, most: u64) -> io::Result<String> {
    text(path, read_stream(path, most)?)
}

fn read_stream(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    // One more than allowed, so that a file that is too long, or that grows meanwhile, shows.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    if bytes.len() as u64 > most { Err(too_long(path, most)) } else { Ok(bytes) }
}

fn text(path: &Path, bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| refused(path, ErrorKind::InvalidData, "it is not text"))
}

fn unreadable(path: &Path, error: &io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::NotFound => refused(path, ErrorKind::NotFound, "there is no such file"),
        ErrorKind::IsADirectory => refused(path, ErrorKind::IsADirectory, "it is a folder, not a file"),
        kind => refused(path, kind, &error.to_string()),
    }
}

fn too_long(path: &Path, most: u64) -> io::Error {
    refused(path, ErrorKind::FileTooLarge, &format!("it is longer than {most} bytes"))
}

fn refused(path: &Path, kind: ErrorKind, reason: &str) -> io::Error {
    io::Error::new(kind, format!("cannot read {}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_not_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"four").unwrap();
        assert_eq!(read_file(&path, 4).unwrap(), b"four");
        assert_eq!(read_file(&path, u64::MAX).unwrap(), b"four");
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        for error in [read_file(&path, 3).unwrap_err(), read_text_stream(&path, 3).unwrap_err()] {
            assert_eq!(error.to_string(), format!("cannot read {}: it is longer than 3 bytes", path.display()));
            assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        }
    }

    #[test]
    fn what_is_missing_or_a_folder_or_no_text_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let error = read_file(&path, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), format!("cannot read {}: there is no such file", path.display()));
        for error in [read_file(folder.path(), 9).unwrap_err(), read_text_stream(folder.path(), 9).unwrap_err()] {
            assert!(error.to_string().ends_with(": it is a folder, not a file"), "{error}");
        }
        fs::write(&path, b"\xff").unwrap();
        assert!(read_text(&path, 9).unwrap_err().to_string().ends_with(": it is not text"));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_what_never_ends_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, b"four").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read_file(&link, 4).unwrap(), b"four");

        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for endless in [&fifo, Path::new("/dev/zero")] {
            let error = read_file(endless, 9).unwrap_err();
            assert_eq!(error.to_string(), format!("cannot read {}: it is not a regular file", endless.display()));
        }
        assert_eq!(read_text_stream(Path::new("/dev/zero"), 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
