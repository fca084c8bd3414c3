//! What a polling thread knows of the others that want its CPU, and what follows from it.
//!
//! Others that take an offered CPU for short, again and again, are threads that wait for each
//! other: where they are so frequent, the thread sleeps instead of polling, and tries again after a
//! pause. The kernel's own threads run now and then on every CPU, so few short runs mean nothing.
//!
//! Whoever keeps an offered CPU for a long time waits for nobody. It gets no more offers. Only if
//! it takes a good part of the CPU by itself, which one of low priority (nice(1)) does not, is
//! sleeping the better way. A thread that polls for ever does not sleep; it makes an offer from
//! time to time.

use sys::ThreadUsage;

/// How long a thread that has its CPU to itself polls before it offers it: longer than a quick
/// answer takes to come.
const INTERVAL_NSEC: u64 = 25_000;
/// After somebody has run, the CPU is offered at every look until so many offers in turn were
/// refused.
const REFUSALS: u32 = 16;
/// So many short runs of others ...
const HITS: u32 = 4;
/// ... in this time show that the CPU is shared: the kernel's own threads make fewer.
const WINDOW_NSEC: u64 = 4_000_000;
/// The first pause without polling.
const PAUSE_MIN_NSEC: u64 = 5_000_000;
/// The longest. A try to poll again costs little, as the CPU is offered at once.
const PAUSE_MAX_NSEC: u64 = 100_000_000;

/// Who keeps the CPU for longer has work of its own.
const LONG_NSEC: u64 = 200_000;
/// How often it is looked how much he takes by himself.
const SAMPLE_NSEC: u64 = 1_000_000;
/// How long that is watched before there is an answer: some time slices.
const WATCH_NSEC: u64 = 8_000_000;
/// The part of the time that is too much.
const LOST_PART: u64 = 8;
/// After this time it is looked anew whether somebody else has work of its own.
const FORGET_NSEC: u64 = 1_000_000_000;
/// Short runs that end the watch, at most.
const PATIENCE_MAX: u32 = 64;
/// Pauses where somebody else takes too much: a try costs [`WATCH_NSEC`].
const LONG_PAUSE_MIN_NSEC: u64 = 1_000_000_000;
const LONG_PAUSE_MAX_NSEC: u64 = 8_000_000_000;

/// How long a thread leaves polling to others of the process, if enough do.
const CROWDED_NSEC: u64 = 10_000_000;

/// How long a thread that polls for ever makes no offers to somebody who has work of its own. The
/// ends of such times are multiples of them on the clock that all processes share: two threads that
/// take each other for busy make offers at the same time, and so find out.
const WITHHELD_MIN_NSEC: u64 = 1 << 24;
const WITHHELD_MAX_NSEC: u64 = 1 << 30;

/// Whether a thread offers its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offers {
    /// When it has polled for so long since the last offer.
    After(u64),
    /// No. It is watched what others take by themselves, next from this time on.
    NoneButWatch { from_nsec: u64 },
    /// No.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody else has run on it lately.
    Alone,
    /// Somebody has, so often since then. `refused`: offers since the last time.
    Suspected {
        hits: u32,
        since_nsec: u64,
        refused: u32,
    },
    /// Others need it. `busy`: they have work of their own.
    Shared { until_nsec: u64, busy: bool },
    /// Enough other threads of the process poll.
    Crowded { until_nsec: u64 },
    /// Somebody has work of its own, who gets no more offers.
    Watched(Watch),
    /// The same, for a thread that polls for ever.
    Withheld { until_nsec: u64 },
}

/// How much others take of the CPU by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watch {
    seen: ThreadUsage,
    watched_nsec: u64,
    lost_nsec: u64,
    short_runs: u32,
}

/// What is known of the CPU of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contention {
    state: State,
    pause_nsec: u64,
    long_pause_nsec: u64,
    withheld_nsec: u64,
    /// Short runs that end a watch.
    patience: u32,
}

impl Contention {
    pub(super) const NONE: Self = Self {
        state: State::Alone,
        pause_nsec: PAUSE_MIN_NSEC,
        long_pause_nsec: LONG_PAUSE_MIN_NSEC,
        withheld_nsec: WITHHELD_MIN_NSEC,
        patience: 1,
    };

    /// Whether the thread is to sleep where it would poll.
    #[inline]
    pub(super) fn is_shared(self) -> bool {
        matches!(self.state, State::Shared { .. } | State::Crowded { .. })
    }

    pub(super) fn offers(self) -> Offers {
        match self.state {
            State::Suspected { refused, .. } if refused < REFUSALS => Offers::After(0),
            State::Alone | State::Suspected { .. } => Offers::After(INTERVAL_NSEC),
            // One that polls for ever: it would sleep otherwise.
            State::Shared { busy: false, .. } => Offers::After(0),
            State::Watched(watch) => Offers::NoneButWatch {
                from_nsec: watch.seen.now_nsec.saturating_add(SAMPLE_NSEC),
            },
            State::Shared { busy: true, .. } | State::Crowded { .. } | State::Withheld { .. } => {
                Offers::None
            }
        }
    }

    /// What is left of it at this time.
    pub(super) fn at(self, now_nsec: u64) -> Self {
        let state = match self.state {
            State::Suspected { since_nsec, .. }
                if now_nsec.saturating_sub(since_nsec) >= WINDOW_NSEC =>
            {
                return Self::NONE;
            }
            State::Shared { until_nsec, busy } if now_nsec >= until_nsec => {
                if busy {
                    State::Watched(Watch::NONE)
                } else {
                    suspected(0, now_nsec)
                }
            }
            State::Crowded { until_nsec } if now_nsec >= until_nsec => State::Alone,
            State::Withheld { until_nsec } if now_nsec >= until_nsec => suspected(0, now_nsec),
            _ => return self,
        };
        Self { state, ..self }
    }

    /// Enough other threads of the process poll: this one leaves it to them, for a while.
    pub(super) fn crowded(self, now_nsec: u64) -> Self {
        match self.state {
            State::Shared { .. } => self,
            _ => Self {
                state: State::Crowded {
                    until_nsec: now_nsec.saturating_add(CROWDED_NSEC),
                },
                ..self
            },
        }
    }

    /// Nobody has taken an offer.
    pub(super) fn refused(self) -> Self {
        match self.state {
            State::Suspected {
                hits,
                since_nsec,
                refused,
            } => Self {
                state: State::Suspected {
                    hits,
                    since_nsec,
                    refused: refused.saturating_add(1),
                },
                ..self
            },
            _ => self,
        }
    }

    /// Another thread has taken an offered CPU, for so long.
    pub(super) fn taken(self, now_nsec: u64, taken_nsec: u64, may_sleep: bool) -> Self {
        match (taken_nsec >= LONG_NSEC, may_sleep) {
            (false, _) => self.hit(now_nsec),
            (true, true) => Self {
                state: State::Watched(Watch::NONE),
                patience: (self.patience * 2).min(PATIENCE_MAX),
                ..self
            },
            (true, false) => Self {
                state: State::Withheld {
                    until_nsec: (now_nsec | (self.withheld_nsec - 1)).saturating_add(1),
                },
                withheld_nsec: (self.withheld_nsec * 2).min(WITHHELD_MAX_NSEC),
                ..self
            },
        }
    }

    /// Another thread has run for short.
    fn hit(self, now_nsec: u64) -> Self {
        let (hits, since_nsec) = match self.state {
            State::Suspected {
                hits, since_nsec, ..
            } if hits > 0 => (hits + 1, since_nsec),
            State::Shared { .. } => (HITS, now_nsec),
            _ => (1, now_nsec),
        };
        if hits < HITS {
            let state = suspected(hits, since_nsec);
            return Self { state, ..self };
        }
        Self {
            state: State::Shared {
                until_nsec: now_nsec.saturating_add(self.pause_nsec),
                busy: false,
            },
            pause_nsec: (self.pause_nsec * 2).min(PAUSE_MAX_NSEC),
            // They are no strangers.
            withheld_nsec: WITHHELD_MIN_NSEC,
            ..self
        }
    }

    /// What the kernel says of a thread that makes no offers.
    pub(super) fn watched(self, usage: ThreadUsage) -> Self {
        let State::Watched(watch) = self.state else {
            return self;
        };
        let watch = watch.and(usage);
        if watch.short_runs >= self.patience {
            // Somebody had but little to do, and has waited for the end of a time slice.
            return Self {
                state: suspected(1, usage.now_nsec),
                ..self
            };
        }
        if watch.takes_too_much() {
            return Self {
                state: State::Shared {
                    until_nsec: usage.now_nsec.saturating_add(self.long_pause_nsec),
                    busy: true,
                },
                long_pause_nsec: (self.long_pause_nsec * 2).min(LONG_PAUSE_MAX_NSEC),
                ..self
            };
        }
        if watch.watched_nsec >= FORGET_NSEC {
            return Self::NONE;
        }
        Self {
            state: State::Watched(watch),
            ..self
        }
    }
}

const fn suspected(hits: u32, since_nsec: u64) -> State {
    State::Suspected {
        hits,
        since_nsec,
        refused: 0,
    }
}

impl Watch {
    const NONE: Self = Self {
        seen: ThreadUsage::NONE,
        watched_nsec: 0,
        lost_nsec: 0,
        short_runs: 0,
    };

    /// With the time from the last look until now.
    fn and(self, usage: ThreadUsage) -> Self {
        let begun = Self {
            seen: usage,
            ..self
        };
        // A thread that slept did not want the CPU.
        if self.seen == ThreadUsage::NONE || self.seen.voluntary != usage.voluntary {
            return begun;
        }
        let passed_nsec = usage.now_nsec.saturating_sub(self.seen.now_nsec);
        let used_nsec = usage.cpu_nsec.saturating_sub(self.seen.cpu_nsec);
        let runs = usage.involuntary.wrapping_sub(self.seen.involuntary);
        let watched_nsec = self.watched_nsec.saturating_add(passed_nsec);
        if runs == 0 {
            return Self {
                watched_nsec,
                ..begun
            };
        }
        let lost_nsec = passed_nsec.saturating_sub(used_nsec);
        let are_short = lost_nsec / runs < LONG_NSEC;
        Self {
            watched_nsec,
            lost_nsec: self.lost_nsec.saturating_add(lost_nsec),
            short_runs: self.short_runs.saturating_add(u32::from(are_short)),
            ..begun
        }
    }

    fn takes_too_much(self) -> bool {
        self.watched_nsec >= WATCH_NSEC
            && self.lost_nsec.saturating_mul(LOST_PART) >= self.watched_nsec
    }
}

#[cfg(test)]
mod tests;
