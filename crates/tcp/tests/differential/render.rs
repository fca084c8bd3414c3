//! A plan and what came of it as a script.

use std::fmt::Write;
use std::time::Duration;

use packetdrill::{Call, OptionValue, Outcome, describe, symbols};

use crate::judge::Difference;
use crate::plan::{Action, Plan};
use crate::play::{Done, Trace};

fn seconds(time: Duration) -> String {
    format!("{:.6}", time.as_secs_f64())
}

pub(crate) fn report(
    plan: &Plan,
    kernel: &Trace,
    engine: &Trace,
    difference: &Difference,
) -> String {
    let mut text = format!("==== seed {}: {}\n", plan.seed, difference.what);
    for (name, value) in &plan.sysctls {
        if !USUAL.contains(&(name, value)) {
            write!(text, " {name}={value}").unwrap();
        }
    }
    text.push('\n');
    for (index, step) in plan.steps.iter().enumerate() {
        let Some(done) = kernel.steps.get(index) else {
            break;
        };
        let before = index
            .checked_sub(1)
            .map_or(Duration::ZERO, |index| kernel.steps[index].at);
        let gap = seconds(done.at.saturating_sub(before));
        match &step.action {
            Action::Call(call) => {
                writeln!(
                    text,
                    "+{gap} {}",
                    rendered_call(call, done.outcome.as_ref())
                )
                .unwrap();
            }
            Action::Inject(segment) => {
                writeln!(text, "+{gap} {}", describe(segment).replacen("> ", "< ", 1)).unwrap();
            }
            Action::Unreachable { code, mtu, seq } => {
                writeln!(text, "+{gap} < icmp unreachable {code} mtu {mtu} [{seq}]").unwrap();
            }
            Action::Wait => writeln!(text, "+{gap} // wait").unwrap(),
        }
        sent(&mut text, done, "");
        if index == difference.step {
            by_engine(&mut text, index, kernel, engine);
            break;
        }
    }
    text
}

/// What the engine did in the step that differs.
fn by_engine(text: &mut String, index: usize, kernel: &Trace, engine: &Trace) {
    let (done, other) = (&kernel.steps[index], &engine.steps[index]);
    if other.outcome != done.outcome {
        writeln!(text, "   // engine: {:?}", other.outcome).unwrap();
    }
    sent(text, other, "   // engine ");
    if let Some(next) = kernel.steps.get(index + 1) {
        let gap = seconds(next.at.saturating_sub(done.at));
        writeln!(text, "   // next step +{gap}").unwrap();
        return;
    }
    for ((name, a), (_, b)) in kernel.info.iter().zip(&engine.info) {
        if a != b {
            write!(text, "   // {name} {a:?} engine {b:?}").unwrap();
        }
    }
    text.push('\n');
}

fn sent(text: &mut String, done: &Done, prefix: &str) {
    for (time, segment) in &done.sent {
        let gap = seconds(time.saturating_sub(done.at));
        writeln!(text, "{prefix}    +{gap} {}", describe(segment)).unwrap();
    }
}

fn rendered_call(call: &Call, outcome: Option<&Outcome>) -> String {
    let result = outcome.map_or(String::new(), |outcome| {
        let result = match outcome.result {
            Some(Ok(value)) => value.to_string(),
            Some(Err(errno)) => format!("-1 {}", symbols::error_name(errno)),
            None => "blocks".to_owned(),
        };
        format!("{result} {:?} {:?}", outcome.output, outcome.wrong_octet)
    });
    let value = |value: &OptionValue| match value {
        OptionValue::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let text = match call {
        Call::SetOption {
            fd,
            level,
            name,
            value: v,
        } => {
            format!("setsockopt({fd}, {level}, {name}, [{}])", value(v))
        }
        other => format!("{other:?}"),
    };
    format!("{text} = {result}")
}

/// Settings that a report need not tell: those of every plan, or of most.
const USUAL: &[(&str, &str)] = &[
    ("tcp_no_metrics_save", "1"),
    ("tcp_autocorking", "0"),
    ("tcp_syn_retries", "5"),
    ("tcp_synack_retries", "5"),
    ("tcp_timestamps", "1"),
    ("tcp_sack", "1"),
    ("tcp_dsack", "1"),
    ("tcp_window_scaling", "1"),
    ("tcp_wmem", "4096 262144 4194304"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_early_retrans", "3"),
    ("tcp_abort_on_overflow", "0"),
    ("tcp_syncookies", "1"),
    ("tcp_rfc1337", "0"),
    ("tcp_fastopen", "0"),
    ("tcp_ecn", "0"),
];
