//! Servers and clients on tokio's usual runtime, which has several threads, and on smol: `runtimes
//! <what> <address>`.
//!
//! * `http`: answers every request (hyper); `http-clients`: ten connections with a hundred requests
//!   each, one after the other;
//! * `udp`: sends every datagram back; `udp-clients`: ten sockets with a hundred datagrams each;
//! * `quic`: sends every stream back (quinn); `quic-clients`: five connections with ten streams
//!   each;
//! * `tcp-clients`: ten connections with twenty messages each;
//! * `smol`, `smol-threads`: sends streams and datagrams back, with one thread or several;
//!   `smol-clients`: twenty sockets (`on_smol.rs`).
//!
//! Clients check every octet, and say how many answers were right.

mod on_smol;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use quinn::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};
use quinn::rustls::{self, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a message of a stream is.
const STREAM_LEN: u32 = 20_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, address] = arguments.as_slice() else {
        return Err("runtimes WHAT ADDRESS".into());
    };
    let at: SocketAddr = address.parse()?;
    match what.as_str() {
        "smol" => on_smol::echo(at, 1),
        "smol-threads" => on_smol::echo(at, 4),
        "smol-clients" => on_smol::clients(at),
        what => on_tokio(what, at),
    }
}

#[tokio::main]
async fn on_tokio(what: &str, at: SocketAddr) -> Result<(), Failure> {
    match what {
        "http" => http(at).await,
        "udp" => udp(at).await,
        "quic" => quic(at).await,
        "http-clients" => many(10, |n| http_client(at, n)).await,
        "tcp-clients" => many(10, |n| tcp_client(at, n)).await,
        "udp-clients" => many(10, |n| udp_client(at, n)).await,
        "quic-clients" => {
            let client = quic_client(at)?;
            many(5, |n| quic_connection(client.clone(), at, n)).await
        }
        _ => Err("no such thing".into()),
    }
}

async fn many<F>(count: u32, client: impl Fn(u32) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<u32, Failure>> + Send + 'static,
{
    let mut clients = JoinSet::new();
    (0..count).for_each(|number| drop(clients.spawn(timeout(PATIENCE, client(number)))));
    let mut right = 0;
    while let Some(ended) = clients.join_next().await {
        right += ended???;
    }
    say_right(right)
}

fn say_right(right: u32) -> Result<(), Failure> {
    let said = format!("{right} right answers\n");
    Ok(std::io::Write::write_all(
        &mut std::io::stdout(),
        said.as_bytes(),
    )?)
}

/// Octets of which no two places are alike.
fn octets(number: u32, len: u32) -> Vec<u8> {
    let octet = |at: u32| at.wrapping_mul(131).wrapping_add(number * 7 + (at >> 8));
    (0..len).map(|at| octet(at).to_le_bytes()[0]).collect()
}

async fn http(at: SocketAddr) -> Result<(), Failure> {
    let listener = TcpListener::bind(at).await?;
    loop {
        let (connection, _) = listener.accept().await?;
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<_>| async move {
                let _: Request<hyper::body::Incoming> = request;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
            });
            let server = hyper::server::conn::http1::Builder::new();
            // Clients end connections as they like.
            drop(
                server
                    .serve_connection(TokioIo::new(connection), answer)
                    .await,
            );
        });
    }
}

async fn http_client(at: SocketAddr, _number: u32) -> Result<u32, Failure> {
    let mut connection = TcpStream::connect(at).await?;
    let mut right = 0;
    for _ in 0..100 {
        connection
            .write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
            .await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            if connection.read_buf(&mut answer).await? == 0 {
                return Err("the connection ended".into());
            }
        }
        right += u32::from(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    Ok(right)
}

async fn tcp_client(at: SocketAddr, number: u32) -> Result<u32, Failure> {
    let mut connection = TcpStream::connect(at).await?;
    let mut right = 0;
    for round in 0..20 {
        let sent = octets(number * 100 + round, STREAM_LEN);
        let mut got = vec![0; sent.len()];
        let (mut from, mut to) = connection.split();
        tokio::try_join!(to.write_all(&sent), from.read_exact(&mut got))?;
        right += u32::from(got == sent);
    }
    Ok(right)
}

async fn udp(at: SocketAddr) -> Result<(), Failure> {
    let socket = UdpSocket::bind(at).await?;
    let mut buffer = vec![0; 65_536];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await?;
        socket.send_to(&buffer[..len], from).await?;
    }
}

async fn udp_client(at: SocketAddr, number: u32) -> Result<u32, Failure> {
    let own = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(own).await?;
    socket.connect(at).await?;
    let (mut right, mut buffer) = (0, vec![0; 65_536]);
    for round in 0..100 {
        let sent = octets(number * 100 + round, 100 + 10 * round);
        socket.send(&sent).await?;
        let len = socket.recv(&mut buffer).await?;
        right += u32::from(buffer[..len] == sent);
    }
    Ok(right)
}

async fn quic(at: SocketAddr) -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["here".to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = quinn::ServerConfig::with_single_cert(vec![made.cert.into()], key)?;
    let endpoint = quinn::Endpoint::server(config, at)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            while let Ok((mut to, mut from)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    let data = from.read_to_end(1 << 20).await?;
                    to.write_all(&data).await?;
                    to.finish()?;
                    Ok::<_, Failure>(())
                });
            }
            Ok::<_, Failure>(())
        });
    }
    Ok(())
}

fn quic_client(at: SocketAddr) -> Result<quinn::Endpoint, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let config = quinn::crypto::rustls::QuicClientConfig::try_from(config)?;
    let own: SocketAddr = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse()?;
    let mut endpoint = quinn::Endpoint::client(own)?;
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(config)));
    Ok(endpoint)
}

async fn quic_connection(
    client: quinn::Endpoint,
    at: SocketAddr,
    number: u32,
) -> Result<u32, Failure> {
    let connection = client.connect(at, "here")?.await?;
    let mut right = 0;
    for round in 0..10 {
        let sent = octets(number * 10 + round, 20_000);
        let (mut to, mut from) = connection.open_bi().await?;
        to.write_all(&sent).await?;
        to.finish()?;
        right += u32::from(from.read_to_end(1 << 20).await? == sent);
    }
    Ok(right)
}

/// The server makes its certificate when it begins.
#[derive(Debug)]
struct Anybody;

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
