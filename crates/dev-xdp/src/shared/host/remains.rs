//! What those leave who have gone, and empty frames for those who are late.

use super::*;
use crate::shared::refill::finish_for;

/// From when on nothing is delivered to sockets that were taken out of the program's map, in which
/// the kernel may have been at work.
const SETTLED: Duration = Duration::from_millis(20);
/// After that a frame that a dead process has sent counts as sent.
const SENT: Duration = Duration::from_secs(60);

impl Host {
    /// To be called now and then: takes back what those have left who have gone, and gives the
    /// kernel empty frames while processes are busy otherwise.
    pub fn tend(&mut self) {
        let now = Instant::now();
        let mut ended = std::mem::take(&mut self.ended);
        for it in &mut ended {
            if !it.is_recovered && now >= it.since + SETTLED {
                it.is_recovered = self.recover(&mut it.member);
            }
        }
        ended.retain(|it| !it.is_recovered || !self.take_share_back(it, now));
        self.ended = ended;
        self.follow_progress(now);
        self.admission.tend(now);
        self.fill_up();
    }

    /// Whether a process has gone of which something is left.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    pub(super) fn fill_up(&mut self) {
        if let Some(locked) = self.area.try_lock(Client::BROKER) {
            for refill in &mut self.refills {
                refill.fill_up(&locked, &self.area, Client::BROKER);
            }
        }
    }

    /// Ends what a dead process was about, if it died with the lock.
    pub(super) fn take_lock_from(&mut self, dead: Client) {
        if let Some(locked) = self.area.take_from(dead, Client::BROKER) {
            finish_for(&locked, &self.area, &mut self.refills, dead);
        }
    }

    /// Takes back the frames that a dead process had received. `false`: another process has the
    /// lock.
    fn recover(&mut self, member: &mut Member) -> bool {
        self.take_lock_from(member.client);
        let area = &self.area;
        let Some(locked) = area.try_lock(Client::BROKER) else {
            return false;
        };
        let shape = area.shape();
        let mut unread = Vec::new();
        for sockets in &mut member.sockets {
            sockets.rx.take_turn();
            // At most as many as a ring has: its indexes may have been spoilt.
            let descriptors = std::iter::from_fn(|| sockets.rx.pop());
            let read = descriptors.take(member.rx_entries as usize);
            unread.extend(read.filter_map(|it| shape.rx_frame(it.addr)));
        }
        recover(&locked, area, &mut self.refills, member.client, unread);
        for queue in &mut self.queues {
            let nothing = Share { first: 0, count: 0 };
            take_completed(area, &mut queue.completion, nothing, |_| {});
        }
        for sockets in &member.sockets {
            // SAFETY: the ring is not looked at any more, and the mapping is this process's own.
            let _ = unsafe { sockets.mapping.remove() };
        }
        // Closed by now, or with the process: the rings keep frames no longer.
        member.sockets.clear();
        true
    }

    /// Has the frames that a dead process has sent be another's, when they can. Whether they are.
    fn take_share_back(&mut self, ended: &Ended, now: Instant) -> bool {
        let is_sent = |number| {
            let state = self.area.state(number);
            state.load(Ordering::Acquire) != IN_FLIGHT
        };
        let share = ended.member.share;
        let are_sent = now >= ended.since + SENT || share.numbers().all(is_sent);
        if are_sent {
            self.budget.give(ended.member.rx_entries, share);
        }
        are_sent
    }
}
