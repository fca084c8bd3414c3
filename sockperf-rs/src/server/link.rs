//! A socket of a server with what has been received from it.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Serving;
use super::filter::{Filter, Filters};
use super::handler::{Handler, ReplyTo};
use super::sessions::Client;
use crate::error::Error;
use crate::message::{Header, Malformed};
use crate::net::address::{Flow, Peer};
use crate::net::inbox::Inbox;
use crate::net::packets::PacketReader;
use crate::net::socket::{self, Socket};

/// A socket that messages come from.
#[derive(Debug)]
pub(super) struct Link<'a> {
    socket: Arc<Socket>,
    inbox: Inbox,
    packets: Option<PacketReader>,
    kind: Kind,
    /// What sees messages first, if the library shows them.
    filter: Option<(&'a Filters, Arc<Filter>)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Datagrams(ReplyTo),
    Connection(Client),
}

/// How a receive call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Something arrived.
    Bytes,
    /// Nothing did, for now.
    Nothing,
    /// The connection is over.
    Closed,
}

impl<'a> Link<'a> {
    /// A socket that receives the datagrams of these flows.
    pub(super) fn datagrams(
        socket: Socket,
        flows: &[Flow],
        serving: &'a Serving<'_>,
    ) -> Result<Self, Error> {
        let options = serving.options;
        let reply = match flows {
            [flow] if flow.is_group() && !options.unicast_reply => flow
                .address
                .inet()
                .map_or(ReplyTo::Sender, |address| ReplyTo::Group(address.ip())),
            _ => ReplyTo::Sender,
        };
        Self::new(
            socket,
            Kind::Datagrams(reply),
            serving,
            Inbox::for_datagrams,
        )
    }

    /// An accepted connection.
    pub(super) fn connection(
        socket: Socket,
        client: Client,
        serving: &'a Serving<'_>,
    ) -> Result<Self, Error> {
        let inbox = || Inbox::for_stream(serving.options.message_len_max);
        Self::new(socket, Kind::Connection(client), serving, inbox)
    }

    fn new(
        socket: Socket,
        kind: Kind,
        serving: &'a Serving<'_>,
        inbox: impl Fn() -> Inbox,
    ) -> Result<Self, Error> {
        let socket = Arc::new(socket);
        let filters = serving.filters.as_ref();
        let filter =
            filters.and_then(|filters| Some((filters, filters.watch(&socket, kind, inbox())?)));
        Ok(Self {
            socket,
            inbox: inbox(),
            packets: PacketReader::new(&serving.options.common)?,
            kind,
            filter,
        })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives once and handles the messages.
    #[inline]
    pub(super) fn receive(&mut self, handler: &mut Handler<'_>) -> Result<Received, Error> {
        if self.filter.as_ref().is_some_and(|(_, it)| it.is_over()) {
            return Ok(Received::Closed);
        }
        if self.packets.is_some() {
            return self.receive_packets(handler);
        }
        let (len, sender) = match self.socket.receive(self.inbox.space()) {
            Ok(received) => received,
            Err(error) => return self.kind.without_message(error),
        };
        self.inbox.filled(len);
        if self.kind.is_connection() && len == 0 {
            return Ok(Received::Closed);
        }
        let exchange = Exchange::new(&self.socket, self.kind, &sender);
        while let Some(next) = self.inbox.next() {
            if exchange.handle(handler, next).is_break() {
                return Ok(Received::Closed);
            }
        }
        Ok(Received::Bytes)
    }

    /// Handles what a ring has brought.
    pub(super) fn take(
        &mut self,
        handler: &mut Handler<'_>,
        part: &mut [u8],
        sender: &Peer,
    ) -> Received {
        let exchange = Exchange::new(&self.socket, self.kind, sender);
        let flow = self.inbox.pass(part, |next| exchange.handle(handler, next));
        match flow.is_break() && self.kind.is_connection() {
            true => Received::Closed,
            false => Received::Bytes,
        }
    }

    /// The same of messages that stay where the library has them.
    fn receive_packets(&mut self, handler: &mut Handler<'_>) -> Result<Received, Error> {
        let Some(packets) = &mut self.packets else {
            return Ok(Received::Nothing);
        };
        let (mut received, sender) = match packets.receive(&self.socket) {
            Ok(received) => received,
            Err(error) => return self.kind.without_message(error),
        };
        let is_end = self.kind.is_connection() && received.is_empty();
        let exchange = Exchange::new(&self.socket, self.kind, &sender);
        let mut flow = ControlFlow::Continue(());
        received.for_each_mut(|part| {
            if flow.is_continue() && !is_end {
                flow = self.inbox.pass(part, |next| exchange.handle(handler, next));
            }
        });
        // A datagram that is none costs nothing but itself.
        let is_over = flow.is_break() && self.kind.is_connection();
        match is_end || is_over {
            true => Ok(Received::Closed),
            false => Ok(Received::Bytes),
        }
    }
}

impl Drop for Link<'_> {
    /// The function has the socket, too.
    fn drop(&mut self) {
        if let Some((filters, filter)) = &self.filter {
            filters.end(filter);
        }
    }
}

impl Kind {
    pub(super) fn is_connection(self) -> bool {
        matches!(self, Self::Connection(_))
    }

    /// A call has ended without a message.
    fn without_message(self, error: io::Error) -> Result<Received, Error> {
        match self {
            _ if socket::is_idle(&error) => Ok(Received::Nothing),
            Self::Connection(_) => Ok(Received::Closed),
            Self::Datagrams(_) => Err(receive_error(error)),
        }
    }
}

/// What one call has received, and where answers go.
pub(super) struct Exchange<'a> {
    socket: &'a Socket,
    kind: Kind,
    client: Client,
    sender: &'a Peer,
    group: Option<Peer>,
}

impl<'a> Exchange<'a> {
    #[inline]
    pub(super) fn new(socket: &'a Socket, kind: Kind, sender: &'a Peer) -> Self {
        let (client, group) = match kind {
            Kind::Datagrams(reply) => (Client::of(sender), reply.peer(sender)),
            Kind::Connection(client) => (client, None),
        };
        Self {
            socket,
            kind,
            client,
            sender,
            group,
        }
    }

    /// Handles a message, or what is none. `Break`: the connection is over.
    #[inline]
    pub(super) fn handle(
        &self,
        handler: &mut Handler<'_>,
        next: Result<(Header, &mut [u8]), Malformed>,
    ) -> ControlFlow<()> {
        match (self.kind, next) {
            (Kind::Datagrams(_), Ok((header, message))) => {
                let peer = self.group.as_ref().unwrap_or(self.sender);
                let handled = handler.message(header, message, self.client, (self.socket, peer));
                handled.unwrap_or_else(|error| handler.reply_failed(error));
                ControlFlow::Continue(())
            }
            (Kind::Datagrams(_), Err(_)) => {
                handler.malformed_datagram();
                ControlFlow::Continue(())
            }
            (Kind::Connection(client), Ok((header, message))) => {
                let reply = (self.socket, &Peer::Connected);
                match handler.message(header, message, client, reply) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        handler.reply_failed(error);
                        ControlFlow::Break(())
                    }
                }
            }
            (Kind::Connection(client), Err(_)) => {
                handler.malformed_stream(client);
                ControlFlow::Break(())
            }
        }
    }
}

fn receive_error(error: io::Error) -> Error {
    Error::Transfer {
        what: "recvfrom() failed".to_owned(),
        source: error,
    }
}
