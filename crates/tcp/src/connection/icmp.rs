//! ICMP errors (RFC 9293 §3.9.2.2, RFC 5927) and the segment size of the path (RFC 1191, RFC 4821).

use super::Connection;
use crate::{Error, IcmpError, Payload, SeqNumber, State};

impl<P: Payload> Connection<P> {
    /// An ICMP error about a segment of this connection arrived. `seq` is that of the quoted segment.
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
            IcmpError::ParameterProblem => Error::Protocol,
        };
        if self.is_embryonic() {
            // POSIX has no errors of networks for `accept`: as Linux (`tcp_req_err`), it is as if nobody had called.
            if seq == self.sender.iss
                && !matches!(reason, Error::Refused | Error::ProtocolUnreachable)
            {
                self.enter_closed();
            }
            return;
        }
        // RFC 9293 §3.9.2.2: soft errors must not abort a connection; RFC 5927 §4.2: hard ones neither, once it is
        // synchronized. While it is being opened Linux gives up on any.
        if self.state == State::SynSent || self.waits_for_accept() {
            self.fail(reason);
        } else {
            self.liveness.soft_error = Some(reason);
        }
    }

    /// RFC 1191 §6.4. The smallest that is believed is Linux's `min_pmtu`.
    fn on_packet_too_big(&mut self, mtu: u16) {
        let mtu = if mtu == 0 {
            MIN_PATH_MTU
        } else {
            mtu.max(MIN_PATH_MTU)
        };
        if mtu < self.path.mtu {
            self.path.mtu = mtu;
            self.apply_mss(true);
            self.repeat_syn_that_was_too_big();
        }
    }

    /// The network layer knows the path better: a route has changed, or a larger packet may be tried again.
    pub fn set_path_mtu(&mut self, mtu: u16) {
        let is_smaller = mtu < self.path.mtu;
        self.path.mtu = mtu.max(MIN_PATH_MTU);
        self.apply_mss(is_smaller);
    }

    /// With `is_too_big` what is outstanding did not fit and is sent again.
    fn apply_mss(&mut self, is_too_big: bool) {
        if self.state.is_synchronized() {
            self.recovery.set_mss(u32::from(self.mss()), is_too_big);
        }
    }

    /// RFC 4821 §7.7, RFC 2923 §2.1: large segments vanish without a word. As Linux (`tcp_mtu_probing`): try half of it.
    pub(super) fn suspect_black_hole(&mut self) {
        let headers = self.path.mtu.saturating_sub(self.path.mss());
        let smaller = (self.path.mss() / 2)
            .min(self.config.base_mss)
            .max(MIN_BLACK_HOLE_MSS);
        if smaller < self.path.mss() {
            self.path.mtu = smaller.saturating_add(headers);
            self.apply_mss(true);
        }
    }
}

/// `net.ipv4.route.min_pmtu`
const MIN_PATH_MTU: u16 = 552;
/// `tcp_min_snd_mss` and a little sense.
const MIN_BLACK_HOLE_MSS: u16 = 256;
