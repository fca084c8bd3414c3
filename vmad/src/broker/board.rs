//! What the broker says of itself: its threads note it here, and one writes it into a file. See
//! [`stats::BrokerStatus`].

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stats::{BrokerInterface, BrokerStatus, Refusal};

use super::newcomer::InterfaceId;
use crate::log::Log;
use crate::process;
use crate::status::{unix_time, write_document};

/// Refusals that differ, of which the latest are kept.
const REFUSALS_MAX: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Board(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    interfaces: HashMap<InterfaceId, BrokerInterface>,
    refusals: u64,
    refused: Vec<Refusal>,
    /// Since it was last written.
    has_changed: bool,
    has_failed: bool,
}

/// Who was refused, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused<'a> {
    pub(super) pid: u32,
    pub(super) user: Option<u32>,
    pub(super) interface: &'a str,
    pub(super) why: &'a str,
}

impl Board {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to say of an interface.
    pub(super) fn put(&self, id: InterfaceId, interface: BrokerInterface) {
        let mut notes = self.notes();
        if notes.interfaces.get(&id) != Some(&interface) {
            notes.interfaces.insert(id, interface);
            notes.has_changed = true;
        }
    }

    /// It is closed.
    pub(super) fn remove(&self, id: InterfaceId) {
        let mut notes = self.notes();
        notes.has_changed |= notes.interfaces.remove(&id).is_some();
    }

    /// Somebody gets nothing. Who asks again and again is noted once, with the number of times.
    pub(super) fn refused(&self, refused: Refused<'_>) {
        let program = process::program(refused.pid);
        let mut notes = self.notes();
        notes.refusals += 1;
        notes.has_changed = true;
        let (user, interface) = (refused.user, refused.interface);
        let known = notes
            .refused
            .iter()
            .position(|it| it.user == user && it.program == program && it.interface == interface);
        let times = known.map_or(0, |place| notes.refused.remove(place).times);
        if notes.refused.len() >= REFUSALS_MAX {
            notes.refused.remove(0);
        }
        notes.refused.push(Refusal {
            pid: refused.pid,
            user,
            program,
            interface: interface.to_owned(),
            why: refused.why.to_owned(),
            times: times + 1,
            last: unix_time(),
        });
    }

    /// Whether there is something to write.
    pub(super) fn has_changed(&self) -> bool {
        self.notes().has_changed
    }

    /// Writes the file of the broker with this socket, for the first time or if something is new.
    pub(super) fn write(&self, socket: &Path, log: &Log) {
        let path = BrokerStatus::path(socket);
        let mut notes = self.notes();
        notes.has_changed = false;
        let mut interfaces: Vec<_> = notes.interfaces.values().cloned().collect();
        interfaces.sort_by_key(|it| (it.namespace, it.index));
        let pid = std::process::id();
        let status = BrokerStatus {
            pid,
            start_ticks: stats::process_start_time_ticks(pid).unwrap_or(0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interfaces,
            refusals: notes.refusals,
            refused: notes.refused.clone(),
        };
        match write_document(&status, &path) {
            Ok(()) => notes.has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut notes.has_failed, true) {
                    let path = path.display();
                    log.warn(format_args!("cannot write the status to {path}: {error}"));
                }
            }
        }
    }

    /// The broker ends.
    pub(super) fn take_down(socket: &Path) {
        // A status without a broker is recognized as such.
        let _ = fs::remove_file(BrokerStatus::path(socket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(socket: &Path) -> Result<BrokerStatus, String> {
        BrokerStatus::read(socket, |bytes| serde_json::from_slice(bytes))
    }

    fn refused(board: &Board, user: u32, interface: &str) {
        board.refused(Refused {
            pid: std::process::id(),
            user: Some(user),
            interface,
            why: "no",
        });
    }

    #[test]
    fn who_asks_again_is_noted_once_and_the_oldest_make_room() {
        let board = Board::default();
        for _ in 0..5 {
            refused(&board, 7, "eth0");
        }
        for user in (1000..).take(REFUSALS_MAX - 1) {
            refused(&board, user, "eth0");
        }
        let notes = board.notes();
        assert_eq!(notes.refused.len(), REFUSALS_MAX);
        assert_eq!(
            (notes.refused[0].user, notes.refused[0].times),
            (Some(7), 5)
        );
        drop(notes);
        refused(&board, 1, "eth1");
        let notes = board.notes();
        assert_eq!(notes.refused.len(), REFUSALS_MAX);
        assert!(notes.refused.iter().all(|it| it.user != Some(7)));
        assert_eq!(notes.refusals, 5 + REFUSALS_MAX as u64);
    }

    #[test]
    fn what_is_as_before_is_not_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let board = Board::default();
        let id = InterfaceId {
            namespace: (1, 2),
            index: 3,
        };
        board.put(id, BrokerInterface::default());
        assert!(board.has_changed());
        board.write(&socket, &Log::new(0, true));
        assert_eq!(read(&socket).unwrap().interfaces.len(), 1);
        board.put(id, BrokerInterface::default());
        assert!(!board.has_changed());
        board.remove(id);
        assert!(board.has_changed());
        Board::take_down(&socket);
        assert!(read(&socket).is_err());
    }
}
