//! Receiving without a copy (`--zcopyread`): messages where libvma has them.

use std::io;
use std::os::fd::AsFd;

use vma_api::{Api, Received};

use crate::error::Error;
use crate::net::address::Peer;
use crate::net::socket::Socket;
use crate::options::CommonOptions;

/// Room for what a call tells of packets, or for a datagram that it has to copy.
const ROOM_LEN: usize = 1 << 16;

/// What receives packets of one socket at a time.
#[derive(Debug)]
pub struct PacketReader {
    api: Api,
    room: Box<[u8]>,
}

impl PacketReader {
    /// `None`: nobody has asked for it.
    ///
    /// # Errors
    /// There is no library.
    pub fn new(common: &CommonOptions) -> Result<Option<Self>, Error> {
        if !common.zero_copy {
            return Ok(None);
        }
        let api = Api::get().ok_or_else(|| {
            Error::Usage(
                "--zcopyread needs libvma: LD_PRELOAD=libvma.so sockperf-rs ..., or --load-vma"
                    .to_owned(),
            )
        })?;
        Ok(Some(Self {
            api,
            room: vec![0; ROOM_LEN].into(),
        }))
    }

    /// Receives once. No bytes on a stream mean that the peer has closed.
    #[inline]
    pub fn receive<'a>(&'a mut self, socket: &'a Socket) -> io::Result<(Received<'a>, Peer)> {
        if socket.is_stream() {
            let received = self.api.receive(socket.as_fd(), &mut self.room, 0)?;
            return Ok((received, Peer::Connected));
        }
        let (received, from) = self.api.receive_from(socket.as_fd(), &mut self.room, 0)?;
        let from = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok((received, Peer::Inet(from)))
    }
}
