//! One writer per run folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::atomic::failed;

/// Holds a run folder for this process: a second process that tries to write the same run gets an error.
///
/// The lock belongs to the open file `DIR/.lock`. It is released when this value is dropped and by the system when the
/// process ends in any way, so a killed run can be resumed at once. The file itself stays: were it removed, two
/// processes could come to hold locks on two different files of that name. [`RunLock::check`] notices when somebody else
/// removes it.
///
/// On NFS, Linux turns this lock into one that the server keeps, so that it holds between machines too; where a mount keeps it
/// to one machine, [`RunLock::warning`] says so.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    path: PathBuf,
}

impl RunLock {
    /// Takes the lock of the existing folder `dir`, without waiting.
    ///
    /// If it is held elsewhere the error is of kind [`ErrorKind::ResourceBusy`].
    pub fn acquire(dir: &Path) -> io::Result<RunLock> {
        let path = dir.join(".lock");
        // Opening a pipe would wait for its reader.
        if std::fs::metadata(&path).is_ok_and(|about| !about.is_file()) {
            return Err(failed("lock", &path, &io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")));
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| failed("open", &path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    ErrorKind::ResourceBusy,
                    format!(
                        "the run {} is in use by another process; stop that one or choose another folder",
                        dir.display()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => {
                let reason = format!(
                    "{error}; this file system has no locks, and without one two processes could write the same run: \
                     choose a folder on another"
                );
                return Err(failed("lock", &path, &io::Error::new(error.kind(), reason)));
            }
        }
        let lock = RunLock { file, path };
        // Between opening and locking, the file may have been removed.
        lock.check()?;
        Ok(lock)
    }

    /// That the lock still keeps others out: an error if its file was removed or replaced.
    pub fn check(&self) -> io::Result<()> {
        if is_same(&self.file, &self.path) {
            return Ok(());
        }
        let text = format!(
            "{} was removed or replaced: another process may be writing the same run, so this one stops",
            self.path.display()
        );
        Err(io::Error::new(ErrorKind::NotFound, text))
    }

    /// A sentence where the lock does not keep processes on other machines out.
    pub fn warning(&self) -> Option<String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let path = self.path.canonicalize().ok()?;
        let kind = local_locks(&mounts, &path)?;
        let folder = self.path.parent().unwrap_or(&self.path).display();
        Some(format!(
            "{folder} lies on {kind}, whose locks other machines do not see: do not write this run from two machines at once"
        ))
    }
}

/// Whether a path still leads to an open file.
#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |about: std::fs::Metadata| (about.dev(), about.ino());
    file.metadata().is_ok_and(|own| std::fs::metadata(path).is_ok_and(|there| place(own) == place(there)))
}

/// Files have no comparable identity here.
#[cfg(not(unix))]
fn is_same(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// The file system of a path, if a lock on it is known to its own machine alone; `mounts` is Linux's table of mounts.
fn local_locks(mounts: &str, path: &Path) -> Option<String> {
    // 36 35 98:0 /root /mount/point options [tags] - kind source superoptions
    let mount = |line: &str| -> Option<(PathBuf, String, String)> {
        let (place, about) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        let mut about = about.split(' ');
        let (kind, options) = (about.next()?.to_string(), about.nth(1).unwrap_or_default().to_string());
        path.starts_with(&point).then(|| (PathBuf::from(point), kind, options))
    };
    // The deepest mount counts, and of several at one place the last.
    let (_, kind, options) = mounts.lines().filter_map(mount).max_by_key(|(point, ..)| point.components().count())?;
    let has = |option: &str| options.split(',').any(|o| o == option);
    let local = match kind.as_str() {
        "nfs" | "nfs4" => ["nolock", "local_lock=all", "local_lock=flock"].into_iter().any(has),
        "lustre" => has("localflock"),
        "fuse.sshfs" | "9p" => true,
        _ => false,
    };
    local.then_some(kind)
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

    #[cfg(unix)]
    #[test]
    fn a_removed_or_replaced_lock_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let lock = RunLock::acquire(folder.path()).unwrap();
        lock.check().unwrap();
        std::fs::remove_file(folder.path().join(".lock")).unwrap();
        assert!(lock.check().unwrap_err().to_string().contains(".lock was removed or replaced"));
        // Another process would now get a lock of its own, on another file.
        let other = RunLock::acquire(folder.path()).unwrap();
        other.check().unwrap();
        assert!(lock.check().is_err());
    }

    #[test]
    fn mounts_whose_locks_are_local_are_known() {
        let mounts = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
                      90 22 0:50 / /home rw shared:9 - nfs4 server:/home rw,vers=4.2,local_lock=none,addr=10.0.0.1\n\
                      91 22 0:51 / /scratch rw - nfs server:/scratch rw,vers=3,nolock,local_lock=all,addr=10.0.0.1\n\
                      92 22 0:52 / /scratch/disk rw - xfs /dev/sdb rw\n\
                      93 22 0:53 / /far\\040away rw - fuse.sshfs me@there: rw,user_id=0\n\
                      94 22 0:54 / /lustre rw - lustre mgs@tcp:/fs rw,localflock\n";
        let local = |path: &str| local_locks(mounts, Path::new(path));
        assert_eq!(local("/tmp/run/.lock"), None);
        assert_eq!(local("/home/me/run/.lock"), None);
        assert_eq!(local("/scratch/run/.lock"), Some("nfs".into()));
        assert_eq!(local("/scratch/disk/run/.lock"), None);
        assert_eq!(local("/scratched/run/.lock"), None);
        assert_eq!(local("/far away/run/.lock"), Some("fuse.sshfs".into()));
        assert_eq!(local("/lustre/run/.lock"), Some("lustre".into()));
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
