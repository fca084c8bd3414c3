//! A datagram socket of the network namespace with a name (unix(7), abstract), at which programs
//! ask a process for sockets that they were started with.

use std::mem;
use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::{c_int, sockaddr_un, socklen_t};

use super::{Errno, check, owned};

/// An address of a Unix socket: where an answer goes.
#[derive(Clone, Copy)]
pub struct DoorName {
    address: sockaddr_un,
    len: socklen_t,
}

impl PartialEq for DoorName {
    fn eq(&self, other: &Self) -> bool {
        (self.len, self.address.sun_path) == (other.len, other.address.sun_path)
    }
}

/// What precedes the letters of the name.
const NAME_OFFSET: usize = mem::offset_of!(sockaddr_un, sun_path);

impl DoorName {
    /// An abstract one of these letters. `None`: they are too many.
    pub fn new(name: &[u8]) -> Option<Self> {
        // SAFETY: all-zero is a value of this struct of integers.
        let mut address: sockaddr_un = unsafe { mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // The first letter is none.
        let place = address.sun_path.get_mut(1..=name.len())?;
        for (to, from) in place.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        Some(Self {
            address,
            len: (NAME_OFFSET + 1 + name.len()) as socklen_t,
        })
    }

    /// One of the kernel's choice.
    fn any() -> Self {
        // SAFETY: all-zero is a value of this struct of integers.
        let mut address: sockaddr_un = unsafe { mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        Self {
            address,
            len: NAME_OFFSET as socklen_t,
        }
    }
}

/// Who has sent a message, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub process: libc::pid_t,
    pub user: libc::uid_t,
}

/// A message, and who has sent it from where.
pub struct DoorMessage {
    pub len: usize,
    pub sender: Option<Sender>,
    pub from: DoorName,
}

/// A socket with a name, or with one of the kernel's choice.
pub fn door_socket(name: Option<DoorName>) -> Result<OwnDescriptor, Errno> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the kernel has just made it.
    let socket = OwnDescriptor::new(unsafe { owned(fd) });
    let fd = socket.as_raw_fd();
    super::streams::set_option(fd, libc::SOL_SOCKET, libc::SO_PASSCRED, &1)?;
    let name = name.unwrap_or_else(DoorName::any);
    // SAFETY: the address is readable for its length.
    check(unsafe { libc::syscall(libc::SYS_bind, fd, &raw const name.address, name.len) })?;
    Ok(socket)
}

/// Room for the credentials of one message, aligned as a control message has to be.
#[repr(C, align(8))]
struct ControlRoom([u8; 64]);

/// Receives a message without waiting. Descriptors that come with one are not taken.
pub fn take_from_door(fd: c_int, buffer: &mut [u8]) -> Result<DoorMessage, Errno> {
    let mut from = DoorName::any();
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    let mut control = ControlRoom([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_name = (&raw mut from.address).cast();
    message.msg_namelen = size_of::<sockaddr_un>() as socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // For the credentials exactly: descriptors come behind them, and find no room.
    // SAFETY: computes a length.
    let credentials = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) };
    message.msg_controllen = credentials as usize;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message's buffers are writable for their lengths.
    let len = check(unsafe { libc::syscall(libc::SYS_recvmsg, fd, &raw mut message, flags) })?;
    from.len = message
        .msg_namelen
        .min(size_of::<sockaddr_un>() as socklen_t);
    Ok(DoorMessage {
        len: len as usize,
        sender: sender_of(&message),
        from,
    })
}

fn sender_of(message: &libc::msghdr) -> Option<Sender> {
    // SAFETY: the kernel has filled in the control buffer and its length.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header within the control buffer.
    let kind = unsafe { header.as_ref() }?;
    if (kind.cmsg_level, kind.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) {
        return None;
    }
    // SAFETY: the data follow the header.
    let data: *const libc::ucred = unsafe { libc::CMSG_DATA(header) }.cast();
    // SAFETY: a message of this kind holds a `ucred`, perhaps not aligned.
    let credentials = unsafe { data.read_unaligned() };
    Some(Sender {
        process: credentials.pid,
        user: credentials.uid,
    })
}

/// Sends a message without waiting.
pub fn send_to_door(fd: c_int, bytes: &[u8], to: &DoorName) -> Result<(), Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: data and address are readable for their lengths.
    check(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd,
            bytes.as_ptr(),
            bytes.len(),
            flags,
            &raw const to.address,
            to.len,
        )
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> (OwnDescriptor, DoorName) {
        let name = DoorName::new(format!("libvma.test.{:016x}", super::super::random()).as_bytes());
        (door_socket(name).unwrap(), name.unwrap())
    }

    #[test]
    fn a_message_comes_with_its_sender_and_is_answered() {
        let (door, name) = door();
        let asker = door_socket(None).unwrap();
        send_to_door(asker.as_raw_fd(), b"a question", &name).unwrap();
        let mut buffer = [0; 64];
        let message = take_from_door(door.as_raw_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..message.len], b"a question");
        let sender = message.sender.unwrap();
        assert_eq!(sender.process, stats::process_id());
        send_to_door(door.as_raw_fd(), b"an answer", &message.from).unwrap();
        let message = take_from_door(asker.as_raw_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..message.len], b"an answer");
        let again = take_from_door(asker.as_raw_fd(), &mut buffer);
        assert_eq!(again.err(), Some(Errno(libc::EAGAIN)));
    }

    #[test]
    fn nobody_is_behind_a_door_that_has_gone() {
        let (door, name) = door();
        drop(door);
        let asker = door_socket(None).unwrap();
        let sent = send_to_door(asker.as_raw_fd(), b"x", &name);
        assert_eq!(sent, Err(Errno(libc::ECONNREFUSED)));
        assert!(DoorName::new(&[b'x'; 108]).is_none());
    }

    /// A descriptor would take a number that the program may expect.
    #[test]
    fn descriptors_in_a_message_are_not_taken() {
        use std::os::fd::AsFd;
        let (door, name) = door();
        let asker = door_socket(None).unwrap();
        let (passed, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut room = ControlRoom([0; 64]);
        // SAFETY: all-zero is a value of this struct.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        let mut part = libc::iovec {
            iov_base: b"x".as_ptr().cast_mut().cast(),
            iov_len: 1,
        };
        message.msg_name = (&raw const name.address).cast_mut().cast();
        message.msg_namelen = name.len;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut room).cast();
        message.msg_controllen = 24;
        let header = libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<c_int>(),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        let at = room.0.as_mut_ptr();
        // SAFETY: the room is aligned for a header, and larger.
        unsafe { at.cast::<libc::cmsghdr>().write(header) };
        let fd = passed.as_fd().as_raw_fd();
        let data = at.wrapping_add(size_of::<libc::cmsghdr>());
        // SAFETY: behind the header there is room for a number.
        unsafe { data.cast::<c_int>().write_unaligned(fd) };
        // SAFETY: the message's buffers are readable.
        let sent = unsafe { libc::sendmsg(asker.as_raw_fd(), &raw const message, 0) };
        assert_eq!(sent, 1);
        drop(passed);
        let mut buffer = [0; 8];
        let taken = take_from_door(door.as_raw_fd(), &mut buffer).unwrap();
        assert_eq!(taken.len, 1);
        assert!(taken.sender.is_some());
        // Its last copy was in the message.
        use std::io::Read;
        assert_eq!((&other).read(&mut buffer).unwrap(), 0);
    }
}
