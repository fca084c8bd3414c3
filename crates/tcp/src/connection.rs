//! One connection.

use std::sync::Arc;

use wire::tcp::Header;

use crate::{
    Config, Ecn, Error, Event, IcmpError, Info, Instant, OptionError, Options, Path, Payload,
    ReadError, Secrets, SeqNumber, SocketOption, State, Transmit, UrgentError, WriteError,
};

/// A connection from its first SYN to CLOSED. How to drive one is in the [crate's documentation](crate).
#[derive(Debug)]
pub struct Connection<P> {
    config: Arc<Config>,
    options: Options,
    state: State,
    received: Vec<P>,
}

/// Which directions to end (`shutdown(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// What comes from the peer from here on is still acknowledged, and what is there can still be read (as Linux).
    Read,
    /// Everything written is sent, then FIN.
    Write,
    Both,
}

#[expect(
    unused_variables,
    reason = "the interface; the engine behind it follows"
)]
impl<P: Payload> Connection<P> {
    /// Active open: the SYN is what `poll_transmit` gives first.
    pub fn connect(
        now: Instant,
        config: Arc<Config>,
        options: Options,
        path: Path,
        secrets: Secrets,
    ) -> Self {
        unimplemented!()
    }

    /// Passive open by the received SYN: the SYN-ACK is what `poll_transmit` gives first. Everything else that arrives on
    /// the flow is for the connection, after [`Listener::admits`](crate::Listener::admits) while
    /// [`is_embryonic`](Self::is_embryonic).
    pub fn accept(
        now: Instant,
        config: Arc<Config>,
        options: Options,
        path: Path,
        secrets: Secrets,
        syn: &Header,
        ecn: Ecn,
    ) -> Self {
        unimplemented!()
    }

    /// A segment arrived. `payload` is its data, without padding; `None` if it has none. Checksum and addresses have been
    /// checked.
    pub fn on_segment(&mut self, now: Instant, header: &Header, ecn: Ecn, payload: Option<P>) {
        unimplemented!()
    }

    /// [`poll_timeout`](Self::poll_timeout)'s time has come; harmless before.
    pub fn on_timeout(&mut self, now: Instant) {
        unimplemented!()
    }

    /// An ICMP error about a segment of this connection arrived. `seq` is that of the quoted segment.
    pub fn on_icmp(&mut self, now: Instant, error: IcmpError, seq: SeqNumber) {
        unimplemented!()
    }

    /// Appends to the stream; returns how many octets had room. `more` is `MSG_MORE`.
    pub fn write(&mut self, now: Instant, data: &[u8], more: bool) -> Result<usize, WriteError> {
        unimplemented!()
    }

    /// As [`write`](Self::write), and the last octet taken is urgent (`MSG_OOB`).
    pub fn write_urgent(&mut self, now: Instant, data: &[u8]) -> Result<usize, WriteError> {
        unimplemented!()
    }

    /// Moves received octets into `buffer`; returns how many, 0 at the end of the stream (and for an empty `buffer`).
    ///
    /// Stops before urgent data, as Linux does.
    pub fn read(&mut self, now: Instant, buffer: &mut [u8]) -> Result<usize, ReadError> {
        unimplemented!()
    }

    /// Takes the next received data as it is in the device's memory; `None` at the end of the stream.
    pub fn read_payload(&mut self, now: Instant) -> Result<Option<P>, ReadError> {
        unimplemented!()
    }

    /// What [`read`](Self::read) would give, in pieces.
    pub fn peek(&self) -> impl Iterator<Item = &[u8]> {
        self.received.iter().map(AsRef::as_ref)
    }

    /// The urgent octet (`MSG_OOB`); `peek` leaves it there.
    pub fn read_urgent(&mut self, peek: bool) -> Result<u8, UrgentError> {
        unimplemented!()
    }

    /// Whether the next octet to read is the urgent mark (`SIOCATMARK`).
    pub fn is_at_mark(&self) -> bool {
        unimplemented!()
    }

    /// Ends directions. `false` if there is no connection (`ENOTCONN`).
    pub fn shutdown(&mut self, now: Instant, how: Shutdown) -> bool {
        unimplemented!()
    }

    /// The application lets go (`close(2)`): what was written is sent and acknowledged in the background; unread data
    /// resets the connection (RFC 2525 §2.17), as does `is_abortive` (`SO_LINGER` with zero).
    /// To be driven on until [`Event::Closed`] or [`Event::TimeWait`].
    pub fn close(&mut self, now: Instant, is_abortive: bool) {
        unimplemented!()
    }

    /// Changes an option.
    pub fn set_option(&mut self, now: Instant, option: SocketOption) -> Result<(), OptionError> {
        unimplemented!()
    }

    /// The options as they are.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The next segment to send, if there is one to be sent at `now`. Call until `false`.
    pub fn poll_transmit(&mut self, now: Instant, transmit: &mut Transmit) -> bool {
        unimplemented!()
    }

    /// The payload of a segment that the last [`poll_transmit`](Self::poll_transmit) gave, in up to two pieces.
    pub fn payload(&self, transmit: &Transmit) -> [&[u8]; 2] {
        unimplemented!()
    }

    /// When to call [`on_timeout`](Self::on_timeout), unless something else changes it before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        unimplemented!()
    }

    /// The next event. Call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        unimplemented!()
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Passive and before its handshake's last ACK: not in the accept queue yet.
    pub fn is_embryonic(&self) -> bool {
        unimplemented!()
    }

    /// A read would not block (`POLLIN`): `SO_RCVLOWAT` octets, the end of the stream, or an error.
    pub fn is_readable(&self) -> bool {
        unimplemented!()
    }

    /// A write would not block (`POLLOUT`), by Linux's measure: a third of the buffer is free and fewer than
    /// `TCP_NOTSENT_LOWAT` octets wait.
    pub fn is_writable(&self) -> bool {
        unimplemented!()
    }

    /// Octets that can be read (`SIOCINQ`).
    pub fn readable_len(&self) -> usize {
        unimplemented!()
    }

    /// Octets written but not acknowledged (`SIOCOUTQ`).
    pub fn unacknowledged_len(&self) -> usize {
        unimplemented!()
    }

    /// Octets written but never sent (`SIOCOUTQNSD`).
    pub fn unsent_len(&self) -> usize {
        unimplemented!()
    }

    /// Fetches and clears the error (`SO_ERROR`).
    pub fn take_error(&mut self) -> Option<Error> {
        unimplemented!()
    }

    /// `TCP_INFO`.
    pub fn info(&self, now: Instant) -> Info {
        unimplemented!()
    }
}
