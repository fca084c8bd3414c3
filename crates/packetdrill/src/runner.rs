//! Plays a script against a stack.

mod calls;
mod compare;
mod connection;
mod settings;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::error::Place;
use crate::python::{self, CodeError};
use crate::script::{Action, Body, Code, Command, Event, Icmp, Packet, Script, Tos, When, flags};
use crate::stack::{Segment, Setup, Stack, Unreachable, wrong_octet};
use crate::{symbols, sysctl};
use calls::Pending;
use compare::Expectation;
pub use compare::describe;
use connection::Connection;
use settings::{Settings, commanded};

/// How a script is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Added to the initial sequence number of the peer that the script plays.
    pub remote_isn: u32,
    /// Whether a packet that the script does not mention is a failure even if nothing is expected
    /// after it.
    pub all_packets: bool,
    /// Whether PSH may be missing or additional: who sends decides where to push within a stream
    /// (RFC 9293 §3.9.1.2).
    pub any_push: bool,
    /// Whether to play the script over IPv6.
    pub is_ipv6: bool,
    /// The least tolerance of times, for a stack whose clock is not the script's.
    pub least_tolerance: Duration,
}

/// Why a script did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The script.
    pub path: String,
    /// The line at fault.
    pub place: Place,
    /// What differs.
    pub message: String,
    /// The script asks for something that the runner or the stack does not offer.
    pub unsupported: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, .. } = self.place;
        let kind = if self.unsupported {
            "unsupported: "
        } else {
            ""
        };
        write!(formatter, "{}:{line}: {kind}{}", self.path, self.message)
    }
}

impl std::error::Error for Failure {}

/// What goes wrong at a place that the caller knows.
#[derive(Debug)]
enum Problem {
    Differs(String),
    Unsupported(String),
}

/// How long after its time a packet is still waited for, so that the failure can tell when it came.
const GRACE: Duration = Duration::from_secs(1);

/// How long a packet "at any time" is waited for.
const ANY_TIME: Duration = Duration::from_secs(300);

/// Relative tolerance of times, in 1/1000, as in the original.
const TOLERANCE_PER_MILLE: u32 = 125;

/// Plays `script` against `stack`.
pub fn run(script: &Script, stack: &mut dyn Stack, conditions: &Conditions) -> Result<(), Failure> {
    let fail = |place, problem| {
        let (message, unsupported) = match problem {
            Problem::Differs(message) => (message, false),
            Problem::Unsupported(message) => (message, true),
        };
        Failure {
            path: script.path.clone(),
            place,
            message,
            unsupported,
        }
    };
    let start = script.events.first().map(|event| event.place);
    let start = start.unwrap_or_default();
    let (settings, mut setup) =
        Settings::of(script).map_err(|(place, problem)| fail(place, problem))?;
    setup.is_ipv6 = conditions.is_ipv6;
    let set_up = stack.set_up(&setup).map_err(Problem::Unsupported);
    set_up.map_err(|problem| fail(start, problem))?;
    let mut run = Run {
        stack,
        settings: Settings {
            tolerance: settings.tolerance.max(conditions.least_tolerance),
            ..settings
        },
        conditions,
        queue: VecDeque::new(),
        connection: Connection::new(&setup, conditions.remote_isn),
        fds: HashMap::new(),
        last_socket: None,
        connected: HashSet::new(),
        variables: HashMap::new(),
        pending: None,
        last_event: Duration::ZERO,
        last_was_inject: false,
    };
    for event in &script.events {
        run.event(event)
            .map_err(|(place, problem)| fail(place.unwrap_or(event.place), problem))?;
    }
    let last = script.events.last().map(|event| event.place);
    run.finish()
        .map_err(|(place, problem)| fail(place.or(last).unwrap_or_default(), problem))
}

type Stepped<T = ()> = Result<T, (Option<Place>, Problem)>;

struct Run<'run> {
    stack: &'run mut dyn Stack,
    settings: Settings,
    conditions: &'run Conditions,
    /// Sent and not yet expected.
    queue: VecDeque<(Duration, Segment)>,
    connection: Connection,
    /// From the script's descriptors to the stack's.
    fds: HashMap<i64, i32>,
    /// The socket that code looks at: the last connected or accepted one.
    last_socket: Option<i32>,
    /// The stack's descriptors of sockets that were connected.
    connected: HashSet<i32>,
    /// Of the script's code.
    variables: HashMap<String, i64>,
    pending: Option<Pending>,
    /// When the event before was to happen, or did if it was a packet that was sent.
    last_event: Duration,
    last_was_inject: bool,
}

impl Run<'_> {
    fn event(&mut self, event: &Event) -> Stepped {
        let is_inject = matches!(event.action, Action::Inject(_));
        // As in the original: packets that arrive one after another are apart as the script says,
        // other events are so far from when the event before happened.
        let origin = if is_inject && self.last_was_inject {
            self.last_event
        } else {
            self.stack.now()
        };
        let (start, end) = match event.when {
            When::At(time) => (time, time),
            When::After(time) => (origin + time, origin + time),
            When::Between(start, end) => (start, end),
            When::AfterBetween(start, end) => (origin + start, origin + end),
            When::Any => (Duration::ZERO, origin + ANY_TIME),
        };
        if let Action::Expect(packet) = &event.action {
            self.expect(packet, start, end)
                .map_err(|(place, problem)| (place.or(Some(packet.place)), problem))?;
            self.last_event = if event.when == When::Any {
                self.stack.now()
            } else {
                start
            };
        } else {
            self.wait_until(start);
            match &event.action {
                Action::Inject(packet) => self.inject(packet)?,
                Action::Call(syscall) => {
                    let relative = matches!(event.when, When::After(_));
                    let origin = if relative { origin } else { Duration::ZERO };
                    self.call(syscall, origin)?;
                }
                Action::Command(command) => {
                    let changes = commanded(command).map_err(|(place, p)| (Some(place), p))?;
                    for change in changes {
                        let result = self.stack.change(&change).map_err(Problem::Unsupported);
                        result.map_err(|problem| (Some(command.place), problem))?;
                    }
                }
                Action::Code(code) => self.code(code)?,
                Action::Expect(_) => {}
            }
            self.last_event = start;
        }
        self.last_was_inject = is_inject;
        Ok(())
    }

    /// Lets time pass; what is sent meanwhile waits to be expected.
    fn wait_until(&mut self, deadline: Duration) {
        while let Some(sent) = self.stack.sniff(deadline) {
            self.queue.push_back(sent);
        }
    }

    fn finish(&mut self) -> Stepped {
        self.await_call()?;
        if self.conditions.all_packets
            && let Some((time, segment)) = self.queue.front()
        {
            let seen = describe(&self.connection.to_script(segment));
            let message = format!(
                "sent at {:.6} and not in the script:\n  {seen}",
                time.as_secs_f64()
            );
            return Err((None, Problem::Differs(message)));
        }
        Ok(())
    }

    /// The next packet that is sent, at most [`GRACE`] after `end`.
    ///
    /// What an earlier connection still sends is passed over, as in the original, unless all
    /// packets count.
    fn next_sent(&mut self, end: Duration) -> Option<(Duration, Segment)> {
        let deadline = end + self.tolerance(end) + GRACE;
        loop {
            let sent = self.queue.pop_front();
            let sent = sent.or_else(|| self.stack.sniff(deadline))?;
            if self.conditions.all_packets || self.connection.has(&sent.1) {
                return Some(sent);
            }
        }
    }

    /// Time may differ by a fixed amount, or by a part of the time since the event before if that
    /// is more.
    fn tolerance(&self, time: Duration) -> Duration {
        let delta = time.saturating_sub(self.last_event);
        self.settings
            .tolerance
            .max(delta * TOLERANCE_PER_MILLE / 1000)
    }

    fn expect(&mut self, packet: &Packet, start: Duration, end: Duration) -> Stepped {
        let Body::Tcp(wanted) = &packet.body else {
            let message = "only TCP segments can be expected".to_owned();
            return Err((None, Problem::Unsupported(message)));
        };
        let differs = |message: String| (None, Problem::Differs(message));
        let mut expectation = Expectation::new(
            wanted,
            packet.ip,
            self.settings.strict_segments,
            self.conditions.any_push,
        );
        loop {
            let Some((time, segment)) = self.next_sent(end) else {
                let wanted = expectation.describe_rest();
                let message = format!("nothing was sent\n  expected: {wanted}");
                return Err(differs(message));
            };
            self.connection.learn(wanted, &segment);
            let mut actual = self.connection.to_script(&segment);
            if let Some(tick) = self.connection.map_timestamp(wanted, &mut actual) {
                let off = self.settings.timestamp_tick * tick;
                if off > self.tolerance(time) {
                    let seen = describe(&actual);
                    return Err(differs(format!("the timestamp is {off:?} off: {seen}")));
                }
            }
            let complete = expectation.accept(&actual).map_err(|why| {
                let (wanted, seen) = (expectation.describe_rest(), describe(&actual));
                let at = time.as_secs_f64();
                differs(format!(
                    "{why}\n  expected: {wanted}\n  actual:   {seen} at {at:.6}"
                ))
            })?;
            let position = segment.seq.wrapping_sub(self.connection.local_isn());
            let is_syn = segment.flags & flags::SYN != 0;
            let position = position.wrapping_sub(u32::from(!is_syn));
            if let Some(index) = wrong_octet(&segment.payload, position) {
                let seen = describe(&actual);
                return Err(differs(format!(
                    "octet {index} of the data is wrong: {seen}"
                )));
            }
            let tolerance = self.tolerance(end);
            if time + tolerance < start || time > end + tolerance {
                let (start, end, at) = (start.as_secs_f64(), end.as_secs_f64(), time.as_secs_f64());
                let seen = describe(&actual);
                return Err(differs(format!(
                    "sent at {at:.6}, expected at {start:.6} to {end:.6} (tolerance {tolerance:?}): {seen}"
                )));
            }
            if complete {
                return Ok(());
            }
        }
    }

    fn inject(&mut self, packet: &Packet) -> Stepped {
        let unsupported = |message: &str| {
            let problem = Problem::Unsupported(message.to_owned());
            (Some(packet.place), problem)
        };
        match &packet.body {
            Body::Tcp(script) => {
                let tos = match packet.ip.tos {
                    None => 0,
                    Some(Tos::Ecn(bits) | Tos::Byte(bits)) => bits,
                    Some(Tos::EitherEct) => {
                        return Err(unsupported("ect01 in a packet that arrives"));
                    }
                };
                let segment = self.connection.segment_on_wire(script, tos);
                let segment = segment.map_err(|message| unsupported(&message))?;
                self.stack.inject(&segment);
                Ok(())
            }
            Body::Icmp(icmp) => {
                let message = self
                    .unreachable(icmp)
                    .ok_or_else(|| unsupported("this ICMP message"))?;
                self.stack.inject_unreachable(&message);
                Ok(())
            }
            Body::Udp(_) => Err(unsupported("UDP")),
        }
    }

    fn unreachable(&self, icmp: &Icmp) -> Option<Unreachable> {
        if icmp.echo_id.is_some() {
            return None;
        }
        let code = match icmp.kind.as_str() {
            "unreachable" => Self::unreachable_code(icmp)?,
            // Of ICMPv6 (RFC 4443 §3.2).
            "packet_too_big" => 4,
            _ => return None,
        };
        let (source, destination) = self.connection.ports();
        Some(Unreachable {
            code,
            mtu: u16::try_from(icmp.mtu.unwrap_or(0)).ok()?,
            source,
            destination,
            seq: self
                .connection
                .local_seq(icmp.echoed.map_or(0, |echoed| echoed.0)),
        })
    }

    fn unreachable_code(icmp: &Icmp) -> Option<u8> {
        Some(match icmp.code.as_deref().unwrap_or("net_unreachable") {
            "net_unreachable" => 0,
            "host_unreachable" => 1,
            "protocol_unreachable" => 2,
            "port_unreachable" => 3,
            "frag_needed" => 4,
            "source_route_failed" => 5,
            "net_prohibited" => 9,
            "host_prohibited" => 10,
            "packet_filtered" => 13,
            _ => return None,
        })
    }

    fn code(&mut self, code: &Code) -> Stepped {
        self.judge_returned()?;
        let Some(fd) = self.last_socket else {
            let message = "code without a connection".to_owned();
            return Err((Some(code.place), Problem::Unsupported(message)));
        };
        let stack = std::cell::RefCell::new(&mut *self.stack);
        let value_of = |name: &str| {
            let known = symbols::number(name);
            known.or_else(|| stack.borrow_mut().tcp_info(fd, name))
        };
        python::run(&code.text, &mut self.variables, &value_of).map_err(|error| {
            let problem = match &error {
                CodeError::Failed { .. } => Problem::Differs(error.to_string()),
                _ => Problem::Unsupported(error.to_string()),
            };
            (Some(code.place), problem)
        })
    }
}

#[cfg(test)]
mod tests;
