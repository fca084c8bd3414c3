//! Whether two traces are alike.

use std::time::Duration;

use packetdrill::script::{TcpOption, flags};
use packetdrill::{Outcome, Segment};

use crate::play::{Done, Trace};
use crate::view::after;

pub(crate) struct Difference {
    pub(crate) step: usize,
    pub(crate) what: String,
}

/// Times of timers may differ by so much.
const TOLERANCE: Duration = Duration::from_millis(60);

fn normal(segment: &Segment) -> Segment {
    let mut segment = segment.clone();
    segment.flags &= !flags::PSH;
    segment.source = 0;
    segment.destination = 0;
    segment.window = 0;
    for option in &mut segment.options {
        if let TcpOption::Timestamp { val, .. } = option {
            *val = 0;
        }
    }
    segment
}

/// Whether a call gave the same; what it wrote counts only if it succeeded.
fn is_same_outcome(a: Option<&Outcome>, b: Option<&Outcome>) -> bool {
    let result = |outcome: &Outcome| outcome.result;
    a.map(result) == b.map(result) && (a == b || matches!(a.map(result), Some(Some(Err(_)))))
}

/// As offload would join them: how segments that are sent again are cut is not compared.
fn joined(sent: &[(Duration, Segment)]) -> Vec<(Duration, Segment)> {
    let mut all: Vec<(Duration, Segment)> = Vec::new();
    for (time, segment) in sent {
        let mut segment = normal(segment);
        if let Some((last_time, last)) = all.last_mut()
            && !last.payload.is_empty()
            && !segment.payload.is_empty()
            && last
                .seq
                .wrapping_add(u32::try_from(last.payload.len()).unwrap())
                == segment.seq
            && last.ack == segment.ack
            && last.flags & flags::FIN == 0
            && time.saturating_sub(*last_time) < Duration::from_millis(1)
        {
            last.payload.append(&mut segment.payload);
            last.flags |= segment.flags;
            continue;
        }
        all.push((*time, segment));
    }
    all
}

/// Known deviations, after which the two do not have the same state.
fn is_permitted(kernel: &Segment, engine: &Segment) -> bool {
    // Where there is no room for SACK blocks beside what is sent again, Linux sends less.
    let has_sack = |segment: &Segment| {
        segment
            .options
            .iter()
            .any(|option| matches!(option, TcpOption::Sack(_)))
    };
    !kernel.payload.is_empty()
        && kernel.seq == engine.seq
        && has_sack(kernel)
        && kernel.payload.len() != engine.payload.len()
}

/// What was sent so far, as far as deviations depend on it.
struct Progress {
    sent_end: u32,
    /// What was acknowledged.
    acked: u32,
    longest: usize,
    /// A segment shorter than another was sent.
    has_small: bool,
}

impl Progress {
    fn is_old(&self, segment: &Segment) -> bool {
        after(self.sent_end, segment.seq)
    }

    /// Before segments are joined.
    fn note_lengths(&mut self, sent: &[(Duration, Segment)]) {
        for len in sent.iter().map(|(_, segment)| segment.payload.len()) {
            self.has_small |= len > 0 && self.longest > 0 && len != self.longest;
            self.longest = self.longest.max(len);
        }
    }

    fn on_sent(&mut self, segment: &Segment) {
        if segment.flags & flags::ACK != 0 {
            self.acked = segment.ack;
        }
        if !segment.payload.is_empty() {
            let len = u32::try_from(segment.payload.len()).expect("short");
            self.sent_end = segment.seq.wrapping_add(len);
        }
    }

    /// New data, of which small segments allow more or less: the engine's congestion window has
    /// octets, Linux's has segments of whatever size.
    fn is_surplus(&self, segment: &Segment) -> bool {
        self.has_small && !segment.payload.is_empty() && !self.is_old(segment)
    }

    /// The acknowledgement of a second segment. Both ask whether the window has grown
    /// (`__tcp_ack_snd_check`); how it grows, Linux makes depend on the memory that the device's
    /// packets take.
    fn is_of_second_segment(&self, segment: &Segment) -> bool {
        segment.payload.is_empty()
            && segment.flags & !flags::ECE == flags::ACK
            && after(segment.ack, self.acked)
    }
}

fn is_same_but_length(a: &Segment, b: &Segment) -> bool {
    let without_length = |segment: &Segment| Segment {
        payload: Vec::new(),
        flags: segment.flags & !flags::FIN,
        ..segment.clone()
    };
    !a.payload.is_empty() && !b.payload.is_empty() && without_length(a) == without_length(b)
}

/// A step by both.
struct Both<'a> {
    kernel: &'a Done,
    engine: &'a Done,
    /// When the next one begins.
    end: Duration,
}

enum Finding {
    Alike,
    /// A known deviation, from which on the two differ.
    Permitted,
    Different(String),
}

impl Both<'_> {
    fn judge(&self, progress: &mut Progress) -> Finding {
        if !is_same_outcome(self.kernel.outcome.as_ref(), self.engine.outcome.as_ref()) {
            let outcome = &self.kernel.outcome;
            return Finding::Different(format!("the call gave {outcome:?} with Linux"));
        }
        progress.note_lengths(&self.kernel.sent);
        let (kernel, engine) = (joined(&self.kernel.sent), joined(&self.engine.sent));
        for ((time, sent), (other_time, other)) in kernel.iter().zip(&engine) {
            if is_permitted(sent, other) {
                return Finding::Permitted;
            }
            // Of small segments the engine, which counts octets, sends more at once.
            let is_again = !sent.payload.is_empty() && progress.is_old(sent);
            if sent != other {
                let is_permitted =
                    is_same_but_length(sent, other) && (is_again || progress.is_surplus(sent));
                return if is_permitted {
                    Finding::Permitted
                } else {
                    Finding::Different("a segment differs".to_owned())
                };
            }
            let off = time.abs_diff(*other_time);
            let tolerance = TOLERANCE.max(time.saturating_sub(self.kernel.at) / 3);
            if off > tolerance {
                // A probe of a closed window: Linux does not begin to wait anew for what its header
                // prediction takes. And its retransmission timer, if a tail loss probe was due,
                // begins with the transmission, not with the ACK before (RFC 6298 §5.3).
                let is_timer = sent.payload.is_empty() && progress.is_old(sent) || is_again;
                return if is_timer {
                    Finding::Permitted
                } else {
                    Finding::Different(format!("a segment is {off:?} off"))
                };
            }
            if is_again {
                return Finding::Permitted;
            }
            progress.on_sent(sent);
        }
        let common = kernel.len().min(engine.len());
        match kernel.get(common).or_else(|| engine.get(common)) {
            Some((time, segment)) => self.judge_surplus(*time, segment, progress),
            None => Finding::Alike,
        }
    }

    /// One of them has sent more.
    fn judge_surplus(&self, time: Duration, segment: &Segment, progress: &Progress) -> Finding {
        // A timer: the other's may be slower. The engine's clock shows at once that it is one.
        let delay = time.saturating_sub(self.kernel.at);
        let is_engine = self.engine.sent.len() > self.kernel.sent.len();
        let at_least = if is_engine { 1 } else { 3000 };
        let is_timer = delay > Duration::from_micros(at_least)
            && self.kernel.at + delay * 5 / 2 + Duration::from_millis(50) > self.end;
        if is_timer || progress.is_surplus(segment) || progress.is_of_second_segment(segment) {
            return Finding::Permitted;
        }
        Finding::Different(format!(
            "{} segments with Linux, not {}",
            self.kernel.sent.len(),
            self.engine.sent.len()
        ))
    }
}

/// How `engine` differs from `kernel`, as far as the two can be compared: from the first
/// retransmission on they do not count alike.
pub(crate) fn compare(kernel: &Trace, engine: &Trace) -> Option<Difference> {
    let mut progress = Progress {
        sent_end: 1,
        acked: 0,
        longest: 0,
        has_small: false,
    };
    for (step, (by_kernel, by_engine)) in kernel.steps.iter().zip(&engine.steps).enumerate() {
        let both = Both {
            kernel: by_kernel,
            engine: by_engine,
            end: kernel
                .steps
                .get(step + 1)
                .map_or(by_kernel.at, |next| next.at),
        };
        match both.judge(&mut progress) {
            Finding::Alike => {}
            Finding::Permitted => return None,
            Finding::Different(what) => return Some(Difference { step, what }),
        }
    }
    None
}
