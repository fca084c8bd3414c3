//! What two processes with a common arena say to each other: a socket of the kernel's between them,
//! through which the arena goes, and the eventfd by which each wakes the other.
//!
//! Nothing here waits. The end of the socket is the end of the other process, or of its part.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use descriptors::OwnDescriptor;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::meeting::Key;

/// Descriptors that a message carries at most.
const DESCRIPTORS_MAX: usize = 2;
/// Letters of a message.
const BYTES_MAX: usize = 256;
const HEAD_BYTES: usize = 8;

/// What one process says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first: the arena and an eventfd come with it.
    Hello,
    /// The answer: an eventfd comes with it.
    Welcome,
    /// The connection that has met at this key has this slot.
    Match { slot: u32, key: Key },
    /// The receiver has taken the slot: rings may be opened.
    Taken { slot: u32 },
    /// The receiver is to close the ring that it writes.
    Close { slot: u32 },
    /// The sender does not use the slot any more.
    Left { slot: u32 },
}

impl Message {
    fn bytes(&self) -> Vec<u8> {
        let (kind, slot, key) = match self {
            Self::Hello => (1u32, 0, None),
            Self::Welcome => (2, 0, None),
            Self::Match { slot, key } => (3, *slot, Some(key)),
            Self::Taken { slot } => (4, *slot, None),
            Self::Close { slot } => (5, *slot, None),
            Self::Left { slot } => (6, *slot, None),
        };
        let mut bytes = [kind.to_ne_bytes(), slot.to_ne_bytes()].concat();
        bytes.extend(key.into_iter().flat_map(|key| key.name().bytes()));
        bytes
    }

    /// `None`: it is none.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first_chunk::<4>()?;
        let (slot, key) = rest.split_first_chunk::<4>()?;
        let slot = u32::from_ne_bytes(*slot);
        Some(match u32::from_ne_bytes(*kind) {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Match {
                slot,
                key: Key::from_name(std::str::from_utf8(key).ok()?)?,
            },
            4 => Self::Taken { slot },
            5 => Self::Close { slot },
            6 => Self::Left { slot },
            _ => return None,
        })
    }
}

/// A message that has come, with its descriptors.
#[derive(Debug)]
pub struct Received {
    pub message: Message,
    pub descriptors: Vec<OwnDescriptor>,
}

/// A socket to one other process.
#[derive(Debug)]
pub struct Channel(OwnDescriptor);

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(OwnDescriptor::new(socket))
    }

    /// Becomes readable when there is a message, or the other process has ended.
    pub fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Says something. Never waits.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`: the other process is gone, or takes no messages at the moment.
    pub fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = message.bytes();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// The next message. `Ok(None)`: there is none now.
    ///
    /// # Errors
    /// The other process has ended, or has said what it cannot mean.
    pub fn receive(&self) -> io::Result<Option<Received>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; BYTES_MAX];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = match recvmsg(&self.0, &mut parts, &mut control, flags) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            received => received?,
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights.map(OwnDescriptor::new));
            }
        }
        let is_cut = received.flags.contains(ReturnFlags::TRUNC);
        let message = bytes.get(..received.bytes).and_then(Message::from_bytes);
        match message {
            Some(message) if !is_cut && received.bytes >= HEAD_BYTES => Ok(Some(Received {
                message,
                descriptors,
            })),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Channel, Channel) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let (one, other) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn messages_arrive_with_their_descriptors() {
        let (one, other) = pair();
        assert!(other.receive().unwrap().is_none());
        let key = Key::from_name("s-1-127.0.0.1.1-127.0.0.1.2").unwrap();
        let messages = [
            Message::Hello,
            Message::Welcome,
            Message::Match { slot: 7, key },
            Message::Taken { slot: 8 },
            Message::Close { slot: 9 },
            Message::Left { slot: 10 },
        ];
        for message in messages {
            one.send(&message, &[one.as_fd()]).unwrap();
            let received = other.receive().unwrap().unwrap();
            assert_eq!(received.message, message);
            assert_eq!(received.descriptors.len(), 1);
        }
    }

    #[test]
    fn the_end_of_the_other_process_is_an_error() {
        let (one, other) = pair();
        drop(one);
        assert!(other.receive().is_err());
        assert!(other.send(&Message::Welcome, &[]).is_err());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &[][..],
            &[1, 0, 0, 0],
            &[9; 8],
            &[3, 0, 0, 0, 0, 0, 0, 0, b'/'],
        ] {
            assert_eq!(Message::from_bytes(bytes), None);
        }
    }
}
