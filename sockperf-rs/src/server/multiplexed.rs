//! Sockets that share a thread: select, poll or epoll tells which are ready.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use super::link::{Link, Received};
use super::sessions::Client;
use super::{CONNECTIONS_MAX, Handler, LONG_TICK, Serving, Totals, WAKE_UP_MSEC, hand_in, ticks};
use crate::error::Error;
use crate::net::address::Flow;
use crate::net::mux::Mux;
use crate::net::open::{self, Listening, ListeningSocket};

enum Entry<'a> {
    Link(Link<'a>),
    Listener(socket2::Socket, Flow),
}

impl Entry<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Link(link) => link.socket().as_fd(),
            Self::Listener(socket, _) => socket.as_fd(),
        }
    }
}

/// The sockets of a thread, by number; a closed connection leaves its number to the next one.
struct Entries<'a> {
    mux: Mux,
    entries: Vec<Option<Entry<'a>>>,
    free: Vec<usize>,
}

/// Serves these sockets and their connections until a stop is requested.
pub(super) fn serve(
    mut sockets: Vec<Listening>,
    serving: &Serving<'_>,
    totals: &Mutex<Totals>,
) -> Result<(), Error> {
    let common = &serving.options.common;
    let Some(mux) = Mux::new(common.multiplexer).map_err(cannot_wait)? else {
        return Ok(());
    };
    let mut entries = Entries {
        mux,
        entries: Vec::new(),
        free: Vec::new(),
    };
    for listening in &mut sockets {
        let Some((socket, listening)) = listening.take_socket() else {
            continue;
        };
        let entry = match socket {
            ListeningSocket::Datagram(socket) => {
                Entry::Link(Link::datagrams(socket, &listening.flows, serving)?)
            }
            ListeningSocket::Stream(socket) => match listening.flows.first() {
                Some(flow) => Entry::Listener(socket, flow.clone()),
                None => continue,
            },
        };
        entries.add(entry)?;
    }
    // A socket that is ready may block all the same, and so may an answer.
    let _ticks = ticks(serving, LONG_TICK)?;
    let mut handler = Handler::new(serving);
    let wait_msec = match common.multiplexer_timeout_msec() {
        msec @ 0..WAKE_UP_MSEC => msec,
        _ => WAKE_UP_MSEC,
    };
    let mut ready = Vec::new();
    while !serving.stop.is_requested() {
        entries.wait(wait_msec, &mut ready)?;
        for &number in &ready {
            entries.serve(number, &mut handler, serving)?;
        }
    }
    hand_in(handler, totals);
    Ok(())
}

impl<'a> Entries<'a> {
    fn add(&mut self, entry: Entry<'a>) -> Result<(), Error> {
        let number = self.free.pop().unwrap_or(self.entries.len());
        self.mux.add(entry.as_fd(), number).map_err(cannot_wait)?;
        if number == self.entries.len() {
            self.entries.push(Some(entry));
        } else if let Some(place) = self.entries.get_mut(number) {
            *place = Some(entry);
        }
        Ok(())
    }

    fn wait(&mut self, msec: i32, ready: &mut Vec<usize>) -> Result<(), Error> {
        let sockets = self.entries.iter().enumerate();
        let sockets = sockets.filter_map(|(number, it)| Some((number, it.as_ref()?.as_fd())));
        self.mux.wait(sockets, msec, ready).map_err(cannot_wait)
    }

    fn serve(
        &mut self,
        number: usize,
        handler: &mut Handler<'_>,
        serving: &'a Serving<'_>,
    ) -> Result<(), Error> {
        let Some(place) = self.entries.get_mut(number) else {
            return Ok(());
        };
        match place {
            None => Ok(()),
            Some(Entry::Link(link)) => {
                let mut calls = 0;
                let received = loop {
                    let received = link.receive(handler)?;
                    calls += 1;
                    let is_enough = Some(calls) == serving.options.common.receive_loops;
                    if received != Received::Bytes || is_enough || serving.stop.is_requested() {
                        break received;
                    }
                };
                if received == Received::Closed
                    && let Some(entry) = place.take()
                {
                    self.mux.remove(entry.as_fd()).map_err(cannot_wait)?;
                    self.free.push(number);
                }
                Ok(())
            }
            Some(Entry::Listener(socket, flow)) => {
                // A connection that went away in the meantime does no harm.
                let Ok((accepted, address)) = socket.accept() else {
                    return Ok(());
                };
                let accepted =
                    open::accepted(accepted, flow, (serving.options, serving.tls.as_ref()))?;
                if self.entries.len() - self.free.len() >= CONNECTIONS_MAX {
                    crate::error::complain(format_args!(
                        "WARNING: closing a socket because there are {CONNECTIONS_MAX} already"
                    ));
                    return Ok(());
                }
                handler.connected();
                let client = Client::connected(address.as_socket());
                let link = Link::connection(accepted, client, serving)?;
                self.add(Entry::Link(link))
            }
        }
    }
}

fn cannot_wait(error: std::io::Error) -> Error {
    Error::setup("cannot wait for the sockets", error)
}
