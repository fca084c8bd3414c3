//! The engine as a stack with sockets, in virtual time: what a kernel has around it, as little of
//! it as scripts need.

pub(crate) mod calls;
mod fast_open;
mod info;
mod poll;
mod settings;
mod sockets;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use packetdrill::script::{TcpOption, flags};
use packetdrill::sysctl::Change;
use packetdrill::{Call, Outcome, Segment, Setup, Stack, Unreachable, wire};
use tcp::time_wait::{self, TimeWaitTable, Verdict};
use tcp::{
    Config, Connection, CookieError, Ecn, Event, FastOpenCache, FastOpenKeys, Flags, Header,
    IcmpError, Instant, ListenDisposition, Options, Path, SecretFlow, SecretKey, Secrets,
    SeqNumber, Transmit, reset_for,
};

use sockets::{Embryo, Kind, Socket};

/// The engine with sockets.
pub(crate) struct Engine {
    now: Instant,
    setup: Setup,
    config: Arc<Config>,
    /// What sockets begin with.
    options: Options,
    path: Path,
    time_wait: TimeWaitTable,
    keys: FastOpenKeys,
    cookies: FastOpenCache,
    /// Initial sequence numbers come from here, one after another.
    next_iss: u32,
    next_port: u16,
    connections: BTreeMap<usize, Held>,
    next_connection: usize,
    sockets: BTreeMap<i32, Socket>,
    transmit: Transmit,
    outbox: VecDeque<(Instant, Segment)>,
    pending: Option<calls::Pending>,
    finished: Option<(Instant, Outcome)>,
}

/// A connection and whose it is.
struct Held {
    connection: Connection<Vec<u8>>,
    local_port: u16,
    remote_port: u16,
    /// The listening socket whose queue counts it.
    embryo: Option<Embryo>,
    /// The one that it came from.
    listener: Option<i32>,
    /// Octets written and read by the application.
    written: u32,
    read: u32,
    /// It failed, and nobody has been told.
    has_error: bool,
}

/// The first ephemeral port.
const FIRST_PORT: u16 = 32_768;

/// How many rounds of timers at one instant are a connection that does not wait.
const MAX_ROUNDS: u32 = 10_000;

impl Engine {
    /// `iss` is the first connection's initial sequence number.
    pub(crate) fn new(iss: u32) -> Self {
        Self {
            // Not the clock's origin: that time is not zero must not matter.
            now: EPOCH,
            setup: Setup {
                sysctls: Vec::new(),
                mtu: 1500,
                bind_port: 0,
                connect_port: 0,
                segment_len: None,
                is_ipv6: false,
                local: Ipv4Addr::LOCALHOST,
                remote: Ipv4Addr::LOCALHOST,
            },
            config: Arc::new(Config::default()),
            options: Options::default(),
            path: Path::ipv4(1500),
            time_wait: time_wait_table(&Config::default()),
            keys: FastOpenKeys::new([0; 16], None),
            cookies: FastOpenCache::new(100),
            next_iss: iss,
            next_port: FIRST_PORT,
            connections: BTreeMap::new(),
            next_connection: 0,
            sockets: BTreeMap::new(),
            transmit: Transmit::default(),
            outbox: VecDeque::new(),
            pending: None,
            finished: None,
        }
    }

    fn hold(
        &mut self,
        connection: Connection<Vec<u8>>,
        ports: (u16, u16),
        embryo: Option<Embryo>,
    ) -> usize {
        let id = self.next_connection;
        self.next_connection += 1;
        let held = Held {
            listener: embryo.as_ref().map(|embryo| embryo.listener),
            connection,
            local_port: ports.0,
            remote_port: ports.1,
            embryo,
            written: 0,
            read: 0,
            has_error: false,
        };
        self.connections.insert(id, held);
        id
    }

    fn secrets(&mut self) -> Secrets {
        let iss = SeqNumber(self.next_iss);
        self.next_iss = self.next_iss.wrapping_add(0x1234_5678);
        Secrets {
            iss,
            timestamp_offset: self.next_iss,
        }
    }

    fn find(&self, local_port: u16, remote_port: u16) -> Option<usize> {
        let matches =
            |held: &Held| held.local_port == local_port && held.remote_port == remote_port;
        // The newest: an older one is closed.
        self.connections
            .iter()
            .rev()
            .find(|(_, held)| matches(held))
            .map(|(id, _)| *id)
    }

    /// Sends what there is to send, hands out events, and lets a call that waits look again.
    fn settle(&mut self) {
        self.settle_connections();
        if self.pending.is_some() {
            self.retry();
            self.settle_connections();
        }
    }

    fn settle_connections(&mut self) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.settle_connection(id);
        }
    }

    fn settle_connection(&mut self, id: usize) {
        let Some(held) = self.connections.get_mut(&id) else {
            return;
        };
        let ports = (held.local_port, held.remote_port);
        while held.connection.poll_transmit(self.now, &mut self.transmit) {
            let payload = held.connection.payload(&self.transmit);
            let payload = payload.flatten().copied().collect();
            self.outbox
                .push_back((self.now, to_segment(&self.transmit, ports, payload)));
        }
        held.connection.check_invariants();
        let mut events = Vec::new();
        while let Some(event) = held.connection.poll_event() {
            events.push(event);
        }
        for event in events {
            self.on_event(id, event);
        }
    }

    fn on_event(&mut self, id: usize, event: Event) {
        let embryo = self.connections.get_mut(&id).and_then(|held| {
            let over = matches!(event, Event::Connected | Event::Closed | Event::Failed);
            if over { held.embryo.take() } else { None }
        });
        if let Some(Embryo { listener }) = embryo
            && let Some(Socket {
                kind: Kind::Listening { listener, queue },
                ..
            }) = self.sockets.get_mut(&listener)
        {
            if event == Event::Connected {
                listener.on_established();
                queue.push_back(id);
            } else {
                listener.on_embryonic_closed();
            }
        }
        if event == Event::Failed
            && let Some(held) = self.connections.get_mut(&id)
        {
            held.has_error = true;
        }
        self.note_fast_open(id, event);
        self.note_edge(id, event);
        if event == Event::TimeWait {
            self.enter_time_wait(id);
        }
        if event == Event::Closed {
            let is_open = self
                .sockets
                .values()
                .any(|socket| socket.kind.connection() == Some(id));
            let waits = self.sockets.values().any(|socket| socket.kind.queues(id));
            if !is_open && !waits {
                self.connections.remove(&id);
            }
        }
    }

    /// What arrives is not for the connection any more, which is only kept for whoever still has a
    /// descriptor of it.
    fn enter_time_wait(&mut self, id: usize) {
        let held = &self.connections[&id];
        let (local, remote) = self.ends((held.local_port, held.remote_port));
        let residue = held.connection.residue().expect("it is in TIME-WAIT");
        assert!(self.time_wait.insert(local, remote, &residue, self.now));
    }

    fn ends(&self, ports: (u16, u16)) -> (SocketAddrV4, SocketAddrV4) {
        (
            SocketAddrV4::new(self.setup.local, ports.0),
            SocketAddrV4::new(self.setup.remote, ports.1),
        )
    }

    fn deliver(&mut self, segment: &Segment) {
        let header = to_header(segment);
        let ecn = Ecn::from_tos(segment.tos);
        let ports = (segment.destination, segment.source);
        let (local, remote) = self.ends(ports);
        let (len, now) = (segment.payload.len(), self.now);
        match self.time_wait.on_segment(local, remote, &header, len, now) {
            None => {}
            Some(Verdict::Drop | Verdict::Closed) => return,
            Some(Verdict::Answer(answer)) => {
                self.transmit = Transmit::default();
                self.transmit.header = answer.header;
                let answer = to_segment(&self.transmit, ports, Vec::new());
                self.outbox.push_back((now, answer));
                return;
            }
            Some(Verdict::Open { iss }) => {
                self.next_iss = iss.0;
                self.deliver_to_listener(segment, &header, ecn);
                return;
            }
        }
        let is_over = |state| matches!(state, tcp::State::Closed | tcp::State::TimeWait);
        if let Some(id) = self.find(ports.0, ports.1)
            && !is_over(self.connections[&id].connection.state())
        {
            let held = self.connections.get_mut(&id).expect("just found");
            if held.connection.is_embryonic()
                && let Some(embryo) = &held.embryo
                && let Some(Socket {
                    kind: Kind::Listening { listener, .. },
                    ..
                }) = self.sockets.get_mut(&embryo.listener)
                && !listener.admits(&mut held.connection, &header, segment.payload.len())
            {
                return;
            }
            let payload = Some(segment.payload.clone()).filter(|payload| !payload.is_empty());
            held.connection.on_segment(self.now, &header, ecn, payload);
            return;
        }
        self.deliver_to_listener(segment, &header, ecn);
    }

    /// A segment of no connection.
    fn deliver_to_listener(&mut self, segment: &Segment, header: &Header, ecn: Ecn) {
        let ports = (segment.destination, segment.source);
        let (now, path, keys) = (self.now, self.path, self.keys);
        let ends = (self.setup.remote.into(), self.setup.local.into());
        let listening = self.sockets.iter_mut().find(|(_, socket)| {
            socket.port == Some(segment.destination)
                && matches!(socket.kind, Kind::Listening { .. })
        });
        let Some((fd, socket)) = listening else {
            self.reset(segment, header);
            return;
        };
        let Kind::Listening { listener, .. } = &mut socket.kind else {
            return;
        };
        let (fd, options) = (*fd, socket.options.clone());
        let flow = SecretFlow {
            key: &KEY,
            local: (self.setup.local, ports.0).into(),
            remote: (self.setup.remote, ports.1).into(),
        };
        match listener.on_segment(now, header) {
            ListenDisposition::Open => {
                let len = segment.payload.len();
                let reply = listener.fast_open(now, &keys, ends, header, len);
                let config = Arc::clone(&self.config);
                let secrets = self.secrets();
                let mut connection =
                    Connection::accept(now, config, options, path, secrets, header, ecn);
                let payload = Some(segment.payload.clone()).filter(|data| !data.is_empty());
                connection.open_fast(now, &reply, payload);
                self.hold(connection, ports, Some(Embryo { listener: fd }));
            }
            ListenDisposition::Cookie => {
                let transmit = &mut self.transmit;
                listener.answer_with_cookie(now, &flow, &path, &options, header, transmit);
                let answer = to_segment(&self.transmit, ports, Vec::new());
                self.outbox.push_back((now, answer));
            }
            ListenDisposition::Reset => {
                match listener.accept_cookie(now, &flow, path, options, header) {
                    Ok(mut connection) => {
                        let payload = Some(segment.payload.clone()).filter(|data| !data.is_empty());
                        connection.on_segment(now, header, ecn, payload);
                        self.hold(connection, ports, Some(Embryo { listener: fd }));
                    }
                    Err(CookieError::Invalid) => self.reset(segment, header),
                    Err(CookieError::QueueFull) => {}
                }
            }
            ListenDisposition::Ignore => {}
        }
    }

    fn reset(&mut self, segment: &Segment, header: &Header) {
        let len = u32::try_from(segment.payload.len()).expect("a segment's length");
        if reset_for(header, len, &mut self.transmit) {
            let ports = (segment.destination, segment.source);
            let reset = to_segment(&self.transmit, ports, Vec::new());
            self.outbox.push_back((self.now, reset));
        }
    }

    fn take_sysctls(&mut self) -> Result<(), String> {
        let (config, options) = settings::of(&self.setup.sysctls)?;
        self.config = Arc::new(config);
        self.options = options;
        if let Some(keys) = fast_open::keys(&self.setup.sysctls)? {
            self.keys = keys;
        }
        Ok(())
    }

    /// The next instant at which something happens by itself.
    fn next_timeout(&self) -> Option<Instant> {
        let connections = self
            .connections
            .values()
            .filter_map(|held| held.connection.poll_timeout());
        connections
            .chain(self.pending.as_ref().and_then(calls::Pending::deadline))
            .chain(self.time_wait.next_expiry())
            .min()
    }
}

fn time_wait_table(config: &Config) -> TimeWaitTable {
    let settings = time_wait::Settings {
        duration: config.time_wait,
        rfc1337: config.rfc1337,
        answer_interval: config.invalid_ratelimit,
    };
    TimeWaitTable::new([0; 16], 1000, settings)
}

/// Of the cookies.
const KEY: SecretKey = SecretKey::new(*b"not so secret...");

/// The script's time zero.
const EPOCH: Instant = Instant::from_nanos(5_000_000_000);

fn since_epoch(now: Instant) -> Duration {
    now.saturating_since(EPOCH)
}

impl Stack for Engine {
    fn set_up(&mut self, setup: &Setup) -> Result<(), String> {
        self.path = Path::ipv4(setup.mtu);
        if setup.is_ipv6 {
            self.path.ip_header_len = 40;
        }
        self.setup = setup.clone();
        self.take_sysctls()?;
        self.time_wait = time_wait_table(&self.config);
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Set(setting) => {
                self.setup.sysctls.push(setting.clone());
                self.take_sysctls()
            }
            Change::ForgetHosts => {
                self.cookies.clear();
                Ok(())
            }
        }
    }

    fn now(&mut self) -> Duration {
        since_epoch(self.now)
    }

    fn sniff(&mut self, deadline: Duration) -> Option<(Duration, Segment)> {
        let deadline = EPOCH + deadline;
        let mut rounds = 0;
        loop {
            if let Some((time, segment)) = self.outbox.pop_front() {
                return Some((since_epoch(time), segment));
            }
            let due = self.next_timeout().filter(|due| *due <= deadline);
            let Some(due) = due else {
                self.now = self.now.max(deadline);
                self.retry();
                return None;
            };
            rounds = if due <= self.now { rounds + 1 } else { 0 };
            assert!(rounds < MAX_ROUNDS, "a timer does not let time pass");
            self.now = self.now.max(due);
            self.time_wait.expire(self.now);
            for held in self.connections.values_mut() {
                if held
                    .connection
                    .poll_timeout()
                    .is_some_and(|timeout| timeout <= self.now)
                {
                    held.connection.on_timeout(self.now);
                }
            }
            self.settle();
        }
    }

    fn inject(&mut self, segment: &Segment) {
        for piece in pieces(segment, self.setup.segment_len) {
            self.deliver(&piece);
        }
        self.settle();
    }

    fn inject_unreachable(&mut self, message: &Unreachable) {
        let error = match message.code {
            0 | 5 | 6 | 9 | 11 => IcmpError::NetUnreachable,
            2 => IcmpError::ProtocolUnreachable,
            3 => IcmpError::PortUnreachable,
            4 => IcmpError::PacketTooBig { mtu: message.mtu },
            _ => IcmpError::HostUnreachable,
        };
        if let Some(id) = self.find(message.source, message.destination) {
            let held = self.connections.get_mut(&id).expect("just found");
            held.connection.on_icmp(error, SeqNumber(message.seq));
        }
        self.settle();
    }

    fn start(&mut self, call: &Call, _: bool) -> Result<(), String> {
        self.finished = None;
        self.begin(call)?;
        self.settle();
        Ok(())
    }

    fn outcome(&mut self) -> Option<(Duration, Outcome)> {
        let (time, outcome) = self.finished.take()?;
        Some((since_epoch(time), outcome))
    }

    fn tcp_info(&mut self, fd: i32, name: &str) -> Option<i64> {
        let socket = self.sockets.get(&fd)?;
        let held = self.connections.get(&socket.kind.connection()?)?;
        info::value(&held.connection.info(self.now), name)
    }
}

/// A segment as the network brings it: in pieces of at most `len` octets, if that is given.
fn pieces(segment: &Segment, len: Option<u16>) -> Vec<Segment> {
    const LAST: u8 = flags::PSH | flags::FIN;
    let len = len.map_or(usize::MAX, usize::from).max(1);
    let count = segment.payload.len().div_ceil(len).max(1);
    let piece = |index: usize| {
        let start = index.saturating_mul(len).min(segment.payload.len());
        let end = start.saturating_add(len).min(segment.payload.len());
        let is_last = index + 1 == count;
        Segment {
            seq: segment
                .seq
                .wrapping_add(u32::try_from(start).expect("a segment's length")),
            flags: segment.flags & if is_last { u8::MAX } else { !LAST },
            payload: segment.payload[start..end].to_vec(),
            ..segment.clone()
        }
    };
    (0..count).map(piece).collect()
}

/// A header as the engine takes it; the options go by way of their bytes, so that their order is
/// compared too.
pub(crate) fn to_header(segment: &Segment) -> Header {
    let list = wire::encode_options(&segment.options);
    let flags = Flags::from_bits(segment.flags);
    Header {
        seq: segment.seq,
        ack: segment.ack,
        flags,
        window: segment.window,
        urgent: segment.urgent,
        options: ::wire::tcp::Options::parse(&list, flags.contains(Flags::SYN)),
    }
}

/// What the engine sends from `ports` (local, remote).
pub(crate) fn to_segment(transmit: &Transmit, ports: (u16, u16), payload: Vec<u8>) -> Segment {
    let mut list = [0; ::wire::tcp::MAX_OPTIONS_LEN];
    let len = transmit.header.options.emit(&mut list);
    let options: Vec<TcpOption> =
        wire::decode_options(&list[..len]).expect("the engine's options are well-formed");
    Segment {
        source: ports.0,
        destination: ports.1,
        seq: transmit.header.seq,
        ack: transmit.header.ack,
        flags: transmit.header.flags.bits(),
        ae: false,
        window: transmit.header.window,
        urgent: transmit.header.urgent,
        options,
        payload,
        tos: transmit.ecn as u8,
    }
}
