//! Making sockets: options, addresses, connections, groups.
//!
//! Clients do not connect datagram sockets and, unless asked to, do not bind them: the first message
//! does.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Type};

use crate::address::{Address, Flow, Peer};
use crate::error::Error;
use crate::message::{Flags, Header};
use crate::multicast;
use crate::options::{ClientOptions, Mode, ServerOptions, SocketOptions};
use crate::socket::{SendPolicy, Socket};

/// A client's socket and where it sends to.
#[derive(Debug)]
pub struct Endpoint {
    /// The socket.
    pub socket: Socket,
    /// Where messages go.
    pub peer: Peer,
    /// What the line of the report says.
    pub flow: Flow,
    /// What the system made of `--buffer-size`.
    pub buffers: Option<BufferSizes>,
    /// Removed at the end.
    path: Option<PathBuf>,
}

/// A server's socket.
#[derive(Debug)]
pub struct Listening {
    socket: Option<ListeningSocket>,
    /// What the lines of the report say: several groups may share a socket.
    pub flows: Vec<Flow>,
    /// What the system made of `--buffer-size`.
    pub buffers: Option<BufferSizes>,
    /// Removed at the end.
    path: Option<PathBuf>,
}

impl Listening {
    /// The socket, which is there once, and what else is known of it.
    pub fn take_socket(&mut self) -> Option<(ListeningSocket, &Self)> {
        let socket = self.socket.take()?;
        Some((socket, self))
    }

    /// Sends a few messages to the groups, so that the network learns of this server.
    pub fn warm_up(&self, policy: &mut SendPolicy<'_>) {
        const MESSAGES: u32 = 2;
        let Some(ListeningSocket::Datagram(socket)) = &self.socket else {
            return;
        };
        let header = Header {
            sequence: 0,
            flags: Flags(Flags::WARM_UP),
            len: 14,
        };
        for group in self.flows.iter().filter(|flow| flow.is_group()) {
            let Some(address) = group.address.inet() else {
                continue;
            };
            for _ in 0..MESSAGES {
                // Whoever cannot send to the group can still receive.
                socket
                    .send(&header.to_bytes(), &Peer::Inet(address), policy)
                    .ok();
            }
        }
    }
}

/// A socket that receives messages or connections.
#[derive(Debug)]
pub enum ListeningSocket {
    /// Receives messages.
    Datagram(Socket),
    /// Receives connections.
    Stream(socket2::Socket),
}

/// Sizes of the socket buffers as the system reports them.
#[derive(Clone, Copy, Debug)]
pub struct BufferSizes {
    /// File descriptor number.
    pub fd: i32,
    /// Size asked for.
    pub wanted_len: usize,
    /// Size of the receive buffer.
    pub receive_len: usize,
    /// Size of the send buffer.
    pub send_len: usize,
}

/// Blocked send calls on streams look at the stop request this often.
const SEND_WAKE_UP: Duration = Duration::from_millis(100);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Makes a client's socket for a flow. `wake_up` bounds how long a receive call can block.
pub fn client(
    flow: Flow,
    options: &ClientOptions,
    wake_up: Duration,
    nonblocking: bool,
) -> Result<Endpoint, Error> {
    let common = &options.common;
    let (socket, buffers) = create(&flow, &common.socket)?;
    if flow.is_group() {
        multicast::prepare_sender(&socket, &flow, &common.socket.multicast)?;
        if options.mode != Mode::Throughput {
            multicast::join(&socket, &flow, &common.socket.multicast)?;
        }
    }
    let path = bind_client(&socket, &flow, options)?;
    let peer = match (&flow.address, flow.stream) {
        (_, true) => {
            connect(&socket, &flow, options.connect_timeout)?;
            Peer::Connected
        }
        (Address::Inet(address), false) => Peer::Inet(*address),
        (Address::Unix(path), false) => Peer::Unix(unix_address(path)?),
    };
    block(&socket, nonblocking, wake_up, flow.stream)?;
    Ok(Endpoint {
        socket: into_socket(socket, &flow),
        peer,
        flow,
        buffers,
        path,
    })
}

/// Binds a server's sockets: one per flow, but one for all groups of a port.
pub fn server(
    flows: &[Flow],
    options: &ServerOptions,
    wake_up: Duration,
) -> Result<Vec<Listening>, Error> {
    let mut sockets: Vec<Listening> = Vec::new();
    for flow in flows {
        let shared = sockets.iter_mut().find(|listening| shares(listening, flow));
        if let Some(Listening { socket, flows, .. }) = shared {
            if let Some(ListeningSocket::Datagram(socket)) = socket {
                let socket = socket2::SockRef::from(&*socket);
                multicast::join(&socket, flow, &options.common.socket.multicast)?;
            }
            flows.push(flow.clone());
            continue;
        }
        sockets.push(listen(flow, options, wake_up)?);
    }
    Ok(sockets)
}

fn shares(listening: &Listening, flow: &Flow) -> bool {
    let port = |flow: &Flow| flow.address.inet().map(|address| address.port());
    listening
        .flows
        .first()
        .is_some_and(|first| first.is_group() && flow.is_group() && port(first) == port(flow))
}

fn listen(flow: &Flow, options: &ServerOptions, wake_up: Duration) -> Result<Listening, Error> {
    let common = &options.common;
    let (socket, buffers) = create(flow, &common.socket)?;
    let mut path = None;
    match &flow.address {
        Address::Inet(address) => {
            let mut address = *address;
            if flow.is_group() {
                multicast::prepare_sender(&socket, flow, &common.socket.multicast)?;
                if address.port() != 0 {
                    set(socket.set_reuse_address(true), "SO_REUSEADDR")?;
                }
                // The group's socket receives unicast, too.
                address.set_ip(any_address(address));
            }
            bind(&socket, &address.into(), &address)?;
            multicast::join(&socket, flow, &common.socket.multicast)?;
        }
        Address::Unix(name) => {
            bind(&socket, &unix_sock_addr(name)?, &name.display())?;
            path = Some(name.clone());
        }
    }
    let mut flow = flow.clone();
    if let (Address::Inet(address), Ok(bound)) = (&mut flow.address, socket.local_addr())
        && let Some(bound) = bound.as_socket()
    {
        address.set_port(bound.port());
    }
    let socket = if flow.stream {
        socket
            .listen(BACKLOG)
            .map_err(|error| Error::setup(format!("cannot listen on {}", flow.address), error))?;
        set(socket.set_nonblocking(true), "O_NONBLOCK")?;
        ListeningSocket::Stream(socket)
    } else {
        block(&socket, common.nonblocked, wake_up, false)?;
        ListeningSocket::Datagram(into_socket(socket, &flow))
    };
    Ok(Listening {
        socket: Some(socket),
        flows: vec![flow],
        buffers,
        path,
    })
}

/// Makes an accepted connection ready. `wake_up` bounds how long a receive call can block.
pub fn accepted(
    socket: socket2::Socket,
    flow: &Flow,
    options: &ServerOptions,
    wake_up: Duration,
) -> Result<Socket, Error> {
    if flow.address.inet().is_some() {
        set(
            socket.set_tcp_nodelay(options.common.socket.no_delay),
            "TCP_NODELAY",
        )?;
    }
    block(&socket, options.common.nonblocked, wake_up, true)?;
    Ok(into_socket(socket, flow))
}

fn create(
    flow: &Flow,
    options: &SocketOptions,
) -> Result<(socket2::Socket, Option<BufferSizes>), Error> {
    let domain = match &flow.address {
        Address::Inet(address) => Domain::for_address(*address),
        Address::Unix(_) => Domain::UNIX,
    };
    let (kind, protocol) = match (flow.stream, &flow.address) {
        (true, Address::Inet(_)) => (Type::STREAM, Some(Protocol::TCP)),
        (false, Address::Inet(_)) => (Type::DGRAM, Some(Protocol::UDP)),
        (true, Address::Unix(_)) => (Type::STREAM, None),
        (false, Address::Unix(_)) => (Type::DGRAM, None),
    };
    let socket = socket2::Socket::new(domain, kind, protocol)
        .map_err(|error| Error::setup("cannot create a socket", error))?;
    if let Address::Inet(address) = &flow.address {
        if options.reuse_address {
            set(socket.set_reuse_address(true), "SO_REUSEADDR")?;
        }
        if let Some(usec) = options.busy_poll_usec {
            set(socket.set_busy_poll(usec), "SO_BUSY_POLL (--lls)")?;
        }
        if flow.stream && options.no_delay {
            set(socket.set_tcp_nodelay(true), "TCP_NODELAY")?;
        }
        if let Some(tos) = options.tos {
            let tos = u32::from(tos);
            match address {
                SocketAddr::V4(_) => set(socket.set_tos_v4(tos), "IP_TOS")?,
                SocketAddr::V6(_) => set(socket.set_tclass_v6(tos), "IPV6_TCLASS")?,
            }
        }
    }
    let buffers = options
        .buffer_len
        .map(|len| set_buffers(&socket, len))
        .transpose()?;
    Ok((socket, buffers))
}

fn bind_client(
    socket: &socket2::Socket,
    flow: &Flow,
    options: &ClientOptions,
) -> Result<Option<PathBuf>, Error> {
    match &flow.address {
        Address::Inet(address) => {
            if options.bind_host.is_some() || options.bind_port != 0 {
                let host = options.bind_host.as_deref();
                let ip = any_address(*address);
                let address = match host {
                    Some(host) => crate::address::resolve(host, options.bind_port)?,
                    None => SocketAddr::new(ip, options.bind_port),
                };
                bind(socket, &address.into(), &address)?;
            }
            Ok(None)
        }
        Address::Unix(server) => {
            // Datagrams are answered to a name; a stream needs one only if it is asked for.
            let fd = socket.as_raw_fd();
            let path = match &options.bind_host {
                Some(path) => PathBuf::from(path),
                None if flow.stream => return Ok(None),
                None => PathBuf::from(format!("{}_{}_{fd}", server.display(), process::id())),
            };
            bind(socket, &unix_sock_addr(&path)?, &path.display())?;
            Ok(Some(path))
        }
    }
}

fn connect(socket: &socket2::Socket, flow: &Flow, timeout: Duration) -> Result<(), Error> {
    let connected = match &flow.address {
        Address::Inet(address) => socket.connect_timeout(&(*address).into(), timeout),
        Address::Unix(path) => socket.connect(&unix_sock_addr(path)?),
    };
    connected
        .map_err(|error| Error::setup(format!("Can`t connect socket to {}", flow.address), error))
}

/// The order matters: a connection is made while the socket blocks.
fn block(
    socket: &socket2::Socket,
    nonblocking: bool,
    wake_up: Duration,
    stream: bool,
) -> Result<(), Error> {
    set(socket.set_nonblocking(nonblocking), "O_NONBLOCK")?;
    if !nonblocking {
        set(socket.set_read_timeout(Some(wake_up)), "SO_RCVTIMEO")?;
        if stream {
            set(socket.set_write_timeout(Some(SEND_WAKE_UP)), "SO_SNDTIMEO")?;
        }
    }
    Ok(())
}

fn bind(
    socket: &socket2::Socket,
    address: &SockAddr,
    name: &dyn std::fmt::Display,
) -> Result<(), Error> {
    socket
        .bind(address)
        .map_err(|error| Error::setup(format!("Can`t bind socket to {name}"), error))
}

fn set_buffers(socket: &socket2::Socket, wanted_len: usize) -> Result<BufferSizes, Error> {
    let apply = || -> io::Result<BufferSizes> {
        socket.set_recv_buffer_size(wanted_len)?;
        socket.set_send_buffer_size(wanted_len)?;
        Ok(BufferSizes {
            fd: socket.as_raw_fd(),
            wanted_len,
            receive_len: socket.recv_buffer_size()?,
            send_len: socket.send_buffer_size()?,
        })
    };
    apply().map_err(|error| Error::setup("cannot set the socket buffer sizes", error))
}

fn set(result: io::Result<()>, option: &str) -> Result<(), Error> {
    result.map_err(|error| Error::setup(format!("cannot set {option}"), error))
}

fn any_address(like: SocketAddr) -> IpAddr {
    match like {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn unix_sock_addr(path: &Path) -> Result<SockAddr, Error> {
    SockAddr::unix(path)
        .map_err(|error| Error::setup(format!("invalid address '{}'", path.display()), error))
}

fn unix_address(path: &Path) -> Result<std::os::unix::net::SocketAddr, Error> {
    std::os::unix::net::SocketAddr::from_pathname(path)
        .map_err(|error| Error::setup(format!("invalid address '{}'", path.display()), error))
}

fn into_socket(socket: socket2::Socket, flow: &Flow) -> Socket {
    match (&flow.address, flow.stream) {
        (Address::Inet(_), false) => Socket::Udp(socket.into()),
        (Address::Inet(_), true) => Socket::Tcp(socket.into()),
        (Address::Unix(_), false) => Socket::UnixDatagram(socket.into()),
        (Address::Unix(_), true) => Socket::UnixStream(socket.into()),
    }
}

/// Leaves no name behind. That it is gone already is as good.
fn remove(path: Option<&PathBuf>) {
    if let Some(path) = path {
        std::fs::remove_file(path).ok();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        remove(self.path.as_ref());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        remove(self.path.as_ref());
    }
}
