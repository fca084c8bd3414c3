//! The program that takes the notes, one for all processes: who comes later looks for the one that
//! is there, and holds it, too. The kernel counts who has its link, and detaches it when the last
//! one ends, however that comes about.
//!
//! A note is taken, read and wiped while one packet is received on one CPU, so the notes of several
//! processes do not meet. The map has only addresses, which processes can read but not write. To
//! look takes `CAP_SYS_ADMIN`: without it a process has a program of its own.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use descriptors::OwnDescriptor;

use crate::bpf::error::BpfError;
use crate::bpf::syscall::objects::{self, ProgramFacts};
use crate::bpf::syscall::{self, Map, MapKind, Name, ProgramKind};

/// A program, its map, and what attaches it. The descriptors' numbers stay the same for good.
#[derive(Debug)]
pub(super) struct Taker {
    /// One note a CPU: where the packet's metadata is that is being received.
    notes: Map<4, 8>,
    program: OwnDescriptor,
    link: OwnDescriptor,
}

impl Taker {
    /// That of other processes, or a new one.
    pub(super) fn attached() -> Result<Self, BpfError> {
        if let Some(found) = Self::found() {
            return Ok(found);
        }
        let attempt = "load the program that takes packet notes";
        let notes = Map::create(
            MapKind::PerCpuArray,
            NAME,
            NOTES,
            "create the map of packet notes",
        )?;
        // Before Linux 5.2 nobody finds it, either.
        let _ = notes.freeze();
        let instructions = super::assemble(notes.as_fd())
            .map_err(|bad_jump| BpfError::new(attempt, io::Error::other(bad_jump)))?;
        let program = syscall::load(
            ProgramKind::RawTracepoint,
            None,
            &instructions,
            NAME,
            c"Dual MIT/GPL",
            attempt,
        )?;
        let link = attach(&program)?;
        let own = Self {
            notes,
            program,
            link,
        };
        // Of two that have found none, both have the first.
        Ok(Self::found().unwrap_or(own))
    }

    /// After [`detach`](Self::detach). It is not the same one, perhaps.
    pub(super) fn attach_again(&self) -> Result<(), BpfError> {
        let mut first = Self::found();
        if first.is_none() {
            self.link.become_copy_of(&attach(&self.program)?);
            first = Self::found();
        }
        if let Some(first) = first {
            let places = [self.notes.descriptor(), &self.program, &self.link];
            let first = [first.notes.descriptor(), &first.program, &first.link];
            for (place, file) in places.into_iter().zip(first) {
                place.become_copy_of(file);
            }
        }
        Ok(())
    }

    /// Needs no right but that to a descriptor.
    pub(super) fn detach(&self) {
        self.link.become_copy_of(self.notes.descriptor());
    }

    pub(super) fn notes(&self) -> BorrowedFd<'_> {
        self.notes.as_fd()
    }

    /// The first one that a process has attached which we believe. `None`: there is none, or we may
    /// not look.
    fn found() -> Option<Self> {
        let deadline = Instant::now() + PATIENCE;
        let mut number = 0;
        loop {
            number = objects::next_link(number).ok()??;
            let link = loop {
                match objects::link(number) {
                    // It is being attached, by somebody who is looking for the first one as well,
                    // perhaps.
                    Err(error)
                        if error.raw_os_error() == Some(libc::EAGAIN)
                            && Instant::now() < deadline =>
                    {
                        std::thread::sleep(PAUSE);
                    }
                    other => break other,
                }
            };
            // Any of them may be gone by now.
            let found = link.and_then(Self::of_link);
            if let Ok(Some(found)) = found {
                return Some(found);
            }
        }
    }

    /// `None`: the link has nothing to do with notes.
    fn of_link(link: OwnDescriptor) -> io::Result<Option<Self>> {
        let tracepoint = TRACEPOINT.to_bytes();
        let Some(number) = objects::program_at_tracepoint(link.as_fd(), tracepoint)? else {
            return Ok(None);
        };
        let program = objects::program(number)?;
        let facts = objects::program_facts(program.as_fd(), ProgramKind::RawTracepoint)?;
        let Some(map) = facts.and_then(|facts| map_of(&facts, effective_user())) else {
            return Ok(None);
        };
        let notes = objects::map(map, MapKind::PerCpuArray, NOTES)?;
        Ok(notes.map(|notes| Self {
            notes,
            program,
            link,
        }))
    }
}

fn attach(program: &OwnDescriptor) -> Result<OwnDescriptor, BpfError> {
    syscall::open_raw_tracepoint(program.as_fd(), TRACEPOINT)
        .map_err(|cause| BpfError::new("attach the program that takes packet notes", cause))
}

/// The map of a program that takes notes as ours does, and was loaded by root or by `user`.
fn map_of(facts: &ProgramFacts, user: u32) -> Option<u32> {
    let is_believed = facts.user == 0 || facts.user == user;
    facts.only_map.filter(|_| is_believed && facts.name == NAME)
}

fn effective_user() -> u32 {
    // SAFETY: geteuid(2) touches no memory.
    unsafe { libc::geteuid() }
}

/// Name of the program and of its map, with the number of what they do: processes with another
/// library look for another name.
const NAME: Name = *b"vma_notes_1\0\0\0\0\0";
const TRACEPOINT: &CStr = c"netif_receive_skb";
/// Entries of the map.
const NOTES: u32 = 1;

/// How long links are waited for that are being made: one of XDP takes some 20 ms.
const PATIENCE: Duration = Duration::from_millis(60);
const PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::Barrier;
    use std::thread;

    use testkit::{Namespaces, or_skip};

    use super::*;

    /// The number of the link, which is that of none once it is detached.
    fn link_of(taker: &Taker) -> Option<u32> {
        let path = format!("/proc/self/fdinfo/{}", taker.link.as_raw_fd());
        let info = std::fs::read_to_string(path).unwrap();
        let number = info.lines().find_map(|line| line.strip_prefix("link_id:"));
        number.map(|number| number.trim().parse().unwrap())
    }

    #[test]
    fn those_that_begin_at_once_have_the_same() {
        // For the rights only.
        let _pair = or_skip!(Namespaces::pair());
        let together = Barrier::new(8);
        let begin = || {
            together.wait();
            let taker = Taker::attached().unwrap();
            together.wait();
            let first = link_of(&taker);
            taker.detach();
            assert_eq!(link_of(&taker), None);
            together.wait();
            taker.attach_again().unwrap();
            together.wait();
            (first.unwrap(), link_of(&taker).unwrap())
        };
        let links: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
            let results = threads.into_iter().map(|it| it.join().unwrap());
            results.collect()
        });
        assert!(links.iter().all(|link| *link == links[0]), "{links:?}");
    }

    #[test]
    fn programs_of_other_users_or_other_versions_are_not_believed() {
        let facts = |name: &Name, user, only_map| ProgramFacts {
            name: *name,
            user,
            only_map,
        };
        let former = b"vma_notes\0\0\0\0\0\0\0";
        for (facts, user, expected) in [
            (facts(&NAME, 0, Some(7)), 0, Some(7)),
            (facts(&NAME, 0, Some(7)), 1000, Some(7)),
            (facts(&NAME, 1000, Some(7)), 1000, Some(7)),
            (facts(&NAME, 1000, Some(7)), 0, None),
            (facts(&NAME, 1001, Some(7)), 1000, None),
            (facts(former, 0, Some(7)), 0, None),
            (facts(&NAME, 0, None), 0, None),
        ] {
            assert_eq!(map_of(&facts, user), expected, "{facts:?} for {user}");
        }
    }
}
