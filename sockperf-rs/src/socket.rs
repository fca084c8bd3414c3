//! Sockets and addresses.
//!
//! Clients do not connect and, unless asked to, do not bind: the first message binds the socket.
//! All data goes through `sendto` and `recvfrom` of the C library, so that a preloaded library sees
//! it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;
use crate::options::{ClientOptions, CommonOptions, ServerOptions};
use crate::stop::Stop;

/// Large enough for every UDP datagram.
pub const RECEIVE_LEN: usize = 65_536;

/// A socket that is ready for a run, and what the report says about it.
#[derive(Debug)]
pub struct Prepared {
    /// The socket.
    pub socket: UdpSocket,
    /// Where a client sends to, or where a server listens.
    pub address: SocketAddr,
    /// What the system made of `--buffer-size`.
    pub buffers: Option<BufferSizes>,
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

/// Binds a server's socket. `wake_up` bounds how long a receive call can block.
pub fn server(options: &ServerOptions, wake_up: Duration) -> Result<Prepared, Error> {
    let common = &options.common;
    let address = match &common.host {
        Some(host) => resolve(host, common.port)?,
        None => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), common.port),
    };
    let (socket, buffers) = open(common, address, wake_up)?;
    socket
        .bind(&address.into())
        .map_err(|error| Error::setup(format!("cannot bind socket to {address}"), error))?;
    let socket = UdpSocket::from(socket);
    let address = socket
        .local_addr()
        .map_err(|error| Error::setup("cannot read the bound address", error))?;
    Ok(Prepared {
        socket,
        address,
        buffers,
    })
}

/// Makes a client's socket. `wake_up` bounds how long a receive call can block.
pub fn client(options: &ClientOptions, wake_up: Duration) -> Result<Prepared, Error> {
    let common = &options.common;
    let address = match &common.host {
        Some(host) => resolve(host, common.port)?,
        None => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), common.port),
    };
    let (socket, buffers) = open(common, address, wake_up)?;
    if options.bind_host.is_some() || options.bind_port != 0 {
        let bind_address = match (&options.bind_host, address) {
            (Some(host), _) => resolve(host, options.bind_port)?,
            (None, SocketAddr::V4(_)) => {
                SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), options.bind_port)
            }
            (None, SocketAddr::V6(_)) => {
                SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), options.bind_port)
            }
        };
        socket.bind(&bind_address.into()).map_err(|error| {
            Error::setup(format!("cannot bind socket to {bind_address}"), error)
        })?;
    }
    Ok(Prepared {
        socket: socket.into(),
        address,
        buffers,
    })
}

/// The address of a host name or literal, IPv4 before IPv6.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let addresses: Vec<SocketAddr> = (literal, port)
        .to_socket_addrs()
        .map_err(|error| Error::setup(format!("invalid address '{host}'"), error))?
        .collect();
    let address = addresses
        .iter()
        .find(|address| address.is_ipv4())
        .or_else(|| addresses.first())
        .copied()
        .ok_or_else(|| Error::Usage(format!("the name '{host}' has no address")))?;
    let is_broadcast = address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    if address.ip().is_multicast() || is_broadcast {
        return Err(Error::Usage(format!(
            "not supported yet: multicast or broadcast address {host}"
        )));
    }
    Ok(address)
}

/// Sends one message, again and again while the system's buffers are full. Returns whether it was
/// sent; it is not when a stop was requested meanwhile.
#[inline]
pub fn send(
    socket: &UdpSocket,
    message: &[u8],
    peer: SocketAddr,
    stop: &Stop,
    retries: &mut u64,
) -> Result<bool, Error> {
    loop {
        let Err(error) = socket.send_to(message, peer) else {
            return Ok(true);
        };
        if !is_transient_send_error(&error) {
            return Err(Error::Transfer {
                what: format!("sendto() failed sending {} bytes to {peer}", message.len()),
                source: error,
            });
        }
        *retries += 1;
        if stop.is_requested() {
            return Ok(false);
        }
    }
}

/// Whether a receive call ended without a datagram but the socket is fine: the wake-up time passed,
/// a signal arrived, or an earlier datagram was refused by its destination.
pub fn is_idle_receive_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
    )
}

fn is_transient_send_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    ) || error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
}

fn open(
    common: &CommonOptions,
    address: SocketAddr,
    wake_up: Duration,
) -> Result<(Socket, Option<BufferSizes>), Error> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )
    .map_err(|error| Error::setup("cannot create a UDP socket", error))?;
    if common.nonblocked {
        socket
            .set_nonblocking(true)
            .map_err(|error| Error::setup("cannot make the socket non-blocking", error))?;
    } else {
        socket
            .set_read_timeout(Some(wake_up))
            .map_err(|error| Error::setup("cannot set the receive timeout", error))?;
    }
    let buffers = common
        .buffer_len
        .map(|len| set_buffers(&socket, len))
        .transpose()?;
    if let Some(tos) = common.tos {
        match address {
            SocketAddr::V4(_) => socket.set_tos_v4(u32::from(tos)),
            SocketAddr::V6(_) => socket.set_tclass_v6(u32::from(tos)),
        }
        .map_err(|error| Error::setup(format!("cannot set the type of service to {tos}"), error))?;
    }
    Ok((socket, buffers))
}

fn set_buffers(socket: &Socket, wanted_len: usize) -> Result<BufferSizes, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_resolve_to_themselves() {
        assert_eq!(
            resolve("127.0.0.1", 5).unwrap(),
            "127.0.0.1:5".parse().unwrap()
        );
        assert_eq!(resolve("::1", 5).unwrap(), "[::1]:5".parse().unwrap());
        assert_eq!(resolve("[::1]", 5).unwrap(), "[::1]:5".parse().unwrap());
    }

    #[test]
    fn group_addresses_are_refused() {
        for host in ["224.1.2.3", "ff02::1", "255.255.255.255"] {
            let error = resolve(host, 5).unwrap_err();
            assert!(
                error.to_string().starts_with("not supported yet"),
                "{error}"
            );
        }
    }

    #[test]
    fn bad_names_are_named() {
        let error = resolve("300.1.1.1", 5).unwrap_err();
        assert!(error.to_string().contains("300.1.1.1"), "{error}");
    }
}
