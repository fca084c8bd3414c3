//! `tokio_http ADDRESS:PORT`: says hello to each request, on tokio's runtime of many threads as it
//! comes.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

fn main() -> io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: tokio_http ADDRESS:PORT"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .build()?;
    runtime.block_on(serve(&address))
}

async fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(converse(stream));
    }
}

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 8192];
    // A request of the load generator comes whole.
    while stream.read(&mut buffer).await? > 0 {
        stream.write_all(ANSWER).await?;
    }
    Ok(())
}
