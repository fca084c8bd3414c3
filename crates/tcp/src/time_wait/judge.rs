//! What a segment means in TIME-WAIT.

use wire::tcp::{Flags, Header};

use crate::SeqNumber;
use crate::timestamp::is_before;

use super::Residue;

/// What to do, and what changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) action: Action,
    /// The wait begins anew.
    pub(crate) restarts: bool,
    /// `TS.Recent` from here on.
    pub(crate) recent: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Drop,
    Answer,
    /// The same, unless another was answered a moment ago: it may itself be an answer.
    AnswerSeldom,
    /// A new incarnation begins.
    Open,
    /// It is over.
    Close,
}

/// RFC 9293 §3.10.7.4 for TIME-WAIT, in the order of Linux's `tcp_timewait_state_process`.
pub(crate) fn judge(
    residue: &Residue,
    header: &Header,
    payload_len: usize,
    rfc1337: bool,
) -> Judgement {
    let seq = SeqNumber(header.seq);
    let has = |flags| header.flags.contains(flags);
    let does = |action, restarts| Judgement {
        action,
        restarts,
        recent: None,
    };
    let timestamps = residue.timestamps.zip(header.options.timestamps);
    let is_later = |(ours, theirs): (super::TimestampState, wire::tcp::Timestamps)| {
        is_before(ours.recent, theirs.value)
    };
    // RFC 7323 §5.3; 0 is none.
    let is_old = timestamps
        .is_some_and(|(ours, theirs)| ours.recent != 0 && is_before(theirs.value, ours.recent));
    let is_empty = payload_len == 0 && !header.flags.intersects(Flags::SYN | Flags::FIN);
    if !is_old && seq == residue.rcv_nxt && (is_empty || has(Flags::RST)) {
        return match (has(Flags::RST), rfc1337) {
            (true, false) => does(Action::Close, false),
            // RFC 1337 §3 (F1): "ignore RST segments in TIME-WAIT state"
            (true, true) => does(Action::Drop, false),
            (false, _) => Judgement {
                recent: timestamps.map(|(_, theirs)| theirs.value),
                ..does(Action::Drop, true)
            },
        };
    }
    if has(Flags::RST) {
        return does(Action::Drop, false);
    }
    // RFC 6191 §2, RFC 1122 §4.2.2.13: what comes is newer than all that the old incarnation sent.
    let is_opening = has(Flags::SYN) && !has(Flags::ACK) && !is_old;
    if is_opening && (seq > residue.rcv_nxt || timestamps.is_some_and(is_later)) {
        return does(Action::Open, false);
    }
    // "The only thing that can arrive in this state is a retransmission of the remote FIN.
    // Acknowledge it, and restart the 2 MSL timeout." A SYN without ACK may be a new connection's,
    // whose second try will be accepted. What occupies sequence numbers is no answer to ours
    // (`tcp_oow_rate_limited`).
    let action = if is_empty || has(Flags::SYN) {
        Action::AnswerSeldom
    } else {
        Action::Answer
    };
    does(action, is_old || has(Flags::ACK))
}
