//! Whether a thread that polls keeps others from its CPU.
//!
//! Polling pays where a thread has a CPU to itself. Where it does not, whoever it waits for may be waiting for that very CPU,
//! until the scheduler's time slice ends: milliseconds. So a thread that polls in vain offers its CPU now and then
//! (`sched_yield(2)`, which returns at once if nobody wants it) and notices when another thread has run. A thread that
//! shares its CPU sleeps instead of polling, as it would in the kernel, and tries again after a pause.
//!
//! Whoever keeps an offered CPU for a long time waits for nobody. It gets no more offers, and only if it takes a good part of the
//! CPU by itself, which one of low priority (nice(1)) does not, is sleeping the better way.

use std::cell::Cell;

use crate::sys;

/// How long a thread that has its CPU to itself polls before it offers it: longer than a quick answer takes to come.
const INTERVAL_NSEC: u64 = 25_000;
/// How much a thread has to poll undisturbed before it counts as having its CPU to itself again.
const UNDISTURBED_NSEC: u64 = 2_000_000;
/// So many disturbances in that time show that the CPU is shared: the kernel's own threads make fewer.
const HITS: u32 = 4;
/// The first pause without polling.
const PAUSE_MIN_NSEC: u64 = 5_000_000;
/// The longest. A try to poll again costs little, as the CPU is offered at once.
const PAUSE_MAX_NSEC: u64 = 100_000_000;
/// Who keeps the CPU for longer has work of its own.
const LONG_NSEC: u64 = 200_000;
/// How long a thread polls without offers before it says how much somebody else takes: some time slices.
const WATCH_NSEC: u64 = 8_000_000;
/// After this time it is looked anew whether somebody else has work of its own.
const FORGET_NSEC: u64 = 1_000_000_000;
/// Pauses where somebody else does: a try costs [`WATCH_NSEC`].
const LONG_PAUSE_MIN_NSEC: u64 = 1_000_000_000;
const LONG_PAUSE_MAX_NSEC: u64 = 8_000_000_000;
/// What takes longer, between two looks, may have been another thread's time.
const GAP_NSEC: u64 = 10_000;
/// The same, where the CPU is not offered.
const SHORT_GAP_NSEC: u64 = 4_000;
/// An offer that nobody takes is over in less.
const OFFER_NSEC: u64 = 1_000;

/// What is known of the CPU of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody else has run on it lately.
    Alone,
    /// Somebody has, so often, in so much time of polling.
    Suspected { hits: u32, polled_nsec: u64 },
    /// Others need it. `busy`: they have work of their own.
    Shared { until_nsec: u64, busy: bool },
    /// Somebody has work of its own. How much the thread has polled since, and was kept from polling.
    Watched { polled_nsec: u64, lost_nsec: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Contention {
    state: State,
    pause_nsec: u64,
    long_pause_nsec: u64,
    /// While no offers are made: when it was last looked, and the thread's involuntary switches then.
    seen: Option<(u64, u64)>,
}

impl Contention {
    const NONE: Self = Self {
        state: State::Alone,
        pause_nsec: PAUSE_MIN_NSEC,
        long_pause_nsec: LONG_PAUSE_MIN_NSEC,
        seen: None,
    };

    const WATCHED: State = State::Watched {
        polled_nsec: 0,
        lost_nsec: 0,
    };

    /// Another thread has taken the offered CPU for so long.
    fn disturbed(self, now_nsec: u64, taken_nsec: u64) -> Self {
        if taken_nsec >= LONG_NSEC {
            return Self {
                state: Self::WATCHED,
                seen: None,
                ..self
            };
        }
        match self.state {
            State::Alone | State::Watched { .. } => Self {
                state: State::Suspected {
                    hits: 1,
                    polled_nsec: 0,
                },
                ..self
            },
            State::Suspected { hits, polled_nsec } if hits + 1 < HITS => Self {
                state: State::Suspected {
                    hits: hits + 1,
                    polled_nsec,
                },
                ..self
            },
            State::Suspected { .. } | State::Shared { .. } => Self {
                state: State::Shared {
                    until_nsec: now_nsec.saturating_add(self.pause_nsec),
                    busy: false,
                },
                pause_nsec: (self.pause_nsec * 2).min(PAUSE_MAX_NSEC),
                ..self
            },
        }
    }

    /// The thread has polled for some time, and nobody else has run.
    fn undisturbed(self, now_nsec: u64, polled_nsec: u64) -> Self {
        match self.state {
            State::Suspected {
                hits,
                polled_nsec: so_far,
            } => {
                let polled_nsec = so_far + polled_nsec;
                if polled_nsec >= UNDISTURBED_NSEC {
                    Self::NONE
                } else {
                    Self {
                        state: State::Suspected { hits, polled_nsec },
                        ..self
                    }
                }
            }
            State::Watched {
                polled_nsec: so_far,
                lost_nsec,
            } => {
                let lost = if polled_nsec >= LONG_NSEC {
                    polled_nsec
                } else {
                    0
                };
                self.watched(now_nsec, so_far + polled_nsec, lost_nsec + lost)
            }
            State::Alone | State::Shared { .. } => self.after_pause(now_nsec),
        }
    }

    fn watched(self, now_nsec: u64, polled_nsec: u64, lost_nsec: u64) -> Self {
        if polled_nsec >= WATCH_NSEC && lost_nsec * 8 >= polled_nsec {
            return Self {
                state: State::Shared {
                    until_nsec: now_nsec.saturating_add(self.long_pause_nsec),
                    busy: true,
                },
                long_pause_nsec: (self.long_pause_nsec * 2).min(LONG_PAUSE_MAX_NSEC),
                ..self
            };
        }
        if polled_nsec >= FORGET_NSEC {
            return Self::NONE;
        }
        let state = State::Watched {
            polled_nsec,
            lost_nsec,
        };
        Self { state, ..self }
    }

    fn after_pause(self, now_nsec: u64) -> Self {
        let state = match self.state {
            State::Shared { until_nsec, busy } if now_nsec >= until_nsec => {
                if busy {
                    Self::WATCHED
                } else {
                    State::Suspected {
                        hits: 0,
                        polled_nsec: 0,
                    }
                }
            }
            _ => return self,
        };
        Self {
            state,
            seen: None,
            ..self
        }
    }

    /// A look at a thread that makes no offers. What it waited for may have come while it was preempted, which ends its call: so the
    /// look before may be another call's.
    fn without_offers(self, now_nsec: u64, polled_nsec: u64) -> Self {
        let Some((seen_at_nsec, switches_before)) = self.seen else {
            return Self {
                seen: Some((now_nsec, sys::involuntary_switches())),
                ..self
            };
        };
        let since_nsec = now_nsec - seen_at_nsec;
        let switches = if since_nsec < SHORT_GAP_NSEC {
            switches_before
        } else {
            sys::involuntary_switches()
        };
        let next = if switches == switches_before {
            self.undisturbed(now_nsec, polled_nsec.min(LONG_NSEC - 1))
        } else if since_nsec < LONG_NSEC {
            // Somebody had but little to do, and has waited for the end of a time slice.
            self.disturbed(now_nsec, since_nsec)
        } else {
            self.undisturbed(now_nsec, since_nsec)
        };
        Self {
            seen: Some((now_nsec, switches)),
            ..next
        }
    }

    /// How long the thread may poll before it offers its CPU.
    fn interval_nsec(self) -> u64 {
        match self.state {
            State::Alone => INTERVAL_NSEC,
            State::Suspected { .. } | State::Shared { busy: false, .. } => 0,
            State::Shared { busy: true, .. } | State::Watched { .. } => u64::MAX,
        }
    }
}

thread_local! {
    static CONTENTION: Cell<Contention> = const { Cell::new(Contention::NONE) };
}

/// Others need the thread's CPU: where it would poll, it is to sleep.
#[inline]
fn must_sleep() -> bool {
    // Thread-local storage may be gone while the thread exits.
    let state = CONTENTION.try_with(|contention| contention.get().state);
    match state {
        Ok(State::Shared { until_nsec, .. }) => is_before(until_nsec),
        _ => false,
    }
}

#[cold]
fn is_before(until_nsec: u64) -> bool {
    let now = sys::now_nsec();
    if now >= until_nsec {
        let _ = CONTENTION.try_with(|contention| {
            contention.set(contention.get().undisturbed(now, 0));
        });
    }
    now < until_nsec
}

/// A call's polling in vain.
#[derive(Debug)]
pub(crate) struct Spin {
    /// `VMA_POLL_SHARED_CPU`: the thread polls whoever else needs its CPU.
    is_ruthless: bool,
    /// Not of one that polls for ever: it has nothing but offers to make.
    may_sleep: bool,
    /// When it was last looked at, 0 before.
    looked_at_nsec: u64,
    /// When the CPU was last offered, or polling began.
    offered_at_nsec: u64,
    /// Involuntary context switches of the thread, once they were asked for.
    switches: Option<u64>,
}

impl Spin {
    pub(crate) const fn new(is_ruthless: bool, may_sleep: bool) -> Self {
        Self {
            is_ruthless,
            may_sleep,
            looked_at_nsec: 0,
            offered_at_nsec: 0,
            switches: None,
        }
    }

    /// Whether the call is to sleep where it would poll, because others need the thread's CPU.
    #[inline]
    pub(crate) fn must_sleep(&self) -> bool {
        !self.is_ruthless && must_sleep()
    }

    /// To be called every few microseconds while polling is in vain.
    pub(crate) fn look(&mut self) {
        if self.is_ruthless {
            return;
        }
        let Ok(contention) = CONTENTION.try_with(Cell::get) else {
            return;
        };
        let now = sys::now_nsec();
        if self.looked_at_nsec == 0 {
            (self.looked_at_nsec, self.offered_at_nsec) = (now, now);
        }
        let since_look = now - self.looked_at_nsec;
        self.looked_at_nsec = now;
        let interval_nsec = contention.interval_nsec();
        if interval_nsec == u64::MAX {
            let contention = contention.without_offers(now, since_look);
            let _ = CONTENTION.try_with(|own| own.set(contention));
            return;
        }
        if now - self.offered_at_nsec < interval_nsec {
            return;
        }
        let switches = self.switches.unwrap_or_else(sys::involuntary_switches);
        sys::yield_cpu();
        let after = sys::now_nsec();
        let is_suspicious =
            contention.state != State::Alone || since_look > GAP_NSEC || after - now > OFFER_NSEC;
        let switches_after = if is_suspicious {
            sys::involuntary_switches()
        } else {
            switches
        };
        self.switches = Some(switches_after);
        (self.looked_at_nsec, self.offered_at_nsec) = (after, after);
        let contention = if switches_after == switches {
            contention.undisturbed(after, since_look)
        } else {
            let taken = after - now;
            contention.disturbed(
                after,
                if self.may_sleep {
                    taken
                } else {
                    taken.min(LONG_NSEC - 1)
                },
            )
        };
        let _ = CONTENTION.try_with(|own| own.set(contention));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: u64 = LONG_NSEC / 10;

    #[test]
    fn one_disturbance_is_not_enough() {
        let once = Contention::NONE.disturbed(0, SHORT);
        assert!(matches!(once.state, State::Suspected { hits: 1, .. }));
        let half = once.undisturbed(0, UNDISTURBED_NSEC / 2);
        assert!(matches!(half.state, State::Suspected { .. }));
        assert_eq!(
            half.undisturbed(0, UNDISTURBED_NSEC / 2).state,
            State::Alone
        );
    }

    #[test]
    fn pauses_grow_while_polling_is_disturbed_and_start_afresh_when_it_is_not() {
        let mut contention = Contention::NONE;
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            for _ in 0..HITS {
                contention = contention.disturbed(now, SHORT);
            }
            let State::Shared { until_nsec, .. } = contention.state else {
                panic!("disturbed again");
            };
            pauses.push((until_nsec - now) / 1_000_000);
            assert_eq!(
                contention.undisturbed(until_nsec - 1, 0).state,
                contention.state
            );
            now = until_nsec;
            contention = contention.undisturbed(now, 0);
            assert!(matches!(contention.state, State::Suspected { hits: 0, .. }));
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
        let alone = contention.undisturbed(now, UNDISTURBED_NSEC);
        let again = (0..HITS).fold(alone, |state, _| state.disturbed(now, SHORT));
        assert_eq!(
            again.state,
            State::Shared {
                until_nsec: now + PAUSE_MIN_NSEC,
                busy: false,
            }
        );
    }

    #[test]
    fn who_has_work_of_its_own_gets_no_offers() {
        let taken = Contention::NONE.disturbed(0, LONG_NSEC);
        assert_eq!(taken.interval_nsec(), u64::MAX);
        // Of low priority: it takes little.
        let mut little = taken.undisturbed(0, LONG_NSEC);
        for _ in 0..FORGET_NSEC / 10_000 {
            assert!(!matches!(little.state, State::Shared { .. }));
            little = little.undisturbed(0, 10_000);
        }
        assert_eq!(little.state, State::Alone);
        // Half of the CPU.
        let (mut half, mut now) = (taken, 0);
        while matches!(half.state, State::Watched { .. }) {
            for polled_nsec in [3_000_000, 1_000_000, 1_000_000, 1_000] {
                now += polled_nsec;
                half = half.undisturbed(now, polled_nsec);
            }
        }
        let State::Shared { until_nsec, busy } = half.state else {
            panic!("{half:?}");
        };
        assert!(busy && until_nsec > now);
        assert_eq!(
            half.undisturbed(until_nsec, 0).state,
            Contention::WATCHED,
            "it is tried again without offers"
        );
    }

    /// Two threads on one CPU, of which one polls: it finds out, and one that polls alone does not.
    #[test]
    fn a_thread_on_a_busy_cpu_finds_out() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::time::{Duration, Instant};

        let cpu = sys::pin_to_one_cpu();
        let stop = Arc::new(AtomicBool::new(false));
        let other = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                // It inherits the CPU.
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let begun = Instant::now();
        let mut spin = Spin::new(false, true);
        while !must_sleep() && begun.elapsed() < Duration::from_secs(10) {
            spin.look();
        }
        let found_out = must_sleep();
        stop.store(true, Ordering::Relaxed);
        other.join().unwrap();
        assert!(found_out, "on CPU {cpu}");
    }
}
