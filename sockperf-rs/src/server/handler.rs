//! What a server does with a message.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::sessions::{Client, Sessions};
use super::{Serving, Totals};
use crate::error::Error;
use crate::measure::activity::Activity;
use crate::message::{Flags, Header};
use crate::net::address::Peer;
use crate::net::socket::{SendPolicy, Sent, Socket};
use crate::terminal::Output;

/// Where answers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyTo {
    /// To who asked.
    Sender,
    /// To everybody in the group, at the port of who asked.
    Group(IpAddr),
}

/// One thread's state.
#[derive(Debug)]
pub struct Handler<'a> {
    serving: &'a Serving<'a>,
    output: Output,
    policy: SendPolicy<'a>,
    totals: Totals,
    last_reply_error: Option<io::Error>,
    sessions: Sessions,
    activity: Activity,
}

impl<'a> Handler<'a> {
    /// A peer that does not take its answers for so long is given up.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Nothing handled yet.
    pub fn new(serving: &'a Serving<'a>) -> Self {
        let common = &serving.options.common;
        let policy = SendPolicy::new(common.socket.skip_blocking_send, serving.stop);
        Self {
            serving,
            output: serving.output.clone(),
            policy: policy.with_patience(Self::PATIENCE),
            totals: Totals::default(),
            last_reply_error: None,
            sessions: Sessions::new(serving.options.gap_detection),
            activity: Activity::new(common.activity, serving.clock.now_nsec()),
        }
    }

    /// Handles one message. Fails if the answer cannot be sent.
    #[inline]
    pub fn message(
        &mut self,
        header: Header,
        message: &mut [u8],
        client: Client,
        reply: (&Socket, &Peer),
    ) -> Result<(), Error> {
        if !header.flags.has(Flags::CLIENT) {
            self.totals.ignored += 1;
            return Ok(());
        }
        self.sessions
            .message(header, client, self.serving.clock, &mut self.output);
        if header.flags.has(Flags::WARM_UP) {
            self.totals.ignored += 1;
            return Ok(());
        }
        self.totals.handled += 1;
        self.totals.handled_bytes += u64::from(header.len);
        self.activity.count(self.serving.clock, &mut self.output);
        if !self.serving.options.reply || !header.flags.has(Flags::PONG_REQUEST) {
            return Ok(());
        }
        Header {
            flags: header.flags.reply(),
            ..header
        }
        .write(message);
        let (socket, peer) = reply;
        match socket.send(message, peer, &mut self.policy)? {
            Sent::Yes => self.totals.replies += 1,
            Sent::Skipped | Sent::Stopped => self.totals.failed_replies += 1,
        }
        Ok(())
    }

    /// Notes that an answer could not be sent. One client that cannot be reached must not end the
    /// service for the others.
    pub fn reply_failed(&mut self, error: Error) {
        self.totals.failed_replies += 1;
        self.last_reply_error = Some(io::Error::other(error));
    }

    /// Notes a datagram that is not a message.
    pub fn malformed_datagram(&mut self) {
        self.totals.malformed_datagrams += 1;
    }

    /// Notes a connection that does not carry messages.
    pub fn malformed_stream(&mut self, client: Client) {
        self.totals.malformed_streams += 1;
        crate::error::complain(format_args!(
            "ADDR = {client} # TCP Message received was larger than expected, or is none: connection \
             closed"
        ));
    }

    /// Notes a new connection.
    pub fn connected(&mut self) {
        self.totals.connections += 1;
    }

    /// What was handled.
    pub fn finish(mut self) -> Totals {
        self.activity.finish(&mut self.output);
        let mut totals = self.totals;
        totals.last_reply_error = self.last_reply_error.map(|error| error.to_string());
        totals.untracked_messages = self.sessions.untracked_messages();
        totals.sessions = self.sessions.finish();
        totals
    }
}

impl ReplyTo {
    /// The address of the answer to a message of `sender`.
    #[inline]
    pub(super) fn peer(self, sender: &Peer) -> Option<Peer> {
        match (self, sender) {
            (Self::Group(group), Peer::Inet(address)) => {
                Some(Peer::Inet(SocketAddr::new(group, address.port())))
            }
            _ => None,
        }
    }
}
