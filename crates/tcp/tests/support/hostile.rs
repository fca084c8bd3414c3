//! A peer that sends anything at all to a connection in any state, while its application does
//! anything at all.
//!
//! What happens is decided by bytes, so that a fuzzer can look for the worst. Nothing may panic,
//! the memory that received data takes is bounded, and a segment is answered with few others.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tcp::{
    Config, CongestionAlgorithm, Connection, Ecn, Event, FastOpen, FastOpenAttempt, FastOpenReply,
    Flags, Header, IcmpError, Instant, InvalidSnapshot, Options, Path, Payload, Secrets, SeqNumber,
    Shutdown, SocketOption, State, Transmit, WindowScales,
};
use wire::tcp::{Options as HeaderOptions, SackBlock, Timestamps};

/// Received data that is counted as long as it lives.
pub(crate) struct Counted {
    data: Vec<u8>,
    footprint: usize,
    live: Rc<Cell<usize>>,
}

impl Counted {
    fn new(len: usize, live: &Rc<Cell<usize>>) -> Self {
        // As a driver's frame: it takes more memory than its data is long.
        let footprint = len.max(2048);
        live.set(live.get() + footprint);
        Self {
            data: vec![0; len],
            footprint,
            live: Rc::clone(live),
        }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.live.set(self.live.get() + self.footprint);
        Self {
            data: self.data.clone(),
            footprint: self.footprint,
            live: Rc::clone(&self.live),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.set(self.live.get() - self.footprint);
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Payload for Counted {
    fn trim_front(&mut self, count: usize) {
        self.data.trim_front(count);
    }

    fn truncate(&mut self, len: usize) {
        self.data.truncate(len);
    }

    fn footprint(&self) -> usize {
        self.footprint
    }

    fn try_append(&mut self, octets: &[u8]) -> bool {
        let has_room = self.data.len() + octets.len() <= self.footprint;
        if has_room {
            self.data.extend_from_slice(octets);
        }
        has_room
    }
}

/// Decisions, one byte or more each. When they run out, all are zero.
struct Decisions<'bytes>(&'bytes [u8]);

impl Decisions<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn long(&mut self) -> u32 {
        u32::from_be_bytes([(); 4].map(|()| self.byte()))
    }

    fn bit(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// A number near `base`: exactly there, a little beside it, or anywhere.
    fn near(&mut self, base: u32, span: u32) -> u32 {
        match self.byte() % 8 {
            0..=3 => base,
            4 => base.wrapping_sub(1),
            5 => base.wrapping_add(u32::from(self.byte())),
            6 => base.wrapping_add(self.long() % span.max(1)),
            _ => self.long(),
        }
    }
}

const RECEIVE_BUFFER_MAX: u32 = 1 << 19;

/// Twice what a send buffer of 4 MiB is in segments of 8 octets, which a peer may ask for and
/// acknowledge fast.
const MOST_SEGMENTS: u32 = 1 << 20;

/// No connection may hold more: twice its receive buffer and what one burst of segments is charged.
const MOST_MEMORY: usize = 2 * (1 << 20);

/// A segment may be answered with so many that carry no data: a SYN-ACK with data and FIN beyond
/// the window ends a handshake and is told of both.
const MOST_ANSWERS: u32 = 3;

/// The state in which the connection of `bytes` is when malice begins.
pub(crate) fn first_state(bytes: &[u8]) -> State {
    Victim::in_some_state(&mut Decisions(bytes))
        .connection
        .state()
}

struct Victim {
    connection: Connection<Counted>,
    now: Instant,
    live: Rc<Cell<usize>>,
    /// The SYN of the peer.
    peer_syn: Header,
    /// The peer's sequence number behind its SYN and what that carried.
    peer_seq: u32,
    /// What the connection expects next and what it has sent, as seen on the wire.
    expected: u32,
    sent: u32,
    transmit: Transmit,
}

// What the bits of the first decision choose.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALING: u8 = 4;
const SMALL_BUFFER: u8 = 8;
const PASSIVE: u8 = 16;
const FAST_OPEN: u8 = 32;

/// The peer's SYN, or what its SYN-ACK has of it.
fn peer_syn(seq: u32, choices: u8) -> Header {
    let has_timestamps = choices & TIMESTAMPS != 0;
    Header {
        seq,
        flags: Flags::SYN,
        window: 65_535,
        options: HeaderOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: has_timestamps.then_some(Timestamps { value: 1, echo: 0 }),
            ..HeaderOptions::default()
        },
        ..Header::default()
    }
}

/// Lets `bytes` happen to a connection.
pub(crate) fn run(bytes: &[u8]) {
    let mut decisions = Decisions(bytes);
    let mut victim = Victim::in_some_state(&mut decisions);
    while !decisions.is_over() {
        victim.suffer(&mut decisions);
    }
}

impl Victim {
    /// A connection with an honest history.
    fn in_some_state(decisions: &mut Decisions<'_>) -> Self {
        let (choices, target) = (decisions.byte(), decisions.byte() % 9);
        let mut victim = Self::opening(choices, decisions);
        victim.drain();
        if target == 0 {
            return victim;
        }
        if choices & PASSIVE != 0 {
            victim.honest(Flags::ACK);
        } else {
            victim.receive_syn_ack();
        }
        victim.approach(target);
        victim
    }

    /// A connection before its first SYN or SYN-ACK has left.
    fn opening(choices: u8, decisions: &mut Decisions<'_>) -> Self {
        let config = Config {
            timestamps: choices & TIMESTAMPS != 0,
            sack: choices & SACK != 0,
            window_scaling: choices & WINDOW_SCALING != 0,
            receive_buffer_max: RECEIVE_BUFFER_MAX,
            ..Config::default()
        };
        let mut options = Options::default();
        if choices & SMALL_BUFFER != 0 {
            options
                .set(SocketOption::ReceiveBuffer(4_096))
                .expect("in range");
        }
        let secrets = Secrets {
            iss: SeqNumber(decisions.long()),
            timestamp_offset: decisions.long(),
        };
        if secrets.timestamp_offset & 1 != 0 {
            let bbr = SocketOption::Congestion(CongestionAlgorithm::Bbr);
            options.set(bbr).expect("it is there");
        }
        let peer_syn = peer_syn(decisions.long(), choices);
        let (now, live) = (Instant::from_nanos(1_000_000_000), Rc::default());
        let (config, path) = (Arc::new(config), Path::ipv4(1500));
        let is_passive = choices & PASSIVE != 0;
        let mut connection = if is_passive {
            Connection::accept(now, config, options, path, secrets, &peer_syn, Ecn::NotEct)
        } else {
            Connection::connect(now, config, options, path, secrets)
        };
        // Fast Open: data in the SYN.
        let mut syn_len = 0;
        if choices & FAST_OPEN != 0 && is_passive {
            syn_len = u32::from(decisions.byte());
            let payload = (syn_len > 0).then(|| Counted::new(syn_len as usize, &live));
            let reply = FastOpenReply {
                is_open: true,
                option: None,
            };
            connection.open_fast(now, &reply, payload);
        } else if choices & FAST_OPEN != 0 {
            let attempt = FastOpenAttempt {
                option: FastOpen::from_cookie(&[1; 8], false),
                sends_data: true,
                mss: None,
                is_check: decisions.bit(),
            };
            let data = vec![7; usize::from(decisions.byte()) * 8];
            connection.attempt_fast_open(&attempt, &data, decisions.bit());
        }
        Self {
            connection,
            now,
            live,
            peer_syn,
            peer_seq: peer_syn.seq.wrapping_add(1).wrapping_add(syn_len),
            expected: peer_syn.seq,
            sent: secrets.iss.0,
            transmit: Transmit::default(),
        }
    }

    /// The peer's answer to the SYN.
    fn receive_syn_ack(&mut self) {
        let mut header = self.peer_syn;
        header.flags |= Flags::ACK;
        header.ack = self.sent;
        if let Some(timestamps) = &mut header.options.timestamps {
            let sent = self.transmit.header.options.timestamps;
            timestamps.echo = sent.unwrap_or_default().value;
        }
        self.connection
            .on_segment(self.now, &header, Ecn::NotEct, None);
        self.drain();
    }

    /// From ESTABLISHED to one of the states of an end.
    fn approach(&mut self, target: u8) {
        let now = self.now;
        if matches!(target, 2 | 3) {
            self.honest(Flags::FIN | Flags::ACK);
        }
        if matches!(target, 3..=7) {
            self.connection.shutdown(now, Shutdown::Write);
            self.drain();
        }
        if matches!(target, 5 | 7) {
            self.honest(Flags::ACK);
        }
        if target == 6 {
            // The FINs cross: ours is not acknowledged.
            self.honest_up_to(Flags::FIN | Flags::ACK, self.sent.wrapping_sub(1));
        }
        if target == 7 {
            self.honest(Flags::FIN | Flags::ACK);
        }
        if target == 8 {
            self.connection.close(now);
            self.drain();
        }
    }

    /// A segment that a peer without malice would send.
    fn honest(&mut self, flags: Flags) {
        self.honest_up_to(flags, self.sent);
    }

    fn honest_up_to(&mut self, flags: Flags, ack: u32) {
        let header = Header {
            seq: self.peer_seq,
            ack,
            flags,
            window: 512,
            options: HeaderOptions {
                timestamps: self.timestamps(),
                ..HeaderOptions::default()
            },
            ..Header::default()
        };
        self.connection
            .on_segment(self.now, &header, Ecn::NotEct, None);
        self.drain();
    }

    fn timestamps(&self) -> Option<Timestamps> {
        let sent = self.transmit.header.options.timestamps.unwrap_or_default();
        self.peer_syn.options.timestamps.map(|_| Timestamps {
            value: 2,
            echo: sent.value,
        })
    }

    /// One thing happens.
    fn suffer(&mut self, decisions: &mut Decisions<'_>) {
        match decisions.byte() % 16 {
            0..=8 => self.attack(decisions),
            9 => {
                let millis = u64::from(decisions.byte()) * u64::from(decisions.byte());
                self.now = self.now + Duration::from_millis(millis);
                self.connection.on_timeout(self.now);
            }
            10 => {
                if let Some(due) = self.connection.poll_timeout() {
                    self.now = self.now.max(due);
                }
                self.connection.on_timeout(self.now);
            }
            11 => {
                let data = vec![7; usize::from(decisions.byte()) * 16];
                let _ = if decisions.bit() {
                    self.connection.write_urgent(self.now, &data)
                } else if decisions.bit() {
                    self.connection.write_more(self.now, &data)
                } else {
                    self.connection.write(self.now, &data)
                };
                if data.len() % 48 == 16 {
                    self.connection.end_record();
                }
            }
            12 | 13 => {
                let mut buffer = vec![0; usize::from(decisions.byte()) * 64];
                let _ = self.connection.read(self.now, &mut buffer);
                let _ = if decisions.bit() {
                    self.connection.peek_urgent()
                } else {
                    self.connection.read_urgent()
                };
            }
            14 => self.change_option(decisions),
            _ => self.end_or_icmp(decisions),
        }
        self.drain();
    }

    fn attack(&mut self, decisions: &mut Decisions<'_>) {
        const KINDS: [Flags; 8] = [
            Flags::ACK,
            Flags::ACK,
            Flags::ACK,
            Flags::ACK.union(Flags::PSH),
            Flags::ACK.union(Flags::FIN),
            Flags::RST,
            Flags::SYN,
            Flags::ACK.union(Flags::URG),
        ];
        let kind = decisions.byte();
        let flags = if kind & 0x80 == 0 {
            KINDS[usize::from(kind % 8)]
        } else {
            Flags::from_bits(decisions.byte())
        };
        let len = match decisions.byte() % 6 {
            0..=2 => 0,
            3 => 1,
            4 => 1460,
            _ => usize::from(decisions.byte()) * 8,
        };
        let mut options = HeaderOptions {
            timestamps: self.timestamps().filter(|_| !decisions.bit()),
            ..HeaderOptions::default()
        };
        if decisions.byte().is_multiple_of(8) {
            options.timestamps = Some(Timestamps {
                value: decisions.near(2, 1000),
                echo: decisions.long(),
            });
        }
        for _ in 0..decisions.byte() % 8 / 4 * 3 {
            let left = decisions.near(self.sent.wrapping_sub(3000), 6000);
            let right = decisions.near(left.wrapping_add(1460), 6000);
            options.sack.push(SackBlock { left, right });
        }
        if decisions.byte().is_multiple_of(16) {
            options.mss = Some(u16::from(decisions.byte()) * 8);
            options.window_scale = Some(decisions.byte() % 15);
            options.fast_open = FastOpen::from_cookie(&[decisions.byte(); 8], decisions.bit());
            options.sack_permitted = true;
        }
        let header = Header {
            seq: decisions.near(self.expected, 70_000),
            ack: decisions.near(self.sent, 70_000),
            flags,
            window: u16::from_be_bytes([decisions.byte(), decisions.byte()]),
            urgent: u16::from(decisions.byte()) * 16,
            options,
        };
        let ecn = Ecn::from_tos(decisions.byte());
        let payload = (len > 0).then(|| Counted::new(len, &self.live));
        self.connection.on_segment(self.now, &header, ecn, payload);
        let answers = self.drain();
        // An answer may be followed by a delayed acknowledgement that was due anyway.
        assert!(
            answers <= MOST_ANSWERS,
            "{answers} answers without data to {header:?}"
        );
    }

    fn change_option(&mut self, decisions: &mut Decisions<'_>) {
        let value = decisions.long();
        let option = match decisions.byte() % 8 {
            0 => SocketOption::NoDelay(value & 1 != 0),
            1 => SocketOption::Cork(value & 1 != 0),
            2 => SocketOption::QuickAck(value & 1 != 0),
            3 if value & 2 == 0 => SocketOption::KeepAlive(value & 1 != 0),
            3 if value & 1 == 0 => SocketOption::Congestion(CongestionAlgorithm::Cubic),
            3 => SocketOption::Congestion(CongestionAlgorithm::Bbr),
            4 => SocketOption::ReceiveBuffer(value % (1 << 19)),
            5 => SocketOption::SendBuffer(value % (1 << 19)),
            6 => SocketOption::WindowClamp(value % 100_000),
            _ => SocketOption::NotSentLowWater(value % 100_000),
        };
        let _ = self.connection.set_option(self.now, option);
    }

    fn end_or_icmp(&mut self, decisions: &mut Decisions<'_>) {
        match decisions.byte() % 12 {
            0 => {
                self.connection.shutdown(self.now, Shutdown::Write);
            }
            1 => {
                self.connection.shutdown(self.now, Shutdown::Read);
            }
            2 if decisions.byte().is_multiple_of(4) => self.connection.abort(),
            2 => self.connection.close(self.now),
            11 => self.move_over(decisions),
            kind => {
                let error = match kind {
                    3 => IcmpError::NetUnreachable,
                    4 => IcmpError::HostUnreachable,
                    5 => IcmpError::PortUnreachable,
                    6 => IcmpError::ProtocolUnreachable,
                    _ => IcmpError::PacketTooBig {
                        mtu: u16::from(decisions.byte()) * 8,
                    },
                };
                let seq = SeqNumber(decisions.near(self.sent.wrapping_sub(1), 6000));
                self.connection.on_icmp(error, seq);
            }
        }
    }

    /// Another stack goes on with the connection, which may be told anything of it.
    fn move_over(&mut self, decisions: &mut Decisions<'_>) {
        if !self.connection.state().is_exportable() {
            return;
        }
        let config = Config {
            receive_buffer_max: RECEIVE_BUFFER_MAX,
            ..Config::default()
        };
        let (config, path) = (Arc::new(config), Path::ipv4(1500));
        let nobody = Connection::connect(
            self.now,
            Arc::clone(&config),
            Options::default(),
            path,
            Secrets {
                iss: SeqNumber(0),
                timestamp_offset: 0,
            },
        );
        let connection = std::mem::replace(&mut self.connection, nobody);
        let true_one = connection.export(self.now).expect("can go on");
        let mut told = true_one.clone();
        let near = |number: SeqNumber, decisions: &mut Decisions<'_>| {
            SeqNumber(decisions.near(number.0, 70_000))
        };
        match decisions.byte() % 16 {
            0 => told.snd_una = near(told.snd_una, decisions),
            1 => told.snd_nxt = near(told.snd_nxt, decisions),
            2 => told.rcv_nxt = near(told.rcv_nxt, decisions),
            3 => told.window.snd_wl1 = near(told.window.snd_wl1, decisions),
            4 => told.window.rcv_wup = near(told.window.rcv_wup, decisions),
            5 => told.window.rcv_wnd = decisions.long(),
            6 => told.window.snd_wnd = decisions.long(),
            7 => told.window.max_window = decisions.long(),
            8 => told.peer_mss = u16::from(decisions.byte()) * 8,
            9 => {
                told.window_scales = Some(WindowScales {
                    snd: decisions.byte(),
                    rcv: decisions.byte(),
                })
            }
            10 => told.state = [State::FinWait1, State::LastAck][usize::from(decisions.bit())],
            _ => {}
        }
        let import = |snapshot| Connection::import(self.now, Arc::clone(&config), path, snapshot);
        self.connection = import(told)
            .or_else(|InvalidSnapshot| import(true_one))
            .expect("what was exported is consistent");
        let numbers = self.connection.numbers();
        (self.sent, self.expected) = (numbers.snd_nxt.0, numbers.rcv_nxt.0);
    }

    /// Takes all that the connection gives; returns how many segments had no data.
    fn drain(&mut self) -> u32 {
        let mut without_data = 0;
        let mut count = 0;
        while self.connection.poll_transmit(self.now, &mut self.transmit) {
            let header = &self.transmit.header;
            let len = self.transmit.payload_len;
            let pieces = self.connection.payload(&self.transmit);
            let octets: usize = pieces.map(<[u8]>::len).sum();
            assert_eq!(octets, len as usize, "payload and its length");
            without_data += u32::from(len == 0);
            count += 1;
            assert!(count < MOST_SEGMENTS, "segments without end");
            let control = header.flags.contains(Flags::SYN) | header.flags.contains(Flags::FIN);
            let end = header
                .seq
                .wrapping_add(len)
                .wrapping_add(u32::from(control));
            if end.wrapping_sub(self.sent).cast_signed() > 0 {
                self.sent = end;
            }
            if header.flags.contains(Flags::ACK) {
                self.expected = header.ack;
            }
        }
        self.connection.check_invariants();
        let mut events = 0;
        while let Some(event) = self.connection.poll_event() {
            events += 1;
            assert!(events < 100, "events without end, the last {event:?}");
            let _: Event = event;
        }
        assert!(
            self.live.get() <= MOST_MEMORY,
            "{} octets of received data",
            self.live.get()
        );
        let info = self.connection.info(self.now);
        assert!(
            info.snd_cwnd > 0 || self.connection.state() == State::Closed,
            "no window: {info:?}"
        );
        without_data
    }
}
