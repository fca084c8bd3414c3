//! `under-load` and `playback`: one thread sends on a schedule, another one receives the replies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::client::flight::{Flight, Unanswered};
use crate::client::replies::{Receiver, Replies};
use crate::client::run::{Recording, Run, TICK, Test};
use crate::client::sender;
use crate::client::stamps::{STAMPS_LEN, Stamps};
use crate::client::time_line::TimeLine;
use crate::error::Error;
use crate::measure::intervals::Progress;
use crate::measure::recorder::{Recorder, Valid};
use crate::net::open::Endpoint;
use crate::options::ClientOptions;
use crate::sys::affinity;
use crate::sys::clock::Clock;
use crate::sys::stop::Stop;
use crate::sys::ticks::Ticks;

/// The last replies may take this long.
const GRACE_NSEC: u64 = 100_000_000;
/// A message is lost if a later one has its reply and it has none for so long.
const REORDERING_NSEC: u64 = 200_000_000;
/// Messages without a reply that are remembered.
const UNSETTLED_MAX: usize = STAMPS_LEN / 2 - 1;

/// Runs a test.
pub fn run(
    test: &mut Test<'_>,
    line: Option<&TimeLine>,
    recording: Recording,
) -> Result<Run, Error> {
    let stamps = Stamps::new(STAMPS_LEN);
    let last_tx_nsec = AtomicU64::new(u64::MAX);
    let gave_up = Stop::new();
    let (sending, received) = thread::scope(|scope| {
        let side = ReceivingSide {
            options: test.options,
            endpoints: test.endpoints,
            clock: test.clock,
            stop: test.stop,
            gave_up: &gave_up,
            progress: test.progress,
            stamps: &stamps,
            last_tx_nsec: &last_tx_nsec,
        };
        let receiver = scope.spawn(move || {
            let result = side.run(recording);
            if result.is_err() {
                // Nobody needs what would still be sent.
                side.stop.request();
            }
            result
        });
        // Now, because a new thread inherits the CPUs of the one that makes it.
        let cpus = test.options.sender_cpus.as_deref();
        let pinned = cpus.map_or(Ok(()), affinity::pin_current_thread);
        let sending = pinned.and_then(|()| sender::run(test, line, Some(&stamps)));
        match &sending {
            Ok(sending) => last_tx_nsec.store(sending.last_tx_nsec, Ordering::Release),
            Err(_) => gave_up.request(),
        }
        (sending, receiver.join())
    });
    let received = received.map_err(|_| Error::NoResult("the receiving thread failed".to_owned()));
    // Where both sides failed, the receiver knows more: it sees the peer close.
    let (replies, valid) = received??;
    Ok(Run {
        sending: sending?,
        replies,
        estimate: None,
        valid,
    })
}

#[derive(Clone, Copy)]
struct ReceivingSide<'a> {
    options: &'a ClientOptions,
    endpoints: &'a [Endpoint],
    clock: &'a Clock,
    stop: &'a Stop,
    gave_up: &'a Stop,
    progress: &'a Progress,
    stamps: &'a Stamps,
    /// When the last message was sent that wants an answer; the largest number until it was.
    last_tx_nsec: &'a AtomicU64,
}

impl ReceivingSide<'_> {
    fn run(&self, recording: Recording) -> Result<(Replies, Valid), Error> {
        if let Some(cpus) = &self.options.receiver_cpus {
            affinity::pin_current_thread(cpus)?;
        }
        let blocks = !self.options.common.nonblocked;
        let _ticks = blocks.then(|| Ticks::start(TICK)).transpose()?;
        let mut receiver = Receiver::new(
            self.endpoints,
            self.options.message_len,
            &self.options.common,
        )?;
        let mut flight = Flight::new(self.options.reply_every, 1024);
        let mut recorder = Recorder::of_client(self.options, recording.tap)?;
        let mut replies = Replies::default();
        let mut preferred = 0;
        let mut grace_end_nsec = u64::MAX;
        while !self.gave_up.is_requested() {
            let arrived = receiver.receive(preferred, self.clock, &mut |now_nsec, header, _| {
                self.note_messages_up_to(header.sequence, (&mut flight, &mut recorder));
                replies.take(&mut flight, header, now_nsec);
                Ok(())
            })?;
            preferred = (preferred + 1) % self.endpoints.len();
            flight.settle(&mut recorder, Unanswered::Wait);
            if let Some(now_nsec) = arrived {
                flight.settle_overtaken(&mut recorder, now_nsec.saturating_sub(REORDERING_NSEC));
            }
            if arrived.is_some() {
                self.progress
                    .received
                    .store(replies.received, Ordering::Relaxed);
            } else {
                // The last message may not leave; it is noted when it has, or with its reply.
                let count = self.stamps.count().saturating_sub(1);
                self.note_messages(count, (&mut flight, &mut recorder));
            }
            let last_tx_nsec = self.last_tx_nsec.load(Ordering::Acquire);
            if last_tx_nsec != u64::MAX {
                let now_nsec = arrived.unwrap_or_else(|| self.clock.now_nsec());
                grace_end_nsec = grace_end_nsec.min(now_nsec.saturating_add(GRACE_NSEC));
                self.note_messages(self.stamps.count(), (&mut flight, &mut recorder));
                if flight.outstanding() == 0 || now_nsec >= grace_end_nsec {
                    break;
                }
            }
        }
        flight.settle(&mut recorder, Unanswered::Drop);
        replies.malformed = receiver.malformed();
        let last_tx_nsec = self.last_tx_nsec.load(Ordering::Acquire);
        Ok((replies, recorder.finish(last_tx_nsec)))
    }

    #[inline]
    fn note_messages_up_to(&self, sequence: u64, both: (&mut Flight, &mut Recorder)) {
        if let Some(position) = both.0.position(sequence)
            && position >= both.0.count()
        {
            self.note_messages((position + 1).min(self.stamps.count()), both);
        }
    }

    /// A thread that stood still has many to note: no more than so many stay unsettled at any time.
    fn note_messages(&self, count: u64, (flight, recorder): (&mut Flight, &mut Recorder)) {
        for position in flight.count()..count {
            // A stamp that was overwritten is that of a message much older than all replies: what
            // is known of it is only that it came after the one before.
            let (tx_nsec, lag_nsec) = self
                .stamps
                .get(position)
                .unwrap_or_else(|| (flight.last_tx_nsec(), 0));
            flight.push(tx_nsec, lag_nsec);
            flight.settle_down_to(UNSETTLED_MAX, recorder);
        }
    }
}
