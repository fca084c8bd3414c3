//! Carries out what [`Resets`] decides: looks whose a connection is, sends, and listens for
//! answers.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use crate::clients::Clients;
use crate::connection::Claim;
use crate::daemon::ANSWERS;
use crate::guard::{self, Kernel};
use crate::log::Log;
use crate::raw::{Receiver, Transmitter};
use crate::resets::{Next, Resets};
use crate::status::Counters;

/// Segments that are sent before something else is done, and before answers are looked at.
const SEGMENTS_AT_ONCE: usize = 512;
const SEGMENTS_BEFORE_ANSWERS: usize = 32;
/// Answers that are read before something else is done.
const ANSWERS_AT_ONCE: usize = 4096;

#[derive(Debug)]
pub(crate) struct ResetDriver {
    pub(crate) resets: Resets,
    transmitter: Transmitter,
    /// Open while peers are waited for.
    receiver: Option<Receiver>,
}

/// What it needs of the daemon.
pub(crate) struct Context<'a> {
    /// Where answers are reported.
    pub(crate) epoll: BorrowedFd<'a>,
    pub(crate) kernel: &'a mut Kernel,
    pub(crate) clients: &'a Clients,
    pub(crate) counters: &'a mut Counters,
    pub(crate) log: &'a Log,
}

impl ResetDriver {
    /// Asks a peer again after `interval`.
    pub(crate) fn new(transmitter: Transmitter, interval: Duration, now: Instant) -> Self {
        Self {
            resets: Resets::new(interval, now),
            transmitter,
            receiver: None,
        }
    }

    /// There is nothing to do.
    pub(crate) fn rest(&mut self) {
        self.receiver = None;
    }

    /// Sends what is due. True if there is more to send at once.
    pub(crate) fn work(&mut self, context: &mut Context<'_>) -> bool {
        self.open_receiver(context);
        for sent in 0..SEGMENTS_AT_ONCE {
            if sent % SEGMENTS_BEFORE_ANSWERS == 0 {
                self.read_answers(context.log);
            }
            let now = Instant::now();
            let (connection, segment) = match self.resets.next(now) {
                None => return false,
                Some(Next::Send(connection, segment)) => (connection, segment),
                Some(Next::Check(claim)) if may_reset(&claim, context) => {
                    self.resets.start(claim, now)
                }
                Some(Next::Check(_)) => {
                    context.counters.spared += 1;
                    continue;
                }
            };
            if let Err(error) = self.transmitter.send(&connection, segment) {
                let log = context.log;
                log.debug(format_args!("{connection}: cannot send: {error}"));
            }
        }
        true
    }

    /// Without it, the kernel still answers peers, and resets them.
    fn open_receiver(&mut self, context: &Context<'_>) {
        if self.receiver.is_some() {
            return;
        }
        let opened = Receiver::open().and_then(|receiver| {
            let data = EventData::new_u64(ANSWERS);
            for fd in receiver.descriptors() {
                epoll::add(context.epoll, fd, data, EventFlags::IN)?;
            }
            Ok(receiver)
        });
        match opened {
            Ok(receiver) => self.receiver = Some(receiver),
            Err(error) => {
                let log = context.log;
                log.error(format_args!("cannot see what peers answer: {error}"));
            }
        }
    }

    fn read_answers(&mut self, log: &Log) {
        let Some(receiver) = &mut self.receiver else {
            return;
        };
        for _ in 0..ANSWERS_AT_ONCE {
            match receiver.receive() {
                Ok(Some((connection, answer))) => self.resets.answered(&connection, answer),
                Ok(None) => return,
                Err(error) => {
                    log.error(format_args!("answers of peers: {error}"));
                    return;
                }
            }
        }
    }
}

fn may_reset(claim: &Claim, context: &mut Context<'_>) -> bool {
    let connection = &claim.connection;
    if context.clients.have(connection) {
        return false;
    }
    let verdict = context
        .kernel
        .facts(connection)
        .and_then(|facts| guard::may_reset(claim.user, facts));
    if let Err(objection) = verdict {
        let log = context.log;
        log.debug(format_args!("{connection} is left alone: {objection}"));
    }
    verdict.is_ok()
}
