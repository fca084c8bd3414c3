//! A socket of a server with what has been received from it.

use std::io;

use super::handler::{Handler, ReplyTo};
use super::sessions::Client;
use crate::error::Error;
use crate::net::address::{Flow, Peer};
use crate::net::inbox::Inbox;
use crate::net::socket::{self, Socket};
use crate::options::ServerOptions;

/// A socket that messages come from.
#[derive(Debug)]
pub(super) struct Link {
    socket: Socket,
    inbox: Inbox,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
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

impl Link {
    /// A socket that receives the datagrams of these flows.
    pub(super) fn datagrams(socket: Socket, flows: &[Flow], options: &ServerOptions) -> Self {
        let reply = match flows {
            [flow] if flow.is_group() && !options.unicast_reply => flow
                .address
                .inet()
                .map_or(ReplyTo::Sender, |address| ReplyTo::Group(address.ip())),
            _ => ReplyTo::Sender,
        };
        Self {
            socket,
            inbox: Inbox::for_datagrams(),
            kind: Kind::Datagrams(reply),
        }
    }

    /// An accepted connection.
    pub(super) fn connection(socket: Socket, client: Client, options: &ServerOptions) -> Self {
        Self {
            socket,
            inbox: Inbox::for_stream(options.message_len_max),
            kind: Kind::Connection(client),
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives once and handles the messages.
    #[inline]
    pub(super) fn receive(&mut self, handler: &mut Handler<'_>) -> Result<Received, Error> {
        let (len, sender) = match self.socket.receive(self.inbox.space()) {
            Ok(received) => received,
            Err(error) if socket::is_idle(&error) => return Ok(Received::Nothing),
            Err(error) => match self.kind {
                Kind::Connection(_) => return Ok(Received::Closed),
                Kind::Datagrams(_) => return Err(receive_error(error)),
            },
        };
        self.inbox.filled(len);
        match self.kind {
            Kind::Datagrams(reply) => {
                let client = Client::of(&sender);
                let group = reply.peer(&sender);
                let peer = group.as_ref().unwrap_or(&sender);
                while let Some(next) = self.inbox.next() {
                    let Ok((header, message)) = next else {
                        handler.malformed_datagram();
                        continue;
                    };
                    let handled = handler.message(header, message, client, (&self.socket, peer));
                    handled.unwrap_or_else(|error| handler.reply_failed(error));
                }
            }
            Kind::Connection(_) if len == 0 => return Ok(Received::Closed),
            Kind::Connection(client) => {
                while let Some(next) = self.inbox.next() {
                    let Ok((header, message)) = next else {
                        handler.malformed_stream(client);
                        return Ok(Received::Closed);
                    };
                    let reply = (&self.socket, &Peer::Connected);
                    if let Err(error) = handler.message(header, message, client, reply) {
                        handler.reply_failed(error);
                        return Ok(Received::Closed);
                    }
                }
            }
        }
        Ok(Received::Bytes)
    }
}

fn receive_error(error: io::Error) -> Error {
    Error::Transfer {
        what: "recvfrom() failed".to_owned(),
        source: error,
    }
}
