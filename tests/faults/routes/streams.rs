//! Streams in both directions while the network changes: a client and a server on the kernel, and
//! the same with the library.

use std::time::Duration;

use testkit::{or_skip, panic_unless_paused};

use crate::routes::change::{Change, LINKS, METRICS, NEIGHBOURS, ROUTES};
use crate::routes::stage::{DEVICES, LATE_MAX_USEC, Program, Stage};

#[derive(Debug)]
struct Seen {
    echoed: u64,
    wrong: u64,
    gap_usec: i64,
    since_usec: i64,
    is_open: bool,
}

impl Seen {
    fn by(program: &mut Program) -> Self {
        let answer = program.ask("report");
        let words: Vec<_> = answer.split_whitespace().collect();
        let [_, echoed, _, wrong, _, gap, _, since, state, ..] = words[..] else {
            panic!("{answer}");
        };
        Self {
            echoed: echoed.parse().unwrap(),
            wrong: wrong.parse().unwrap(),
            gap_usec: gap.parse().unwrap(),
            since_usec: since.parse().unwrap(),
            is_open: state == "open",
        }
    }

    fn flows(&self) -> bool {
        self.echoed > 0 && self.since_usec < 20_000
    }
}

/// What is lost is sent again after a while, twice or three times perhaps.
const RESENT_USEC: i64 = 1_200_000;

/// Each has a stream of its own to its partner on the other host: those of host `a`, to the
/// kernel's and to the library's servers, and the clients in `b` on the kernel and with the
/// library.
struct Traffic {
    stage: Stage,
    programs: [Program; 4],
    /// A connection for which there is no way past the kernel is the kernel's from then on.
    are_kernels: bool,
}

const KERNEL: [usize; 2] = [0, 1];
const PRELOADED: [usize; 2] = [2, 3];

impl Traffic {
    fn start(stage: Stage) -> Self {
        let near = |is_preloaded, port, to| {
            let arguments = ["streams", "10.77.0.2", port, "10.99.0.1", to];
            Program::begin(&stage.pair.b, is_preloaded, &arguments)
        };
        let far = |port, to| {
            let arguments = ["streams", "10.99.0.1", port, "10.77.0.2", to];
            Program::begin(&stage.pair.a, false, &arguments)
        };
        let mut programs = [
            near(false, "7702", "7700"),
            far("7700", "7702"),
            near(true, "7703", "7701"),
            far("7701", "7703"),
        ];
        programs.iter_mut().for_each(Program::is_ready);
        Self {
            stage,
            programs,
            are_kernels: false,
        }
    }

    fn see(&mut self) -> [Seen; 4] {
        self.programs.each_mut().map(Seen::by)
    }

    fn follow(&mut self, change: &Change) {
        let Change { line, device, .. } = *change;
        let ends = ["hoplimit", "a: route add"];
        self.are_kernels |= change.error != "none" || ends.iter().any(|it| line.contains(it));
        self.programs.iter_mut().for_each(|it| drop(it.ask("mark")));
        self.stage.change(line);
        std::thread::sleep(Duration::from_millis(60));
        if device.is_empty() {
            std::thread::sleep(Duration::from_millis(60));
            return;
        }
        self.programs
            .iter_mut()
            .for_each(|it| drop(it.ask("clock")));
        for of in [KERNEL, PRELOADED] {
            let resumes = testkit::eventually(Duration::from_secs(20), || {
                let seen = self.see();
                of.iter().all(|it| seen[*it].flows())
            });
            assert!(
                resumes,
                "{line}: {of:?}: {:#?}\n{}",
                self.see(),
                self.programs[2].log()
            );
        }
        let seen = self.see();
        for (kernel, preloaded) in KERNEL.into_iter().zip(PRELOADED) {
            let late = seen[preloaded].gap_usec - seen[kernel].gap_usec;
            let what = format!("{line}: {seen:#?}");
            let resent = if change.loses { RESENT_USEC } else { 0 };
            assert!(late <= LATE_MAX_USEC + resent, "{what}");
            assert!(seen.iter().all(|it| it.wrong == 0 && it.is_open), "{what}");
        }
        let arrived = || DEVICES.map(|name| self.stage.received_frames(name));
        let packets = self.programs[2].packets();
        let before = arrived();
        std::thread::sleep(Duration::from_millis(50));
        let after = arrived();
        let packets_then = self.programs[2].packets();
        for (index, name) in DEVICES.into_iter().enumerate() {
            let frames = after[index].saturating_sub(before[index]);
            // The kernel's and ours, each with two streams, and hardly anything else.
            let expected = if name == device { 20..10_000 } else { 0..6 };
            assert!(
                expected.contains(&frames),
                "{line}: {frames} frames on {name}, {before:?} {after:?}"
            );
        }
        let past = packets_then.0 - packets.0;
        assert_eq!(
            past > 0,
            !self.are_kernels,
            "{line}: {past} past the kernel"
        );
    }
}

fn follow(changes: &[Change]) {
    panic_unless_paused(|| {
        let mut traffic = Traffic::start(or_skip!(Stage::new()));
        for change in changes {
            traffic.follow(change);
        }
    });
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn streams_follow_routes_and_rules() {
    follow(ROUTES);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn streams_follow_mtus_and_other_metrics() {
    follow(METRICS);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn streams_follow_neighbours() {
    follow(NEIGHBOURS);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn streams_follow_links() {
    follow(LINKS);
}
