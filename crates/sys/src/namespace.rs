//! Which network namespace a socket belongs to.

use libc::c_int;

use super::process::file_id;
use super::{Errno, check, close};

/// What tells a network namespace from every other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceId {
    /// `SO_NETNS_COOKIE`
    Cookie(u64),
    /// Inode number, where the kernel has no cookies.
    Inode(u64),
}

/// Not in every C library's headers (`include/uapi/asm-generic/socket.h`).
const SO_NETNS_COOKIE: c_int = 71;
/// `include/uapi/linux/sockios.h`
const SIOCGSKNS: libc::c_ulong = 0x894c;

/// The namespace of a socket; `None` if the system does not say.
pub fn namespace_of(fd: c_int) -> Option<NamespaceId> {
    match cookie(fd) {
        Ok(cookie) => Some(NamespaceId::Cookie(cookie)),
        Err(Errno(libc::ENOPROTOOPT)) => inode(fd).map(NamespaceId::Inode),
        Err(_) => None,
    }
}

/// The namespace in which the calling thread makes sockets. Makes one for a moment.
pub fn namespace_of_thread() -> Option<NamespaceId> {
    let (domain, kind) = (libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC);
    // SAFETY: socket(2) takes integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_socket, domain, kind, 0) }).ok()? as c_int;
    let namespace = namespace_of(fd);
    close(fd);
    namespace
}

/// Linux 5.14.
fn cookie(fd: c_int) -> Result<u64, Errno> {
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `cookie`.
    check(unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            &raw mut cookie,
            &raw mut len,
        )
    })?;
    Ok(cookie)
}

/// Needs `CAP_NET_ADMIN`, as accelerating anything does.
fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: this ioctl(2) takes no argument.
    let namespace = check(unsafe { libc::syscall(libc::SYS_ioctl, fd, SIOCGSKNS) }).ok()?;
    let namespace = namespace as c_int;
    let inode = file_id(namespace).map(|file| file.inode());
    close(namespace);
    inode
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn sockets_of_one_thread_have_one_namespace() {
        let [first, second] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let namespace = namespace_of(first.as_raw_fd());
        assert!(namespace.is_some());
        assert_eq!(namespace, namespace_of(second.as_raw_fd()));
        assert_eq!(namespace, namespace_of_thread());
        assert_eq!(inode(first.as_raw_fd()), inode(second.as_raw_fd()));
        assert_eq!(namespace_of(-1), None);
    }
}
