use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const TICK: Duration = Duration::from_millis(1);

fn at_micros(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

fn at(millis: u64) -> Instant {
    at_micros(millis * 1000)
}

fn polled(wheel: &mut TimerWheel, now: Instant) -> Vec<u32> {
    let mut expired: Vec<_> = std::iter::from_fn(|| wheel.poll(now)).collect();
    expired.sort_unstable();
    expired
}

impl TimerWheel {
    fn check(&self) {
        let mut linked = 0;
        let mut check_list = |head: u32, place: u16| {
            let (mut id, mut previous) = (head, NIL);
            while id != NIL {
                let node = self.nodes[position(id)];
                assert_eq!((node.place, node.previous), (place, previous));
                linked += 1;
                (previous, id) = (id, node.next);
            }
        };
        check_list(self.due, DUE);
        for (number, level) in self.levels.iter().enumerate() {
            for (slot, &head) in level.heads.iter().enumerate() {
                assert_eq!(head != NIL, level.occupied >> slot & 1 == 1);
                check_list(head, u16::try_from(number << SLOT_BITS | slot).unwrap());
            }
        }
        assert_eq!(linked, self.armed);
    }
}

#[test]
fn a_timer_expires_at_its_tick_and_once() {
    let mut wheel = TimerWheel::new(TICK, at(100));
    assert_eq!(wheel.next_expiry(), None);
    wheel.arm(3, at_micros(105_001));
    assert_eq!(wheel.next_expiry(), Some(at(106)));
    assert_eq!(polled(&mut wheel, at_micros(105_999)), [0; 0]);
    assert_eq!(polled(&mut wheel, at(106)), [3]);
    assert_eq!(polled(&mut wheel, at(1000)), [0; 0]);
    assert_eq!(wheel.armed(), 0);
    assert!(!wheel.is_armed(3));
}

#[test]
fn a_deadline_in_the_past_is_due_at_once() {
    let mut wheel = TimerWheel::new(TICK, at(100));
    wheel.arm(0, at(5));
    assert_eq!(wheel.next_expiry(), Some(at(100)));
    assert_eq!(polled(&mut wheel, at(100)), [0]);
    wheel.arm(0, at(5));
    wheel.arm(0, at(200));
    assert_eq!(polled(&mut wheel, at(199)), [0; 0]);
    assert_eq!(polled(&mut wheel, at(200)), [0]);
}

#[test]
fn rearming_and_disarming_hold() {
    let mut wheel = TimerWheel::new(TICK, at(0));
    wheel.arm(0, at(50));
    wheel.arm(0, at(5000));
    wheel.arm(1, at(5000));
    wheel.arm(1, at(50));
    wheel.arm(2, at(50));
    wheel.disarm(2);
    wheel.disarm(2);
    wheel.disarm(99);
    wheel.check();
    assert_eq!(
        wheel.next_expiry(),
        Some(at(50)),
        "0 is still in its old place"
    );
    assert_eq!(polled(&mut wheel, at(50)), [1]);
    wheel.check();
    assert_eq!(polled(&mut wheel, at(4999)), [0; 0]);
    assert_eq!(polled(&mut wheel, at(5000)), [0]);
}

#[test]
fn far_deadlines_come_down_the_levels() {
    let mut wheel = TimerWheel::new(TICK, at(63));
    let deadlines = [
        64,
        65,
        127,
        128,
        4095,
        4096,
        262_143,
        262_144,
        16_777_216,
        10_000_000_000,
    ];
    for (id, &deadline) in (0..).zip(&deadlines) {
        wheel.arm(id, at(deadline));
    }
    wheel.check();
    for (id, &deadline) in (0..).zip(&deadlines) {
        assert_eq!(
            polled(&mut wheel, at(deadline - 1)),
            [0; 0],
            "before {deadline}"
        );
        assert!(wheel.next_expiry().unwrap() <= at(deadline));
        assert_eq!(polled(&mut wheel, at(deadline)), [id], "at {deadline}");
        wheel.check();
    }
}

#[test]
fn the_ends_of_the_clock_do_no_harm() {
    let end = Instant::from_nanos(u64::MAX);
    let mut wheel = TimerWheel::new(Duration::from_nanos(1), Instant::ZERO);
    wheel.arm(0, end);
    wheel.check();
    assert_eq!(polled(&mut wheel, end), [0]);
    wheel.arm(0, end);
    assert_eq!(polled(&mut wheel, end), [0]);
    let mut wheel = TimerWheel::new(Duration::ZERO, end);
    wheel.arm(0, Instant::ZERO);
    assert_eq!(polled(&mut wheel, Instant::ZERO), [0]);
}

#[derive(Clone, Debug)]
enum Operation {
    Arm(u32, u64),
    Disarm(u32),
    Wait(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    let delay = prop_oneof![
        0_u64..3_000,
        0_u64..300_000,
        0_u64..100_000_000,
        0_u64..1 << 40
    ];
    prop_oneof![
        4 => (0_u32..40, delay.clone()).prop_map(|(id, micros)| Operation::Arm(id, micros)),
        1 => (0_u32..40).prop_map(Operation::Disarm),
        3 => delay.prop_map(Operation::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn agrees_with_a_sorted_list(
        start in 0_u64..1 << 40,
        operations in prop::collection::vec(operation(), 1..120),
    ) {
        let mut now = start;
        let mut wheel = TimerWheel::new(TICK, at_micros(now));
        let mut model = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Arm(id, micros) => {
                    wheel.arm(id, at_micros(now + micros));
                    // Rounded up to a tick.
                    model.insert(id, (now + micros).div_ceil(1000) * 1000);
                }
                Operation::Disarm(id) => {
                    wheel.disarm(id);
                    model.remove(&id);
                }
                Operation::Wait(micros) => {
                    now += micros;
                    let due: Vec<_> = model
                        .extract_if(.., |_, deadline| *deadline <= now)
                        .map(|(id, _)| id)
                        .collect();
                    prop_assert_eq!(polled(&mut wheel, at_micros(now)), due);
                }
            }
            wheel.check();
            prop_assert_eq!(wheel.armed() as usize, model.len());
            let first = model.values().min().map(|&deadline| at_micros(deadline));
            match (wheel.next_expiry(), first) {
                (Some(next), Some(first)) => prop_assert!(next <= first.max(at_micros(now))),
                (next, first) => prop_assert_eq!(next.is_some(), first.is_some()),
            }
        }
    }

    /// A sleeper that waits for `next_expiry` each time gets every timer within a tick, and wakes
    /// in vain at most once for each level and re-arming.
    #[test]
    fn waiting_for_the_next_expiry_finds_each_timer_in_time(
        deadlines in prop::collection::vec(1_u64..1 << 36, 1..40),
    ) {
        let mut wheel = TimerWheel::new(TICK, Instant::ZERO);
        for (id, &deadline) in (0..).zip(&deadlines) {
            wheel.arm(id, at_micros(deadline));
        }
        let mut expired = 0;
        let mut wakes = 0;
        while let Some(now) = wheel.next_expiry() {
            wakes += 1;
            while let Some(id) = wheel.poll(now) {
                let deadline = at_micros(deadlines[id as usize]);
                prop_assert!(now >= deadline && now - deadline < TICK);
                expired += 1;
            }
        }
        prop_assert_eq!(expired, deadlines.len());
        prop_assert!(wakes <= deadlines.len() * LEVELS);
    }
}

#[test]
fn a_timer_can_be_set_to_expire_earlier_only() {
    let mut wheel = TimerWheel::new(TICK, at(0));
    wheel.arm_earlier(0, at(10));
    wheel.arm_earlier(0, at(20));
    assert_eq!(polled(&mut wheel, at(9)), [0; 0]);
    assert_eq!(polled(&mut wheel, at(10)), [0]);
    wheel.arm_earlier(0, at(100));
    wheel.arm_earlier(0, at(20));
    assert_eq!(polled(&mut wheel, at(20)), [0]);
    // One that is due stays so.
    wheel.arm_earlier(0, at(15));
    wheel.arm_earlier(0, at(50));
    assert_eq!(polled(&mut wheel, at(20)), [0]);
    // One that was moved back is where it was moved to.
    wheel.arm(0, at(30));
    wheel.arm(0, at(60));
    wheel.arm_earlier(0, at(40));
    assert_eq!(polled(&mut wheel, at(39)), [0; 0]);
    assert_eq!(polled(&mut wheel, at(40)), [0]);
    assert_eq!(wheel.armed(), 0);
}
