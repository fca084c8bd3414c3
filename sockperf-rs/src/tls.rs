//! TLS over TCP, for `--tls`: one cipher suite, a certificate made at the start, no verification.
//!
//! What is measured is what encryption costs, so nobody proves who he is, as with the original.
//!
//! A stream is shared by the thread that sends and the one that receives. Neither waits for the
//! other: the connection's lock is held to encrypt and decrypt only, never across a system call.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::libc::{MSG_DONTWAIT, MSG_NOSIGNAL};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection,
    SupportedCipherSuite,
};
use socket2::SockRef;

use crate::error::Error;

mod unverified;

use unverified::Unverified;

/// The cipher suite of `--tls` without a value.
pub const DEFAULT_CIPHER: &str = "TLS_AES_128_GCM_SHA256";

/// The cipher suites by the names that OpenSSL gives them. Those of TLS 1.2 go with an ECDSA key.
fn suite(name: &str) -> Option<SupportedCipherSuite> {
    use ring::cipher_suite as suites;
    Some(match name {
        "TLS_AES_128_GCM_SHA256" => suites::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_256_GCM_SHA384" => suites::TLS13_AES_256_GCM_SHA384,
        "TLS_CHACHA20_POLY1305_SHA256" => suites::TLS13_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256" => suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES256-GCM-SHA384" => suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-CHACHA20-POLY1305" => suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        _ => return None,
    })
}

/// Whether there is a cipher suite of this name.
pub fn has_cipher(name: &str) -> bool {
    suite(name).is_some()
}

/// What a server needs for its connections.
#[derive(Clone, Debug)]
pub struct Acceptor(Arc<ServerConfig>);

/// An encrypted connection.
#[derive(Debug)]
pub struct TlsStream {
    socket: TcpStream,
    /// Locked after `outgoing`, never before.
    connection: Mutex<Connection>,
    incoming: Mutex<Incoming>,
    /// Encrypted bytes that the system has not taken yet.
    outgoing: Mutex<Vec<u8>>,
}

/// Encrypted bytes that are not decrypted yet.
#[derive(Debug)]
struct Incoming {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

/// Encrypted bytes of one receive call.
const READ_LEN: usize = 16_384;

impl Acceptor {
    /// Makes a certificate, for connections with this cipher suite.
    pub fn new(cipher: &str) -> Result<Self, Error> {
        let (provider, suite) = provider(cipher)?;
        let failed = |error: &dyn std::error::Error| {
            Error::setup(
                "cannot make a certificate",
                io::Error::other(error.to_string()),
            )
        };
        let certified = rcgen::generate_simple_self_signed(["sockperf-rs".to_owned()])
            .map_err(|error| failed(&error))?;
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[suite.version()])
            .map_err(|error| failed(&error))?
            .with_no_client_auth()
            .with_single_cert(
                vec![certified.cert.der().clone()],
                PrivateKeyDer::Pkcs8(key),
            )
            .map_err(|error| failed(&error))?;
        // Nobody resumes a session.
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// Takes a connection; the handshake happens with the first calls that receive.
    pub fn accept(&self, socket: TcpStream) -> Result<TlsStream, Error> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).map_err(setup_error)?;
        Ok(TlsStream::new(socket, connection.into()))
    }
}

/// Makes a connection encrypted, within `timeout` for each step.
pub fn connect(socket: TcpStream, cipher: &str, timeout: Duration) -> Result<TlsStream, Error> {
    let (provider, suite) = provider(cipher)?;
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[suite.version()])
        .map_err(setup_error)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified::new(provider)))
        .with_no_client_auth();
    config.enable_sni = false;
    let name = ServerName::try_from("sockperf-rs").map_err(setup_error)?;
    let mut connection =
        Connection::from(ClientConnection::new(Arc::new(config), name).map_err(setup_error)?);
    socket
        .set_read_timeout(Some(timeout))
        .map_err(setup_error)?;
    socket
        .set_write_timeout(Some(timeout))
        .map_err(setup_error)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut &socket).map_err(setup_error)?;
    }
    Ok(TlsStream::new(socket, connection))
}

fn provider(cipher: &str) -> Result<(Arc<CryptoProvider>, SupportedCipherSuite), Error> {
    let suite =
        suite(cipher).ok_or_else(|| Error::Usage(format!("Unsupported cipher: {cipher}")))?;
    let provider = CryptoProvider {
        cipher_suites: vec![suite],
        ..ring::default_provider()
    };
    Ok((Arc::new(provider), suite))
}

fn setup_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::setup("TLS handshake failed", io::Error::other(error))
}

impl TlsStream {
    fn new(socket: TcpStream, mut connection: Connection) -> Self {
        // What is sent is handed over whole.
        connection.set_buffer_limit(None);
        Self {
            socket,
            connection: Mutex::new(connection),
            incoming: Mutex::new(Incoming {
                bytes: vec![0; READ_LEN].into(),
                start: 0,
                end: 0,
            }),
            outgoing: Mutex::new(Vec::new()),
        }
    }

    /// Receives once, as a socket does: no bytes mean that the peer has closed. `WouldBlock` may
    /// also mean that something arrived that was no data.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // What a full socket left behind must not wait for the next message.
        self.pump(true).or_else(unless_blocked)?;
        let mut incoming = lock(&self.incoming);
        if incoming.start == incoming.end {
            let len = (&self.socket).read(&mut incoming.bytes)?;
            if len == 0 {
                return Ok(0);
            }
            (incoming.start, incoming.end) = (0, len);
        }
        let mut taken = 0;
        let mut has_answer = false;
        let mut is_closed = false;
        {
            let mut connection = lock(&self.connection);
            while incoming.start < incoming.end && taken < buffer.len() {
                let Incoming { bytes, start, end } = &mut *incoming;
                let mut rest = bytes.get(*start..*end).unwrap_or_default();
                *start += connection.read_tls(&mut rest)?;
                let state = connection
                    .process_new_packets()
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                is_closed |= state.peer_has_closed();
                has_answer |= connection.wants_write();
                let space = buffer.get_mut(taken..).unwrap_or_default();
                taken += read_all(&mut connection.reader(), space)?;
            }
        }
        if has_answer {
            self.pump(true).or_else(unless_blocked)?;
        }
        match taken {
            0 if is_closed => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }

    /// Sends all bytes, or none with an error. What the socket does not take at once is sent by
    /// later calls.
    pub fn send(&self, bytes: &[u8], dont_wait: bool) -> io::Result<usize> {
        let mut outgoing = lock(&self.outgoing);
        self.flush(&mut outgoing, dont_wait)?;
        {
            let mut connection = lock(&self.connection);
            connection.writer().write_all(bytes)?;
            while connection.wants_write() {
                connection.write_tls(&mut *outgoing)?;
            }
        }
        self.flush(&mut outgoing, dont_wait)
            .or_else(unless_blocked)?;
        Ok(bytes.len())
    }

    /// Sends what the protocol itself has to say.
    fn pump(&self, dont_wait: bool) -> io::Result<()> {
        let mut outgoing = lock(&self.outgoing);
        {
            let mut connection = lock(&self.connection);
            while connection.wants_write() {
                connection.write_tls(&mut *outgoing)?;
            }
        }
        self.flush(&mut outgoing, dont_wait)
    }

    fn flush(&self, outgoing: &mut Vec<u8>, dont_wait: bool) -> io::Result<()> {
        let flags = MSG_NOSIGNAL | if dont_wait { MSG_DONTWAIT } else { 0 };
        while !outgoing.is_empty() {
            let len = SockRef::from(&self.socket).send_with_flags(outgoing, flags)?;
            outgoing.drain(..len);
        }
        Ok(())
    }
}

/// Reads what has been decrypted.
fn read_all(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut taken = 0;
    while let Some(space) = buffer.get_mut(taken..).filter(|space| !space.is_empty()) {
        match reader.read(space) {
            Ok(0) => break,
            Ok(len) => taken += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

fn unless_blocked(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// A thread that panicked has left nothing half done that the other could not go on with.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for TlsStream {
    /// Says good-bye. A peer that is gone does not hear it.
    fn drop(&mut self) {
        lock(&self.connection).send_close_notify();
        self.pump(true).ok();
    }
}

#[cfg(test)]
mod tests;
