//! What is of all processes, or of none: the list of sockets, metrics, the broker.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use stats::{BrokerStatus, Reader, Statistics};

use crate::cli::{Options, Process};
use crate::message::tell;
use crate::prometheus::{self, Metrics};
use crate::sample::Sample;
use crate::select::{listing, select};
use crate::views::netstat;

/// View 5: the sockets of every process. None is no error.
pub(crate) fn list(options: &Options) -> ExitCode {
    let mut text = netstat::heading();
    for reader in readers(options) {
        if let Ok(statistics) = Statistics::read(&reader) {
            text.push_str(&netstat::format(reader.process(), &statistics));
        }
    }
    print(&text)
}

/// The processes that are asked for, or all.
fn readers(options: &Options) -> Vec<Reader> {
    let directory = &options.directory;
    if options.process != Process::FirstLive {
        return select(options).into_iter().collect();
    }
    let live = listing(options).live;
    live.iter()
        .filter_map(|process| Reader::open(directory, process.pid).ok())
        .collect()
}

/// The metrics of all processes and the broker, once or for everybody who asks.
pub(crate) fn metrics(options: &Options, address: Option<SocketAddr>, is_single: bool) -> ExitCode {
    let mut metrics = Metrics {
        is_single,
        ..Metrics::default()
    };
    let mut all = || {
        let read = |reader: &Reader| {
            let sample = Sample::take(reader, &options.sockets).ok()?;
            Some((reader.process().clone(), sample.statistics))
        };
        let found: Vec<_> = readers(options).iter().filter_map(read).collect();
        metrics.text(&found)
    };
    let Some(address) = address else {
        return print(&all());
    };
    match prometheus::serve(address, all) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!("cannot serve metrics on {address}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// What the broker with this socket says of itself.
pub(crate) fn broker(socket: &Path, is_json: bool) -> ExitCode {
    let status = match BrokerStatus::read(socket, |bytes| serde_json::from_slice(bytes)) {
        Ok(status) => status,
        Err(reason) => {
            tell(reason);
            return ExitCode::FAILURE;
        }
    };
    if is_json {
        return match serde_json::to_string(&status) {
            Ok(text) => print(&(text + "\n")),
            Err(error) => {
                tell(error);
                ExitCode::FAILURE
            }
        };
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    print(&status.render(now.map_or(0, |it| it.as_secs())))
}

fn print(text: &str) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            tell(format_args!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
