//! A connection whose peer is played, and payloads as a driver has them; shared by benchmarks.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use tcp::{
    Config, Connection, Ecn, Flags, Header, Instant, Options, Path, Payload, Secrets, SeqNumber,
    Transmit,
};
use wire::tcp::{Options as HeaderOptions, Timestamps};

/// A handle on octets that are somewhere else, as in the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    start: u16,
    len: u16,
}

pub(crate) static MEMORY: [u8; 2048] = [0x5a; 2048];

impl Frame {
    pub(crate) fn new(len: u16) -> Self {
        Self { start: 100, len }
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &MEMORY[usize::from(self.start)..usize::from(self.start) + usize::from(self.len)]
    }
}

impl Payload for Frame {
    fn trim_front(&mut self, count: usize) {
        let count = u16::try_from(count).unwrap().min(self.len);
        self.start += count;
        self.len -= count;
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u16::try_from(len).unwrap());
    }

    fn footprint(&self) -> usize {
        2048
    }

    fn try_append(&mut self, _octets: &[u8]) -> bool {
        false
    }
}

pub(crate) const ISS: SeqNumber = SeqNumber(1000);
pub(crate) const IRS: u32 = 5000;

/// An active open with all options of Linux; what it sends is SYN.
pub(crate) fn connecting(now: Instant, config: Arc<Config>, options: Options) -> Connection<Frame> {
    let secrets = Secrets {
        iss: ISS,
        timestamp_offset: 0,
    };
    Connection::connect(now, config, options, Path::ipv4(1500), secrets)
}

/// The peer's answer to [`connecting`]'s SYN.
pub(crate) fn syn_ack() -> Header {
    Header {
        seq: IRS,
        ack: ISS.0 + 1,
        flags: Flags::SYN | Flags::ACK,
        window: 65_535,
        urgent: 0,
        options: HeaderOptions {
            mss: Some(1460),
            window_scale: Some(14),
            sack_permitted: true,
            timestamps: Some(TIMESTAMPS),
            ..HeaderOptions::default()
        },
    }
}

/// The peer's first segment after the handshake; the others count from it.
pub(crate) fn first_segment() -> Header {
    Header {
        seq: IRS + 1,
        flags: Flags::ACK,
        options: HeaderOptions {
            timestamps: Some(TIMESTAMPS),
            ..HeaderOptions::default()
        },
        ..syn_ack()
    }
}

const TIMESTAMPS: Timestamps = Timestamps {
    value: 1,
    echo: 1000,
};

/// Sends everything that can be sent and fetches everything that there is to know, as a driver
/// does; the number of segments.
#[inline]
pub(crate) fn poll(
    connection: &mut Connection<Frame>,
    now: Instant,
    transmit: &mut Transmit,
    mut sent: impl FnMut(&Transmit),
) -> u32 {
    let mut count = 0;
    while connection.poll_transmit(now, transmit) {
        sent(black_box(transmit));
        count += 1;
    }
    while connection.poll_event().is_some() {}
    black_box(connection.poll_timeout());
    count
}

/// An established connection.
pub(crate) fn established(
    now: Instant,
    config: Arc<Config>,
    options: Options,
) -> Connection<Frame> {
    let mut connection = connecting(now, config, options);
    let mut transmit = Transmit::default();
    assert_eq!(poll(&mut connection, now, &mut transmit, |_| {}), 1);
    let answered_at = now + Duration::from_micros(20);
    connection.on_segment(answered_at, &syn_ack(), Ecn::NotEct, None);
    assert_eq!(poll(&mut connection, answered_at, &mut transmit, |_| {}), 1);
    connection
}
