//! ICMP errors (RFC 9293 §3.9.2.2, RFC 5927).

use super::Connection;
use crate::{Error, Event, IcmpError, Payload, SeqNumber, State};

impl<P: Payload> Connection<P> {
    /// An ICMP error about a segment of this connection arrived. `seq` is that of the quoted
    /// segment.
    pub fn on_icmp(&mut self, error: IcmpError, seq: SeqNumber) {
        // RFC 5927 §4.1: an attacker has to guess a number that is outstanding.
        let is_outstanding = self.sender.snd_una <= seq && seq < self.sender.snd_nxt;
        if self.state == State::Closed || self.state == State::TimeWait || !is_outstanding {
            return;
        }
        let reason = match error {
            IcmpError::PacketTooBig { mtu } => {
                self.on_packet_too_big(mtu);
                return;
            }
            IcmpError::NetUnreachable => Error::NetUnreachable,
            IcmpError::HostUnreachable | IcmpError::TimeExceeded => Error::HostUnreachable,
            IcmpError::ProtocolUnreachable => Error::ProtocolUnreachable,
            IcmpError::PortUnreachable => Error::Refused,
            IcmpError::Prohibited => Error::Prohibited,
            IcmpError::ParameterProblem => Error::Protocol,
        };
        if self.is_embryonic() {
            // The application does not know of the connection, and POSIX has no such error for
            // `accept`: as Linux (`tcp_req_err`), drop it silently: of IPv4 what is unreachable, of
            // IPv6 what is final (`icmpv6_err_convert`).
            let is_dropped = if self.cold.path.is_ipv6() {
                matches!(reason, Error::Refused | Error::Prohibited | Error::Protocol)
            } else {
                !matches!(reason, Error::Refused | Error::ProtocolUnreachable)
            };
            if seq == self.cold.handshake.iss && is_dropped {
                self.enter_closed();
            }
            return;
        }
        // RFC 9293 §3.9.2.2: soft errors must not abort a connection; RFC 5927 §5.2: hard ones
        // neither, once it is synchronized. While it is being opened Linux gives up on any.
        if self.state == State::SynSent || self.waits_for_accept() {
            self.fail(reason);
        } else if self.reports_errors() {
            self.error = Some(reason);
            self.events.raise(Event::Failed);
        } else {
            self.cold.soft_error = Some(reason);
        }
    }

    /// The application has asked to be told at once.
    fn reports_errors(&self) -> bool {
        let options = &self.cold.options;
        if self.cold.path.is_ipv6() {
            options.reports_errors_of_ipv6
        } else {
            options.reports_errors
        }
    }
}
