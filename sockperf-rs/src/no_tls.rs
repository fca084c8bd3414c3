//! In place of TLS, in a build without the feature `tls`. `--tls` is refused before any of this is
//! reached.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::error::Error;

/// See `--help`.
pub const DEFAULT_CIPHER: &str = "TLS_AES_128_GCM_SHA256";

/// A connection that cannot be.
#[derive(Debug)]
pub enum TlsStream {}

/// What there is none of.
#[derive(Clone, Debug)]
pub enum Acceptor {}

/// There is none.
pub fn has_cipher(_name: &str) -> bool {
    false
}

/// Fails.
pub fn connect(_socket: TcpStream, _cipher: &str, _timeout: Duration) -> Result<TlsStream, Error> {
    Err(refused())
}

fn refused() -> Error {
    Error::Usage("this sockperf-rs was built without the feature \"tls\"".to_owned())
}

impl Acceptor {
    /// Fails.
    pub fn new(_cipher: &str) -> Result<Self, Error> {
        Err(refused())
    }

    /// Never called.
    pub fn accept(&self, _socket: TcpStream) -> Result<TlsStream, Error> {
        match *self {}
    }
}

impl TlsStream {
    /// Never called.
    pub fn receive(&self, _buffer: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    /// Never called.
    pub fn send(&self, _bytes: &[u8], _dont_wait: bool) -> io::Result<usize> {
        match *self {}
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
