//! The engine as a host with one address: what connections need around them, and no more.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use tcp::{
    Config, Connection, CookieError, Ecn, Event, Header, Instant, ListenDisposition, Listener,
    Options, Path, SecretFlow, SecretKey, Snapshot, Transmit, reset_for,
};
use testkit::{Port, Tun};
use wire::tcp::{Segment, Template, parse_tcp4};
use wire::{ChecksumPolicy, EthernetAddresses, ethernet};

/// Of the link-layer header that `wire` expects and a TUN device does not have.
pub(crate) const LINK_HEADER_LEN: usize = ethernet::HEADER_LEN as usize;

/// A host. It lives in the relay's thread, and applications are what the test does between two
/// packets.
pub(crate) struct Host {
    address: Ipv4Addr,
    pub(crate) config: Arc<Config>,
    /// What connections begin with.
    pub(crate) options: Options,
    path: Path,
    key: SecretKey,
    /// In the order of their opening; they stay when they are closed.
    pub(crate) connections: Vec<Held>,
    listening: Option<Listening>,
    /// Connections that were opened by a cookie.
    pub(crate) cookie_count: u32,
    /// The address is a kernel's: everything is for that.
    pub(crate) kernel: Option<Tun>,
    outbox: VecDeque<Vec<u8>>,
    transmit: Transmit,
    frame: Vec<u8>,
    packet_count: u16,
}

/// A connection and whose it is.
pub(crate) struct Held {
    pub(crate) connection: Connection<Vec<u8>>,
    /// All that it ever reported.
    pub(crate) events: Vec<Event>,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    template: Template,
    is_counted_as_embryo: bool,
}

struct Listening {
    port: u16,
    listener: Listener,
    accept_queue: VecDeque<usize>,
}

impl Host {
    pub(crate) fn new(address: Ipv4Addr, mtu_bytes: u16, config: Config, seed: u64) -> Self {
        Self {
            address,
            config: Arc::new(config),
            options: Options::default(),
            path: Path::ipv4(mtu_bytes),
            key: SecretKey::new((u128::from(seed) * 0x9e37_79b9_7f4a_7c15).to_le_bytes()),
            connections: Vec::new(),
            listening: None,
            cookie_count: 0,
            kernel: None,
            outbox: VecDeque::new(),
            transmit: Transmit::default(),
            frame: vec![0; 1 << 16],
            packet_count: 0,
        }
    }

    /// Begins to open a connection; its number.
    pub(crate) fn connect(&mut self, now: Instant, remote: SocketAddrV4) -> usize {
        let port = u16::try_from(40_000 + self.connections.len()).expect("few connections");
        let local = SocketAddrV4::new(self.address, port);
        let secrets = self.key.secrets(local.into(), remote.into(), now);
        let (config, options) = (Arc::clone(&self.config), self.options.clone());
        let connection = Connection::connect(now, config, options, self.path, secrets);
        self.hold(connection, port, remote)
    }

    pub(crate) fn listen(&mut self, now: Instant, port: u16, backlog: u32) {
        self.listening = Some(Listening {
            port,
            listener: Listener::new(now, Arc::clone(&self.config), backlog),
            accept_queue: VecDeque::new(),
        });
    }

    /// The number of the next connection that was opened by the peer.
    pub(crate) fn accept(&mut self) -> Option<usize> {
        let listening = self.listening.as_mut()?;
        let id = listening.accept_queue.pop_front()?;
        listening.listener.on_accepted();
        Some(id)
    }

    /// Of the listening socket.
    pub(crate) fn listener(&self) -> Option<&Listener> {
        self.listening.as_ref().map(|listening| &listening.listener)
    }

    /// Takes the connection out that was opened last.
    pub(crate) fn take_out(&mut self) -> Connection<Vec<u8>> {
        self.connections.pop().expect("there is one").connection
    }

    /// Goes on with a connection that another stack began.
    pub(crate) fn put_in(
        &mut self,
        now: Instant,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        snapshot: Snapshot<Vec<u8>>,
    ) -> usize {
        let config = Arc::clone(&self.config);
        let connection = Connection::import(now, config, self.path, snapshot);
        self.hold(connection.expect("is consistent"), local.port(), remote)
    }

    fn hold(
        &mut self,
        connection: Connection<Vec<u8>>,
        local_port: u16,
        remote: SocketAddrV4,
    ) -> usize {
        let local = SocketAddrV4::new(self.address, local_port);
        self.connections.push(Held {
            is_counted_as_embryo: connection.is_embryonic(),
            connection,
            events: Vec::new(),
            local,
            remote,
            template: Template::new(NO_LINK_ADDRESSES, local, remote, 64, 0, true),
        });
        self.connections.len() - 1
    }

    /// The next segment of any connection; its length in `buffer`.
    fn transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        for id in 0..self.connections.len() {
            let held = &mut self.connections[id];
            if held.connection.poll_timeout().is_some_and(|at| at <= now) {
                held.connection.on_timeout(now);
            }
            if held.connection.poll_transmit(now, &mut self.transmit) {
                let payload = held.connection.payload(&self.transmit);
                self.packet_count = self.packet_count.wrapping_add(1);
                let len = held.template.emit(
                    &mut self.frame,
                    self.packet_count,
                    self.transmit.ecn as u8,
                    &self.transmit.header,
                    payload,
                );
                let packet = &self.frame[LINK_HEADER_LEN..len.expect("segments fit into packets")];
                buffer[..packet.len()].copy_from_slice(packet);
                return Some(packet.len());
            }
            held.connection.check_invariants();
            self.take_events(id);
        }
        None
    }

    fn take_events(&mut self, id: usize) {
        let held = &mut self.connections[id];
        while let Some(event) = held.connection.poll_event() {
            held.events.push(event);
            let is_over = matches!(event, Event::Connected | Event::Failed | Event::Closed);
            if is_over
                && std::mem::take(&mut held.is_counted_as_embryo)
                && let Some(listening) = &mut self.listening
            {
                if event == Event::Connected {
                    listening.listener.on_established();
                    listening.accept_queue.push_back(id);
                } else {
                    listening.listener.on_embryonic_closed();
                }
            }
        }
    }

    fn deliver(&mut self, now: Instant, segment: &Segment, payload: &[u8]) {
        let flow = (
            v4(segment.endpoints.destination()),
            v4(segment.endpoints.source()),
        );
        let found = self.connections.iter().position(|held| {
            let is_open = held.connection.state() != tcp::State::Closed;
            (held.local, held.remote) == flow && is_open
        });
        let ecn = Ecn::from_tos(segment.tos);
        let Some(id) = found else {
            self.open(now, segment, ecn, payload);
            return;
        };
        let held = &mut self.connections[id];
        if held.is_counted_as_embryo
            && let Some(listening) = &mut self.listening
            && !listening
                .listener
                .admits(&mut held.connection, &segment.header, payload.len())
        {
            return;
        }
        let payload = Some(payload.to_vec()).filter(|payload| !payload.is_empty());
        held.connection
            .on_segment(now, &segment.header, ecn, payload);
        self.take_events(id);
    }

    /// For the listening socket, or for nobody.
    fn open(&mut self, now: Instant, segment: &Segment, ecn: Ecn, payload: &[u8]) {
        let (header, path) = (&segment.header, self.path);
        let flow = SecretFlow {
            key: &self.key,
            local: segment.endpoints.destination(),
            remote: segment.endpoints.source(),
        };
        let listening = self.listening.as_mut();
        let listening =
            listening.filter(|listening| listening.port == segment.endpoints.destination().port());
        let Some(Listening { listener, .. }) = listening else {
            self.send_reset(segment);
            return;
        };
        match listener.on_segment(now, header) {
            ListenDisposition::Open => {
                let secrets = self.key.secrets(flow.local, flow.remote, now);
                let (config, options) = (Arc::clone(&self.config), self.options.clone());
                let connection =
                    Connection::accept(now, config, options, path, secrets, header, ecn);
                self.hold(
                    connection,
                    segment.endpoints.destination().port(),
                    v4(segment.endpoints.source()),
                );
            }
            ListenDisposition::Cookie => {
                let (options, mut answer) = (&self.options, Transmit::default());
                listener.answer_with_cookie(now, &flow, &path, options, header, &mut answer);
                self.send_alone(segment, &answer.header);
            }
            ListenDisposition::Reset => {
                let options = self.options.clone();
                match listener.accept_cookie(now, &flow, path, options, header) {
                    Ok(connection) => {
                        self.cookie_count += 1;
                        self.hold(
                            connection,
                            segment.endpoints.destination().port(),
                            v4(segment.endpoints.source()),
                        );
                        self.deliver(now, segment, payload);
                    }
                    Err(CookieError::Invalid) => self.send_reset(segment),
                    Err(CookieError::QueueFull) => {}
                }
            }
            ListenDisposition::Ignore => {}
        }
    }

    fn send_reset(&mut self, segment: &Segment) {
        let mut reset = Transmit::default();
        if reset_for(&segment.header, u32::from(segment.payload_len), &mut reset) {
            self.send_alone(segment, &reset.header);
        }
    }

    /// An answer to `segment` without a connection.
    fn send_alone(&mut self, segment: &Segment, header: &Header) {
        let (local, remote) = (segment.endpoints.destination(), segment.endpoints.source());
        let template = Template::new(NO_LINK_ADDRESSES, local, remote, 64, 0, true);
        let len = template
            .emit(&mut self.frame, 0, 0, header, [])
            .expect("a header fits");
        self.outbox
            .push_back(self.frame[LINK_HEADER_LEN..len].to_vec());
    }
}

impl Port for Host {
    fn receive(&mut self, now: Duration, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(kernel) = &mut self.kernel {
            return Port::receive(kernel, now, buffer);
        }
        if let Some(packet) = self.outbox.pop_front() {
            buffer[..packet.len()].copy_from_slice(&packet);
            return Ok(Some(packet.len()));
        }
        Ok(self.transmit(instant(now), buffer))
    }

    fn send(&mut self, now: Duration, packet: &[u8]) -> io::Result<()> {
        if let Some(kernel) = &mut self.kernel {
            return Port::send(kernel, now, packet);
        }
        let mut frame = Vec::with_capacity(LINK_HEADER_LEN + packet.len());
        frame.extend_from_slice(&[0; LINK_HEADER_LEN - 2]);
        frame.extend_from_slice(&ethernet::TYPE_IPV4.to_be_bytes());
        frame.extend_from_slice(packet);
        // Nothing on the way touches the octets.
        let segment = parse_tcp4(&frame, ChecksumPolicy::Verify)
            .unwrap_or_else(|error| panic!("the kernel sent {packet:02x?}: {error:?}"));
        let start = usize::from(segment.payload_offset);
        let payload = &frame[start..start + usize::from(segment.payload_len)];
        self.deliver(instant(now), &segment, payload);
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.as_ref().and_then(Port::descriptor)
    }

    fn timeout(&self) -> Option<Duration> {
        let timeouts = self.connections.iter().filter_map(|held| {
            let at = held.connection.poll_timeout()?;
            Some(at - EPOCH)
        });
        timeouts.min()
    }
}

/// The engine's clock. It does not begin at its origin: that must not matter.
pub(crate) fn instant(now: Duration) -> Instant {
    EPOCH + now
}

const EPOCH: Instant = Instant::from_nanos(1_000_000_000_000);

pub(crate) const NO_LINK_ADDRESSES: EthernetAddresses = EthernetAddresses {
    source: [0; 6],
    destination: [0; 6],
};

/// The network is of IPv4.
fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => panic!("{address} is of IPv6"),
    }
}
