//! What a connection reports to its owner.

/// Something that happened. An event that is raised again before it was fetched is reported once,
/// so there is no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Event {
    /// The handshake is over. With a connection that was opened fast before that
    /// ([`Connection::open_fast`](crate::Connection::open_fast)) it is reported both times.
    Connected,
    /// There is more to read than there was (`SO_RCVLOWAT` reached), the announced urgent octet
    /// came, or the stream ended.
    Readable,
    /// There is room again for what the application writes
    /// ([`is_writable`](crate::Connection::is_writable)).
    Writable,
    /// Urgent data was announced (`SIGURG`).
    Urgent,
    /// The peer sent its FIN (`POLLRDHUP`).
    PeerClosed,
    /// The connection failed; the reason is
    /// [`Connection::take_error`](crate::Connection::take_error)'s.
    Failed,
    /// FIN-WAIT-2 was entered: the peer has everything, our FIN included. `close` need not linger
    /// any more (`SO_LINGER`), as when TIME-WAIT or CLOSED is entered.
    FinWait2,
    /// TIME-WAIT was entered: the owner may replace the connection by its compact form.
    TimeWait,
    /// CLOSED was reached; nothing will be sent or reported again.
    Closed,
}

impl Event {
    const ALL: [Self; 9] = [
        Self::Connected,
        Self::Readable,
        Self::Writable,
        Self::Urgent,
        Self::PeerClosed,
        Self::Failed,
        Self::FinWait2,
        Self::TimeWait,
        Self::Closed,
    ];

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The events not fetched yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events(u16);

impl Events {
    #[inline]
    pub(crate) fn raise(&mut self, event: Event) {
        self.0 |= event.bit();
    }

    /// The first in the order of [`Event`].
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Event> {
        if self.0 == 0 {
            return None;
        }
        let event = Event::ALL
            .into_iter()
            .find(|event| self.0 & event.bit() != 0)?;
        self.0 &= !event.bit();
        Some(event)
    }
}

/// Why a connection failed: `SO_ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// `ECONNREFUSED`: the SYN was answered with a reset.
    Refused,
    /// `ECONNRESET`.
    Reset,
    /// `EPIPE`: a reset after the peer's FIN.
    BrokenPipe,
    /// `ETIMEDOUT`: nothing was acknowledged for too long.
    TimedOut,
    /// `EHOSTUNREACH`, from ICMP.
    HostUnreachable,
    /// `ENETUNREACH`, from ICMP.
    NetUnreachable,
    /// `EPROTO`, from ICMP (parameter problem).
    Protocol,
    /// `EMSGSIZE`, from ICMP.
    MessageSize,
    /// `ENOPROTOOPT`, from ICMP (protocol unreachable).
    ProtocolUnreachable,
    /// `EACCES`, from ICMPv6 (communication prohibited, RFC 4443 §3.1).
    Prohibited,
    /// `ECONNABORTED`: this host has ended it
    /// ([`Connection::destroy`](crate::Connection::destroy)).
    Aborted,
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// `EAGAIN`: no room, or the handshake is not over; [`Event::Writable`] follows.
    WouldBlock,
    /// `EPIPE`: this side has sent its FIN, or the connection is over.
    BrokenPipe,
    /// The connection failed; fetches the error as
    /// [`Connection::take_error`](crate::Connection::take_error) does.
    Failed(Error),
}

/// Why nothing was read. The end of the stream is no error: zero octets are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// `EAGAIN`: nothing there; [`Event::Readable`] follows.
    WouldBlock,
    /// The connection failed; fetches the error as
    /// [`Connection::take_error`](crate::Connection::take_error) does.
    Failed(Error),
}

/// Why there is no urgent octet (`tcp_recv_urg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentError {
    /// `EINVAL`: none was announced, it was read already, or it is in the stream (`SO_OOBINLINE`).
    None,
    /// `EAGAIN`: announced but not received.
    NotReceived,
    /// Announced, and it will not come: the stream has ended or was shut down. No error to an
    /// application: zero octets are read.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_fetched_once_and_in_order() {
        let mut events = Events::default();
        events.raise(Event::Closed);
        events.raise(Event::Readable);
        events.raise(Event::Readable);
        assert_eq!(events.next(), Some(Event::Readable));
        assert_eq!(events.next(), Some(Event::Closed));
        assert_eq!(events.next(), None);
    }
}
