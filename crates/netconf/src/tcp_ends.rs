//! The ends of the kernel's TCP sockets, as it tells of them (`SKNLGRP_INET_TCP_DESTROY` of
//! `linux/sock_diag.h`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use descriptors::OwnDescriptor;
use rustix::net::netlink;

use crate::error::Error;
use crate::framing::Messages;
use crate::inet_diag::{self, SOCK_DIAG_BY_FAMILY};
use crate::socket::{BUFFER_BYTES, Received, Socket};

/// Tells of TCP sockets of a network namespace that are gone, whatever process had them. One that
/// was closed is gone when the kernel has nothing to send for it any more; TIME-WAIT is not the
/// socket's, and goes on after its end.
///
/// Being told costs the kernel some microseconds for each TCP socket of the namespace, on another
/// CPU if there is one.
#[derive(Debug)]
pub struct TcpEnds {
    events: Socket,
    buffer: Box<[u8]>,
}

impl TcpEnds {
    /// For the calling thread's network namespace. Takes no privilege. Tells of nothing until it
    /// [is to follow](Self::follow).
    ///
    /// # Errors
    ///
    /// Netlink cannot be used.
    pub fn open() -> Result<Self, Error> {
        Ok(Self {
            events: Socket::open(Some(netlink::SOCK_DIAG), 0)?,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        })
    }

    /// Becomes readable when sockets have ended.
    pub fn descriptor(&self) -> &Arc<OwnDescriptor> {
        self.events.descriptor()
    }

    /// From here on it is told of ends, or not any more: `change` joins or leaves the group of
    /// netlink with this number (`NETLINK_ADD_MEMBERSHIP`, `NETLINK_DROP_MEMBERSHIP`).
    ///
    /// # Errors
    ///
    /// The kernel has no such notifications (CONFIG_INET_TCP_DIAG).
    pub fn follow(
        &self,
        change: impl Fn(BorrowedFd<'_>, u32) -> io::Result<()>,
    ) -> Result<(), Error> {
        let refused = |source| Error::Refused {
            request: "be told of the ends of TCP sockets",
            source,
        };
        for group in [SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY] {
            change(self.events.as_fd(), group).map_err(refused)?;
        }
        Ok(())
    }

    /// Hands the cookies (`SO_COOKIE`) of sockets that have ended to `ended`, without waiting.
    /// Returns whether the kernel has told of more than it could keep, which are lost: then it
    /// tells of those that end after this call, and not of all before it.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub fn take(&mut self, mut ended: impl FnMut(u64)) -> Result<bool, Error> {
        let mut were_lost = false;
        for _ in 0..DATAGRAMS_PER_CALL {
            match self.events.receive_now(&mut self.buffer)? {
                Received::Nothing => break,
                // The kernel adds nothing until all that it has kept is taken, and says so once
                // only.
                Received::Overrun => were_lost = true,
                Received::Datagram(datagram) => {
                    let sockets = Messages::new(datagram)
                        .flatten()
                        .filter(|message| message.header.message_type == SOCK_DIAG_BY_FAMILY)
                        .filter_map(|message| inet_diag::parse(message.payload));
                    sockets.for_each(|entry| ended(inet_diag::cookie_number(entry.cookie)));
                }
            }
        }
        Ok(were_lost)
    }
}

const SKNLGRP_INET_TCP_DESTROY: u32 = 1;
const SKNLGRP_INET6_TCP_DESTROY: u32 = 3;

/// More than a socket's buffer holds, unless as many more come meanwhile.
const DATAGRAMS_PER_CALL: usize = 4096;
