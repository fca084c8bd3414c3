use super::*;

/// Ticks that telling of a frame takes, and a pause that is none.
const KICK: u64 = 2000;
const NO_PAUSE: u64 = 100;

struct Sender {
    doorbell: Doorbell,
    now: u64,
    in_ring: u32,
    told: Vec<u32>,
}

impl Sender {
    fn new() -> Self {
        Self {
            doorbell: Doorbell::default(),
            now: 1_000_000,
            in_ring: 0,
            told: Vec::new(),
        }
    }

    fn kick(&mut self) {
        let frames = self.doorbell.kick_begins();
        let begun = self.now;
        self.now += KICK * u64::from(self.in_ring);
        self.told.push(self.in_ring);
        self.in_ring = 0;
        self.doorbell.kick_ended(frames, begun, self.now);
    }

    fn send(&mut self, pause: u64, follows: Follows) -> Notify {
        self.now += pause;
        self.in_ring += 1;
        let notify = self.doorbell.frame_queued(self.now, follows, true);
        if notify == Notify::Now {
            self.kick();
        }
        notify
    }

    fn send_many(&mut self, count: u32, pause: u64) {
        (0..count).for_each(|_| {
            self.send(pause, Follows::Unknown);
        });
    }
}

#[test]
fn whoever_is_answered_is_no_bulk_sender() {
    let mut sender = Sender::new();
    for _ in 0..2 * STREAK_MIN {
        assert_eq!(sender.send(NO_PAUSE, Follows::Unknown), Notify::Now);
        sender.doorbell.frames_received(1);
    }
    // An answer now and then does not keep one from becoming it.
    for round in 0..2 * STREAK_MIN {
        if round.is_multiple_of(100) {
            sender.doorbell.frames_received(1);
        }
        sender.send(NO_PAUSE, Follows::Unknown);
    }
    assert!(sender.told.iter().any(|frames| *frames > 1));
}

#[test]
fn a_sender_that_pauses_gets_every_frame_out_at_once() {
    let mut sender = Sender::new();
    sender.send_many(10 * STREAK_MIN, KICK / PAUSE_DIVISOR + 1);
    assert!(sender.told.iter().all(|frames| *frames == 1));
}

#[test]
fn a_fan_out_gets_every_frame_out_at_once() {
    let mut sender = Sender::new();
    for _ in 0..100 {
        sender.now += KICK;
        sender.send_many(STREAK_MIN / 2, NO_PAUSE);
    }
    assert!(sender.told.iter().all(|frames| *frames == 1));
}

#[test]
fn a_bulk_sender_s_frames_go_in_batches_until_it_pauses() {
    let mut sender = Sender::new();
    sender.send_many(STREAK_MIN + 1, NO_PAUSE);
    sender.told.clear();
    assert_eq!(
        sender.send(NO_PAUSE, Follows::Unknown),
        Notify::LaterAndWatch,
        "the first one left waiting"
    );
    assert_eq!(sender.send(NO_PAUSE, Follows::Unknown), Notify::Later);
    sender.send_many(10 * BULK_BATCH - 2, NO_PAUSE);
    assert_eq!(sender.told, [BULK_BATCH; 10]);
    sender.send_many(3, NO_PAUSE);
    assert_eq!((sender.in_ring, sender.told.len()), (3, 10));
    // The pause: this one takes the waiting ones along.
    sender.send(KICK, Follows::Unknown);
    assert_eq!(sender.told.last(), Some(&4));
    assert_eq!(sender.send(NO_PAUSE, Follows::Unknown), Notify::Now);
}

#[test]
fn an_interrupt_leaves_a_bulk_sender_one() {
    let mut sender = Sender::new();
    sender.send_many(2 * STREAK_MAX, NO_PAUSE);
    sender.send(KICK, Follows::Unknown);
    assert_ne!(sender.send(NO_PAUSE, Follows::Unknown), Notify::Now);
}

#[test]
fn nothing_waits_where_nobody_looks_after_it() {
    let doorbell = Doorbell::default();
    doorbell.kick_ended(1, 0, KICK);
    for _ in 0..3 * STREAK_MIN {
        assert_eq!(
            doorbell.frame_queued(KICK, Follows::Unknown, false),
            Notify::Now
        );
    }
}

#[test]
fn the_internal_thread_tells_of_the_last_frames() {
    let mut sender = Sender::new();
    sender.send_many(STREAK_MIN + 4, NO_PAUSE);
    assert!(sender.doorbell.is_waiting());
    let mut kicks = 0;
    assert!(sender.doorbell.look(|| kicks += 1), "there was news");
    assert!(!sender.doorbell.look(|| kicks += 1));
    assert_eq!(kicks, 1);
    sender.kick();
    assert!(
        !sender.doorbell.look(|| kicks += 1),
        "nothing to look after"
    );
    assert_eq!(kicks, 1);
    // The sender has to be a bulk sender again before anything waits.
    sender.told.clear();
    sender.send_many(STREAK_MIN, NO_PAUSE);
    assert!(sender.told.iter().all(|frames| *frames == 1));
}

#[test]
fn messages_of_one_call_go_together() {
    let mut sender = Sender::new();
    for _ in 0..CALL_BATCH - 1 {
        assert_eq!(sender.send(NO_PAUSE, Follows::Message), Notify::Later);
    }
    assert_eq!(sender.send(NO_PAUSE, Follows::Message), Notify::Now);
    assert_eq!(sender.send(NO_PAUSE, Follows::Message), Notify::Later);
    assert_eq!(sender.send(NO_PAUSE, Follows::Unknown), Notify::Now);
    assert_eq!(sender.told, [CALL_BATCH, 2]);
}
