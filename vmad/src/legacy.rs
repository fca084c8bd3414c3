//! What a process leaves that publishes statistics: the connections in its segment, with the
//! numbers that their peers expect.

use std::collections::HashSet;
use std::path::Path;

use stats::{SegmentFile, TcpSnapshot};

use crate::connection::{Claim, Connection};
use crate::process;

/// The segment of a process that lives, for when it does not any more: by then its name may be
/// another's.
#[derive(Debug)]
pub(crate) struct Legacy {
    file: SegmentFile,
    /// The daemon can only send from its own network namespace.
    is_here: bool,
}

/// What a dead process has left.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) claims: Vec<Claim>,
    /// Connections that cannot be reset from here.
    pub(crate) elsewhere: usize,
}

impl Legacy {
    /// `None`: the process does not publish there.
    pub(crate) fn of(directory: &Path, pid: u32) -> Option<Self> {
        let file = SegmentFile::open(directory, pid).ok()?;
        let own = process::network_namespace(std::process::id());
        let is_here = own.is_some() && process::network_namespace(pid) == own;
        Some(Self { file, is_here })
    }

    /// Whether the process still publishes there.
    pub(crate) fn is_current(&self) -> bool {
        self.file.is_current()
    }

    /// What the process, which began then, has left open.
    pub(crate) fn left(self, start_ticks: u64) -> Left {
        let is_here = self.is_here;
        let claims = self.claims(start_ticks);
        match is_here {
            true => Left {
                claims,
                elsewhere: 0,
            },
            false => Left {
                elsewhere: claims.len(),
                claims: Vec::new(),
            },
        }
    }

    fn claims(self, start_ticks: u64) -> Vec<Claim> {
        let user = self.file.owner();
        let (Ok(user), Ok(reader)) = (user, self.file.read()) else {
            return Vec::new();
        };
        let rows = if reader.process().start_time_ticks == start_ticks {
            reader.tcp_connections().unwrap_or_default()
        } else {
            Vec::new()
        };
        let mut seen = HashSet::new();
        rows.iter()
            .filter_map(|row| claim(row, user))
            .filter(|claim| seen.insert(claim.connection))
            .collect()
    }
}

fn claim(row: &TcpSnapshot, user: u32) -> Option<Claim> {
    let connection = Connection {
        local: row.local?,
        peer: row.peer?,
    };
    has_peer(row.state).then_some(Claim {
        connection,
        next_sequence: Some(row.snd_nxt),
        user: Some(user),
    })
}

/// Whether a peer of a connection in this state has one, too, and does not know of its end. As
/// ss(8) numbers states.
fn has_peer(state: u32) -> bool {
    const ESTABLISHED: u32 = 1;
    const FIN_WAIT_1: u32 = 4;
    const FIN_WAIT_2: u32 = 5;
    const CLOSE_WAIT: u32 = 8;
    const LAST_ACK: u32 = 9;
    const CLOSING: u32 = 11;
    matches!(
        state,
        ESTABLISHED | FIN_WAIT_1 | FIN_WAIT_2 | CLOSE_WAIT | LAST_ACK | CLOSING
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: u32) -> TcpSnapshot {
        TcpSnapshot {
            local: "10.0.0.1:80".parse().ok(),
            peer: "10.0.0.2:4000".parse().ok(),
            snd_nxt: 4711,
            state,
            ..TcpSnapshot::default()
        }
    }

    #[test]
    fn only_connections_that_a_peer_has_are_left() {
        for state in 0..20 {
            let left = claim(&row(state), 7);
            assert_eq!(
                left.is_some(),
                [1, 4, 5, 8, 9, 11].contains(&state),
                "{state}"
            );
            let known = left.is_none_or(|it| it.next_sequence == Some(4711) && it.user == Some(7));
            assert!(known);
        }
        let nowhere = TcpSnapshot {
            peer: None,
            ..row(1)
        };
        assert_eq!(claim(&nowhere, 7), None);
    }
}
