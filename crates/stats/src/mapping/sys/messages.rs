//! Datagrams between processes of one machine, which say who has sent them.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, set_mode, start_of};

/// A datagram socket with a name, whose messages bring the credentials of their senders. Only its
/// owner and root may send to it.
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
#[derive(Debug)]
pub struct Message<'b> {
    /// What it says.
    pub bytes: &'b [u8],
    /// Who has sent it, where the socket is told of that (`SO_PASSCRED`).
    pub credentials: Option<Credentials>,
    /// Where an answer goes.
    pub from: Sender,
}

/// Who has sent a datagram, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The process; 0: one that this PID namespace does not show.
    pub pid: u32,
    /// The user, in this user namespace.
    pub user: u32,
}

/// Where an answer goes.
#[derive(Clone, Copy)]
pub struct Sender {
    address: libc::sockaddr_un,
    len: libc::socklen_t,
}

impl fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// Room for the credentials of one message, aligned as a control message has to be. And for nothing
/// else: descriptors that a sender adds would be open from then on.
#[repr(C, align(8))]
struct ControlRoom {
    header: libc::cmsghdr,
    credentials: libc::ucred,
}

/// Receives a datagram of a unix socket, as much of it as the buffer takes, without waiting.
///
/// # Errors
///
/// Those of recvmsg(2): [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none.
pub fn receive_with_credentials<'b>(
    fd: BorrowedFd<'_>,
    buffer: &'b mut [u8],
) -> io::Result<Message<'b>> {
    // SAFETY: all-zero is a value of these structs of integers and pointers.
    let (mut address, mut message, mut control): (libc::sockaddr_un, libc::msghdr, ControlRoom) =
        unsafe { std::mem::zeroed() };
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
        credentials: credentials_in(&message),
        bytes: start_of(buffer, len),
        from: Sender {
            address,
            len: message.msg_namelen,
        },
    })
}

/// The credentials that came with a message.
fn credentials_in(message: &libc::msghdr) -> Option<Credentials> {
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
    let credentials = unsafe { data.read_unaligned() };
    Some(Credentials {
        pid: credentials.pid.cast_unsigned(),
        user: credentials.uid,
    })
}

/// Answers, without waiting. Who has no name gets no answer.
///
/// # Errors
///
/// Those of sendto(2): whoever has gone gets none, either.
pub fn send_to(fd: BorrowedFd<'_>, bytes: &[u8], to: &Sender) -> io::Result<()> {
    if to.len as usize <= size_of::<libc::sa_family_t>() {
        return Ok(());
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: data and address are readable for their lengths.
    check(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            flags,
            &raw const to.address,
            to.len,
        )
    })
    .map(drop)
}
