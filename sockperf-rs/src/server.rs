//! `server`: counts messages and sends back those that ask for it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde::Serialize;

use crate::activity::Activity;
use crate::clock::Clock;
use crate::error::Error;
use crate::gaps::{GapDetector, SessionSummary};
use crate::message::{Flags, Header};
use crate::options::ServerOptions;
use crate::output::Output;
use crate::socket::{self, RECEIVE_LEN};
use crate::stop::Stop;

/// A blocked receive call looks at the stop request this often. A signal also ends it at once,
/// because Linux does not restart a receive call that has a timeout (signal(7)).
pub const WAKE_UP: Duration = Duration::from_millis(200);

/// What a server saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Messages of clients, without warm-up messages.
    pub handled: u64,
    /// Replies sent.
    pub replies: u64,
    /// Datagrams that are not, or do not end with, a whole message.
    pub malformed_datagrams: u64,
    /// Warm-up messages and messages that no client sent.
    pub ignored: u64,
    /// Replies that the system refused to send.
    pub failed_replies: u64,
    /// Why, for the last of them.
    pub last_reply_error: Option<String>,
    /// What was missing per client, with gap detection.
    pub sessions: Vec<SessionSummary>,
    /// Messages of clients beyond the number that gap detection follows.
    pub untracked_messages: u64,
}

/// Serves until a stop is requested.
pub fn serve(
    socket: &UdpSocket,
    options: &ServerOptions,
    clock: &Clock,
    stop: &Stop,
    output: &mut Output,
) -> Result<Totals, Error> {
    let mut buffer = vec![0; RECEIVE_LEN];
    let mut server = Server {
        socket,
        reply: options.reply,
        totals: Totals::default(),
        last_reply_error: None,
        gaps: options.gap_detection.then(GapDetector::new),
    };
    let mut activity = Activity::new(options.common.activity, clock.now_nsec());
    while !stop.is_requested() {
        let (len, client) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if socket::is_idle_receive_error(&error) => continue,
            Err(error) => {
                return Err(Error::Transfer {
                    what: "recvfrom() failed".to_owned(),
                    source: error,
                });
            }
        };
        let mut rest = buffer.get_mut(..len).unwrap_or_default();
        // A datagram normally holds one message; several are taken one after the other.
        loop {
            let Ok(header) = Header::parse(rest) else {
                server.totals.malformed_datagrams += 1;
                break;
            };
            // The length was checked against what arrived; as a usize it is the same number.
            let message_len = header.len as usize;
            let (message, following) = rest.split_at_mut(message_len);
            if server.message(header, message, client, output) {
                activity.count(clock, output);
            }
            if following.is_empty() {
                break;
            }
            rest = following;
        }
    }
    activity.finish(output);
    let Server {
        mut totals,
        last_reply_error,
        gaps,
        ..
    } = server;
    totals.last_reply_error = last_reply_error.map(|error| error.to_string());
    if let Some(gaps) = gaps {
        totals.untracked_messages = gaps.untracked_messages();
        totals.sessions = gaps.finish();
    }
    Ok(totals)
}

struct Server<'a> {
    socket: &'a UdpSocket,
    reply: bool,
    totals: Totals,
    last_reply_error: Option<io::Error>,
    gaps: Option<GapDetector>,
}

impl Server<'_> {
    /// Handles one message; returns whether it counts.
    #[inline]
    fn message(
        &mut self,
        header: Header,
        message: &mut [u8],
        client: SocketAddr,
        output: &mut Output,
    ) -> bool {
        if !header.flags.has(Flags::CLIENT) {
            self.totals.ignored += 1;
            return false;
        }
        if let Some(gaps) = &mut self.gaps {
            gaps.message(header, client, output);
        }
        if header.flags.has(Flags::WARM_UP) {
            self.totals.ignored += 1;
            return false;
        }
        self.totals.handled += 1;
        if self.reply && header.flags.has(Flags::PONG_REQUEST) {
            Header {
                flags: header.flags.reply(),
                ..header
            }
            .write(message);
            match self.socket.send_to(message, client) {
                Ok(_) => self.totals.replies += 1,
                Err(error) => {
                    // One client that cannot be reached must not end the service for the others.
                    self.totals.failed_replies += 1;
                    self.last_reply_error = Some(error);
                }
            }
        }
        true
    }
}
