//! Plans made from a seed: the engine is played along, so that what comes next can refer to what it
//! has sent.

mod calls;
mod odd;
mod opening;
mod segments;

use std::time::Duration;

use packetdrill::script::flags;
use packetdrill::sysctl::Setting;
use packetdrill::{Call, Segment};

use crate::plan::{Action, Plan, Step};
use crate::play::Player;
use crate::support::engine::Engine;
use crate::support::network::Rng;
use crate::view::{View, after};

impl Plan {
    pub(crate) fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Self {
            seed,
            is_passive: rng.chance(600_000),
            remote_isn: rng.pick(&[0, 5_000, u32::MAX - 2_000]),
            sysctls: sysctls(&mut rng),
            steps: Vec::new(),
            fixed: 0,
            port: 7000,
        };
        Generator::new(plan, rng).run()
    }
}

/// Between what timers send and a step.
const MARGIN: Duration = Duration::from_millis(15);

fn sysctls(rng: &mut Rng) -> Vec<Setting> {
    let mut all: Vec<Setting> = Vec::new();
    let mut set = |name: &str, value: &str| all.push((name.to_owned(), value.to_owned()));
    set("tcp_no_metrics_save", "1");
    set("tcp_autocorking", "0");
    set("tcp_syn_retries", "5");
    set("tcp_synack_retries", "5");
    set("tcp_rmem", "4096 131072 6291456");
    set("tcp_wmem", "4096 262144 4194304");
    set("tcp_timestamps", rng.pick(&["1", "1", "0"]));
    set("tcp_sack", rng.pick(&["1", "1", "1", "0"]));
    set("tcp_dsack", "1");
    set("tcp_window_scaling", rng.pick(&["1", "1", "1", "0"]));
    set("tcp_congestion_control", rng.pick(&["cubic", "reno"]));
    set("tcp_slow_start_after_idle", rng.pick(&["0", "1"]));
    set("tcp_early_retrans", rng.pick(&["3", "3", "0"]));
    set("tcp_ecn", rng.pick(&["0", "1", "2"]));
    set("tcp_abort_on_overflow", rng.pick(&["0", "0", "1"]));
    set("tcp_syncookies", rng.pick(&["1", "1", "0"]));
    set("tcp_rfc1337", rng.pick(&["0", "1"]));
    set("tcp_fastopen", "0");
    all
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    Sender,
    Receiver,
    Mixed,
    Closing,
    Hostile,
}

struct Generator {
    plan: Plan,
    rng: Rng,
    profile: Profile,
    view: View,
    /// What our SYN has.
    mss: u16,
    has_sack: bool,
    has_timestamps: bool,
    /// Both ends have them.
    uses_timestamps: bool,
    uses_sack: bool,
    scale: Option<u8>,
    window: u16,
    ecn: bool,
    clock: u32,
    fd: i32,
    /// Octets of a full segment of ours. Two of the same smaller size in a row, and without PSH,
    /// lower what Linux takes for that (`tcp_measure_rcv_mss`); the engine goes by the largest.
    full_len: usize,
    is_read_shut: bool,
}

impl Generator {
    fn new(plan: Plan, mut rng: Rng) -> Self {
        let profile = rng.pick(&[
            Profile::Sender,
            Profile::Sender,
            Profile::Sender,
            Profile::Receiver,
            Profile::Receiver,
            Profile::Mixed,
            Profile::Mixed,
            Profile::Closing,
            Profile::Hostile,
        ]);
        Self {
            profile,
            view: View::default(),
            mss: rng.pick(&[1000, 1000, 1460, 536, 200]),
            has_sack: rng.chance(800_000),
            // An echo of what was sent after the SYN-ACK is not believed by Linux.
            has_timestamps: profile != Profile::Hostile && rng.chance(500_000),
            uses_timestamps: false,
            uses_sack: false,
            scale: rng.pick(&[None, Some(0), Some(2), Some(7), Some(7), Some(8)]),
            window: rng.pick(&[10_000, 32_792, 65_535]),
            ecn: rng.chance(300_000),
            clock: 1000,
            fd: plan.connection_fd(),
            is_read_shut: false,
            full_len: rng.pick(&[1000, 1400]),
            plan,
            rng,
        }
    }

    fn run(mut self) -> Plan {
        let plan = self.plan.clone();
        let mut engine = Engine::new(0x1000_0000);
        let mut player = Player::new(&plan, &mut engine);
        if plan.is_passive {
            self.passive(&mut player);
        } else {
            self.active(&mut player);
        }
        self.plan.fixed = self.plan.steps.len();
        let count = self.rng.between(3, 25);
        let mut total = Duration::ZERO;
        for _ in 0..count {
            let gap = self.gap();
            total += gap;
            if total > Duration::from_millis(1500) {
                break;
            }
            let action = self.action();
            self.step(&mut player, gap, action);
        }
        self.step(&mut player, Duration::from_millis(5), Action::Wait);
        self.plan
    }

    fn gap(&mut self) -> Duration {
        let millis = self.rng.pick(&[2, 5, 10, 10, 10, 20, 20, 20, 70, 130, 260]);
        Duration::from_millis(millis)
    }

    fn step(&mut self, player: &mut Player<'_>, mut gap: Duration, mut action: Action) {
        let before = player
            .trace
            .steps
            .last()
            .map_or(Duration::ZERO, |done| done.at);
        player.wait_until(before + gap);
        // Linux's timers are later by up to a few ticks.
        while let Some(done) = player.trace.steps.last()
            && let Some((time, _)) = done.sent.last()
            && *time > before + Duration::from_millis(1)
            && *time + MARGIN + (*time - before) / 3 > before + gap
        {
            gap += MARGIN + (*time - before) / 3;
            player.wait_until(before + gap);
        }
        self.look(player);
        // What was planned before may be late; numbers were chosen by what was known then.
        if let Action::Inject(segment) = &action {
            if self.is_plain_duplicate(segment) {
                action = Action::Wait;
            } else {
                self.view.on_injected(segment);
            }
        }
        if let Action::Call(call) = &action {
            if let Call::Shutdown { how, .. } = call {
                self.is_read_shut |= *how != libc::SHUT_WR;
            }
            if !self.is_comparable(call, player) {
                action = Action::Wait;
            }
        }
        let step = Step { gap, action };
        player.act(&step);
        let now = player.trace.steps.last().unwrap().at;
        player.wait_until(now);
        self.look(player);
        self.clock = self
            .clock
            .wrapping_add(u32::try_from(gap.as_millis()).unwrap());
        self.plan.steps.push(step);
    }

    /// Without SACK, a duplicate acknowledgement. Linux's first one after data is none
    /// (`tcp_may_update_window` goes by the number, RFC 5681 §2 by the window), and with one
    /// segment outstanding it lowers the number that means loss to 1 (`tcp_check_reno_reordering`).
    fn is_plain_duplicate(&self, segment: &Segment) -> bool {
        !self.uses_sack
            && segment.payload.is_empty()
            && segment.flags & (flags::SYN | flags::FIN | flags::RST) == 0
            && segment.ack == self.view.acked.max(1)
            && after(self.view.sent_end, self.view.acked.max(1))
    }

    /// Whether the engine's driver in these tests is a whole socket layer with regard to `call`.
    fn is_comparable(&self, call: &Call, player: &Player<'_>) -> bool {
        match call {
            // POLLHUP, POLLRDHUP of what the application itself has shut, and descriptors that are
            // not open.
            Call::Poll { entries, .. } => {
                !self.is_read_shut && entries.iter().all(|(fd, _)| player.has(*fd))
            }
            // After the peer's FIN, with an urgent octet that is announced and has not come: 0 with
            // Linux, EAGAIN with the engine.
            Call::Read { flags, .. } => flags & libc::MSG_OOB == 0 || self.view.our_fin.is_none(),
            _ => true,
        }
    }

    fn look(&mut self, player: &Player<'_>) {
        let mut view = View {
            ours: std::mem::take(&mut self.view.ours),
            our_fin: self.view.our_fin,
            acked: self.view.acked,
            ..View::default()
        };
        for done in &player.trace.steps {
            for (_, segment) in &done.sent {
                view.on_sent(segment);
            }
        }
        self.view = view;
    }

    fn sysctl(&self, name: &str) -> &str {
        self.plan
            .sysctls
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    fn action(&mut self) -> Action {
        let roll = self.rng.between(0, 99);
        let weights: [u64; 5] = match self.profile {
            // writes, acknowledgements, data, reads and looks, others
            Profile::Sender => [30, 50, 3, 4, 6],
            Profile::Receiver => [4, 5, 60, 15, 6],
            Profile::Mixed => [20, 25, 25, 10, 10],
            Profile::Closing => [12, 25, 18, 10, 8],
            Profile::Hostile => [10, 20, 15, 8, 10],
        };
        let mut bound = 0;
        for (index, weight) in weights.iter().enumerate() {
            bound += weight;
            if roll < bound {
                return match index {
                    0 => self.write(),
                    1 => self.acknowledge(),
                    2 => self.data(),
                    3 => self.read(),
                    _ => self.option(),
                };
            }
        }
        match self.profile {
            Profile::Closing => {
                if self.rng.chance(500_000) {
                    self.close()
                } else {
                    self.odd()
                }
            }
            Profile::Hostile => self.odd(),
            _ => {
                if self.rng.chance(300_000) {
                    self.close()
                } else {
                    self.odd()
                }
            }
        }
    }
}
