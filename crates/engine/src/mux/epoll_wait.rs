//! `epoll_wait(2)` on a set with sockets of ours in it.

use std::sync::atomic::Ordering;

use libc::epoll_event;
use sys::Errno;

use crate::mux::MuxStack;
use crate::mux::call::{MuxCall, MuxOutcome, ROUNDS_PER_ATTEMPT, Step};
use crate::mux::epoll::EpollSet;
use crate::sockets::host::Host;
use crate::sockets::sleep::Sleep;

impl<S: MuxStack> EpollSet<S> {
    /// One attempt at an `epoll_wait(2)`.
    pub(crate) fn wait(
        &'static self,
        host: &Host<S>,
        call: &mut MuxCall,
        events: &mut [epoll_event],
    ) -> MuxOutcome {
        let outcome = self.wait_once(host, call, events);
        self.counters.count(call, &outcome);
        outcome
    }

    fn wait_once(
        &'static self,
        host: &Host<S>,
        call: &mut MuxCall,
        events: &mut [epoll_event],
    ) -> MuxOutcome {
        let settings = host.settings();
        self.refresh_interfaces();
        if self.interfaces.is_empty() && !host.peers.is_active() {
            call.stop_polling();
        }
        for _ in 0..ROUNDS_PER_ATTEMPT {
            // First: what is ready must not hide what has come for others.
            let received = call.receive_from(&self.interfaces);
            host.hear_peers();
            if host.unseen.has_any() && call.shows_first() {
                return MuxOutcome::Again;
            }
            let count = self.ready_events(call, events, settings.select_skip_os);
            if count > 0 {
                return MuxOutcome::Done(count);
            }
            // The program's set is among what the sleep watches.
            if call.asks_kernel() && !call.leaves_kernel_to_sleep() {
                call.asked_kernel();
                match self.kernel_events(events) {
                    Ok(0) => {}
                    Ok(count) => {
                        call.found_by_kernel = true;
                        return MuxOutcome::Done(count);
                    }
                    Err(_) if call.is_last_after_signal() => {}
                    Err(errno) => return MuxOutcome::Fail(errno),
                }
            }
            match call.next_step(received) {
                Step::Poll => {}
                Step::TimedOut => return MuxOutcome::Done(0),
                Step::Interrupted => return MuxOutcome::Fail(Errno(libc::EINTR)),
                Step::Sleep => return self.sleep(host, call),
            }
        }
        MuxOutcome::Again
    }

    #[cold]
    fn sleep(&'static self, host: &Host<S>, call: &mut MuxCall) -> MuxOutcome {
        let nap_nsec = call.naps.next(host.settings().moderation, &self.interfaces);
        let sleep = self.prepare_sleep(host, call, nap_nsec);
        self.interfaces.poll_all_rings();
        host.hear_peers();
        if self.ready.len() > 0 || !self.knows_interfaces() || host.unseen.has_any_before_sleep() {
            let _ = sleep.end();
            return MuxOutcome::Again;
        }
        MuxOutcome::Sleep(sleep)
    }

    fn prepare_sleep(
        &'static self,
        host: &Host<S>,
        call: &MuxCall,
        nap_nsec: Option<u64>,
    ) -> Sleep {
        let epfd = self.epfd.load(Ordering::Relaxed);
        let life = (
            std::ptr::from_ref(self).addr(),
            self.lives.load(Ordering::Acquire),
        );
        let mut sleep = Sleep::new(call.deadline_nsec);
        sleep.watch(epfd, libc::POLLIN, Some(life));
        sleep.watch_set(&self.waiters, &self.interfaces);
        if let Some(nsec) = nap_nsec {
            sleep.nap(nsec, &self.interfaces);
        }
        sleep.watch_peers(host.peers);
        sleep.settle(call.has_slept);
        sleep
    }
}
