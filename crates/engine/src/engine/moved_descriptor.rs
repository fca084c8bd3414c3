//! A descriptor of the library has got another number, because the program wants its own: who still
//! uses the old one.
//!
//! Threads that sleep have it in their `ppoll(2)`, which would look at the program's file from then
//! on and miss what comes to ours. They are woken. The internal thread goes once around. Threads
//! inside a call are known to the hooks only.

use dev_core::Backend;
use links::wait::Sleeps;

use crate::engine::Engine;

use crate::engine::kinds::Object;

/// Those that may use the old number.
#[derive(Debug)]
pub struct OldNumberUsers {
    sleeps: Sleeps,
    /// Rounds of the internal thread after which it does not know the number, if it runs.
    round: Option<u32>,
}

impl<B: Backend> Engine<B> {
    /// To be called when the new number is known to all. Not by a child of `vfork(2)`, whose
    /// descriptors are its own.
    pub fn descriptor_has_moved(&self) -> OldNumberUsers {
        let control = self.control();
        for fd in self.table.range(0, u32::MAX) {
            if let Some(Object::Epoll(set)) = self.table.get(fd) {
                set.follow_alarm();
            }
        }
        drop(control);
        let round = self.internal_thread.rounds();
        let users = OldNumberUsers {
            sleeps: Sleeps::under_way(),
            round: (round > 0).then(|| round.wrapping_add(1)),
        };
        self.internal_thread.call();
        users
    }

    /// Whether none of them uses it any more. To be asked again and again, for a while.
    pub fn old_number_is_unused(&self, users: &mut OldNumberUsers) -> bool {
        users.sleeps.wake();
        let rounds = self.internal_thread.rounds();
        users
            .round
            .take_if(|round| rounds.wrapping_sub(*round).cast_signed() >= 0);
        users.round.is_none() && users.sleeps.forget_ended()
    }
}

impl OldNumberUsers {
    /// Nobody waits for the rest: threads that were cancelled in their sleep never wake.
    pub fn give_up(self) {
        self.sleeps.give_up();
    }
}
