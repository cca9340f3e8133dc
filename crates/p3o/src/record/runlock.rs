//! One writer per run folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::atomic::failed;

/// Holds a run folder for this process: a second process that tries to write the same run gets an error.
///
/// The lock belongs to the open file `DIR/.lock`. It is released when this value is dropped and by the system when the
/// process ends in any way, so a killed run can be resumed at once. The file itself stays: were it removed, two
/// processes could come to hold locks on two different files of that name.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock of the existing folder `dir`, without waiting.
    ///
    /// If it is held elsewhere the error is of kind [`ErrorKind::ResourceBusy`].
    pub fn acquire(dir: &Path) -> io::Result<RunLock> {
        let path = dir.join(".lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| failed("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(RunLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                ErrorKind::ResourceBusy,
                format!(
                    "the run {} is in use by another process; stop that one or choose another folder",
                    dir.display()
                ),
            )),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const FOLDER: &str = "RUNLOCK_TEST_FOLDER";

    #[test]
    fn a_second_holder_is_refused_until_the_first_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::acquire(folder.path()).unwrap();
        let error = RunLock::acquire(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        let told = error.to_string();
        assert!(told.contains("in use by another process"), "{told}");
        assert!(told.contains(folder.path().to_str().unwrap()), "{told}");
        drop(first);
        RunLock::acquire(folder.path()).unwrap();
    }

    #[test]
    fn a_missing_folder_is_an_error_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let error = RunLock::acquire(&folder.path().join("nowhere")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

    /// Not a test by itself: the other process of the test below, which runs this very binary.
    #[test]
    fn child_holds_the_lock() {
        let Some(folder) = std::env::var_os(FOLDER) else {
            return;
        };
        let _lock = RunLock::acquire(Path::new(&folder)).unwrap();
        println!("\nheld");
        std::thread::sleep(std::time::Duration::from_secs(60));
    }

    #[test]
    fn a_kill_releases_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("{module}::child_holds_the_lock"), "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let held = lines.any(|line| line.unwrap() == "held");
        let while_held = RunLock::acquire(folder.path());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held, "the other process never took the lock");
        assert_eq!(while_held.unwrap_err().kind(), ErrorKind::ResourceBusy);
        RunLock::acquire(folder.path()).unwrap();
    }
}
