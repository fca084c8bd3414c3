//! System calls of a script: started, awaited and compared.

use std::time::Duration;

use super::{Problem, Run, Stepped};
use crate::call::{Call, Outcome, Translator};
use crate::script::{Expression, Syscall};
use crate::symbols::{self, evaluate};

/// How often it is looked whether a call has returned that is late.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// A system call that has not returned.
pub(super) struct Pending {
    syscall: Syscall,
    call: Call,
    started: Duration,
    /// When it is to return.
    until: Duration,
}

impl Run<'_> {
    /// Makes a call; the time at which a blocking one ends counts from `origin`.
    pub(super) fn call(&mut self, syscall: &Syscall, origin: Duration) -> Stepped {
        // As in the original, one call at a time.
        self.await_call()?;
        let place = Some(syscall.place);
        let live_fd = |fd: i64| self.fds.get(&fd).copied().unwrap_or(-1);
        let translator = Translator { live_fd: &live_fd };
        let call = translator.call(syscall);
        let call = call.map_err(|message| (place, Problem::Unsupported(message)))?;
        match call {
            Call::Listen { .. } => self.connection.listens(),
            // Only the first one of a socket makes a connection.
            Call::Connect { fd } | Call::FastOpen { fd, .. } => {
                if self.connected.insert(fd) {
                    self.connection.connects();
                }
                self.last_socket = Some(fd);
            }
            _ => {}
        }
        let started = self.stack.now();
        let result = self.stack.start(&call, syscall.until.is_some());
        result.map_err(|message| (place, Problem::Unsupported(message)))?;
        let until = syscall.until.map(|until| origin + until);
        let pending = Pending {
            syscall: syscall.clone(),
            call,
            started,
            until: until.unwrap_or(started),
        };
        match (self.stack.outcome(), until) {
            (Some((time, outcome)), _) => self.judge(&pending, time, &outcome),
            (None, Some(_)) => {
                self.pending = Some(pending);
                Ok(())
            }
            (None, None) => {
                let message = format!("{} blocks", syscall.name);
                Err((place, Problem::Differs(message)))
            }
        }
    }

    /// Judges the call that was under way if it has returned: what it gave, such as a descriptor,
    /// may be needed.
    pub(super) fn judge_returned(&mut self) -> Stepped {
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        match self.stack.outcome() {
            Some((time, outcome)) => self.judge(&pending, time, &outcome),
            None => {
                self.pending = Some(pending);
                Ok(())
            }
        }
    }

    /// Waits for the call that has not returned, if there is one, and judges it.
    pub(super) fn await_call(&mut self) -> Stepped {
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        let mut outcome = self.stack.outcome();
        let last = pending.until + self.settings.tolerance;
        let mut until = pending.until;
        while outcome.is_none() {
            self.wait_until(until);
            outcome = self.stack.outcome();
            if until == last {
                break;
            }
            // What comes next in the script is not to be late because this is, by a little.
            until = last.min(until.max(self.stack.now()) + LOOK_INTERVAL);
        }
        match outcome {
            Some((time, outcome)) => self.judge(&pending, time, &outcome),
            None => {
                let until = pending.until.as_secs_f64();
                let message = format!("{} has not returned until {until:.6}", pending.syscall.name);
                Err((Some(pending.syscall.place), Problem::Differs(message)))
            }
        }
    }

    fn judge(&mut self, pending: &Pending, time: Duration, outcome: &Outcome) -> Stepped {
        let syscall = &pending.syscall;
        let place = Some(syscall.place);
        let differs = |message: String| (place, Problem::Differs(message));
        compare_result(syscall, outcome).map_err(differs)?;
        if let Some(index) = outcome.wrong_octet {
            return Err(differs(format!(
                "octet {index} that {} read is wrong",
                syscall.name
            )));
        }
        compare_output(syscall, &pending.call, outcome, &|fd| {
            self.fds.get(&fd).copied()
        })
        .map_err(differs)?;
        self.remember_descriptor(syscall, &pending.call, outcome);
        let tolerance = self.settings.tolerance;
        let duration = pending.until.saturating_sub(pending.started);
        let tolerance = tolerance.max(duration * super::TOLERANCE_PER_MILLE / 1000);
        if time + tolerance < pending.until || time > pending.until + tolerance {
            let (until, time) = (pending.until.as_secs_f64(), time.as_secs_f64());
            let message = format!(
                "{} returned at {time:.6}, expected at {until:.6}",
                syscall.name
            );
            return Err(differs(message));
        }
        Ok(())
    }

    fn remember_descriptor(&mut self, syscall: &Syscall, call: &Call, outcome: &Outcome) {
        let makes_one = matches!(
            call,
            Call::Socket { .. } | Call::Accept { .. } | Call::EpollCreate
        );
        if !makes_one {
            return;
        }
        if let Some(Ok(live)) = outcome.result
            && let Some(script) = evaluate(&syscall.result)
            && let Ok(live) = i32::try_from(live)
        {
            self.fds.insert(script, live);
            self.connected.remove(&live);
            if !matches!(call, Call::EpollCreate) {
                self.last_socket = Some(live);
            }
        }
    }
}

fn compare_result(syscall: &Syscall, outcome: &Outcome) -> Result<(), String> {
    let wanted = &syscall.result;
    let name = &syscall.name;
    match (outcome.result, &syscall.errno) {
        (Some(Err(errno)), wanted_errno) => {
            let actual = symbols::error_name(errno);
            let is_failure = evaluate(wanted) == Some(-1);
            if is_failure && wanted_errno.as_ref().is_none_or(|wanted| *wanted == actual) {
                return Ok(());
            }
            Err(format!(
                "{name} failed with {actual}, expected {}",
                expected(syscall)
            ))
        }
        (Some(Ok(value)), None) => {
            let makes_descriptor = matches!(
                name.as_str(),
                "socket" | "accept" | "accept4" | "epoll_create" | "epoll_create1"
            );
            let any =
                *wanted == Expression::Ellipsis || makes_descriptor && evaluate(wanted) >= Some(0);
            if any || evaluate(wanted) == Some(value) {
                return Ok(());
            }
            Err(format!(
                "{name} returned {value}, expected {}",
                expected(syscall)
            ))
        }
        (Some(Ok(value)), Some(_)) => Err(format!(
            "{name} returned {value}, expected {}",
            expected(syscall)
        )),
        (None, _) => Err(format!("{name} has no result")),
    }
}

fn expected(syscall: &Syscall) -> String {
    let result = match &syscall.result {
        Expression::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    match &syscall.errno {
        Some(errno) => format!("{result} {errno}"),
        None => result,
    }
}

/// Compares what a call wrote into the program's memory with what the script has in its arguments.
fn compare_output(
    syscall: &Syscall,
    call: &Call,
    outcome: &Outcome,
    live_fd: &dyn Fn(i64) -> Option<i32>,
) -> Result<(), String> {
    if !matches!(outcome.result, Some(Ok(_))) {
        return Ok(());
    }
    let name = &syscall.name;
    let argument = |index: usize| {
        syscall
            .arguments
            .get(index)
            .unwrap_or(&Expression::Ellipsis)
    };
    match call {
        Call::GetOption { .. } => compare_number(name, argument(3), &outcome.output),
        Call::Ioctl { .. } => compare_number(name, argument(2), &outcome.output),
        Call::Poll { .. } => {
            let Expression::List(entries) = argument(0) else {
                return Ok(());
            };
            for (entry, actual) in entries.iter().zip(&outcome.output) {
                let wanted = entry.field("revents").map_or(Some(0), evaluate);
                if wanted != Some(*actual) {
                    return Err(format!(
                        "revents is {actual:#x}, expected {wanted:x?} in {entry:?}"
                    ));
                }
            }
            Ok(())
        }
        Call::EpollWait { .. } => compare_events(argument(1), &outcome.output, live_fd),
        _ => Ok(()),
    }
}

fn compare_number(name: &str, wanted: &Expression, actual: &[i64]) -> Result<(), String> {
    if let Expression::List(values) = wanted
        && let [fields] = values.as_slice()
        && let (Some(on), Some(seconds)) = (fields.field("onoff"), fields.field("linger"))
    {
        let wanted = [evaluate(on), evaluate(seconds)];
        let same = wanted == [actual.first().copied(), actual.get(1).copied()];
        return if same {
            Ok(())
        } else {
            Err(format!("{name} gave {actual:?}, expected {wanted:?}"))
        };
    }
    let wanted = match wanted {
        Expression::Ellipsis => return Ok(()),
        Expression::List(values) if values == &[Expression::Ellipsis] => return Ok(()),
        wanted => evaluate(wanted),
    };
    match (wanted, actual) {
        // As `int`s: a script may write -1 as 4294967295.
        (Some(wanted), [actual]) if (wanted ^ actual) & 0xffff_ffff == 0 => Ok(()),
        _ => Err(format!("{name} gave {actual:?}, expected {wanted:?}")),
    }
}

/// `actual` has descriptor and events by turns. The script's events may stand in a list or by
/// themselves.
fn compare_events(
    wanted: &Expression,
    actual: &[i64],
    live_fd: &dyn Fn(i64) -> Option<i32>,
) -> Result<(), String> {
    let single = std::slice::from_ref(wanted);
    let wanted = match wanted {
        Expression::Ellipsis => return Ok(()),
        Expression::List(events) => events.as_slice(),
        Expression::Struct(_) => single,
        other => return Err(format!("epoll_wait's events are {other:?}")),
    };
    for (wanted, actual) in wanted.iter().zip(actual.chunks(2)) {
        let fd = wanted.field("fd").and_then(evaluate).and_then(live_fd);
        let events = wanted.field("events").and_then(evaluate);
        if fd.map(i64::from) != actual.first().copied() || events != actual.get(1).copied() {
            return Err(format!(
                "epoll_wait gave {actual:x?} (descriptor, events), expected {wanted:?}"
            ));
        }
    }
    Ok(())
}
