//! Sockets that share a thread, which polls the library's rings (`-F socketxtreme`).

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Mutex;

use super::link::{Link, Received};
use super::sessions::Client;
use super::{CONNECTIONS_MAX, Handler, Serving, Totals, hand_in};
use crate::error::Error;
use crate::net::address::{Flow, Peer};
use crate::net::open::{self, Listening, ListeningSocket};
use crate::net::rings::{News, Rings};
use crate::sys::raw_option::owned;

/// The sockets of a thread, by descriptor.
struct Sockets<'a> {
    links: HashMap<RawFd, Link<'a>>,
    listeners: HashMap<RawFd, (socket2::Socket, Flow)>,
}

/// Serves these sockets and their connections until a stop is requested.
pub(super) fn serve(
    mut sockets: Vec<Listening>,
    serving: &Serving<'_>,
    totals: &Mutex<Totals>,
) -> Result<(), Error> {
    let mut rings = Rings::new()?;
    let mut all = Sockets {
        links: HashMap::new(),
        listeners: HashMap::new(),
    };
    for listening in &mut sockets {
        let Some((socket, listening)) = listening.take_socket() else {
            continue;
        };
        match (socket, listening.flows.first()) {
            (ListeningSocket::Datagram(socket), _) => {
                rings.add(&socket)?;
                let link = Link::datagrams(socket, &listening.flows, serving)?;
                all.links.insert(link.socket().as_fd().as_raw_fd(), link);
            }
            (ListeningSocket::Stream(socket), Some(flow)) => {
                rings.add(&socket)?;
                all.listeners
                    .insert(socket.as_raw_fd(), (socket, flow.clone()));
            }
            (ListeningSocket::Stream(_), None) => {}
        }
    }
    let mut handler = Handler::new(serving);
    let mut result = Ok(());
    while !serving.stop.is_requested() && result.is_ok() {
        rings.poll(|news| match news {
            News::Message(fd, part, sender) => all.take(fd, part, &sender, &mut handler),
            News::End(fd) => drop(all.links.remove(&fd)),
            News::Accepted(fd, listener) => {
                let accepted = all.accept(fd, listener, &mut handler, serving);
                if let Err(error) = accepted
                    && result.is_ok()
                {
                    result = Err(error);
                }
            }
        })?;
    }
    hand_in(handler, totals);
    result
}

impl<'a> Sockets<'a> {
    fn take(&mut self, fd: RawFd, part: &mut [u8], sender: &Peer, handler: &mut Handler<'_>) {
        let Some(link) = self.links.get_mut(&fd) else {
            return;
        };
        if link.take(handler, part, sender) == Received::Closed {
            self.links.remove(&fd);
        }
    }

    /// The ring has accepted a connection.
    fn accept(
        &mut self,
        fd: RawFd,
        listener: RawFd,
        handler: &mut Handler<'_>,
        serving: &'a Serving<'_>,
    ) -> Result<(), Error> {
        let socket = socket2::Socket::from(owned(fd));
        let Some((_, flow)) = self.listeners.get(&listener) else {
            return Ok(());
        };
        if self.links.len() >= CONNECTIONS_MAX {
            crate::error::complain(format_args!(
                "WARNING: closing a socket because there are {CONNECTIONS_MAX} already"
            ));
            return Ok(());
        }
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        let socket = open::accepted(socket, flow, (serving.options, serving.tls.as_ref()))?;
        handler.connected();
        let link = Link::connection(socket, Client::connected(peer), serving)?;
        self.links.insert(fd, link);
        Ok(())
    }
}
