//! The broker's socket where systemd has it (vma-broker.socket, sd_listen_fds(3)): it starts the
//! broker when the first program asks, and keeps it between two lives of the broker.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::net::SocketType;
use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The socket that was passed to this process, if one was.
///
/// # Errors
/// What was passed is not one socket that listens for records (`SOCK_SEQPACKET`).
pub(super) fn passed_socket() -> io::Result<Option<OwnedFd>> {
    let mut passed = sd_notify::listen_fds()?;
    match (passed.next(), passed.len()) {
        (None, _) => Ok(None),
        (Some(number), 0) => checked(number).map(Some),
        (Some(_), more) => {
            let why = format!("{} sockets were passed, one is expected", more + 1);
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

fn checked(number: RawFd) -> io::Result<OwnedFd> {
    // A number is nobody's: the kernel gives another descriptor of what it stands for.
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let socket = pidfd_getfd(&own, number, PidfdGetfdFlags::empty())?;
    if socket_type(&socket)? != SocketType::SEQPACKET || !socket_acceptconn(&socket)? {
        let why = "the socket that was passed is not one of ListenSequentialPacket=";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let flags = rustix::fs::fcntl_getfl(&socket)?;
    rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(socket)
}
