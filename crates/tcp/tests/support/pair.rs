//! Two applications, two endpoints and a network between them, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use packetdrill::{octet, wrong_octet};
use tcp::{
    Config, Connection, Error, Event, FastOpen, FastOpenAttempt, FastOpenReply, Flags, Instant,
    Options, Path, ReadError, Secrets, SeqNumber, Shutdown, SocketOption, State, Transmit,
    WriteError, reset_for,
};

use super::device::Device;
use super::network::{InFlight, Link, Packet, Rng};

/// What an application does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Octets to send.
    pub(crate) to_send: u32,
    /// Octets of one write, at most.
    pub(crate) write_size: u64,
    /// Octets of one read, at most.
    pub(crate) read_size: u64,
    /// Rests between writes and between reads, at most.
    pub(crate) write_rest: Duration,
    pub(crate) read_rest: Duration,
    pub(crate) ending: Ending,
    /// Data is taken as it lies in the device's memory.
    pub(crate) takes_payloads: bool,
    /// Options are changed in the midst of it.
    pub(crate) changes_options: bool,
}

/// How an application ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything sent, then `shutdown(SHUT_WR)`, read to the end, `close`.
    HalfClose,
    /// Everything sent, then `close`. For a peer that sends nothing.
    Close,
    /// The peer's end is waited for first.
    AfterPeer,
    /// A reset, after so many octets were written.
    Abort(u32),
}

/// One side.
pub(crate) struct End {
    pub(crate) connection: Option<Connection<Vec<u8>>>,
    pub(crate) config: Arc<Config>,
    pub(crate) options: Options,
    pub(crate) path: Path,
    /// Fast Open is attempted, or data of a SYN is taken.
    pub(crate) opens_fast: bool,
    /// Now and then memory is short; chosen by this, so that other choices are what they are
    /// without it.
    pub(crate) shortage: Option<Rng>,
    /// Takes every segment if there is none.
    pub(crate) device: Option<Device>,
    secrets: Secrets,
    plan: Plan,
    rng: Rng,
    pub(crate) written: u32,
    /// The stream from `written` on, as far as it was made for writes that took less.
    ahead: Vec<u8>,
    pub(crate) read: u32,
    /// When the application next writes and reads; `None` waits for an event.
    write_at: Option<Instant>,
    read_at: Option<Instant>,
    pub(crate) peer_has_ended: bool,
    has_shut_down: bool,
    pub(crate) has_closed: bool,
    pub(crate) error: Option<Error>,
    transmit: Transmit,
    /// When octets were last read, and the longest time between two reads that gave any.
    pub(crate) last_progress: Instant,
    pub(crate) longest_stall: Duration,
}

impl End {
    pub(crate) fn new(
        config: Config,
        options: Options,
        path: Path,
        iss: u32,
        plan: Plan,
        rng: Rng,
    ) -> Self {
        Self {
            connection: None,
            config: Arc::new(config),
            options,
            path,
            opens_fast: false,
            shortage: None,
            device: None,
            secrets: Secrets {
                iss: SeqNumber(iss),
                timestamp_offset: iss.rotate_left(7),
            },
            plan,
            rng,
            written: 0,
            ahead: Vec::new(),
            read: 0,
            write_at: None,
            read_at: None,
            peer_has_ended: false,
            has_shut_down: false,
            has_closed: false,
            error: None,
            transmit: Transmit::default(),
            last_progress: Instant::ZERO,
            longest_stall: Duration::ZERO,
        }
    }

    fn state(&self) -> State {
        self.connection
            .as_ref()
            .map_or(State::Closed, Connection::state)
    }

    /// Nothing more will happen that the application could notice.
    pub(crate) fn is_over(&self) -> bool {
        self.has_closed && matches!(self.state(), State::Closed | State::TimeWait)
    }

    fn has_written_all(&self) -> bool {
        self.written == self.plan.to_send || self.error.is_some()
    }

    fn next_wake(&self) -> Option<Instant> {
        let timer = self.connection.as_ref().and_then(Connection::poll_timeout);
        let timer = timer.filter(|_| self.state() != State::TimeWait || !self.has_closed);
        let room = self.device.as_ref().and_then(Device::has_room_at);
        [timer, self.write_at, self.read_at, room]
            .into_iter()
            .flatten()
            .min()
    }

    fn rest(&mut self, most: Duration) -> Duration {
        // Mostly none.
        if most.is_zero() || self.rng.chance(700_000) {
            return Duration::ZERO;
        }
        self.rng.duration(most)
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected => {
                self.write_at = Some(now);
                self.read_at = Some(now);
            }
            Event::Writable if !self.has_written_all() => self.write_at = Some(now),
            Event::Readable | Event::PeerClosed => self.read_at = self.read_at.or(Some(now)),
            Event::Failed => {
                // The application learns of it by its next call.
                self.read_at = Some(now);
                self.write_at = None;
            }
            _ => {}
        }
    }

    /// The application's turn.
    fn act(&mut self, now: Instant) {
        if self.has_closed || self.connection.is_none() {
            (self.write_at, self.read_at) = (None, None);
            return;
        }
        if self.plan.changes_options && self.rng.chance(30_000) {
            self.change_an_option(now);
        }
        if self.write_at.is_some_and(|at| at <= now) {
            self.write_some(now);
        }
        if self.read_at.is_some_and(|at| at <= now) {
            self.read_some(now);
        }
        self.end(now);
    }

    /// A segment was received, and there is no memory for more of them.
    fn relieve(&mut self) {
        let (Some(rng), Some(connection)) = (&mut self.shortage, &mut self.connection) else {
            return;
        };
        if !rng.chance(300_000) {
            return;
        }
        let wanted = rng.pick(&[0, 0, 0, 1, FRAME_LEN, 10 * FRAME_LEN, usize::MAX]);
        let (readable, before) = (connection.readable_len(), connection.received_footprint());
        let given_back = connection.relieve(wanted);
        connection.check_invariants();
        assert_eq!(connection.received_footprint() + given_back, before);
        assert!(wanted > 0 || given_back == 0);
        assert_eq!(connection.readable_len(), readable);
    }

    fn change_an_option(&mut self, now: Instant) {
        let on = self.rng.chance(500_000);
        let option = match self.rng.between(0, 4) {
            0 => SocketOption::NoDelay(on),
            1 => SocketOption::Cork(on),
            2 => SocketOption::QuickAck(on),
            3 => SocketOption::ReceiveBuffer(self.rng.pick(&[2_304, 10_000, 100_000])),
            _ => SocketOption::SendBuffer(self.rng.pick(&[4_608, 10_000, 100_000])),
        };
        let connection = self.connection.as_mut().expect("checked by the caller");
        connection
            .set_option(now, option)
            .expect("the value is in range");
    }

    /// The first octets of the stream go with the SYN.
    fn write_with_syn(&mut self) {
        let attempt = FastOpenAttempt {
            option: FastOpen::from_cookie(&[1; 8], false),
            sends_data: true,
            mss: None,
            is_check: false,
        };
        let len = u64::from(self.plan.to_send).min(self.plan.write_size);
        let data: Vec<u8> = (0..)
            .take(usize::try_from(len).expect("a write"))
            .map(octet)
            .collect();
        let connection = self.connection.as_mut().expect("just made");
        let taken = connection.attempt_fast_open(&attempt, &data, false);
        self.written = u32::try_from(taken).expect("a segment");
    }

    fn write_some(&mut self, now: Instant) {
        let left = u64::from(self.plan.to_send - self.written);
        if left == 0 {
            self.write_at = None;
            return;
        }
        let len = self.rng.between(1, self.plan.write_size).min(left);
        let len = usize::try_from(len).expect("a write");
        let made = u32::try_from(self.ahead.len()).expect("a write");
        let missing = len.saturating_sub(self.ahead.len());
        let next = self.written.wrapping_add(made);
        self.ahead
            .extend((0..).take(missing).map(|n| octet(next.wrapping_add(n))));
        let data = &self.ahead[..len];
        let more = self.rng.chance(20_000);
        let connection = self.connection.as_mut().expect("checked by the caller");
        let result = if more {
            connection.write_more(now, data)
        } else {
            connection.write(now, data)
        };
        match result {
            Ok(count) => {
                assert!(0 < count && count <= len, "a write of {len} took {count}");
                self.ahead.drain(..count);
                self.written += u32::try_from(count).expect("a write");
                // Now and then, without a choice of the generator's, which would change all others.
                if self.written.is_multiple_of(7) {
                    connection.end_record();
                }
                let rest = self.rest(self.plan.write_rest);
                self.write_at = Some(now + rest);
                if self.written == self.plan.to_send {
                    self.write_at = None;
                }
            }
            Err(WriteError::WouldBlock) => self.write_at = None,
            Err(WriteError::BrokenPipe) => {
                self.write_at = None;
                self.error = self.error.or(Some(Error::BrokenPipe));
            }
            Err(WriteError::Failed(error)) => {
                self.write_at = None;
                self.error = Some(error);
            }
        }
    }

    fn read_some(&mut self, now: Instant) {
        let len = self.rng.between(1, self.plan.read_size);
        let connection = self.connection.as_mut().expect("checked by the caller");
        // Zeroes for what is not there would take most of the time.
        let most = connection.readable_len().max(1);
        let mut buffer = vec![0; usize::try_from(len).expect("a read").min(most)];
        let result = if self.plan.takes_payloads {
            connection.read_payload(now).map(|payload| {
                buffer = payload.unwrap_or_default();
                buffer.len()
            })
        } else {
            connection.read(now, &mut buffer)
        };
        match result {
            Ok(0) => {
                self.peer_has_ended = true;
                self.read_at = None;
            }
            Ok(count) => {
                let wrong = wrong_octet(&buffer[..count], self.read);
                assert_eq!(
                    wrong, None,
                    "the stream is wrong behind octet {}",
                    self.read
                );
                self.read += u32::try_from(count).expect("a read");
                self.longest_stall = self
                    .longest_stall
                    .max(now.saturating_since(self.last_progress));
                self.last_progress = now;
                let rest = self.rest(self.plan.read_rest);
                self.read_at = Some(now + rest);
            }
            Err(ReadError::WouldBlock) => self.read_at = None,
            Err(ReadError::Failed(error)) => {
                self.error = Some(error);
                self.read_at = None;
            }
        }
    }

    fn end(&mut self, now: Instant) {
        let has_written_all = self.has_written_all();
        let connection = self.connection.as_mut().expect("checked by the caller");
        let may_end =
            connection.state() != State::SynSent && connection.state() != State::SynReceived;
        let is_done = match self.plan.ending {
            Ending::HalfClose => {
                if has_written_all && may_end && !self.has_shut_down {
                    self.has_shut_down = true;
                    connection.shutdown(now, Shutdown::Write);
                }
                self.has_shut_down && (self.peer_has_ended || self.error.is_some())
            }
            Ending::Close => has_written_all && may_end,
            Ending::AfterPeer => has_written_all && (self.peer_has_ended || self.error.is_some()),
            Ending::Abort(after) => {
                self.written >= after.min(self.plan.to_send) && may_end || self.error.is_some()
            }
        };
        if is_done || self.error.is_some() {
            if let Ending::Abort(_) = self.plan.ending {
                connection.abort();
            } else {
                connection.close(now);
            }
            self.has_closed = true;
            (self.write_at, self.read_at) = (None, None);
        }
    }
}

/// Both sides and the way between them. Side 0 connects.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [End; 2],
    /// Other pairs may share them.
    pub(crate) links: [Rc<RefCell<Link>>; 2],
    in_flight: [InFlight<Packet>; 2],
    rng: Rng,
    /// Now and then the machine stands still for so long, and everything is late.
    pub(crate) clock_jump: Duration,
    /// Checks each endpoint's invariants after each step.
    pub(crate) check: bool,
}

impl Pair {
    pub(crate) fn new(
        ends: [End; 2],
        links: [Rc<RefCell<Link>>; 2],
        start: Instant,
        rng: Rng,
    ) -> Self {
        let mut pair = Self {
            now: start,
            ends,
            links,
            in_flight: [InFlight::new(), InFlight::new()],
            rng,
            clock_jump: Duration::ZERO,
            check: true,
        };
        let end = &mut pair.ends[0];
        let config = Arc::clone(&end.config);
        let connection =
            Connection::connect(start, config, end.options.clone(), end.path, end.secrets);
        end.connection = Some(connection);
        if end.opens_fast {
            end.write_with_syn();
        }
        for end in &mut pair.ends {
            end.last_progress = start;
        }
        pair.settle();
        pair
    }

    /// When the next thing happens.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        let arrivals = self.in_flight.iter().filter_map(InFlight::next_arrival);
        let wakes = self.ends.iter().filter_map(End::next_wake);
        arrivals.chain(wakes).min()
    }

    /// Lets the next thing happen; false if nothing ever will.
    pub(crate) fn step(&mut self) -> bool {
        let Some(next) = self.next_time() else {
            return false;
        };
        self.now = self.now.max(next);
        if !self.clock_jump.is_zero() && self.rng.chance(2_000) {
            self.now = self.now + self.rng.duration(self.clock_jump);
        }
        for side in 0..2 {
            while let Some(packet) = self.in_flight[side].pop(self.now) {
                self.deliver(side, packet);
            }
            if let Some(connection) = &mut self.ends[side].connection
                && connection.poll_timeout().is_some_and(|at| at <= self.now)
            {
                connection.on_timeout(self.now);
            }
        }
        self.settle();
        true
    }

    fn deliver(&mut self, side: usize, packet: Packet) {
        let end = &mut self.ends[side];
        let is_gone = end.state() == State::Closed;
        if end.connection.is_none() && packet.header.flags == Flags::SYN
            || end.connection.is_none() && is_ecn_syn(packet.header.flags)
        {
            let (config, options) = (Arc::clone(&end.config), end.options.clone());
            let (path, secrets) = (end.path, end.secrets);
            let (header, ecn) = (&packet.header, packet.ecn);
            let mut connection =
                Connection::accept(self.now, config, options, path, secrets, header, ecn);
            let reply = FastOpenReply {
                is_open: end.opens_fast && header.options.fast_open.is_some(),
                option: None,
            };
            let payload = Some(packet.payload).filter(|payload| !payload.is_empty());
            connection.open_fast(self.now, &reply, payload);
            end.connection = Some(connection);
        } else if is_gone {
            let len = u32::try_from(packet.payload.len()).expect("a segment");
            let mut reset = Transmit::default();
            if reset_for(&packet.header, len, &mut reset) {
                self.send(
                    side,
                    Packet {
                        header: reset.header,
                        ecn: reset.ecn,
                        payload: Vec::new(),
                    },
                );
            }
        } else if let Some(connection) = &mut end.connection {
            let mut payload = Some(packet.payload).filter(|payload| !payload.is_empty());
            if let Some(payload) = &mut payload
                && end.shortage.is_some()
            {
                // As in a frame, where others may find room behind it.
                payload.reserve(FRAME_LEN.saturating_sub(payload.len()));
            }
            connection.on_segment(self.now, &packet.header, packet.ecn, payload);
            end.relieve();
        }
    }

    fn send(&mut self, side: usize, mut packet: Packet) {
        let arrivals = self.links[side].borrow_mut().send(self.now, &mut packet);
        for arrival in arrivals.into_iter().flatten() {
            self.in_flight[1 - side].push(arrival, packet.clone());
        }
    }

    /// Events, applications and segments, until nothing more happens at this instant.
    fn settle(&mut self) {
        for side in 0..2 {
            let mut rounds = 0;
            loop {
                let packets = self.transmit(side);
                let end = &mut self.ends[side];
                let mut events = 0;
                if let Some(connection) = &mut end.connection {
                    if self.check {
                        connection.check_invariants();
                    }
                    let mut seen = Vec::new();
                    while let Some(event) = connection.poll_event() {
                        seen.push(event);
                    }
                    events = seen.len();
                    for event in seen {
                        end.on_event(self.now, event);
                    }
                }
                let wants = [end.write_at, end.read_at]
                    .into_iter()
                    .flatten()
                    .any(|at| at <= self.now);
                if wants || !end.has_closed {
                    end.act(self.now);
                }
                let wants = [end.write_at, end.read_at]
                    .into_iter()
                    .flatten()
                    .any(|at| at <= self.now);
                rounds += 1;
                assert!(rounds < 100_000, "side {side} does not come to rest");
                if packets == 0 && events == 0 && !wants {
                    break;
                }
            }
            // What the application did last may want to be sent.
            self.transmit(side);
        }
    }

    fn transmit(&mut self, side: usize) -> u32 {
        let mut count = 0;
        loop {
            let end = &mut self.ends[side];
            let Some(connection) = &mut end.connection else {
                return count;
            };
            if let Some(device) = &mut end.device
                && !device.takes_one(self.now)
            {
                device.check_patience(&connection.info(self.now));
                return count;
            }
            if !connection.poll_transmit(self.now, &mut end.transmit) {
                return count;
            }
            let payload = connection.payload(&end.transmit);
            let payload: Vec<u8> = payload.flatten().copied().collect();
            let (len, mtu) = (end.transmit.payload_len, end.path.mtu);
            assert_eq!(
                u32::try_from(payload.len()),
                Ok(len),
                "payload and its length"
            );
            for packet in cut(&end.transmit, &payload) {
                let len = packet.payload.len();
                assert!(
                    len + 40 <= usize::from(mtu),
                    "{len} octets and an MTU of {mtu}"
                );
                self.send(side, packet);
            }
            count += 1;
            assert!(count < 100_000, "side {side} sends without end");
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ends.iter().all(End::is_over)
    }
}

/// The packets of one transmission, as a device with segmentation offload makes them.
fn cut(transmit: &Transmit, payload: &[u8]) -> Vec<Packet> {
    let piece_len = usize::from(transmit.segment_len);
    if payload.len() <= piece_len || piece_len == 0 {
        return vec![Packet {
            header: transmit.header,
            ecn: transmit.ecn,
            payload: payload.to_vec(),
        }];
    }
    let (on_last, on_first) = (Flags::FIN | Flags::PSH, Flags::CWR);
    let count = payload.len().div_ceil(piece_len);
    let pieces = payload.chunks(piece_len).enumerate().map(|(index, piece)| {
        let mut header = transmit.header;
        let offset = u32::try_from(index * piece_len).expect("less than a window");
        header.seq = header.seq.wrapping_add(offset);
        let mut dropped = Flags::NONE;
        if index + 1 < count {
            dropped |= on_last;
        }
        if index > 0 {
            dropped |= on_first;
        }
        header.flags = Flags::from_bits(header.flags.bits() & !dropped.bits());
        Packet {
            header,
            ecn: transmit.ecn,
            payload: piece.to_vec(),
        }
    });
    pieces.collect()
}

fn is_ecn_syn(flags: Flags) -> bool {
    flags == Flags::SYN | Flags::ECE | Flags::CWR
}

/// Octets of a frame of a device.
const FRAME_LEN: usize = 2048;
