//! Requests to the kernel and their replies.

use std::io;
use std::ops::ControlFlow;
#[cfg(test)]
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP,
    NetlinkHeader, NetlinkMessage,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::Protocol;

use crate::error::Error;
use crate::framing::{self, Message, Messages};
use crate::socket::{BUFFER_BYTES, Received, Socket};

/// How long to wait for a reply. The kernel has it ready when the request is sent.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a table that changes while it is read is read again.
const DUMP_ATTEMPTS: u32 = 16;

/// A socket that asks. Each reply is matched to its request by sequence number, so one that was
/// given up is not taken for the reply to the next.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl Connection {
    /// A connection to rtnetlink.
    pub(crate) fn open() -> Result<Self, Error> {
        Self::open_protocol(None)
    }

    /// A connection to another part of the kernel.
    pub(crate) fn open_protocol(protocol: Option<Protocol>) -> Result<Self, Error> {
        let socket = Socket::open(protocol, 0)?;
        socket.set_receive_timeout(REPLY_TIMEOUT)?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        })
    }

    /// Asks a question that has one message as its answer.
    pub(crate) fn ask(
        &mut self,
        request: &'static str,
        message: RouteNetlinkMessage,
    ) -> Result<RouteNetlinkMessage, Error> {
        let sequence = self.send(NLM_F_REQUEST, message)?;
        let mut answer = None;
        self.receive(request, sequence, |message| {
            answer = Some(message.decode());
            ControlFlow::Break(())
        })?;
        answer
            .unwrap_or_else(|| Err("it is empty".to_owned()))
            .map_err(|detail| Error::Malformed { request, detail })
    }

    /// Sends a message that is no rtnetlink message, and hands each message of the reply to `take`,
    /// until it breaks off or the kernel marks the end.
    pub(crate) fn ask_raw(
        &mut self,
        request: &'static str,
        (kind, flags): (u16, u16),
        payload: &[u8],
        take: impl FnMut(&Message<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.next_sequence();
        let datagram = framing::datagram(kind, NLM_F_REQUEST | flags, self.sequence, payload);
        self.socket.send(&datagram)?;
        self.receive(request, self.sequence, take).map(drop)
    }

    /// Gives an order and waits until the kernel has carried it out. `flags` are added to the
    /// request.
    pub(crate) fn order(
        &mut self,
        request: &'static str,
        flags: u16,
        message: RouteNetlinkMessage,
    ) -> Result<(), Error> {
        let sequence = self.send(NLM_F_REQUEST | NLM_F_ACK | flags, message)?;
        self.receive(request, sequence, |_| ControlFlow::Continue(()))
            .map(drop)
    }

    /// Reads a table as of one moment. `entries` starts anew (from its `Default`) whenever the
    /// table changed meanwhile; `add` is called for each message.
    pub(crate) fn dump<T: Default>(
        &mut self,
        request: &'static str,
        message: &RouteNetlinkMessage,
        mut add: impl FnMut(&mut T, &Message<'_>),
    ) -> Result<T, Error> {
        for _ in 0..DUMP_ATTEMPTS {
            let mut entries = T::default();
            let sequence = self.send(NLM_F_REQUEST | NLM_F_DUMP, message.clone())?;
            let steady = self.receive(request, sequence, |message| {
                add(&mut entries, message);
                ControlFlow::Continue(())
            })?;
            if steady {
                return Ok(entries);
            }
        }
        Err(Error::Unsteady { request })
    }

    fn next_sequence(&mut self) {
        // 0 is what notifications carry.
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
    }

    /// Sends a request and returns its sequence number.
    fn send(&mut self, flags: u16, message: RouteNetlinkMessage) -> Result<u32, Error> {
        self.next_sequence();
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, message.into());
        message.finalize();
        let mut datagram = vec![0; message.buffer_len()];
        message.serialize(&mut datagram);
        self.socket.send(&datagram)?;
        Ok(self.sequence)
    }

    /// Hands each message of the reply to `take`, until it breaks off or the kernel marks the end
    /// (the acknowledgement of an order, the end of a table). False if the kernel says that the
    /// table changed meanwhile.
    fn receive(
        &mut self,
        request: &'static str,
        sequence: u32,
        mut take: impl FnMut(&Message<'_>) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        let mut deadline = Instant::now() + REPLY_TIMEOUT;
        let mut consistent = true;
        loop {
            let datagram = match self.socket.receive(&mut self.buffer)? {
                Received::Datagram(datagram) => datagram,
                Received::Nothing => return Err(Error::Timeout { request }),
                Received::Overrun => {
                    let source = rustix::io::Errno::NOBUFS.into();
                    return Err(Error::Socket {
                        action: "receive all of a reply",
                        source,
                    });
                }
            };
            for message in Messages::new(datagram) {
                let message = message.map_err(|detail| Error::Malformed { request, detail })?;
                if message.header.sequence_number != sequence {
                    continue;
                }
                deadline = Instant::now() + REPLY_TIMEOUT;
                consistent &= !message.has_flag(NLM_F_DUMP_INTR);
                match message.header.message_type {
                    NLMSG_NOOP => {}
                    NLMSG_ERROR | NLMSG_DONE if message.status() < 0 => {
                        let errno = message.status().saturating_neg();
                        let source = io::Error::from_raw_os_error(errno);
                        return Err(Error::Refused { request, source });
                    }
                    NLMSG_ERROR | NLMSG_DONE => return Ok(consistent),
                    _ => {
                        if take(&message).is_break() {
                            return Ok(consistent);
                        }
                    }
                }
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout { request });
            }
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
impl AsFd for Connection {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
impl Connection {
    /// A connection whose requests go nowhere.
    pub(crate) fn broken() -> Self {
        Self {
            socket: Socket::broken(),
            sequence: 0,
            buffer: Box::default(),
        }
    }
}
