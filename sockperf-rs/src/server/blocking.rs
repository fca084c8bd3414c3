//! Sockets that are waited for in the receive call, each in a thread of its own.

use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::link::{Link, Received};
use super::sessions::Client;
use super::{
    CONNECTIONS_MAX, Handler, LONG_TICK, Serving, TICK, Totals, WAKE_UP_MSEC, hand_in, ticks,
};
use crate::error::Error;
use crate::net::mux::Mux;
use crate::net::open::{self, Listening, ListeningSocket};

/// Serves one socket until a stop is requested.
pub(super) fn serve(
    mut listening: Listening,
    serving: &Serving<'_>,
    totals: &Mutex<Totals>,
) -> Result<(), Error> {
    // The name of a Unix socket stays until the end.
    let Some((socket, listening)) = listening.take_socket() else {
        return Ok(());
    };
    match socket {
        ListeningSocket::Datagram(socket) => {
            let _ticks = ticks(serving, TICK)?;
            let mut link = Link::datagrams(socket, &listening.flows, serving)?;
            let mut handler = Handler::new(serving);
            while !serving.stop.is_requested() {
                link.receive(&mut handler)?;
            }
            drop(link);
            hand_in(handler, totals);
            Ok(())
        }
        ListeningSocket::Stream(socket) => accept_all(&socket, listening, serving, totals),
    }
}

fn accept_all(
    socket: &socket2::Socket,
    listening: &Listening,
    serving: &Serving<'_>,
    totals: &Mutex<Totals>,
) -> Result<(), Error> {
    let Some(flow) = listening.flows.first() else {
        return Ok(());
    };
    let connections = AtomicUsize::new(0);
    let connections = &connections;
    let mut handler = Handler::new(serving);
    let mut ready = Vec::new();
    thread::scope(|scope| {
        while !serving.stop.is_requested() {
            let sockets = [(0, socket.as_fd())];
            Mux::Poll
                .wait(sockets.into_iter(), WAKE_UP_MSEC, &mut ready)
                .map_err(|error| Error::setup("cannot wait for connections", error))?;
            // Ready or not: a connection that went away in the meantime does no harm.
            let Ok((accepted, address)) = socket.accept() else {
                continue;
            };
            if connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                crate::error::complain(format_args!(
                    "WARNING: closing a socket because there are {CONNECTIONS_MAX} already"
                ));
                continue;
            }
            let accepted = open::accepted(accepted, flow, (serving.options, serving.tls.as_ref()))?;
            handler.connected();
            connections.fetch_add(1, Ordering::Relaxed);
            scope.spawn(move || {
                let client = Client::connected(address.as_socket());
                let ticks = ticks(serving, LONG_TICK);
                let mut handler = Handler::new(serving);
                let link = Link::connection(accepted, client, serving);
                match (link, &ticks) {
                    (Ok(mut link), Ok(_)) => {
                        while !serving.stop.is_requested()
                            && link.receive(&mut handler).unwrap_or(Received::Closed)
                                != Received::Closed
                        {}
                    }
                    (Err(error), _) => closing(&error),
                    (_, Err(error)) => closing(error),
                }
                connections.fetch_sub(1, Ordering::Relaxed);
                hand_in(handler, totals);
            });
        }
        Ok(())
    })?;
    hand_in(handler, totals);
    Ok(())
}

fn closing(error: &Error) {
    crate::error::complain(format_args!("WARNING: closing a socket: {error}"));
}
