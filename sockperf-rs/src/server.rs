//! `server`: counts messages and sends back those that ask for it.
//!
//! Each thread has a [`Handler`] of its own. Sockets that are waited for in the receive call have a
//! thread each, and so has every connection; those of a multiplexer share one.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::net::open::Listening;
use crate::options::{Multiplexer, ServerOptions};
use crate::sys::affinity;
use crate::sys::clock::Clock;
use crate::sys::stop::Stop;
use crate::sys::ticks::Ticks;
use crate::terminal::Output;
use crate::tls::Acceptor;

mod blocking;
mod filter;
mod handler;
mod link;
mod multiplexed;
mod ringed;
pub mod sessions;
mod totals;

pub use filter::Filters;
pub use handler::Handler;
pub use totals::Totals;

/// A blocked call looks at the stop request this often.
const TICK: Duration = Duration::from_millis(50);
/// The same for connections, of which there may be thousands, and for the calls of multiplexers.
const LONG_TICK: Duration = Duration::from_millis(200);
const WAKE_UP_MSEC: i32 = 200;
/// Connections at a time.
const CONNECTIONS_MAX: usize = 4096;

/// What a server works with.
#[derive(Debug)]
pub struct Serving<'a> {
    /// What was asked for.
    pub options: &'a ServerOptions,
    /// The time.
    pub clock: &'a Clock,
    /// The request to end.
    pub stop: &'a Stop,
    /// Where messages are shown.
    pub output: Output,
    /// What makes connections encrypted.
    pub tls: Option<Acceptor>,
    /// What sees messages before they are received (`--rxfiltercb`).
    pub filters: Option<Filters>,
}

/// Serves until a stop is requested.
pub fn serve(sockets: Vec<Listening>, serving: &Serving<'_>) -> Result<Totals, Error> {
    let threads = serving.options.threads;
    if threads > sockets.len() {
        return Err(Error::Usage(
            "Number of threads should be less than sockets count".to_owned(),
        ));
    }
    let is_blocking = serving.options.common.multiplexer == Multiplexer::Recvfrom;
    let shares = if is_blocking {
        sockets.into_iter().map(|socket| vec![socket]).collect()
    } else {
        share_out(sockets, threads)
    };
    let totals = Mutex::new(Totals::default());
    let failure = Mutex::new(None);
    thread::scope(|scope| {
        let run = |share: Vec<Listening>| {
            let result = serve_share(share, serving, is_blocking, &totals);
            if let Err(error) = result
                && let Ok(mut failure) = failure.lock()
            {
                // The others end, too; what they say then is a consequence.
                failure.get_or_insert(error);
                serving.stop.request();
            }
        };
        let mut shares = shares.into_iter();
        let first = shares.next();
        for share in shares {
            scope.spawn(move || run(share));
        }
        first.into_iter().for_each(run);
    });
    if let (Some(filters), Ok(mut totals)) = (&serving.filters, totals.lock()) {
        totals.add(filters.totals());
    }
    let failed = || Error::NoResult("a thread of the server failed".to_owned());
    match failure.into_inner().map_err(|_| failed())? {
        Some(error) => Err(error),
        None => totals.into_inner().map_err(|_| failed()),
    }
}

/// The sockets of each thread, in order.
fn share_out(sockets: Vec<Listening>, threads: usize) -> Vec<Vec<Listening>> {
    let (count, threads) = (sockets.len(), threads.max(1));
    let mut sockets = sockets.into_iter();
    (0..threads)
        .map(|thread| {
            let share = count * (thread + 1) / threads - count * thread / threads;
            sockets.by_ref().take(share).collect()
        })
        .collect()
}

fn serve_share(
    sockets: Vec<Listening>,
    serving: &Serving<'_>,
    is_blocking: bool,
    totals: &Mutex<Totals>,
) -> Result<(), Error> {
    if let Some(cpus) = &serving.options.cpus {
        affinity::pin_current_thread(cpus)?;
    }
    let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
    let kind = serving.options.common.multiplexer;
    let mut output = serving.output.clone();
    output.write(&ready(thread_id, kind));
    if is_blocking {
        sockets
            .into_iter()
            .try_for_each(|socket| blocking::serve(socket, serving, totals))
    } else if kind == Multiplexer::SocketXtreme {
        ringed::serve(sockets, serving, totals)
    } else {
        multiplexed::serve(sockets, serving, totals)
    }
}

/// The line that a thread prints when it is ready.
fn ready(thread_id: i32, multiplexer: Multiplexer) -> String {
    format!("sockperf: [tid {thread_id}] {}\n", multiplexer.waiting())
}

/// What interrupts this thread's blocked calls; non-blocking sockets need nothing.
fn ticks(serving: &Serving<'_>, period: Duration) -> Result<Option<Ticks>, Error> {
    let blocks = !serving.options.common.nonblocked;
    blocks.then(|| Ticks::start(period)).transpose()
}

/// Adds what a thread has counted.
fn hand_in(handler: Handler<'_>, totals: &Mutex<Totals>) {
    // A poisoned lock is reported by the thread that panicked.
    if let Ok(mut totals) = totals.lock() {
        totals.add(handler.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_say_when_they_are_ready() {
        assert_eq!(
            ready(10_747, Multiplexer::Epoll),
            "sockperf: [tid 10747] using epoll() to block on socket(s)\n"
        );
    }
}
