//! The sockets of a server.

use std::path::PathBuf;

use socket2::SockRef;

use super::{
    BufferSizes, any_address, bind, block, create, into_socket, no_tls, remove, set, unix_sock_addr,
};
use crate::error::Error;
use crate::message::{Flags, Header};
use crate::net::address::{Address, Flow, Peer};
use crate::net::multicast;
use crate::net::socket::{SendPolicy, Socket};
use crate::options::ServerOptions;
use crate::tls::Acceptor;

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

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Binds a server's sockets: one per flow, but one for all groups of a port.
pub fn server(flows: &[Flow], options: &ServerOptions) -> Result<Vec<Listening>, Error> {
    let mut sockets: Vec<Listening> = Vec::new();
    for flow in flows {
        let shared = sockets.iter_mut().find(|listening| shares(listening, flow));
        if let Some(Listening { socket, flows, .. }) = shared {
            if let Some(ListeningSocket::Datagram(socket)) = socket {
                let socket = SockRef::from(&*socket);
                multicast::join(&socket, flow, &options.common.socket.multicast)?;
            }
            flows.push(flow.clone());
            continue;
        }
        sockets.push(listen(flow, options)?);
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

fn listen(flow: &Flow, options: &ServerOptions) -> Result<Listening, Error> {
    let common = &options.common;
    if common.socket.tls.is_some() && flow.stream && flow.address.inet().is_none() {
        return Err(no_tls());
    }
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
        block(&socket, common.nonblocked)?;
        ListeningSocket::Datagram(into_socket(socket, &flow))
    };
    Ok(Listening {
        socket: Some(socket),
        flows: vec![flow],
        buffers,
        path,
    })
}

/// Makes an accepted connection ready, encrypted if there is an acceptor.
pub fn accepted(
    socket: socket2::Socket,
    flow: &Flow,
    (options, acceptor): (&ServerOptions, Option<&Acceptor>),
) -> Result<Socket, Error> {
    if flow.address.inet().is_some() {
        set(
            socket.set_tcp_nodelay(options.common.socket.no_delay),
            "TCP_NODELAY",
        )?;
    }
    block(&socket, options.common.nonblocked)?;
    match acceptor {
        Some(acceptor) => Ok(Socket::Tls(Box::new(acceptor.accept(socket.into())?))),
        None => Ok(into_socket(socket, flow)),
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        remove(self.path.as_ref());
    }
}
