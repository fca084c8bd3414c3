//! A plan played against a stack.

use std::collections::HashMap;
use std::time::Duration;

use packetdrill::script::{TcpOption, flags};
use packetdrill::{Call, Outcome, Segment, Stack, Unreachable, octet};

use crate::plan::{Action, Plan, Step};

/// What a stack did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) steps: Vec<Done>,
    pub(crate) info: Vec<(&'static str, Option<i64>)>,
}

/// What came of a step.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) at: Duration,
    pub(crate) outcome: Option<Outcome>,
    /// Until the next step, in relative numbers.
    pub(crate) sent: Vec<(Duration, Segment)>,
}

impl Trace {
    pub(crate) fn times(&self) -> Vec<Duration> {
        self.steps.iter().map(|done| done.at).collect()
    }

    /// The machine stood still.
    pub(crate) fn is_late(&self, plan: &Plan) -> bool {
        let mut before = Duration::ZERO;
        for (done, step) in self.steps.iter().zip(&plan.steps) {
            if done.at.saturating_sub(before) > step.gap + Duration::from_millis(4) {
                return true;
            }
            before = done.at;
        }
        false
    }
}

/// Relative numbers and absolute ones.
pub(crate) struct Wire {
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    local_isn: Option<u32>,
    remote_isn: u32,
    first_timestamp: Option<u32>,
    last_timestamp: u32,
}

impl Wire {
    /// A segment that the stack sent, in relative numbers; `None` if it is of another connection.
    fn sent(&mut self, segment: &Segment) -> Option<Segment> {
        if segment.destination != self.remote_port {
            return None;
        }
        if self.local_port == 0 {
            self.local_port = segment.source;
        }
        if segment.source != self.local_port {
            return None;
        }
        let mut script = segment.clone();
        if segment.flags & flags::SYN != 0 {
            self.local_isn = Some(segment.seq);
        }
        let isn = *self.local_isn.get_or_insert({
            if segment.flags & flags::RST != 0 {
                0
            } else {
                segment.seq
            }
        });
        script.seq = segment.seq.wrapping_sub(isn);
        if segment.flags & flags::RST != 0 && segment.seq == 0 {
            script.seq = 0;
        }
        if segment.flags & flags::ACK != 0 {
            script.ack = segment.ack.wrapping_sub(self.remote_isn);
        }
        for option in &mut script.options {
            match option {
                TcpOption::Sack(blocks) => {
                    for (left, right) in blocks {
                        *left = left.wrapping_sub(self.remote_isn);
                        *right = right.wrapping_sub(self.remote_isn);
                    }
                }
                TcpOption::Timestamp { val, .. } => {
                    self.last_timestamp = *val;
                    *val = val.wrapping_sub(*self.first_timestamp.get_or_insert(*val));
                }
                _ => {}
            }
        }
        Some(script)
    }

    fn to_wire(&self, script: &Segment) -> Segment {
        let isn = self.local_isn.unwrap_or(0);
        let mut segment = script.clone();
        segment.source = self.remote_port;
        segment.destination = self.local_port;
        segment.seq = script.seq.wrapping_add(self.remote_isn);
        if script.flags & flags::ACK != 0 {
            segment.ack = script.ack.wrapping_add(isn);
        }
        for option in &mut segment.options {
            match option {
                TcpOption::Sack(blocks) => {
                    for (left, right) in blocks {
                        *left = left.wrapping_add(isn);
                        *right = right.wrapping_add(isn);
                    }
                }
                TcpOption::Timestamp { ecr, .. } if script.flags & flags::ACK != 0 => {
                    *ecr = ecr.wrapping_add(self.last_timestamp);
                }
                _ => {}
            }
        }
        let is_syn = script.flags & flags::SYN != 0;
        let position = script.seq.wrapping_sub(u32::from(!is_syn));
        for (index, byte) in (0..).zip(&mut segment.payload) {
            *byte = octet(position.wrapping_add(index));
        }
        segment
    }
}

/// A stack in the midst of a plan.
pub(crate) struct Player<'stack> {
    pub(crate) stack: &'stack mut dyn Stack,
    wire: Wire,
    fds: HashMap<i32, i32>,
    pub(crate) trace: Trace,
}

impl<'stack> Player<'stack> {
    pub(crate) fn new(plan: &Plan, stack: &'stack mut dyn Stack) -> Self {
        let (local_port, remote_port) = plan.ports();
        stack.set_up(&plan.setup()).expect("the setup is supported");
        Self {
            stack,
            wire: Wire {
                local_port,
                remote_port,
                local_isn: None,
                remote_isn: plan.remote_isn,
                first_timestamp: None,
                last_timestamp: 0,
            },
            fds: HashMap::new(),
            trace: Trace::default(),
        }
    }

    /// The descriptor is open.
    pub(crate) fn has(&self, fd: i32) -> bool {
        self.fds.contains_key(&fd)
    }

    /// Lets time pass until `deadline`.
    pub(crate) fn wait_until(&mut self, deadline: Duration) {
        while let Some((time, segment)) = self.stack.sniff(deadline) {
            if let Some(script) = self.wire.sent(&segment)
                && let Some(last) = self.trace.steps.last_mut()
            {
                last.sent.push((time, script));
            }
        }
    }

    pub(crate) fn act(&mut self, step: &Step) {
        let at = self.stack.now();
        let mut outcome = None;
        match &step.action {
            Action::Call(call) => outcome = Some(self.call(call)),
            Action::Inject(segment) => {
                let segment = self.wire.to_wire(segment);
                self.stack.inject(&segment);
            }
            Action::Unreachable { code, mtu, seq } => {
                self.stack.inject_unreachable(&Unreachable {
                    code: *code,
                    mtu: *mtu,
                    source: self.wire.local_port,
                    destination: self.wire.remote_port,
                    seq: seq.wrapping_add(self.wire.local_isn.unwrap_or(0)),
                });
            }
            Action::Wait => {}
        }
        self.trace.steps.push(Done {
            at,
            outcome,
            sent: Vec::new(),
        });
    }

    fn call(&mut self, call: &Call) -> Outcome {
        let live = |fd: i32| self.fds.get(&fd).copied().unwrap_or(-1);
        let real = with_fd(call, &live);
        self.stack
            .start(&real, false)
            .expect("the call is supported");
        let Some((_, outcome)) = self.stack.outcome() else {
            return Outcome::default();
        };
        match (call, outcome.result) {
            (Call::Socket { .. }, Some(Ok(fd))) => {
                self.fds.insert(3, i32::try_from(fd).unwrap());
                return Outcome::ok(3);
            }
            (Call::Accept { .. }, Some(Ok(fd))) => {
                self.fds.insert(4, i32::try_from(fd).unwrap());
                return Outcome::ok(4);
            }
            (Call::Close { fd }, _) => {
                self.fds.remove(fd);
            }
            _ => {}
        }
        outcome
    }

    pub(crate) fn finish(mut self, fd: i32) -> Trace {
        let end = self.stack.now() + Duration::from_millis(8);
        self.wait_until(end);
        if let Some(live) = self.fds.get(&fd) {
            for name in INFO {
                let value = self.stack.tcp_info(*live, name);
                self.trace.info.push((name, value));
            }
        }
        for fd in self.fds.clone().into_values() {
            let _ = self.stack.start(
                &Call::SetOption {
                    fd,
                    level: libc::SOL_SOCKET,
                    name: libc::SO_LINGER,
                    value: packetdrill::OptionValue::Linger {
                        on: true,
                        seconds: 0,
                    },
                },
                false,
            );
            self.stack.outcome();
            let _ = self.stack.start(&Call::Close { fd }, false);
            self.stack.outcome();
        }
        self.trace
    }
}

const INFO: [&str; 39] = [
    "tcpi_state",
    "tcpi_ca_state",
    "tcpi_retransmits",
    "tcpi_probes",
    "tcpi_backoff",
    "tcpi_options",
    "tcpi_snd_wscale",
    "tcpi_rcv_wscale",
    "tcpi_snd_mss",
    "tcpi_rcv_mss",
    "tcpi_unacked",
    "tcpi_sacked",
    "tcpi_lost",
    "tcpi_retrans",
    "tcpi_pmtu",
    "tcpi_snd_ssthresh",
    "tcpi_snd_cwnd",
    "tcpi_advmss",
    "tcpi_reordering",
    "tcpi_total_retrans",
    "tcpi_segs_out",
    "tcpi_segs_in",
    "tcpi_notsent_bytes",
    "tcpi_data_segs_in",
    "tcpi_data_segs_out",
    "tcpi_delivered",
    "tcpi_delivered_ce",
    "tcpi_dsack_dups",
    "tcpi_reord_seen",
    "tcpi_rcv_ooopack",
    "tcpi_snd_wnd",
    "tcpi_bytes_acked",
    "tcpi_bytes_received",
    "tcpi_bytes_sent",
    "tcpi_bytes_retrans",
    "tcpi_total_rto",
    "tcpi_total_rto_recoveries",
    "tcpi_rto",
    "tcpi_rtt",
];

fn with_fd(call: &Call, live: &dyn Fn(i32) -> i32) -> Call {
    let mut call = call.clone();
    match &mut call {
        Call::Bind { fd }
        | Call::Listen { fd, .. }
        | Call::Accept { fd, .. }
        | Call::Connect { fd }
        | Call::Write { fd, .. }
        | Call::Read { fd, .. }
        | Call::Shutdown { fd, .. }
        | Call::Close { fd }
        | Call::SetOption { fd, .. }
        | Call::GetOption { fd, .. }
        | Call::Ioctl { fd, .. } => *fd = live(*fd),
        Call::Poll { entries, .. } => {
            for (fd, _) in entries {
                *fd = live(*fd);
            }
        }
        _ => {}
    }
    call
}

/// Plays all of `plan`, at `times` or else at those that its gaps make.
pub(crate) fn play(plan: &Plan, stack: &mut dyn Stack, times: Option<&[Duration]>) -> Trace {
    let plan = &plan.with_new_port();
    let mut player = Player::new(plan, stack);
    for (index, step) in plan.steps.iter().enumerate() {
        let before = player
            .trace
            .steps
            .last()
            .map_or(Duration::ZERO, |done| done.at);
        let at = times.map_or(before + step.gap, |times| times[index]);
        player.wait_until(at);
        player.act(step);
    }
    player.finish(plan.connection_fd())
}
