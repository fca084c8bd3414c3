//! Options of sockets for processes that may not set them, which pass the socket: `TCP_REPAIR`, of
//! which only the beginning and the end take a right, and a filter, which some kernels let only the
//! privileged attach.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, sock_filter, sock_fprog};

/// Whether the socket is TCP's and of the calling thread's network namespace.
pub(super) fn check(socket: BorrowedFd<'_>) -> io::Result<()> {
    match option::<c_int>(socket, libc::SO_PROTOCOL)? == libc::IPPROTO_TCP && is_here(socket)? {
        true => Ok(()),
        false => Err(refused()),
    }
}

/// What a `struct sockaddr` of IPv4 or IPv6 says.
pub(super) fn address(name: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = name.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let ip: IpAddr = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => (*rest.first_chunk::<4>()?).into(),
        // Behind the flow label.
        libc::AF_INET6 => (*rest.get(4..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

/// Sets one, if the socket is TCP's and of the calling thread's network namespace.
pub(super) fn set(socket: BorrowedFd<'_>, name: c_int, value: &[u8]) -> io::Result<()> {
    check(socket)?;
    match name {
        libc::TCP_REPAIR => {
            let value = c_int::from_ne_bytes(value.try_into().map_err(|_| refused())?);
            let (at, len) = ((&raw const value).cast(), size_of::<c_int>());
            // SAFETY: the kernel reads an integer.
            unsafe { set_option(socket, libc::IPPROTO_TCP, name, at, len) }
        }
        libc::SO_ATTACH_FILTER => attach(socket, value),
        // A route on which packets are lost, which ends what is to be silent.
        libc::IP_OPTIONS if value == LOST_V4 => set_octets(socket, libc::IPPROTO_IP, name, value),
        libc::IPV6_RTHDR if value == LOST_V6 => set_octets(socket, libc::IPPROTO_IPV6, name, value),
        _ => Err(refused()),
    }
}

/// The kernel checks the instructions.
fn attach(socket: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    let instruction = |octets: &[u8; 8]| {
        let [a, b, jt, jf, e, f, g, h] = *octets;
        sock_filter {
            code: u16::from_ne_bytes([a, b]),
            jt,
            jf,
            k: u32::from_ne_bytes([e, f, g, h]),
        }
    };
    let (instructions, rest) = value.as_chunks::<8>();
    let mut program: Vec<sock_filter> = instructions.iter().map(instruction).collect();
    if !rest.is_empty() {
        return Err(refused());
    }
    let filter = sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| refused())?,
        filter: program.as_mut_ptr(),
    };
    let (at, len) = ((&raw const filter).cast(), size_of::<sock_fprog>());
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: the kernel reads the structure, and as many instructions as it says.
    unsafe { set_option(socket, level, name, at, len) }
}

/// Whether a socket is of the thread's network namespace.
fn is_here(socket: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: integers.
    let own = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if own < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours alone.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    let cookie = |fd| option::<u64>(fd, libc::SO_NETNS_COOKIE);
    Ok(cookie(socket)? == cookie(own.as_fd())?)
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EACCES)
}

fn set_octets(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads the octets.
    unsafe { set_option(socket, level, name, value.as_ptr().cast(), value.len()) }
}

/// Sockets for whole packets of IPv4 and IPv6 to this host itself: they are bound to the loopback
/// interface, and who may not open such cannot change that. As far as the system gives them.
pub(super) fn raw_sockets() -> Vec<OwnedFd> {
    let open = |family| {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: integers.
        let fd = unsafe { libc::socket(family, kind, libc::IPPROTO_RAW) };
        // SAFETY: the descriptor is new and ours alone.
        let socket = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
        set_octets(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            b"lo\0",
        )
        .ok()?;
        Some(socket)
    };
    // The second only behind the first, which tells them apart.
    [libc::AF_INET, libc::AF_INET6]
        .into_iter()
        .map_while(open)
        .collect()
}

/// `IPOPT_LSRR` by way of 127.0.0.1, and `IPOPT_END`.
const LOST_V4: [u8; 8] = [131, 7, 4, 127, 0, 0, 1, 0];
/// `struct ipv6_sr_hdr` with one segment, ::1.
const LOST_V6: [u8; 24] = {
    let mut header = [0; 24];
    header[1] = 2;
    header[2] = 4;
    header[23] = 1;
    header
};

/// # Safety
/// The kernel may read `len` bytes at `value`, and what these lead to.
unsafe fn set_option(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: *const libc::c_void,
    len: usize,
) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: the caller's promise.
    match unsafe { libc::setsockopt(fd, level, name, value, len as libc::socklen_t) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An option of level `SOL_SOCKET`.
fn option<T: Copy + Default>(socket: BorrowedFd<'_>, name: c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes, the size of the integer.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, at, &raw mut len) }
    {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
