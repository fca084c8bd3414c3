//! System calls of the writer, and the mapping calls of both sides.
//!
//! The writer lives in a library that replaces `open`, `close` and their kin, so file operations go
//! through `syscall(2)` and never through the C library's functions of these names. All of them may
//! change errno; the caller saves it.

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

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

/// Says that this process uses the file, for as long as it has it open or mapped. Whoever cannot say so is not stopped.
pub(crate) fn lock(fd: &Fd) {
    // SAFETY: takes plain numbers.
    let _ = unsafe { libc::syscall(libc::SYS_flock, fd.0, libc::LOCK_EX | libc::LOCK_NB) };
}

/// Whether a process uses the file, perhaps one of another PID namespace. What cannot be opened is used by nobody.
pub(crate) fn is_locked(path: &CStr) -> bool {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let Ok(fd) = open(path, flags, 0) else {
        return false;
    };
    // SAFETY: takes plain numbers.
    let result = unsafe { libc::syscall(libc::SYS_flock, fd.0, libc::LOCK_SH | libc::LOCK_NB) };
    check(result).is_err_and(|error| error.raw_os_error() == Some(libc::EWOULDBLOCK))
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

pub(crate) fn read_link<'b>(path: &CStr, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    // SAFETY: the path ends with a zero byte and the buffer is writable for its length.
    let result = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            libc::AT_FDCWD,
            path.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
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
    status(fd.0, c"", libc::AT_EMPTY_PATH)
}

/// Of the path itself, when it is a symbolic link.
pub(crate) fn file_id_at(path: &CStr) -> io::Result<FileId> {
    status(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW)
}

fn status(directory: c_int, path: &CStr, flags: c_int) -> io::Result<FileId> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends with a zero byte and `status` has the kernel's structure on 64-bit Linux.
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
    let status = unsafe { status.assume_init() };
    Ok(FileId {
        device: status.st_dev,
        inode: status.st_ino,
    })
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

/// The process id, asked of the kernel each time: a value kept from before a fork would be the parent's, whose memory a child of
/// vfork(2) shares. Async-signal-safe.
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

/// A datagram socket with a name, whose messages bring the credentials of their senders. Only its owner and root may send to it.
pub(crate) fn control_socket<F: AsFd>(
    path: &CStr,
    own: impl FnOnce(OwnedFd) -> F,
) -> io::Result<F> {
    let (address, len) = unix_address(path)?;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes plain numbers.
    let fd = check(unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) })?;
    let fd = c_int::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: it is open and nobody else's.
    let owner = own(unsafe { OwnedFd::from_raw_fd(fd) });
    let fd = owner.as_fd().as_raw_fd();
    let one: c_int = 1;
    // SAFETY: the option is an integer, readable for its size.
    check(unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            fd,
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            &raw const one,
            size_of::<c_int>(),
        )
    })?;
    // bind(2) gives the name this mode.
    set_mode(fd, 0o600)?;
    // SAFETY: the address is readable for its length.
    check(unsafe { libc::syscall(libc::SYS_bind, fd, &raw const address, len) })?;
    Ok(owner)
}

#[allow(clippy::cast_possible_truncation, reason = "it is 1")]
const UNIX_FAMILY: libc::sa_family_t = libc::AF_UNIX as libc::sa_family_t;
#[allow(clippy::cast_possible_truncation, reason = "it is 110")]
const UNIX_ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_un>() as libc::socklen_t;

fn unix_address(path: &CStr) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = UNIX_FAMILY;
    let bytes = path.to_bytes_with_nul();
    if bytes.len() > address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok((address, UNIX_ADDRESS_BYTES))
}

/// A datagram and who has sent it.
pub(crate) struct Message<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) user: Option<u32>,
    pub(crate) from: Sender,
}

/// Where an answer goes.
pub(crate) struct Sender {
    address: libc::sockaddr_un,
    len: libc::socklen_t,
}

/// Room for the credentials of one message, aligned as a control message has to be.
#[repr(C, align(8))]
struct ControlRoom([u8; 64]);

/// Receives a datagram, without waiting.
pub(crate) fn receive_with_credentials<'b>(
    fd: BorrowedFd<'_>,
    buffer: &'b mut [u8],
) -> io::Result<Message<'b>> {
    // SAFETY: all-zero is a value of these structs of integers and pointers.
    let (mut address, mut message): (libc::sockaddr_un, libc::msghdr) =
        unsafe { std::mem::zeroed() };
    let mut control = ControlRoom([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_name = (&raw mut address).cast();
    message.msg_namelen = UNIX_ADDRESS_BYTES;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<ControlRoom>();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message's buffers are writable for their lengths.
    let len = check(unsafe {
        libc::syscall(libc::SYS_recvmsg, fd.as_raw_fd(), &raw mut message, flags)
    })?;
    Ok(Message {
        user: sender_user(&message),
        bytes: start_of(buffer, len),
        from: Sender {
            address,
            len: message.msg_namelen,
        },
    })
}

/// The user in the credentials of a received message.
fn sender_user(message: &libc::msghdr) -> Option<u32> {
    // SAFETY: the kernel has filled in the control buffer and its length.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header within the control buffer.
    let kind = unsafe { header.as_ref() }?;
    let wanted = (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
    if (kind.cmsg_level, kind.cmsg_type) != wanted {
        return None;
    }
    // SAFETY: the data follow the header.
    let data: *const libc::ucred = unsafe { libc::CMSG_DATA(header) }.cast();
    // SAFETY: a message of this kind holds a `ucred`, perhaps not aligned.
    Some(unsafe { data.read_unaligned() }.uid)
}

/// Answers, without waiting. Whoever has gone gets no answer.
pub(crate) fn send_to(fd: BorrowedFd<'_>, bytes: &[u8], to: &Sender) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: data and address are readable for their lengths.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            flags,
            &raw const to.address,
            to.len,
        )
    };
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

pub(crate) fn map_shared(fd: &Fd, bytes: usize) -> io::Result<NonNull<u8>> {
    map(
        bytes,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED,
        fd.0,
    )
}

pub(crate) fn map_for_reading(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<u8>> {
    map(bytes, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd())
}

fn map(bytes: usize, protection: c_int, flags: c_int, fd: c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

pub(crate) fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: callers own the mapping and use it no more.
    let _ = unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

/// Puts zeros of this process alone in the place of a mapping. Async-signal-safe.
pub(crate) fn map_zeros_over(base: usize, bytes: usize, writable: bool) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let write = if writable { libc::PROT_WRITE } else { 0 };
    let address = ptr::with_exposed_provenance_mut(base);
    // SAFETY: the caller names a mapping of this crate, whose memory is read and written by atomics only, as what takes its place.
    let mapped = unsafe { libc::mmap(address, bytes, libc::PROT_READ | write, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Installs a handler for `SIGBUS`. Where `survives` says no, the signal has its default action.
pub(crate) fn handle_bus_errors(survives: fn(usize) -> bool) -> io::Result<()> {
    static SURVIVES: OnceLock<fn(usize) -> bool> = OnceLock::new();
    extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: the kernel passes a siginfo to a handler installed with SA_SIGINFO.
        let fault = unsafe { info.as_ref() }
            .filter(|info| info.si_code > 0)
            // SAFETY: that of a fault has an address.
            .map(|info| unsafe { info.si_addr() }.addr());
        if fault.is_some_and(|address| SURVIVES.get().is_some_and(|survives| survives(address))) {
            return;
        }
        // A fault comes again; what somebody has sent is sent again.
        // SAFETY: integers.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        if fault.is_none() {
            // SAFETY: as above.
            unsafe { libc::raise(signal) };
        }
    }
    let _ = SURVIVES.set(survives);
    // SAFETY: all-zero is a value of this struct: an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the struct is valid for the call.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    check(c_long::from(result)).map(drop)
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
