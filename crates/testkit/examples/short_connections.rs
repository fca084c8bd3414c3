//! Connections that last for one request: `short_connections server ADDRESS COUNT CLOSER`, and the
//! same with `client`, which prints how many a second there were, and of a connection's
//! microseconds the median and the 99th percentile. With `once` for `client` there is one, and
//! nothing is printed.
//!
//! `CLOSER` says who closes first: `client`, `server`, or `accept` for a server that closes what it
//! accepts at once, and a client that keeps many on their way.

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a request, and of an answer.
const LEN: usize = 64;
/// What comes before the clock starts, within a second: the first connections open the interface.
const WARM_UP: u32 = 200;
const WARM_UP_PAUSE: Duration = Duration::from_millis(5);
/// Clients of a server that only accepts.
const CLIENTS: u32 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [role, address, count, closer] = arguments.as_slice() else {
        let usage = "short_connections server|client|once ADDRESS COUNT client|server|accept";
        return Err(usage.into());
    };
    let (address, count) = (address.parse()?, count.parse()?);
    match role.as_str() {
        "server" => serve(address, WARM_UP + count, closer)?,
        "once" => drop(run(address, 1, closer)?),
        _ => {
            for _ in 0..WARM_UP / CLIENTS {
                thread::sleep(WARM_UP_PAUSE * CLIENTS);
                run(address, CLIENTS, closer)?;
            }
            let begun = Instant::now();
            let mut times = run(address, count, closer)?;
            let rate = f64::from(count) / begun.elapsed().as_secs_f64();
            times.sort_unstable();
            let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
            writeln!(io::stdout(), "{rate:.0} {:.1} {:.1}", at(50), at(99))?;
        }
    }
    Ok(())
}

fn serve(address: SocketAddr, count: u32, closer: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    writeln!(io::stdout(), "listening")?;
    let mut buffer = [0; LEN];
    for _ in 0..count {
        let (mut stream, _) = listener.accept()?;
        if closer == "accept" {
            continue;
        }
        stream.read_exact(&mut buffer)?;
        stream.write_all(&buffer)?;
        if closer == "client" {
            until_end(&mut stream)?;
        }
    }
    Ok(())
}

/// What each connection has taken.
fn run(address: SocketAddr, count: u32, closer: &str) -> io::Result<Vec<Duration>> {
    let timed = |connection: &dyn Fn() -> io::Result<()>| {
        let begun = Instant::now();
        connection().map(|()| begun.elapsed())
    };
    if closer != "accept" {
        return (0..count)
            .map(|_| timed(&|| ask(address, closer)))
            .collect();
    }
    let of_one = move || -> io::Result<Vec<Duration>> {
        (0..count / CLIENTS)
            .map(|_| timed(&|| knock(address)))
            .collect()
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| thread::spawn(of_one)).collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.join().map_err(|_| io::ErrorKind::Other)??);
    }
    Ok(times)
}

/// A request and its answer.
fn ask(address: SocketAddr, closer: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut buffer = [7; LEN];
    stream.write_all(&buffer)?;
    stream.read_exact(&mut buffer)?;
    if closer == "server" {
        until_end(&mut stream)?;
    }
    Ok(())
}

/// A connection that the server closes.
fn knock(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    until_end(&mut stream)?;
    Ok(())
}

fn until_end(stream: &mut TcpStream) -> io::Result<()> {
    match stream.read(&mut [0; LEN])? {
        0 => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
