//! One connection with its peer played by the test ([`Solo`]), or two connections joined
//! ([`Pair`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use wire::tcp::{Flags, Header, Options as HeaderOptions, SackBlock, Timestamps};

use crate::{
    Config, Connection, Ecn, Event, Instant, Options, Path, Secrets, SeqNumber, SocketOption,
    State, Transmit,
};

pub(super) type Conn = Connection<Vec<u8>>;

/// Our initial sequence number, and the peer's: both wrap soon.
pub(super) const ISS: u32 = u32::MAX - 1000;
pub(super) const IRS: u32 = u32::MAX - 5;
pub(super) const MTU: u16 = 1500;

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn secrets(iss: u32) -> Secrets {
    Secrets {
        iss: SeqNumber(iss),
        timestamp_offset: 1000,
    }
}

/// A segment that went out, as a value to compare.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: HeaderOptions,
    pub(super) payload: Vec<u8>,
    pub(super) ecn: Ecn,
}

pub(super) fn poll(connection: &mut Conn, now: Instant) -> Vec<Sent> {
    let mut transmit = Transmit::default();
    let mut sent = Vec::new();
    while connection.poll_transmit(now, &mut transmit) {
        let payload: Vec<u8> = connection.payload(&transmit).flatten().copied().collect();
        assert_eq!(payload.len(), transmit.payload_len as usize);
        let header = transmit.header;
        sent.push(Sent {
            seq: header.seq,
            ack: header.ack,
            flags: header.flags,
            window: header.window,
            urgent: header.urgent,
            options: header.options,
            payload,
            ecn: transmit.ecn,
        });
        assert!(sent.len() < 10_000, "it never stops sending");
        connection.check_invariants();
    }
    sent
}

/// A connection whose peer is the test. Sequence numbers in both directions count from the SYNs: 0
/// is the SYN, 1 the first octet.
pub(super) struct Solo {
    pub(super) connection: Conn,
    pub(super) now: Instant,
    /// The window field of the peer's segments.
    pub(super) window: u16,
    /// The peer's timestamps, if it has them.
    pub(super) timestamps: Option<Timestamps>,
}

impl Solo {
    pub(super) fn connecting(config: Config, options: Options) -> Self {
        let now = Instant::ZERO + ms(100_000);
        Self {
            connection: Conn::connect(
                now,
                Arc::new(config),
                options,
                Path::ipv4(MTU),
                secrets(ISS),
            ),
            now,
            window: 65_535,
            timestamps: None,
        }
    }

    /// ESTABLISHED, with a round trip of 20 ms known and segments 1001, 2001 and 3001 sent.
    pub(super) fn with_three_in_flight() -> Self {
        let mut solo = Self::established();
        solo.write(&[0; 1000]);
        solo.poll();
        solo.now = solo.now + ms(20);
        solo.receive(ack(1, 1001));
        solo.write(&[0; 3000]);
        assert_eq!(solo.poll().len(), 3);
        solo
    }

    /// ESTABLISHED, with so many segments of 1000 octets sent a round trip ago, the first of them 1.
    pub(super) fn with_in_flight(segments: usize) -> Self {
        let mut solo = Self::established();
        solo.write(&vec![0; segments * 1000]);
        assert_eq!(solo.poll().len(), segments);
        solo.now = solo.now + ms(20);
        solo
    }

    /// The peer closes its window before the application writes, and what that writes waits.
    pub(super) fn block(&mut self) {
        self.window = 0;
        self.receive(ack(1, 1));
        self.write(b"data");
        self.assert_silent();
    }

    /// The application writes "data", which is lost; the probe of the tail, which is no timeout,
    /// was sent.
    pub(super) fn lose_and_probe(&mut self) {
        self.write(b"data");
        self.poll();
        self.skip_to_timer();
        assert_eq!(self.poll_one().payload, b"data");
    }

    pub(super) fn accepting(config: Config, syn: &Header) -> Self {
        let now = Instant::ZERO + ms(100_000);
        let config = Arc::new(config);
        let options = Options::default();
        let path = Path::ipv4(MTU);
        Self {
            connection: Conn::accept(now, config, options, path, secrets(ISS), syn, Ecn::NotEct),
            now,
            window: 65_535,
            timestamps: None,
        }
    }

    /// ESTABLISHED by active open; the peer has MSS 1000, SACK and no other options.
    pub(super) fn established() -> Self {
        Self::established_with(Config::default(), Options::default())
    }

    pub(super) fn established_with(config: Config, options: Options) -> Self {
        Self::established_with_peer(config, options, 1000)
    }

    /// The same with a peer whose MSS is `peer_mss`.
    pub(super) fn established_with_peer(config: Config, options: Options, peer_mss: u16) -> Self {
        let mut solo = Self::connecting(config, options);
        solo.poll();
        solo.now = solo.now + ms(20);
        solo.receive(syn_ack(HeaderOptions {
            mss: Some(peer_mss),
            sack_permitted: true,
            ..HeaderOptions::default()
        }));
        assert_eq!(solo.connection.state(), State::Established);
        assert_eq!(solo.poll().len(), 1);
        solo.events();
        solo
    }

    /// ESTABLISHED, over a device that cuts segments.
    pub(super) fn offloading() -> Self {
        let mut solo = Self::established();
        solo.connection.cold.path.max_offload_len = 64_000;
        solo
    }

    /// What is sent now.
    pub(super) fn poll(&mut self) -> Vec<Sent> {
        poll(&mut self.connection, self.now)
    }

    /// The only segment that is sent now.
    #[track_caller]
    pub(super) fn poll_one(&mut self) -> Sent {
        let mut sent = self.poll();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    #[track_caller]
    pub(super) fn assert_silent(&mut self) {
        let sent = self.poll();
        assert!(sent.is_empty(), "{sent:?}");
    }

    pub(super) fn receive(&mut self, segment: Segment) {
        self.receive_marked(segment, Ecn::NotEct);
    }

    pub(super) fn receive_marked(&mut self, segment: Segment, ecn: Ecn) {
        let mut options = segment.options;
        if options.timestamps.is_none() {
            options.timestamps = self.timestamps;
        }
        let header = Header {
            seq: IRS.wrapping_add(segment.seq),
            ack: ISS.wrapping_add(segment.ack),
            flags: segment.flags,
            window: segment.window.unwrap_or(self.window),
            urgent: segment.urgent,
            options,
        };
        let payload = (!segment.payload.is_empty()).then_some(segment.payload);
        self.connection.on_segment(self.now, &header, ecn, payload);
        self.connection.check_invariants();
    }

    /// Time passes; timers expire when they are due.
    pub(super) fn advance(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(at) = self.connection.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.connection.on_timeout(self.now);
            self.connection.check_invariants();
            sent.extend(self.poll());
            assert!(sent.len() < 10_000);
        }
        self.now = end;
        sent
    }

    /// Time passes to the next timer; returns how much.
    pub(super) fn skip_to_timer(&mut self) -> Duration {
        let at = self.connection.poll_timeout().expect("a timer is set");
        let passed = at - self.now;
        self.now = self.now.max(at);
        self.connection.on_timeout(self.now);
        passed
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.connection.poll_event()).collect()
    }

    pub(super) fn write(&mut self, data: &[u8]) {
        assert_eq!(self.connection.write(self.now, data), Ok(data.len()));
    }

    pub(super) fn read(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 20];
        let count = self
            .connection
            .read(self.now, &mut buffer)
            .expect("something to read");
        buffer.truncate(count);
        buffer
    }

    pub(super) fn set(&mut self, option: SocketOption) {
        self.connection.set_option(self.now, option).unwrap();
    }

    pub(super) fn state(&self) -> State {
        self.connection.state()
    }
}

/// A segment of the test's, with relative numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Segment {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) window: Option<u16>,
    pub(super) urgent: u16,
    pub(super) options: HeaderOptions,
    pub(super) payload: Vec<u8>,
}

pub(super) fn ack(seq: u32, ack: u32) -> Segment {
    Segment {
        seq,
        ack,
        flags: Flags::ACK,
        ..Segment::default()
    }
}

pub(super) fn data(seq: u32, ack: u32, payload: &[u8]) -> Segment {
    Segment {
        payload: payload.to_vec(),
        ..self::ack(seq, ack)
    }
}

/// Data, or none, with URG; the octet before `pointer`, counted from `seq`, is the urgent one.
pub(super) fn urgent(seq: u32, pointer: u16, payload: &[u8]) -> Segment {
    Segment {
        flags: Flags::ACK | Flags::URG,
        urgent: pointer,
        ..data(seq, 1, payload)
    }
}

pub(super) fn fin(seq: u32, ack: u32) -> Segment {
    Segment {
        flags: Flags::FIN | Flags::ACK,
        ..self::ack(seq, ack)
    }
}

pub(super) fn rst(seq: u32) -> Segment {
    Segment {
        seq,
        flags: Flags::RST,
        ..Segment::default()
    }
}

pub(super) fn syn_ack(options: HeaderOptions) -> Segment {
    Segment {
        ack: 1,
        flags: Flags::SYN | Flags::ACK,
        options,
        ..Segment::default()
    }
}

pub(super) fn sack(ack: u32, blocks: &[(u32, u32)]) -> Segment {
    let sack = blocks
        .iter()
        .map(|(left, right)| SackBlock {
            left: ISS.wrapping_add(*left),
            right: ISS.wrapping_add(*right),
        })
        .collect();
    Segment {
        options: HeaderOptions {
            sack,
            ..HeaderOptions::default()
        },
        ..self::ack(1, ack)
    }
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seq, len, flags) = self.brief();
        let (ack, window) = (self.ack(), self.window);
        write!(
            formatter,
            "{flags:?} {seq}+{len} ack {ack} win {window} sack {:?}",
            self.sack()
        )
    }
}

impl Sent {
    /// The numbers relative to the SYNs.
    pub(super) fn seq(&self) -> u32 {
        self.seq.wrapping_sub(ISS)
    }

    pub(super) fn ack(&self) -> u32 {
        self.ack.wrapping_sub(IRS)
    }

    /// Sequence number, length and flags.
    pub(super) fn brief(&self) -> (u32, usize, Flags) {
        (self.seq(), self.payload.len(), self.flags)
    }

    pub(super) fn sack(&self) -> Vec<(u32, u32)> {
        let blocks = self.options.sack.as_slice();
        blocks
            .iter()
            .map(|block| (block.left.wrapping_sub(IRS), block.right.wrapping_sub(IRS)))
            .collect()
    }
}

pub(super) fn briefs(sent: &[Sent]) -> Vec<(u32, usize, Flags)> {
    sent.iter().map(Sent::brief).collect()
}

pub(super) const ACK: Flags = Flags::ACK;
pub(super) const PSH_ACK: Flags = Flags::ACK.union(Flags::PSH);
pub(super) const FIN_ACK: Flags = Flags::ACK.union(Flags::FIN);

type Drops = Box<dyn FnMut(u64, usize, &Sent) -> bool>;

/// Loses `percent` of the packets, in both directions; the same ones for a seed.
pub(super) fn random_loss(mut seed: u64, percent: u64) -> Drops {
    Box::new(move |_, _, _| {
        // Knuth's MMIX generator.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % 100 < percent
    })
}

/// Two connections and a network between them.
pub(super) struct Pair {
    pub(super) now: Instant,
    pub(super) hosts: [Option<Conn>; 2],
    network: VecDeque<(Instant, usize, Sent)>,
    delay: Duration,
    /// Whether a packet is lost: its ordinal, the sender, the packet.
    pub(super) drops: Drops,
    count: u64,
    pub(super) config: Arc<Config>,
}

impl Pair {
    pub(super) fn new(config: Config, delay: Duration) -> Self {
        let now = Instant::ZERO + ms(50_000);
        let config = Arc::new(config);
        let client = Conn::connect(
            now,
            config.clone(),
            Options::default(),
            Path::ipv4(MTU),
            secrets(ISS),
        );
        Self {
            now,
            hosts: [Some(client), None],
            network: VecDeque::new(),
            delay,
            drops: Box::new(|_, _, _| false),
            count: 0,
            config,
        }
    }

    pub(super) fn established() -> Self {
        let mut pair = Self::new(Config::default(), ms(10));
        pair.run(ms(100));
        assert_eq!(pair.host(0).state(), State::Established);
        assert_eq!(pair.host(1).state(), State::Established);
        pair
    }

    pub(super) fn host(&mut self, index: usize) -> &mut Conn {
        self.hosts[index].as_mut().expect("exists")
    }

    /// Sends what can be sent, delivers what arrives and fires what is due, for so long.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..1_000_000 {
            self.send();
            let timer = self
                .hosts
                .iter()
                .flatten()
                .filter_map(Conn::poll_timeout)
                .min();
            let arrival = self.network.front().map(|(at, ..)| *at);
            let next = match (timer, arrival) {
                (Some(one), Some(other)) => one.min(other),
                (one, other) => match one.or(other) {
                    Some(at) => at,
                    None => break,
                },
            };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.deliver();
            for host in self.hosts.iter_mut().flatten() {
                host.on_timeout(self.now);
                host.check_invariants();
            }
        }
        self.now = end;
    }

    fn send(&mut self) {
        for index in 0..2 {
            let Some(host) = &mut self.hosts[index] else {
                continue;
            };
            for sent in poll(host, self.now) {
                self.count += 1;
                if !(self.drops)(self.count, index, &sent) {
                    self.network
                        .push_back((self.now + self.delay, 1 - index, sent));
                }
            }
        }
    }

    fn deliver(&mut self) {
        while let Some((_, to, sent)) = self.network.pop_front_if(|(at, ..)| *at <= self.now) {
            let header = Header {
                seq: sent.seq,
                ack: sent.ack,
                flags: sent.flags,
                window: sent.window,
                urgent: sent.urgent,
                options: sent.options,
            };
            match &mut self.hosts[to] {
                Some(host) => {
                    let payload = (!sent.payload.is_empty()).then_some(sent.payload);
                    host.on_segment(self.now, &header, sent.ecn, payload);
                    host.check_invariants();
                }
                None => {
                    let (config, path) = (self.config.clone(), Path::ipv4(MTU));
                    let secrets = secrets(12345);
                    let host = Conn::accept(
                        self.now,
                        config,
                        Options::default(),
                        path,
                        secrets,
                        &header,
                        sent.ecn,
                    );
                    self.hosts[to] = Some(host);
                }
            }
        }
    }

    /// Moves `total` octets from one to the other; returns the time it took. The receiver reads at
    /// once.
    pub(super) fn transfer(&mut self, from: usize, total: usize) -> Duration {
        let start = self.now;
        let (mut written, mut read) = (0, 0);
        let mut buffer = vec![0; 1 << 16];
        let octet = |offset: usize| u8::try_from(offset % 251).unwrap();
        let chunk: Vec<u8> = (0..251 * 256).map(octet).collect();
        while read < total {
            let now = self.now;
            while written < total {
                let offset = written % 251;
                let most = (total - written).min(chunk.len() - 251);
                match self.host(from).write(now, &chunk[offset..offset + most]) {
                    Ok(count) => written += count,
                    Err(_) => break,
                }
            }
            while let Ok(count @ 1..) = self.host(1 - from).read(now, &mut buffer) {
                for (index, value) in buffer[..count].iter().enumerate() {
                    assert_eq!(*value, octet(read + index), "at {}", read + index);
                }
                read += count;
            }
            self.run(ms(1));
            assert!(
                self.now - start < Duration::from_secs(3600),
                "stuck at {read} of {written}"
            );
        }
        self.now - start
    }
}
