//! The socket that programs tell the daemon through.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::sockopt;

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
    /// 0: none that is seen from here.
    pub(crate) pid: u32,
    pub(crate) user: u32,
    address: stats::Sender,
}

impl AgentSocket {
    /// Takes the place of a daemon that died. Only the owner and the group may write: VMA's is open
    /// to the world.
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
        let received = stats::receive_with_credentials(self.socket.as_fd(), &mut self.buffer);
        let message = match received {
            Ok(message) => message,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        // Nobody's: the kernel always attaches them, so this one is not read further.
        let (pid, user) = message
            .credentials
            .map_or((0, 0), |sender| (sender.pid, sender.user));
        let sender = Sender {
            pid,
            user,
            address: message.from,
        };
        Ok(Some((sender, message.bytes)))
    }

    /// Sends an answer; one that cannot be delivered now is lost, as the program asks again.
    pub(crate) fn answer(&self, sender: &Sender, answer: &[u8]) -> io::Result<()> {
        stats::send_to(self.socket.as_fd(), answer, &sender.address)
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
    use std::mem::MaybeUninit;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::process;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(60);

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

    /// Where the receiver listens that runs in a pid namespace of its own.
    const PATH: &str = "VMAD_TEST_AGENT";
    const NAME: &str = "agent::tests::a_sender_that_is_not_seen_from_here_is_no_process";
    const USER: u32 = 4242;

    #[test]
    fn a_sender_that_is_not_seen_from_here_is_no_process() {
        if let Some(path) = std::env::var_os(PATH) {
            let mut agent = AgentSocket::bind(Path::new(&path)).unwrap();
            let came = testkit::eventually(SOON, || {
                let Some((sender, datagram)) = agent.receive().unwrap() else {
                    return false;
                };
                assert_eq!(datagram, b"hello");
                assert_eq!((sender.pid, sender.user), (0, USER));
                true
            });
            assert!(came);
            return;
        }
        // For the rights only.
        let _pair = testkit::or_skip!(testkit::Namespaces::pair());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent");
        let mut receiver = process::Command::new("unshare");
        receiver.args(["--pid", "--fork", "--kill-child"]);
        receiver.arg(std::env::current_exe().unwrap());
        receiver.args(["--exact", NAME]).env(PATH, &path);
        let receiver = testkit::Running::start(receiver).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        assert!(testkit::eventually(SOON, || client.connect(&path).is_ok()));
        send_as(&client, USER);
        let finished = receiver.wait(SOON).unwrap();
        assert!(finished.status.success(), "{finished:?}");
        assert!(finished.stdout.contains("1 passed"), "{finished:?}");
    }

    /// As root may, and with the true id of the process.
    fn send_as(client: &UnixDatagram, user: u32) {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, UCred, sendmsg};
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let credentials = UCred {
            pid: rustix::process::getpid(),
            uid: rustix::fs::Uid::from_raw(user),
            gid: rustix::fs::Gid::from_raw(user),
        };
        assert!(control.push(SendAncillaryMessage::ScmCredentials(credentials)));
        let parts = [io::IoSlice::new(b"hello")];
        sendmsg(client, &parts, &mut control, SendFlags::empty()).unwrap();
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
