//! System calls of the writer, and the mapping calls of both sides.
//!
//! The writer lives in a library that replaces `open`, `close` and their kin, so file operations go
//! through `syscall(2)` and never through the C library's functions of these names. All of them may
//! change errno; the caller saves it.

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

mod memory;
mod messages;

pub(crate) use memory::{
    can_populate, handle_bus_errors, make_writable, map_for_reading, map_reserved, map_shared,
    map_zeros_over, populate, remove, unmap, wiped_word,
};
pub(crate) use messages::control_socket;
pub use messages::{Credentials, Message, Sender, receive_with_credentials, send_to};

/// A descriptor that is closed with the raw system call.
#[derive(Debug)]
pub(crate) struct Fd(c_int);

impl Fd {
    pub(crate) fn number(&self) -> c_int {
        self.0
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is not used afterwards.
        let _ = unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// A file as the kernel names it, to recognize it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

/// Makes a file that must not exist; a symbolic link in its place is an error and is not followed.
pub(crate) fn create_new(path: &CStr) -> io::Result<Fd> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_RDWR;
    open(path, flags, 0o600)
}

pub(crate) fn open_for_reading(path: &CStr) -> io::Result<Fd> {
    open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0)
}

fn open(path: &CStr, flags: c_int, mode: libc::mode_t) -> io::Result<Fd> {
    // SAFETY: the path ends with a zero byte.
    let result = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            c_long::from(mode),
        )
    };
    let fd = check(result)?;
    c_int::try_from(fd)
        .map(Fd)
        .map_err(|_| io::Error::from_raw_os_error(libc::EBADF))
}

/// Sets the permissions, whatever the process's umask took away.
pub(crate) fn set_mode(fd: c_int, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: takes plain numbers.
    check(unsafe { libc::syscall(libc::SYS_fchmod, fd, c_long::from(mode)) }).map(drop)
}

/// Says that this process uses the file, for as long as it has it open or mapped. Whoever cannot
/// say so is not stopped.
pub(crate) fn lock(fd: &Fd) {
    // SAFETY: takes plain numbers.
    let _ = unsafe { libc::syscall(libc::SYS_flock, fd.0, libc::LOCK_EX | libc::LOCK_NB) };
}

/// Whether a process uses the file, perhaps one of another PID namespace. What cannot be opened is
/// used by nobody.
pub(crate) fn is_locked(path: &CStr) -> bool {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let Ok(fd) = open(path, flags, 0) else {
        return false;
    };
    // SAFETY: takes plain numbers.
    let result = unsafe { libc::syscall(libc::SYS_flock, fd.0, libc::LOCK_SH | libc::LOCK_NB) };
    check(result).is_err_and(|error| error.raw_os_error() == Some(libc::EWOULDBLOCK))
}

/// Whether something at the path, or a symbolic link there, belongs to another user than the one
/// that this process acts for.
pub(crate) fn is_of_another_user(path: &CStr) -> bool {
    // SAFETY: takes nothing.
    let user = unsafe { libc::syscall(libc::SYS_geteuid) };
    let status = status(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW);
    status.is_ok_and(|status| c_long::from(status.st_uid) != user)
}

/// Whether a regular file is at the path, no symbolic link, that belongs to the user that this
/// process acts for; for root to any.
pub(crate) fn is_own_regular_file(path: &CStr) -> bool {
    let user = effective_user();
    let status = status(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW);
    status.is_ok_and(|status| {
        status.st_mode & libc::S_IFMT == libc::S_IFREG && (user == 0 || status.st_uid == user)
    })
}

/// `None`: the kernel has none yet, or no such call.
pub(crate) fn random() -> Option<u64> {
    let mut bytes = [0_u8; 8];
    // SAFETY: writable for its length.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getrandom,
            bytes.as_mut_ptr(),
            bytes.len(),
            libc::GRND_NONBLOCK,
        )
    };
    (got == 8).then(|| u64::from_ne_bytes(bytes))
}

/// Gives the file its size with all blocks allocated: a full disk is an error here, not a SIGBUS in
/// the application when it first counts something.
pub(crate) fn allocate(fd: &Fd, bytes: usize) -> io::Result<()> {
    let length = c_long::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: takes plain numbers.
    let result = unsafe { libc::syscall(libc::SYS_fallocate, fd.0, 0, 0 as c_long, length) };
    match check(result) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(fd, bytes),
        other => other.map(drop),
    }
}

/// Gives the file its size. What lies behind the blocks it has reads as zeros.
pub(crate) fn set_size(fd: &Fd, bytes: usize) -> io::Result<()> {
    let length = c_long::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: takes plain numbers.
    check(unsafe { libc::syscall(libc::SYS_ftruncate, fd.0, length) }).map(drop)
}

fn write_zeros(fd: &Fd, bytes: usize) -> io::Result<()> {
    let zeros = [0_u8; 4096];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(zeros.len());
        // SAFETY: the buffer has at least `length` bytes.
        let result = unsafe { libc::syscall(libc::SYS_write, fd.0, zeros.as_ptr(), length) };
        match check(result) {
            Ok(0) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Ok(written) => left = left.saturating_sub(usize::try_from(written).unwrap_or(0)),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the start of a file into `buffer`; the result may be shorter than the file.
pub(crate) fn read<'b>(fd: &Fd, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    // SAFETY: the buffer is writable for its length.
    let result = unsafe { libc::syscall(libc::SYS_read, fd.0, buffer.as_mut_ptr(), buffer.len()) };
    Ok(start_of(buffer, check(result)?))
}

/// The working directory, without the final zero byte.
pub(crate) fn working_directory(buffer: &mut [u8]) -> io::Result<&[u8]> {
    // SAFETY: the buffer is writable for its length.
    let result = unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) };
    Ok(start_of(buffer, check(result)?.saturating_sub(1)))
}

pub(crate) fn unlink(path: &CStr) -> io::Result<()> {
    // SAFETY: the path ends with a zero byte.
    check(unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path.as_ptr(), 0) }).map(drop)
}

pub(crate) fn file_id(fd: &Fd) -> io::Result<FileId> {
    status(fd.0, c"", libc::AT_EMPTY_PATH).map(FileId::from)
}

/// Of the path itself, when it is a symbolic link.
pub(crate) fn file_id_at(path: &CStr) -> io::Result<FileId> {
    status(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW).map(FileId::from)
}

/// The same in numbers.
pub(crate) fn device_and_inode_at(path: &CStr) -> io::Result<(libc::dev_t, u64)> {
    file_id_at(path).map(|id| (id.device, id.inode))
}

impl From<libc::stat> for FileId {
    fn from(status: libc::stat) -> Self {
        Self {
            device: status.st_dev,
            inode: status.st_ino,
        }
    }
}

fn status(directory: c_int, path: &CStr, flags: c_int) -> io::Result<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends with a zero byte and `status` has the kernel's structure on 64-bit
    // Linux.
    let result = unsafe {
        libc::syscall(
            libc::SYS_newfstatat,
            directory,
            path.as_ptr(),
            status.as_mut_ptr(),
            c_long::from(flags),
        )
    };
    check(result)?;
    // SAFETY: the call succeeded, so the kernel filled it.
    Ok(unsafe { status.assume_init() })
}

/// RLIMIT_FSIZE, bytes. Growing a file beyond it kills the process with SIGXFSZ.
pub(crate) fn file_size_limit() -> io::Result<u64> {
    let mut limit = MaybeUninit::<libc::rlimit64>::uninit();
    // SAFETY: pid 0 is this process, no new limit is given and `limit` has the kernel's structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            libc::RLIMIT_FSIZE,
            ptr::null::<libc::rlimit64>(),
            limit.as_mut_ptr(),
        )
    };
    check(result)?;
    // SAFETY: the call succeeded, so the kernel filled it.
    Ok(unsafe { limit.assume_init() }.rlim_cur)
}

/// The process id, asked of the kernel each time: a value kept from before a fork would be the
/// parent's, whose memory a child of vfork(2) shares. Async-signal-safe.
pub fn process_id() -> libc::pid_t {
    // SAFETY: takes no argument.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) };
    libc::pid_t::try_from(pid).unwrap_or(0)
}

/// The user whose rights the process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes no argument.
    let user = unsafe { libc::syscall(libc::SYS_geteuid) };
    u32::try_from(user).unwrap_or(u32::MAX)
}

/// Nanoseconds since 1970.
pub(crate) fn now_nsec() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the struct is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn start_of(buffer: &[u8], length: c_long) -> &[u8] {
    usize::try_from(length)
        .ok()
        .and_then(|length| buffer.get(..length))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "raw system calls")]
    fn create_new_refuses_what_exists_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| CString::new(dir.path().join(name).to_str().unwrap()).unwrap();
        let victim = dir.path().join("victim");
        std::os::unix::fs::symlink(&victim, dir.path().join("link")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        for name in ["link", "file"] {
            let error = create_new(&at(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EEXIST), "{name}");
        }
        assert!(!victim.exists());
    }

    #[test]
    #[cfg_attr(miri, ignore = "raw system calls")]
    fn written_zeros_have_the_asked_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let fd = create_new(&CString::new(path.to_str().unwrap()).unwrap()).unwrap();
        write_zeros(&fd, 4096 * 2 + 100).unwrap();
        assert_eq!(fs::read(path).unwrap(), vec![0; 4096 * 2 + 100]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "raw system calls")]
    fn full_file_system_is_an_error() {
        let fd = open(c"/dev/full", libc::O_RDWR, 0).unwrap();
        let error = write_zeros(&fd, 10).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}
