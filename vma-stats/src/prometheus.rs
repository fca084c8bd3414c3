//! `--prometheus`: the text format of Prometheus, once or over HTTP on a local address.

mod broker;
mod family;
mod single;
mod totals;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use stats::{BrokerStatus, ProcessInfo, Statistics};

use crate::message::tell;
pub(crate) use single::format;
use totals::Totals;

/// What is told of several processes and the broker, look after look.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// A series for each socket instead of sums.
    pub(crate) is_single: bool,
    pub(crate) totals: Totals,
}

impl Metrics {
    /// The metrics at this moment.
    pub(crate) fn text(&mut self, processes: &[(ProcessInfo, Statistics)]) -> String {
        let mut text = match self.is_single {
            true => format(processes),
            false => self.totals.look(processes),
        };
        if let Ok(broker) = BrokerStatus::read(Path::new(stats::BROKER_SOCKET), |bytes| {
            serde_json::from_slice(bytes)
        }) {
            broker::push(&mut text, &broker);
        }
        text
    }
}

/// How long a client may take for its request, or for taking the answer.
const CLIENT_TIME: Duration = Duration::from_secs(2);
/// Lines of a request that are read.
const REQUEST_LINES_MAX: usize = 64;

/// Answers every scrape with what `metrics` says then. Does not return but for an error.
pub(crate) fn serve(address: SocketAddr, mut metrics: impl FnMut() -> String) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    tell(format_args!(
        "metrics on http://{}/metrics",
        listener.local_addr()?
    ));
    for client in listener.incoming() {
        // A client that goes away, or sends nothing, is no reason to stop.
        let _ = client.and_then(|client| answer(client, &mut metrics));
    }
    Ok(())
}

fn answer(client: TcpStream, metrics: &mut impl FnMut() -> String) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIME))?;
    client.set_write_timeout(Some(CLIENT_TIME))?;
    let mut lines = BufReader::new(io::Read::take(&client, 16 * 1024)).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in lines.take(REQUEST_LINES_MAX) {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = request.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => ("200 OK", metrics()),
        (Some("GET"), _) => ("404 Not Found", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    write!(
        &client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests;
