//! The socket that programs tell the daemon through.

use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, recvmsg,
    sendto,
};

use crate::message::MAX_DATAGRAM;

/// A bound socket. Its file goes with it.
#[derive(Debug)]
pub(crate) struct AgentSocket {
    socket: UnixDatagram,
    path: PathBuf,
    buffer: Vec<u8>,
}

/// Who sent a datagram, as the kernel says, and where an answer goes.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) pid: u32,
    pub(crate) user: u32,
    address: Option<SocketAddrUnix>,
}

impl AgentSocket {
    /// Takes the place of a daemon that died. Only the owner and the group may write: VMA's is open to the world.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        if let Ok(file) = fs::symlink_metadata(path) {
            let connected = UnixDatagram::unbound()?.connect(path);
            let is_left_over = file.file_type().is_socket()
                && connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_left_over {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "another vmad serves it, or it is no socket",
                ));
            }
            fs::remove_file(path)?;
        }
        let before = rustix::process::umask(Mode::from_raw_mode(0o117));
        let bound = UnixDatagram::bind(path);
        rustix::process::umask(before);
        let socket = bound?;
        socket.set_nonblocking(true)?;
        sockopt::set_socket_passcred(&socket, true)?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            buffer: vec![0; MAX_DATAGRAM],
        })
    }

    /// The next datagram, if there is one.
    pub(crate) fn receive(&mut self) -> io::Result<Option<(Sender, &[u8])>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.socket, &mut parts, &mut control, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let credentials = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials),
            _ => None,
        });
        // Nobody's: the kernel always attaches them, so this one is not read further.
        let (pid, user) = credentials.map_or((0, 0), |credentials| {
            let pid = credentials.pid.as_raw_nonzero().get();
            (u32::try_from(pid).unwrap_or(0), credentials.uid.as_raw())
        });
        let sender = Sender {
            pid,
            user,
            address: received
                .address
                .and_then(|address| SocketAddrUnix::try_from(address).ok()),
        };
        let datagram = self.buffer.get(..received.bytes).unwrap_or_default();
        Ok(Some((sender, datagram)))
    }

    /// Sends an answer; one that cannot be delivered now is lost, as the program asks again.
    pub(crate) fn answer(&self, sender: &Sender, answer: &[u8]) -> io::Result<()> {
        let Some(address) = &sender.address else {
            return Ok(());
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendto(&self.socket, answer, flags, address)?;
        Ok(())
    }
}

impl AsFd for AgentSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        // The next daemon removes what stays.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::process;

    #[test]
    fn the_kernel_says_who_sent_a_datagram() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let mut agent = AgentSocket::bind(&path).unwrap();
        let client = UnixDatagram::bind(directory.path().join("client")).unwrap();
        client.connect(&path).unwrap();
        client.send(b"hello").unwrap();
        let (sender, datagram) = agent.receive().unwrap().unwrap();
        assert_eq!(datagram, b"hello");
        assert_eq!(sender.pid, process::id());
        assert_eq!(sender.user, fs::metadata(directory.path()).unwrap().uid());
        assert!(agent.receive().unwrap().is_none());
        agent.answer(&sender, b"well").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(client.recv(&mut buffer).unwrap(), 4);
    }

    #[test]
    fn the_world_may_not_write_and_the_file_goes_with_the_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let agent = AgentSocket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        drop(agent);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_daemon_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        drop(UnixDatagram::bind(&path).unwrap());
        let agent = AgentSocket::bind(&path).unwrap();
        assert!(AgentSocket::bind(&path).is_err());
        drop(agent);
        fs::write(&path, "precious").unwrap();
        assert!(AgentSocket::bind(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
