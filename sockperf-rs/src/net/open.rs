//! Making sockets: options, addresses, connections, groups.
//!
//! Clients do not connect datagram sockets and, unless asked to, do not bind them: the first
//! message does.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use crate::error::Error;
use crate::net::address::{Address, Flow, Peer};
use crate::net::multicast;
use crate::net::socket::Socket;
use crate::options::{ClientOptions, Mode, SocketOptions};
use crate::sys::raw_option::{set_accelerated, set_rate_limit};
use crate::tls;

mod listening;

pub use listening::{Listening, ListeningSocket, accepted, server};

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

/// Makes a client's socket for a flow.
pub fn client(flow: Flow, options: &ClientOptions, nonblocking: bool) -> Result<Endpoint, Error> {
    let common = &options.common;
    let (socket, buffers) = create(&flow, &common.socket)?;
    if flow.is_group() {
        multicast::prepare_sender(&socket, &flow, &common.socket.multicast)?;
        if options.mode != Mode::Throughput || options.is_bidirectional {
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
    let socket = match &common.socket.tls {
        Some(cipher) if flow.stream => encrypted(socket, &flow, cipher, options.connect_timeout)?,
        _ => into_socket(socket, &flow),
    };
    block(&SockRef::from(&socket), nonblocking)?;
    Ok(Endpoint {
        socket,
        peer,
        flow,
        buffers,
        path,
    })
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
        if options.accelerated {
            set(
                set_accelerated(&socket),
                "sock-accl: It could be that this option is not supported in your system",
            )?;
        }
        if let Some(usec) = options.busy_poll_usec {
            set(socket.set_busy_poll(usec), "SO_BUSY_POLL (--lls)")?;
        }
        if let Some(rate) = options.rate_limit {
            set(set_rate_limit(&socket, rate), "SO_MAX_PACING_RATE")?;
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
                    Some(host) => crate::net::address::resolve(host, options.bind_port)?,
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

fn encrypted(
    socket: socket2::Socket,
    flow: &Flow,
    cipher: &str,
    timeout: Duration,
) -> Result<Socket, Error> {
    if flow.address.inet().is_none() {
        return Err(no_tls());
    }
    let stream = tls::connect(socket.into(), cipher, timeout)?;
    Ok(Socket::Tls(Box::new(stream)))
}

fn no_tls() -> Error {
    Error::Usage("--tls does not go with Unix sockets".to_owned())
}

/// The order matters: a connection is made while the socket blocks, for a limited time.
fn block(socket: &socket2::Socket, nonblocking: bool) -> Result<(), Error> {
    set(socket.set_nonblocking(nonblocking), "O_NONBLOCK")?;
    set(socket.set_read_timeout(None), "SO_RCVTIMEO")?;
    set(socket.set_write_timeout(None), "SO_SNDTIMEO")
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
