//! Socket options that neither the standard library nor the crates for that have.

#![allow(unsafe_code, reason = "an option's value is what lies at a pointer")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;

/// At most so many bytes a second leave (`SO_MAX_PACING_RATE`).
pub fn set_rate_limit(socket: impl AsFd, bytes_per_second: u32) -> io::Result<()> {
    set(socket, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// What some systems of Mellanox accelerate a socket by.
pub fn set_accelerated(socket: impl AsFd) -> io::Result<()> {
    const SO_ACCELERATED: libc::c_int = 100;
    set(socket, SO_ACCELERATED, 1)
}

/// A descriptor that a library has made for this program.
pub fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: nobody else closes it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn set(socket: impl AsFd, name: libc::c_int, value: u32) -> io::Result<()> {
    const LEN: libc::socklen_t = 4;
    const _: () = assert!(LEN as usize == size_of::<u32>());
    // SAFETY: the kernel reads one integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            LEN,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_socket_has_a_rate_limit() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_rate_limit(&socket, 1000).unwrap();
    }
}
