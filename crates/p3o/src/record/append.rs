//! A file that grows by whole records.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::atomic::failed;

/// A file open for appending that knows where its last whole record ends.
#[derive(Debug)]
pub(super) struct AppendFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl AppendFile {
    /// Opens an existing file; records go after its present end.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with(path, OpenOptions::new().append(true))
    }

    /// Creates a file that must not exist yet.
    pub(super) fn create_new(path: &Path) -> io::Result<Self> {
        Self::with(path, OpenOptions::new().append(true).create_new(true))
    }

    fn with(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let open = || -> io::Result<(File, u64)> {
            let file = options.open(path)?;
            let len = file.metadata()?.len();
            Ok((file, len))
        };
        let (file, len) = open().map_err(|error| failed("open", path, &error))?;
        Ok(Self { file, path: path.to_owned(), len })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record, handed to the system in one call so that a kill cuts at most this record.
    ///
    /// After an error, such as a full disk, the part that did get written is cut off again: a later record would
    /// otherwise be glued to it.
    pub(super) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(record) {
            let told = failed("write", &self.path, &error);
            return Err(match self.file.set_len(self.len) {
                Ok(()) => told,
                Err(stuck) => {
                    io::Error::new(told.kind(), format!("{told}; its partial last record stays in the file: {stuck}"))
                }
            });
        }
        self.len += record.len() as u64;
        Ok(())
    }

    /// Waits until everything appended so far is on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn records_go_after_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = AppendFile::create_new(&path).unwrap();
        file.append(b"one,").unwrap();
        drop(file);
        let mut file = AppendFile::open(&path).unwrap();
        file.append(b"two").unwrap();
        file.sync().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one,two");
        assert!(AppendFile::create_new(&path).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_with_the_path() {
        let mut file = AppendFile::open(Path::new("/dev/full")).unwrap();
        let error = file.append(b"record").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("cannot write /dev/full: no space left on device"), "{error}");
    }
}
