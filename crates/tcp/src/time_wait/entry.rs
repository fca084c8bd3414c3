//! What is left of one connection, and what it does with segments.

use wire::tcp::{Flags, Header, Options, Timestamps};

use crate::challenge::LastChallenge;
use crate::links::NIL;
use crate::{Instant, SeqNumber, timestamp};

use super::Settings;
use super::judge::{Action, judge};

/// What TIME-WAIT needs of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residue {
    /// Behind our FIN.
    pub snd_nxt: SeqNumber,
    /// Behind the peer's FIN.
    pub rcv_nxt: SeqNumber,
    /// The window field of an acknowledgement, scaled as the connection's were.
    pub window: u16,
    /// If timestamps were agreed on.
    pub timestamps: Option<TimestampState>,
}

impl Residue {
    /// `TSval` at `now` and `TS.Recent`, if timestamps were agreed on.
    #[must_use]
    pub fn timestamp(&self, now: Instant) -> Option<(u32, u32)> {
        let state = self.timestamps?;
        Some((timestamp::value_at(now, state.offset), state.recent))
    }
}

/// The state of the timestamps option (RFC 7323 §4.3, §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampState {
    /// `TS.Recent`
    pub recent: u32,
    /// Added to the clock, in milliseconds, for `TSval`.
    pub offset: u32,
}

/// What to do with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Drop,
    /// Send an acknowledgement.
    Answer(Answer),
    /// The SYN of a new incarnation (RFC 6191): the entry is gone, and a listener may accept it,
    /// with an initial sequence number not before `iss`, beyond all that the old one used (as Linux
    /// chooses it).
    Open {
        iss: SeqNumber,
    },
    /// A reset: the entry is gone.
    Closed,
}

/// The acknowledgement that repeats where the connection was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub header: Header,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<const KEY: usize> {
    pub(super) expires: Instant,
    last_answer: LastChallenge,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) key: [u8; KEY],
    snd_nxt: SeqNumber,
    rcv_nxt: SeqNumber,
    ts_recent: u32,
    ts_offset: u32,
    window: u16,
    has_timestamps: bool,
}

const _: () = assert!(size_of::<Entry<12>>() == 56 && size_of::<Entry<36>>() == 80);

impl<const KEY: usize> Entry<KEY> {
    pub(super) fn new(key: [u8; KEY], residue: &Residue) -> Self {
        let Residue {
            snd_nxt,
            rcv_nxt,
            window,
            timestamps,
        } = *residue;
        let TimestampState { recent, offset } = timestamps.unwrap_or(TimestampState {
            recent: 0,
            offset: 0,
        });
        Self {
            expires: Instant::ZERO,
            last_answer: LastChallenge::default(),
            previous: NIL,
            next: NIL,
            key,
            snd_nxt,
            rcv_nxt,
            ts_recent: recent,
            ts_offset: offset,
            window,
            has_timestamps: timestamps.is_some(),
        }
    }

    /// The second value: the wait begins anew.
    pub(super) fn judge(
        &mut self,
        header: &Header,
        payload_len: usize,
        settings: &Settings,
        now: Instant,
    ) -> (Verdict, bool) {
        let judgement = judge(&self.residue(), header, payload_len, settings.rfc1337);
        if let Some(recent) = judgement.recent {
            self.ts_recent = recent;
        }
        let verdict = match judgement.action {
            Action::Drop => Verdict::Drop,
            Action::Answer => self.answer(now),
            Action::AnswerSeldom => self.answer_seldom(settings, now),
            Action::Open => Verdict::Open {
                iss: self.snd_nxt + 65_535 + 2,
            },
            Action::Close => Verdict::Closed,
        };
        (verdict, judgement.restarts)
    }

    fn residue(&self) -> Residue {
        Residue {
            snd_nxt: self.snd_nxt,
            rcv_nxt: self.rcv_nxt,
            window: self.window,
            timestamps: self.has_timestamps.then_some(TimestampState {
                recent: self.ts_recent,
                offset: self.ts_offset,
            }),
        }
    }

    fn answer_seldom(&mut self, settings: &Settings, now: Instant) -> Verdict {
        if self
            .last_answer
            .allows_another(now, settings.answer_interval)
        {
            self.answer(now)
        } else {
            Verdict::Drop
        }
    }

    fn answer(&self, now: Instant) -> Verdict {
        let timestamps = self.has_timestamps.then(|| Timestamps {
            value: timestamp::value_at(now, self.ts_offset),
            echo: self.ts_recent,
        });
        Verdict::Answer(Answer {
            header: Header {
                seq: self.snd_nxt.0,
                ack: self.rcv_nxt.0,
                flags: Flags::ACK,
                window: self.window,
                urgent: 0,
                options: Options {
                    timestamps,
                    ..Options::default()
                },
            },
        })
    }
}
