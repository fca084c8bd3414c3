//! Gaps in the sequence numbers of each client (`-g`).

use std::collections::HashMap;
use std::net::SocketAddr;

use serde::Serialize;

use crate::message::{Flags, Header};
use crate::output::Output;

/// The sessions seen so far, one per source address and port.
#[derive(Debug)]
pub struct GapDetector {
    sessions: HashMap<SocketAddr, Session>,
    untracked_messages: u64,
}

/// What was missing in one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionSummary {
    /// The client.
    pub client: SocketAddr,
    /// Messages that were missing when a later one arrived.
    pub missing: u64,
}

#[derive(Debug)]
struct Session {
    last_sequence: u64,
    missing: u64,
}

impl GapDetector {
    /// No sessions; room for [`SESSIONS_MAX`] is reserved.
    pub fn new() -> Self {
        Self {
            sessions: HashMap::with_capacity(SESSIONS_MAX),
            untracked_messages: 0,
        }
    }

    /// Looks at a client's message.
    pub fn message(&mut self, header: Header, client: SocketAddr, output: &mut Output) {
        let is_warm_up = header.flags.has(Flags::WARM_UP);
        let known = self.sessions.len();
        let Some(session) = self.sessions.get_mut(&client) else {
            if known == SESSIONS_MAX {
                self.untracked_messages += 1;
                return;
            }
            let last_sequence = if is_warm_up { 0 } else { header.sequence };
            self.sessions.insert(
                client,
                Session {
                    last_sequence,
                    missing: 0,
                },
            );
            output.line(started(client));
            return;
        };
        if is_warm_up {
            // Several warm-up messages start one session.
            if session.last_sequence > 0 {
                output.line(
                    SessionSummary {
                        client,
                        missing: session.missing,
                    }
                    .line(),
                );
                output.line(started(client));
                *session = Session {
                    last_sequence: 0,
                    missing: 0,
                };
            }
            return;
        }
        let expected = session.last_sequence.saturating_add(1);
        // A lower number is a duplicate or out of order; it was counted as missing before.
        if header.sequence >= expected {
            session.last_sequence = header.sequence;
        }
        if header.sequence > expected {
            let gap = header.sequence - expected;
            session.missing = session.missing.saturating_add(gap);
            output.line(gap_line(
                client,
                session.missing,
                expected,
                header.sequence - 1,
            ));
        }
    }

    /// The totals, sorted by client.
    pub fn finish(self) -> Vec<SessionSummary> {
        let mut summaries: Vec<SessionSummary> = self
            .sessions
            .iter()
            .map(|(&client, session)| SessionSummary {
                client,
                missing: session.missing,
            })
            .collect();
        summaries.sort_by_key(|session| session.client);
        summaries
    }

    /// Messages that were not looked at because there were too many sessions.
    pub fn untracked_messages(&self) -> u64 {
        self.untracked_messages
    }
}

impl SessionSummary {
    /// The line of the report.
    pub fn line(&self) -> String {
        format!(
            "{:<23} Summary: Total Dropped/OOO: {}",
            format!("[{}]", self.client),
            self.missing
        )
    }
}

impl Default for GapDetector {
    fn default() -> Self {
        Self::new()
    }
}

/// Bounds the memory that clients with changing ports can take.
pub const SESSIONS_MAX: usize = 4096;

fn started(client: SocketAddr) -> String {
    format!("Starting new session: {:<23}", format!("[{client}]"))
}

fn gap_line(client: SocketAddr, missing: u64, from: u64, to: u64) -> String {
    let client = format!("[{client}]");
    let gap = format!("({})", to - from + 1);
    format!("{client:<23} Total Dropped/OOO: {missing:<11} GAP:{gap:<7} [{from} - {to}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Style;

    fn header(sequence: u64, flags: u16) -> Header {
        Header {
            sequence,
            flags: Flags(flags),
            len: 14,
        }
    }

    fn client(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn silent() -> Output {
        Output::new(Box::new(std::io::sink()), Style::PLAIN)
    }

    fn missing_after(sequences: &[u64]) -> u64 {
        let mut detector = GapDetector::new();
        for &sequence in sequences {
            detector.message(header(sequence, 1), client(1), &mut silent());
        }
        detector.finish()[0].missing
    }

    #[test]
    fn gaps_are_counted_and_late_messages_ignored() {
        assert_eq!(missing_after(&[1, 2, 3]), 0);
        assert_eq!(missing_after(&[1, 5, 6]), 3);
        assert_eq!(missing_after(&[1, 5, 3, 4, 6]), 3);
        assert_eq!(missing_after(&[1, 1000, 3, 5_000_000]), 998 + 4_998_999);
        assert_eq!(missing_after(&[10, 11]), 0);
        assert_eq!(missing_after(&[1, u64::MAX, 1, u64::MAX]), u64::MAX - 2);
    }

    #[test]
    fn warm_up_starts_one_new_session() {
        let mut detector = GapDetector::new();
        for (sequence, flags) in [(1, 1), (9, 1), (0, 5), (0, 5), (2, 1)] {
            detector.message(header(sequence, flags), client(1), &mut silent());
        }
        assert_eq!(detector.finish()[0].missing, 1);
    }

    #[test]
    fn sessions_are_bounded_and_separate() {
        let mut detector = GapDetector::new();
        for port in 0..=u16::try_from(SESSIONS_MAX).unwrap() {
            detector.message(header(1, 1), client(port), &mut silent());
        }
        detector.message(header(3, 1), client(7), &mut silent());
        assert_eq!(detector.untracked_messages, 1);
        let summaries = detector.finish();
        assert_eq!(summaries.len(), SESSIONS_MAX);
        assert_eq!(
            summaries.iter().map(|session| session.missing).sum::<u64>(),
            1
        );
        assert_eq!(
            summaries[7],
            SessionSummary {
                client: client(7),
                missing: 1
            }
        );
    }

    #[test]
    fn lines_have_the_columns_of_the_original() {
        assert_eq!(
            gap_line(client(49_675), 3, 2, 4),
            "[127.0.0.1:49675]       Total Dropped/OOO: 3           GAP:(3)     [2 - 4]"
        );
        assert_eq!(
            gap_line(client(49_675), 4_999_995, 1001, 4_999_999),
            "[127.0.0.1:49675]       Total Dropped/OOO: 4999995     GAP:(4998999) [1001 - 4999999]"
        );
        assert_eq!(
            SessionSummary {
                client: client(55_522),
                missing: 28_499
            }
            .line(),
            "[127.0.0.1:55522]       Summary: Total Dropped/OOO: 28499"
        );
        assert_eq!(
            started(client(37_921)),
            "Starting new session: [127.0.0.1:37921]      "
        );
    }
}
