//! A client's receiving side: replies from all of its sockets.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use crate::client::flight::{Flight, Reply};
use crate::error::Error;
use crate::message::{Flags, Header, MAX_STREAM_LEN, MAX_UDP_LEN, Malformed};
use crate::net::inbox::Inbox;
use crate::net::mux::Mux;
use crate::net::open::Endpoint;
use crate::net::packets::PacketReader;
use crate::net::rings::{News, Rings};
use crate::net::socket;
use crate::options::{CommonOptions, Multiplexer};
use crate::sys::clock::Clock;

/// Replies by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Replies {
    /// Messages that were answered, in time or late.
    pub received: u64,
    /// Bytes of these messages.
    pub received_bytes: u64,
    /// Further replies to an answered message.
    pub duplicated: u64,
    /// Replies to messages that had been counted as dropped.
    pub late: u64,
    /// Replies with a sequence number that was never sent.
    pub unexpected: u64,
    /// Datagrams that are not whole messages.
    pub malformed: u64,
}

/// Receives from the sockets of a client.
#[derive(Debug)]
pub struct Receiver<'a> {
    endpoints: &'a [Endpoint],
    inboxes: Vec<Inbox>,
    packets: Option<PacketReader>,
    /// With where in `endpoints` a descriptor is.
    rings: Option<(Rings, HashMap<RawFd, usize>)>,
    mux: Option<Mux>,
    /// Longest wait in the multiplexer's call.
    wait_msec: i32,
    /// Receive calls on a socket that is ready; `None` is until it is empty.
    loops: Option<u32>,
    ready: Vec<usize>,
    malformed: u64,
}

/// How often a blocked call looks at the clock and the stop request.
const WAKE_UP_MSEC: i32 = 50;

impl<'a> Receiver<'a> {
    /// For all of `endpoints`.
    pub fn new(
        endpoints: &'a [Endpoint],
        message_len: usize,
        common: &CommonOptions,
    ) -> Result<Self, Error> {
        let len_max = message_len.clamp(MAX_UDP_LEN, MAX_STREAM_LEN);
        let mut mux = Mux::new(common.multiplexer)
            .map_err(|error| Error::setup("cannot make an epoll set", error))?;
        if let Some(mux) = &mut mux {
            for (number, endpoint) in endpoints.iter().enumerate() {
                mux.add(&endpoint.socket, number)
                    .map_err(|error| Error::setup("cannot wait for the sockets", error))?;
            }
        }
        let rings = match common.multiplexer {
            Multiplexer::SocketXtreme => Some(rings_of(endpoints)?),
            _ => None,
        };
        let inbox = |endpoint: &Endpoint| {
            if endpoint.socket.is_stream() {
                Inbox::for_stream(len_max)
            } else {
                Inbox::for_datagrams()
            }
        };
        let wait_msec = common.multiplexer_timeout_msec();
        Ok(Self {
            endpoints,
            inboxes: endpoints.iter().map(inbox).collect(),
            packets: PacketReader::new(common)?,
            rings,
            mux,
            wait_msec: if (0..WAKE_UP_MSEC).contains(&wait_msec) {
                wait_msec
            } else {
                WAKE_UP_MSEC
            },
            loops: common.receive_loops,
            ready: Vec::with_capacity(endpoints.len()),
            malformed: 0,
        })
    }

    /// Datagrams that were not whole messages.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Receives what there is, or waits for it: on `preferred`, if sockets are waited for in the
    /// receive call. `take` gets every message that a server sent, with the time of its arrival.
    /// Returns the time of the last arrival; `None` if nothing came.
    #[inline]
    pub fn receive(
        &mut self,
        preferred: usize,
        clock: &Clock,
        take: &mut impl FnMut(u64, Header, &[u8]) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        if self.rings.is_some() {
            return self.receive_by_rings(clock, take);
        }
        let Some(mux) = &mut self.mux else {
            return self.receive_from(preferred, clock, take);
        };
        let sockets = self.endpoints.iter().map(|it| it.socket.as_fd());
        mux.wait(sockets.enumerate(), self.wait_msec, &mut self.ready)
            .map_err(|error| Error::Transfer {
                what: "waiting for replies failed".to_owned(),
                source: error,
            })?;
        let mut last = None;
        let ready = std::mem::take(&mut self.ready);
        for &number in &ready {
            let mut calls = 0;
            while let Some(now_nsec) = self.receive_from(number, clock, take)? {
                last = Some(now_nsec);
                calls += 1;
                if Some(calls) == self.loops {
                    break;
                }
            }
        }
        self.ready = ready;
        Ok(last)
    }

    #[inline]
    fn receive_from(
        &mut self,
        number: usize,
        clock: &Clock,
        take: &mut impl FnMut(u64, Header, &[u8]) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        let (Some(endpoint), Some(inbox)) =
            (self.endpoints.get(number), self.inboxes.get_mut(number))
        else {
            return Ok(None);
        };
        if let Some(packets) = &mut self.packets {
            let mut received = match packets.receive(&endpoint.socket) {
                Ok((received, _)) if received.is_empty() && endpoint.socket.is_stream() => {
                    return Err(socket::closed_by(&endpoint.flow.address));
                }
                Ok((received, _)) => received,
                Err(error) => return without_message(endpoint, error),
            };
            let now_nsec = clock.now_nsec();
            let mut arrival = Arrival {
                endpoint,
                now_nsec,
                malformed: &mut self.malformed,
            };
            let mut result = Ok(());
            received.for_each_mut(|part| {
                if result.is_ok() {
                    result = arrival.pass(inbox, part, take);
                }
            });
            return result.map(|()| Some(now_nsec));
        }
        let len = match endpoint.socket.receive(inbox.space()) {
            Ok((0, _)) if endpoint.socket.is_stream() => {
                return Err(socket::closed_by(&endpoint.flow.address));
            }
            Ok((len, _)) => len,
            Err(error) => return without_message(endpoint, error),
        };
        let now_nsec = clock.now_nsec();
        inbox.filled(len);
        let mut arrival = Arrival {
            endpoint,
            now_nsec,
            malformed: &mut self.malformed,
        };
        while let Some(next) = inbox.next() {
            arrival.handle(next, take)?;
        }
        Ok(Some(now_nsec))
    }

    /// Takes what the rings have.
    fn receive_by_rings(
        &mut self,
        clock: &Clock,
        take: &mut impl FnMut(u64, Header, &[u8]) -> Result<(), Error>,
    ) -> Result<Option<u64>, Error> {
        let Some((rings, places)) = &mut self.rings else {
            return Ok(None);
        };
        let (mut last, mut result) = (None, Ok(()));
        rings.poll(|news| {
            let (News::Message(fd, ..) | News::End(fd) | News::Accepted(fd, _)) = &news;
            let place = places.get(fd).copied().unwrap_or(usize::MAX);
            let (Some(endpoint), Some(inbox), Ok(())) = (
                self.endpoints.get(place),
                self.inboxes.get_mut(place),
                &result,
            ) else {
                return;
            };
            match news {
                News::Message(_, part, _) => {
                    let now_nsec = clock.now_nsec();
                    last = Some(now_nsec);
                    let mut arrival = Arrival {
                        endpoint,
                        now_nsec,
                        malformed: &mut self.malformed,
                    };
                    result = arrival.pass(inbox, part, take);
                }
                News::End(_) => result = Err(socket::closed_by(&endpoint.flow.address)),
                News::Accepted(..) => {}
            }
        })?;
        result.map(|()| last)
    }
}

/// What has come to a socket.
struct Arrival<'a> {
    endpoint: &'a Endpoint,
    now_nsec: u64,
    malformed: &'a mut u64,
}

impl Arrival<'_> {
    /// Handles the messages of bytes that lie elsewhere.
    fn pass(
        &mut self,
        inbox: &mut Inbox,
        part: &mut [u8],
        take: &mut impl FnMut(u64, Header, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        let _ = inbox.pass(part, |next| {
            result = self.handle(next, take);
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        result
    }

    /// Handles a message, or what is none.
    #[inline]
    fn handle(
        &mut self,
        next: Result<(Header, &mut [u8]), Malformed>,
        take: &mut impl FnMut(u64, Header, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match next {
            // A message of a client is a stray one; warm-up messages are not answered.
            Ok((header, message)) => {
                match !header.flags.has(Flags::CLIENT) && !header.flags.has(Flags::WARM_UP) {
                    true => take(self.now_nsec, header, message),
                    false => Ok(()),
                }
            }
            Err(_) if self.endpoint.socket.is_stream() => Err(Error::Protocol(format!(
                "Message received was larger than expected, or is none: {}",
                self.endpoint.flow.address
            ))),
            Err(_) => {
                *self.malformed += 1;
                Ok(())
            }
        }
    }
}

/// The rings of all sockets, and where each of these is in `endpoints`.
fn rings_of(endpoints: &[Endpoint]) -> Result<(Rings, HashMap<RawFd, usize>), Error> {
    let mut rings = Rings::new()?;
    let mut places = HashMap::new();
    for (place, endpoint) in endpoints.iter().enumerate() {
        rings.add(&endpoint.socket)?;
        places.insert(endpoint.socket.as_fd().as_raw_fd(), place);
    }
    Ok((rings, places))
}

/// A receive call has ended without a message.
fn without_message(endpoint: &Endpoint, error: io::Error) -> Result<Option<u64>, Error> {
    if error.kind() == io::ErrorKind::ConnectionReset {
        return Err(socket::closed_by(&endpoint.flow.address));
    }
    if socket::is_idle(&error) {
        return Ok(None);
    }
    Err(Error::Transfer {
        what: "recvfrom() failed".to_owned(),
        source: error,
    })
}

impl Replies {
    /// Adds what another thread received.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.duplicated += other.duplicated;
        self.late += other.late;
        self.unexpected += other.unexpected;
        self.malformed += other.malformed;
    }

    /// Notes the arrival of a reply; returns whether it is the first one to a message under way.
    #[inline]
    pub fn take(&mut self, flight: &mut Flight, header: Header, now_nsec: u64) -> bool {
        match flight.receive(header.sequence, now_nsec) {
            Reply::InTime => {
                self.received += 1;
                self.received_bytes += u64::from(header.len);
                return true;
            }
            Reply::Late => {
                self.received += 1;
                self.received_bytes += u64::from(header.len);
                self.late += 1;
            }
            Reply::Duplicate => self.duplicated += 1,
            Reply::Unexpected => self.unexpected += 1,
        }
        false
    }
}
