//! Opening without memory: SYN cookies (RFC 4987 §3.6).

use core::net::SocketAddr;
use core::time::Duration;

use wire::tcp::{Flags, Header, Options as HeaderOptions, Timestamps};

use super::Listener;
use crate::receive::window::ReceiveWindow;
use crate::syn_cookie::{self, CookieOptions};
use crate::timestamp::{self, TIMESTAMPS_LEN};
use crate::{
    Connection, EcnMode, Instant, Options, Path, Payload, SecretKey, Secrets, SeqNumber, Transmit,
};

/// A flow, and the stack's key that makes its numbers secret.
#[derive(Clone, Copy, Debug)]
pub struct SecretFlow<'a> {
    pub key: &'a SecretKey,
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// Why an ACK opens no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieError {
    /// It brings no cookie of the last two minutes back; the answer is a reset.
    Invalid,
    /// There is no room in the accept queue; nothing is answered, and the peer will try again.
    QueueFull,
}

impl Listener {
    /// The SYN-ACK for a SYN of which nothing is kept. `options` are those that the connection
    /// would have.
    pub fn answer_with_cookie(
        &self,
        now: Instant,
        flow: &SecretFlow<'_>,
        path: &Path,
        options: &Options,
        syn: &Header,
        transmit: &mut Transmit,
    ) {
        let seq = SeqNumber(syn.seq);
        let offered = &syn.options;
        let peer_mss = offered.mss.unwrap_or_else(|| path.default_mss());
        let cookie = syn_cookie::issue(flow.key, flow.local, flow.remote, seq, peer_mss, now);
        // Without timestamps there is no room for the other options.
        let timestamps = offered.timestamps.filter(|_| self.config.timestamps);
        let agreed = CookieOptions {
            window_scale: offered
                .window_scale
                .filter(|_| self.config.window_scaling && timestamps.is_some()),
            sack: self.config.sack && offered.sack_permitted && timestamps.is_some(),
            ecn: self.config.ecn != EcnMode::Off
                && syn.flags.contains(Flags::ECE | Flags::CWR)
                && timestamps.is_some(),
        };
        let options_len = timestamps.map_or(0, |_| TIMESTAMPS_LEN);
        let mut window = self.window(path.mss().saturating_sub(options_len), options);
        let ecn = if agreed.ecn { Flags::ECE } else { Flags::NONE };
        *transmit = Transmit {
            header: Header {
                seq: cookie.0,
                ack: (seq + 1).0,
                flags: Flags::SYN | Flags::ACK | ecn,
                window: window.advertise_in_syn(seq + 1),
                urgent: 0,
                options: HeaderOptions {
                    mss: Some(path.mss()),
                    window_scale: agreed.window_scale.map(|_| window.scale()),
                    sack_permitted: agreed.sack,
                    timestamps: timestamps.map(|theirs| Timestamps {
                        value: syn_cookie::timestamp_with(&agreed, Self::clock(now, flow)),
                        echo: theirs.value,
                    }),
                    ..HeaderOptions::default()
                },
            },
            start: cookie,
            ..Transmit::default()
        };
    }

    /// The connection of an ACK that brings a cookie back. It is embryonic and counted as
    /// half-open: the ACK itself is its first segment.
    ///
    /// # Errors
    /// See [`CookieError`].
    pub fn accept_cookie<P: Payload>(
        &mut self,
        now: Instant,
        flow: &SecretFlow<'_>,
        path: Path,
        options: Options,
        ack: &Header,
    ) -> Result<Connection<P>, CookieError> {
        // As Linux (`tcp_synq_no_recent_overflow`): guessing is in vain while none were issued.
        let is_recent = self.last_cookie_at.is_some_and(|at| now - at < COOKIE_LIFE);
        let is_plain =
            ack.flags.contains(Flags::ACK) && !ack.flags.intersects(Flags::RST | Flags::SYN);
        if !is_recent || !is_plain {
            return Err(CookieError::Invalid);
        }
        let cookie = SeqNumber(ack.ack) - 1;
        let seq = SeqNumber(ack.seq) - 1;
        let peer_mss = syn_cookie::verify(flow.key, flow.local, flow.remote, seq, cookie, now)
            .ok_or(CookieError::Invalid)?;
        if self.is_accept_queue_full() {
            self.overflow_count = self.overflow_count.saturating_add(1);
            return Err(CookieError::QueueFull);
        }
        let timestamps = ack.options.timestamps.filter(|_| self.config.timestamps);
        let agreed = timestamps.map(|timestamps| syn_cookie::options_from(timestamps.echo));
        let has_ecn = agreed.is_some_and(|agreed| agreed.ecn);
        let syn = Header {
            seq: seq.0,
            ack: 0,
            flags: if has_ecn {
                Flags::SYN | Flags::ECE | Flags::CWR
            } else {
                Flags::SYN
            },
            window: ack.window,
            urgent: 0,
            options: HeaderOptions {
                mss: Some(peer_mss),
                window_scale: agreed.and_then(|agreed| agreed.window_scale),
                sack_permitted: agreed.is_some_and(|agreed| agreed.sack),
                timestamps,
                ..HeaderOptions::default()
            },
        };
        let secrets = Secrets {
            iss: cookie,
            ..flow.key.secrets(flow.local, flow.remote, now)
        };
        self.half_open_count = self.half_open_count.saturating_add(1);
        Ok(Connection::resume(
            now,
            self.config.clone(),
            options,
            path,
            secrets,
            &syn,
        ))
    }

    /// The window that a connection would begin with.
    fn window(&self, mss: u16, options: &Options) -> ReceiveWindow {
        let options = options.clone().with_defaults(&self.config);
        ReceiveWindow::new(&options, mss, &self.config)
    }

    /// The `TSval` that the connection will have.
    fn clock(now: Instant, flow: &SecretFlow<'_>) -> u32 {
        let secrets = flow.key.secrets(flow.local, flow.remote, now);
        timestamp::value_at(now, secrets.timestamp_offset)
    }
}

/// How long a cookie is good, and guessed ones are looked at.
const COOKIE_LIFE: Duration = Duration::from_secs(120);
