//! How two processes of one user learn that they have a connection with each other.
//!
//! Both know its two addresses and the network namespace. In a directory that is the user's alone
//! each process has a socket with a name of its own, and for each connection the process that comes
//! first leaves a symbolic link, by the name of the connection, to that. The second one finds it,
//! takes it away and connects. Nobody waits for anybody.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use descriptors::OwnDescriptor;
use rustix::fs::{AtFlags, OFlags, open};
use rustix::fs::{CWD, FileType, Mode, RawDir, lstat, mkdirat, readlinkat, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};

use crate::channel::Channel;

/// What begins the name of a connection, and that of a process.
const CONNECTION: &str = "s-";
const PROCESS: &str = "p-";
/// Letters of a name.
const NAME_MAX: usize = 200;
/// Processes that wait to be accepted.
const BACKLOG: i32 = 64;
/// Entries of the directory that are looked at when a process begins.
const SWEPT_MAX: usize = 256;

/// What both ends of a connection call it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// Of the connection between two addresses of a network namespace, which both ends name in
    /// either order. `None`: both are the same.
    pub fn new(namespace: u64, one: SocketAddr, other: SocketAddr) -> Option<Self> {
        let text = |end: SocketAddr| format!("{}.{}", end.ip(), end.port());
        let mut ends = [text(one), text(other)];
        ends.sort();
        let [first, second] = ends;
        (first != second).then(|| Self(format!("{CONNECTION}{namespace:x}-{first}-{second}")))
    }

    /// That of a name. `None`: it is none.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".:-%".contains(&byte);
        let is_name =
            name.starts_with(CONNECTION) && name.len() <= NAME_MAX && name.bytes().all(is_letter);
        is_name.then(|| Self(name.to_owned()))
    }

    /// Its letters.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a process finds that announces a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Met {
    /// Nobody: the other end finds this one.
    Nobody,
    /// The process of this name.
    Process(String),
    /// This process itself: it has both ends.
    Itself,
}

/// Where the processes of a user meet.
#[derive(Debug)]
pub struct Meeting {
    directory: PathBuf,
    name: String,
    listener: OwnDescriptor,
}

impl Meeting {
    /// Has the process be found below `base`, as one that calls itself by a random number.
    ///
    /// # Errors
    /// The directory is not the user's alone, or the system has no descriptor.
    pub fn open(base: &Path, user: u32, random: u64) -> io::Result<Self> {
        let directory = base.join(format!("libvma.{user}"));
        match mkdirat(CWD, &directory, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        // Of the directory itself: a link may lead anywhere.
        let status = lstat(&directory)?;
        let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        if !is_directory || status.st_uid != user || status.st_mode & 0o077 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let name = format!("{PROCESS}{random:016x}");
        let listener = socket()?;
        bind(&listener, &SocketAddrUnix::new(directory.join(&name))?)?;
        listen(&listener, BACKLOG)?;
        Ok(Self {
            directory,
            name,
            listener: OwnDescriptor::new(listener),
        })
    }

    /// Becomes readable when another process has connected.
    pub fn raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }

    /// Says that this process has an end of a connection.
    ///
    /// # Errors
    /// The directory takes no entry.
    pub fn announce(&self, key: &Key) -> io::Result<Met> {
        let place = self.directory.join(key.name());
        // Whoever has left one may take it away before it is read.
        for _ in 0..3 {
            match symlinkat(self.name.as_str(), CWD, &place) {
                Ok(()) => return Ok(Met::Nobody),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let Ok(found) = readlinkat(CWD, &place, Vec::new()) else {
                continue;
            };
            let found = found.into_string().unwrap_or_default();
            if found == self.name {
                self.forget(key);
                return Ok(Met::Itself);
            }
            if unlinkat(CWD, &place, AtFlags::empty()).is_ok() && is_process(&found) {
                return Ok(Met::Process(found));
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Takes back what [`announce`](Self::announce) has said, if nobody has found it.
    pub fn forget(&self, key: &Key) {
        let place = self.directory.join(key.name());
        let is_own = readlinkat(CWD, &place, Vec::new())
            .is_ok_and(|found| found.as_bytes() == self.name.as_bytes());
        if is_own {
            let _ = unlinkat(CWD, &place, AtFlags::empty());
        }
    }

    /// Connects to the process of a name.
    ///
    /// # Errors
    /// It has ended, or accepts nobody at the moment.
    pub fn reach(&self, name: &str) -> io::Result<Channel> {
        if !is_process(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let place = self.directory.join(name);
        let socket = socket()?;
        match connect(&socket, &SocketAddrUnix::new(&place)?) {
            Ok(()) => Ok(Channel::new(socket)),
            Err(error) => {
                if error == Errno::CONNREFUSED {
                    let _ = unlinkat(CWD, &place, AtFlags::empty());
                }
                Err(error.into())
            }
        }
    }

    /// A process that has connected. `None`: there is none, or it is another user's.
    pub fn accept(&self, user: u32) -> Option<Channel> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = accept_with(&self.listener, flags).ok()?;
        let credentials = socket_peercred(&socket).ok()?;
        (credentials.uid.as_raw() == user).then(|| Channel::new(socket))
    }

    /// Takes away what processes have left that were killed.
    pub fn sweep(&self) {
        let Ok(directory) = open(
            &self.directory,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        ) else {
            return;
        };
        let directory = OwnDescriptor::new(directory);
        let mut buffer = Vec::with_capacity(8192);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        for _ in 0..SWEPT_MAX {
            let Some(Ok(entry)) = entries.next() else {
                return;
            };
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if is_process(name) && name != self.name {
                // One that has ended is taken away by that.
                let _ = self.reach(name);
            } else if let Some(key) = Key::from_name(name) {
                let place = self.directory.join(key.name());
                let is_left = readlinkat(CWD, &place, Vec::new()).is_ok_and(|process| {
                    let process = process.to_str().unwrap_or_default();
                    lstat(self.directory.join(process)).is_err()
                });
                if is_left {
                    let _ = unlinkat(CWD, &place, AtFlags::empty());
                }
            }
        }
    }

    /// The process is not to be found any more.
    pub fn close(&self) {
        let _ = unlinkat(CWD, self.directory.join(&self.name), AtFlags::empty());
    }
}

fn is_process(name: &str) -> bool {
    name.strip_prefix(PROCESS)
        .is_some_and(|number| number.len() == 16 && u64::from_str_radix(number, 16).is_ok())
}

fn socket() -> io::Result<std::os::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::channel::Message;

    fn user() -> u32 {
        let directory = tempfile::tempdir().unwrap();
        lstat(directory.path()).unwrap().st_uid
    }

    fn key(port: u16) -> Key {
        let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Key::new(1, end(port), end(9)).unwrap()
    }

    #[test]
    fn both_ends_give_a_connection_the_same_name() {
        let [one, other] = ["[::1]:80", "10.0.0.1:81"].map(|it| it.parse().unwrap());
        let key = Key::new(5, one, other);
        assert_eq!(key, Key::new(5, other, one));
        assert_ne!(key, Key::new(6, one, other));
        let key = key.unwrap();
        assert_eq!(Key::from_name(key.name()), Some(key));
        assert_eq!(Key::new(5, one, one), None);
        for name in ["", "p-1", "s-../x", "s-a/b"] {
            assert_eq!(Key::from_name(name), None);
        }
    }

    #[test]
    fn the_second_finds_the_first() {
        let base = tempfile::tempdir().unwrap();
        let open = |random| Meeting::open(base.path(), user(), random).unwrap();
        let (first, second) = (open(1), open(2));
        assert_eq!(first.announce(&key(1)).unwrap(), Met::Nobody);
        let Met::Process(name) = second.announce(&key(1)).unwrap() else {
            panic!("it was not found");
        };
        let channel = second.reach(&name).unwrap();
        channel.send(&Message::Welcome, &[]).unwrap();
        let accepted = first.accept(user()).unwrap();
        let received = accepted.receive().unwrap().unwrap();
        assert_eq!(received.message, Message::Welcome);
        assert_eq!(second.announce(&key(1)).unwrap(), Met::Nobody);
        assert_eq!(second.announce(&key(1)).unwrap(), Met::Itself);
        assert_eq!(first.announce(&key(2)).unwrap(), Met::Nobody);
        first.forget(&key(2));
        assert_eq!(second.announce(&key(2)).unwrap(), Met::Nobody);
    }

    #[test]
    fn what_the_dead_have_left_is_taken_away() {
        let base = tempfile::tempdir().unwrap();
        let open = |random| Meeting::open(base.path(), user(), random).unwrap();
        let dead = open(1);
        dead.announce(&key(1)).unwrap();
        drop(dead);
        let living = open(2);
        living.sweep();
        living.sweep();
        let left = std::fs::read_dir(base.path().join(format!("libvma.{}", user()))).unwrap();
        assert_eq!(left.count(), 1);
        living.close();
        assert!(living.reach(&living.name).is_err());
    }

    #[test]
    fn a_directory_that_others_may_use_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join(format!("libvma.{}", user()));
        std::fs::create_dir(&place).unwrap();
        std::fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(Meeting::open(base.path(), user(), 1).is_err());
        std::fs::remove_dir(&place).unwrap();
        std::os::unix::fs::symlink(base.path(), &place).unwrap();
        assert!(Meeting::open(base.path(), user(), 1).is_err());
    }
}
