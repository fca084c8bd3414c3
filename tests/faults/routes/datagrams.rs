//! Senders of datagrams while the network changes: the kernel's own, and the same with the library.

use std::time::Duration;

use testkit::{or_skip, panic_unless_paused};

use crate::routes::change::{Change, LINKS, METRICS, NEIGHBOURS, ROUTES};
use crate::routes::seen::Seen;
use crate::routes::stage::{DEVICES, FAR, LATE_MAX_USEC, Program, Stage};

const FIRST_PORT: usize = 7600;
/// The address a socket is bound to, and whether it is connected.
const SENDERS: [&str; 3] = ["0.0.0.0,0", "10.77.0.2,0", "0.0.0.0,1"];
/// The reason of that name.
const ROUTE_METRIC: u32 = 33;
/// Each sends one in a millisecond.
const LOST_MAX: u64 = LATE_MAX_USEC.unsigned_abs() / 1000;

/// The kernel's senders and those with the library at once, so that what the machine does to one it
/// does to all.
struct Traffic {
    stage: Stage,
    receiver: Program,
    kernel: Program,
    preloaded: Program,
    lost: [u64; 2 * SENDERS.len()],
}

impl Traffic {
    fn start(stage: Stage) -> Self {
        let ports = (2 * SENDERS.len()).to_string();
        let first_port = FIRST_PORT.to_string();
        let mut arguments = vec!["receive", &first_port, &ports];
        arguments.extend(DEVICES);
        let receiver = Program::start(&stage.pair.a, false, &arguments);
        let start = |is_preloaded, first_port: usize| {
            let (far, first_port) = (FAR.to_string(), first_port.to_string());
            let mut arguments = vec!["send", &far, &first_port];
            arguments.extend(SENDERS);
            Program::start(&stage.pair.b, is_preloaded, &arguments)
        };
        let kernel = start(false, FIRST_PORT);
        let preloaded = start(true, FIRST_PORT + SENDERS.len());
        std::thread::sleep(Duration::from_millis(100));
        Self {
            stage,
            receiver,
            kernel,
            preloaded,
            lost: [0; _],
        }
    }

    fn see(&mut self) -> Seen {
        Seen::parse(&self.receiver.ask("report"))
    }

    fn follow(&mut self, change: &Change) {
        let Change { line, device, .. } = *change;
        self.receiver.ask("mark");
        self.stage.change(line);
        let changed = self.receiver.ask_time("clock");
        // Some changes take the kernel itself a while.
        let kernel_follows = testkit::eventually(Duration::from_secs(20), || {
            let seen = self.see();
            let is_there = |sender| seen.row(sender, device).datagrams > 0;
            device.is_empty() || (0..SENDERS.len()).all(is_there)
        });
        assert!(kernel_follows, "{line}: {:?}", self.see());
        std::thread::sleep(Duration::from_micros(LATE_MAX_USEC.unsigned_abs() + 20_000));
        let during = self.see();
        self.kernel.ask("mark");
        self.preloaded.ask("mark");
        self.receiver.ask("mark");
        let packets = self.preloaded.packets();
        std::thread::sleep(Duration::from_millis(30));
        let settled = self.see();
        let said = self.kernel.ask("report") + &self.preloaded.ask("report");
        let packets_then = self.preloaded.packets();
        for sender in 0..2 * SENDERS.len() {
            let twin = sender % SENDERS.len();
            let what = format!("{line}: sender {sender}");
            let port = FIRST_PORT + sender;
            let says = |line: &&str| line.starts_with(&format!("sender {port} "));
            let said = said.lines().find(says).unwrap();
            assert!(
                said.ends_with(&format!(" {}", change.error)),
                "{what}: {said}"
            );
            for name in DEVICES {
                let (row, of_kernel) = (settled.row(sender, name), settled.row(twin, name));
                assert_eq!(
                    row.datagrams > 0,
                    name == device,
                    "{what}: {name}: {settled:#?}"
                );
                assert_eq!(row.headers, of_kernel.headers, "{what}: {name}");
                let (row, of_kernel) = (during.row(sender, name), during.row(twin, name));
                let late = if name == device {
                    row.first - of_kernel.first.max(changed)
                } else {
                    row.last - of_kernel.last.max(changed)
                };
                assert!(late <= LATE_MAX_USEC, "{what}: {name}: {late} us late");
            }
        }
        for sender in SENDERS.len()..2 * SENDERS.len() {
            let twin = sender - SENDERS.len();
            // What is on its way counts as missing for a moment.
            let lost = |sender| settled.streams[&sender].0.saturating_sub(self.lost[sender]);
            let allowed = lost(twin) + if change.loses { LOST_MAX } else { 0 };
            assert!(
                lost(sender) <= allowed,
                "{line}: sender {sender} lost {} and the kernel {}",
                lost(sender),
                lost(twin)
            );
            assert_eq!(settled.streams[&sender].1, 0, "{line}: doubled");
        }
        for (sender, (lost, _)) in settled.streams {
            self.lost[sender] = lost;
        }
        if line.contains("hoplimit") {
            let sockets = self.preloaded.sockets();
            let count = |it: &stats::SocketSnapshot| it.tx_os_reasons.get(ROUTE_METRIC);
            assert!(sockets.iter().all(|it| count(it) > 0), "{sockets:#?}");
        }
        let past = packets_then.0 - packets.0;
        let through = packets_then.1 - packets.1;
        assert!(
            !change.is_accelerated || (past > 0 && through == 0),
            "{line}: {past} past the kernel, {through} through it: {:#?}\n{}",
            self.preloaded.sockets(),
            self.preloaded.log()
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
fn datagrams_follow_routes_and_rules() {
    follow(ROUTES);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn datagrams_follow_mtus_and_other_metrics() {
    follow(METRICS);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn datagrams_follow_neighbours() {
    follow(NEIGHBOURS);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn datagrams_follow_links() {
    follow(LINKS);
}
