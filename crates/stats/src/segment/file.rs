//! Where the file is.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::CreateError;
use crate::mapping::sys;
use crate::names::{FILE_PREFIX, TAG_DIGITS};

/// `<dir>/vmastat.<pid>`, absolute: the program may change its working directory before it ends.
pub(super) fn file_path(dir: &Path, pid: u32) -> Result<CString, CreateError> {
    let dir = dir.as_os_str().as_bytes();
    if dir.is_empty() {
        return Err(CreateError::NoDirectory);
    }
    let mut path = Vec::new();
    if !dir.starts_with(b"/") {
        let mut buffer = [0; libc::PATH_MAX as usize];
        let here = sys::working_directory(&mut buffer).map_err(during("getcwd"))?;
        path.extend_from_slice(here);
        path.push(b'/');
    }
    path.extend_from_slice(dir);
    path.push(b'/');
    path.extend_from_slice(FILE_PREFIX.as_bytes());
    path.extend_from_slice(pid.to_string().as_bytes());
    if path.len() >= libc::PATH_MAX as usize {
        return Err(CreateError::BadDirectory);
    }
    CString::new(path).map_err(|_| CreateError::BadDirectory)
}

/// The file at a path that nobody uses. What an earlier process has left there is removed.
pub(super) fn make_file(path: &CStr) -> Result<sys::Fd, CreateError> {
    if sys::is_locked(path) && !is_left_locked_by_us(path) {
        return Err(CreateError::InUse);
    }
    match sys::unlink(path) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
            return Err(during("removal of the old file of this process id")(error));
        }
        _ => {}
    }
    sys::create_new(path).map_err(during("creation"))
}

/// Whether it is this process that has locked the file, as the program that it was before exec(3):
/// children of that have the lock still.
fn is_left_locked_by_us(path: &CStr) -> bool {
    let process = sys::process_id();
    let Ok(file) = sys::device_and_inode_at(path) else {
        return false;
    };
    // Where /proc is that of another PID namespace, our number is another process's there.
    let is_ours =
        fs::read_link("/proc/self").is_ok_and(|it| it.as_os_str() == &*process.to_string());
    let read = |name| fs::read_to_string(name).ok();
    is_ours
        && !sys::is_of_another_user(path)
        && read("/proc/locks").is_some_and(|locks| has_lock(&locks, process, file))
        // If it were of the program that runs, it would be in its memory.
        && read("/proc/self/maps").is_some_and(|maps| !has_mapping(&maps, file))
}

/// Lines like `3: FLOCK  ADVISORY  WRITE 712 00:1a:1234 0 EOF` (proc_locks(5)). Waiting ones have
/// an arrow before the kind.
fn has_lock(locks: &str, process: libc::pid_t, (device, inode): (libc::dev_t, u64)) -> bool {
    let own = [
        process.to_string(),
        format!("{}:{inode}", device_number(device)),
    ];
    locks.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some("FLOCK") && fields.skip(2).take(2).eq(&own)
    })
}

/// Lines like `7f1b2000-7f1b4000 rw-s 00000000 00:1a 1234 /tmp/vmastat.712` (proc_pid_maps(5)).
fn has_mapping(maps: &str, (device, inode): (libc::dev_t, u64)) -> bool {
    let own = [device_number(device), inode.to_string()];
    maps.lines()
        .any(|line| line.split_whitespace().skip(3).take(2).eq(&own))
}

/// As `/proc` has it.
fn device_number(device: libc::dev_t) -> String {
    format!("{:02x}:{:02x}", libc::major(device), libc::minor(device))
}

/// A path beside it that nobody can take beforehand. `None`: there is no random number.
pub(super) fn unguessable(path: &CStr) -> Option<CString> {
    let tag = format!(".{:0width$x}", sys::random()?, width = TAG_DIGITS);
    CString::new([path.to_bytes(), tag.as_bytes()].concat()).ok()
}

pub(super) fn during(operation: &'static str) -> impl FnOnce(io::Error) -> CreateError {
    move |source| CreateError::System { operation, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_known_by_process_and_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 712 00:1a:1234 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 713 00:1a:1234 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 714 00:1a:1234 0 EOF\n";
        let device = libc::makedev(0, 0x1a);
        assert!(has_lock(locks, 713, (device, 1234)));
        for (process, inode) in [(712, 1234), (714, 1234), (713, 1235)] {
            assert!(!has_lock(locks, process, (device, inode)));
        }
        assert!(!has_lock("3: FLOCK", 713, (device, 1234)));
    }

    #[test]
    fn a_mapping_is_known_by_its_file() {
        let maps = "7f1b2000-7f1b4000 rw-s 00000000 00:1a 1234                       /tmp/vmastat.712\n\
                    7f1b4000-7f1b6000 rw-p 00000000 00:00 0\n";
        let device = libc::makedev(0, 0x1a);
        assert!(has_mapping(maps, (device, 1234)));
        assert!(!has_mapping(maps, (device, 1235)) && !has_mapping(maps, (0x1b, 1234)));
    }
}
