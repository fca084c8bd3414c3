//! The end of the process, which closes its descriptors one after the other. An AF_XDP socket and a
//! packet socket take an RCU grace period each, some ten milliseconds, for which the process's
//! parent would wait.
//!
//! A descriptor that is on its way through a socket (`SCM_RIGHTS`) which nobody but itself keeps is
//! closed by the kernel's garbage collector (`net/unix/garbage.c`), since Linux 6.10 in a thread of
//! the kernel's own, and before by the process as without this.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use descriptors::OwnDescriptor;

/// `SCM_MAX_FD`, and one less for the socket itself.
const FDS_MAX: usize = 252;
/// Until the process has ended.
static KEPT_OPEN: Mutex<Vec<[OwnDescriptor; 2]>> = Mutex::new(Vec::new());

const HEADER_WORDS: usize = size_of::<libc::cmsghdr>() / size_of::<u64>();
const _: () = assert!(size_of::<libc::cmsghdr>().is_multiple_of(size_of::<u64>()));

/// Has the kernel close these by itself when the process has ended. Until then nothing changes.
///
/// # Errors
/// Those of `socketpair(2)` and `sendmsg(2)`; then the process closes them.
pub(crate) fn leave_to_kernel(fds: &[RawFd]) -> io::Result<()> {
    let [kept, sender] = socket_pair()?;
    let fds = &fds[..fds.len().min(FDS_MAX)];
    let numbers = std::iter::once(kept.as_raw_fd()).chain(fds.iter().copied());
    send(sender.as_raw_fd(), numbers)?;
    // The process's end closes them: first of all all numbers, then the sender, which calls the
    // collector.
    let mut open = KEPT_OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.push([kept, sender]);
    Ok(())
}

fn socket_pair() -> io::Result<[OwnDescriptor; 2]> {
    let mut pair: [c_int; 2] = [-1; 2];
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two integers to `pair`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_socketpair,
            libc::AF_UNIX,
            kind,
            0,
            pair.as_mut_ptr(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new and ours alone.
    Ok(pair.map(|fd| OwnDescriptor::new(unsafe { OwnedFd::from_raw_fd(fd) })))
}

fn send(sender: RawFd, fds: impl Iterator<Item = RawFd>) -> io::Result<()> {
    let mut control = [0_u64; HEADER_WORDS + (FDS_MAX + 1).div_ceil(2)];
    let mut count = 0;
    // SAFETY: the array is longer than its header.
    let places = unsafe { control.as_mut_ptr().add(HEADER_WORDS) }.cast::<c_int>();
    for (index, fd) in fds.take(FDS_MAX + 1).enumerate() {
        // SAFETY: `index` is at most FDS_MAX.
        let place = unsafe { places.add(index) };
        // SAFETY: in the array, and aligned as its words are.
        unsafe { place.write(fd) };
        count += 1;
    }
    let len = size_of::<libc::cmsghdr>() + count * size_of::<c_int>();
    let header = libc::cmsghdr {
        cmsg_len: len,
        cmsg_level: libc::SOL_SOCKET,
        cmsg_type: libc::SCM_RIGHTS,
    };
    // SAFETY: the array begins with room for a header, and is aligned as that.
    unsafe { control.as_mut_ptr().cast::<libc::cmsghdr>().write(header) };
    let mut byte = 0_u8;
    let mut data = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: all-zero is a value of this struct of integers and null pointers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut data;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = len.next_multiple_of(size_of::<u64>());
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let message = &raw const message;
    // SAFETY: the message and what it refers to are valid for this call, which only reads them.
    let result = unsafe { libc::syscall(libc::SYS_sendmsg, sender, message, flags) };
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    /// In a child process, as it is about descriptors that nobody else has.
    #[test]
    fn the_kernel_closes_what_a_process_that_has_ended_leaves_to_it() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        let (fd, late) = (writer.as_raw_fd(), reader.as_raw_fd());
        // SAFETY: the child makes system calls only, but for a little memory that it gets of its
        // own thread's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // Another test's thread may have been changing the numbers.
            descriptors::own::close_in_child();
            // SAFETY: an integer.
            unsafe { libc::close(late) };
            let is_left = leave_to_kernel(&[fd]).is_ok();
            // SAFETY: an integer.
            unsafe { libc::_exit(c_int::from(!is_left)) };
        }
        drop(writer);
        let mut status = 0;
        // SAFETY: the kernel writes one integer.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        reader
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let read = reader.read(&mut [0]).map_err(|error| error.kind());
        assert_ne!(read, Err(ErrorKind::WouldBlock), "nobody has closed it");
        assert_eq!(read, Ok(0));
    }
}
