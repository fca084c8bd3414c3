//! The same on smol, which waits by instructions of its own (rustix, polling) and not by functions
//! of the C library.

use std::net::SocketAddr;
use std::time::Duration;

use smol::future::FutureExt;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream, UdpSocket};
use smol::{Executor, Timer};

use crate::{Failure, PATIENCE, STREAM_LEN, octets, say_right};

/// Sends streams and datagrams back, on as many threads.
pub(crate) fn echo(at: SocketAddr, threads: usize) -> Result<(), Failure> {
    let executor = Executor::new();
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| smol::block_on(executor.run(smol::future::pending::<()>())));
        }
        smol::block_on(executor.run(async {
            let datagrams = executor.spawn(echo_datagrams(at));
            let listener = TcpListener::bind(at).await?;
            let streams = async {
                loop {
                    let (connection, _) = listener.accept().await?;
                    executor.spawn(echo_stream(connection)).detach();
                }
            };
            streams.or(datagrams).await
        }))
    })
}

async fn echo_datagrams(at: SocketAddr) -> Result<(), Failure> {
    let socket = UdpSocket::bind(at).await?;
    let mut buffer = vec![0; 65_536];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await?;
        socket.send_to(&buffer[..len], from).await?;
    }
}

async fn echo_stream(mut connection: TcpStream) -> Result<(), Failure> {
    let mut buffer = vec![0; 16_384];
    loop {
        let len = connection.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        connection.write_all(&buffer[..len]).await?;
    }
}

/// Ten connections and ten datagram sockets.
pub(crate) fn clients(at: SocketAddr) -> Result<(), Failure> {
    let executor = Executor::new();
    let streams: Vec<_> = (0..10)
        .map(|n| executor.spawn(within(stream_client(at, n))))
        .collect();
    let datagrams: Vec<_> = (0..10)
        .map(|n| executor.spawn(within(udp_client(at, n))))
        .collect();
    let right = smol::block_on(executor.run(async {
        let mut right = 0;
        for client in streams.into_iter().chain(datagrams) {
            right += client.await?;
        }
        Ok::<_, Failure>(right)
    }))?;
    say_right(right)
}

async fn within(client: impl Future<Output = Result<u32, Failure>>) -> Result<u32, Failure> {
    let late = async {
        Timer::after(PATIENCE).await;
        Err("no answer".into())
    };
    client.or(late).await
}

async fn stream_client(at: SocketAddr, number: u32) -> Result<u32, Failure> {
    let mut connection = TcpStream::connect(at).await?;
    let mut right = 0;
    for round in 0..20 {
        let sent = octets(number * 100 + round, STREAM_LEN);
        let mut got = vec![0; sent.len()];
        connection.write_all(&sent).await?;
        connection.read_exact(&mut got).await?;
        right += u32::from(got == sent);
    }
    Ok(right)
}

async fn udp_client(at: SocketAddr, number: u32) -> Result<u32, Failure> {
    let own = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(own).await?;
    socket.connect(at).await?;
    let (mut right, mut buffer) = (0, vec![0; 65_536]);
    for round in 0..20 {
        let sent = octets(number * 100 + round, 100 + 10 * round);
        socket.send(&sent).await?;
        let len = socket.recv(&mut buffer).await?;
        right += u32::from(buffer[..len] == sent);
        // Long enough that it is seen whose waits these are.
        Timer::after(Duration::from_millis(5)).await;
    }
    Ok(right)
}
