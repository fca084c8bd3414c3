//! What an entry of a submission queue asks for, as far as it concerns descriptors
//! (`linux/io_uring.h`).

use libc::{c_int, epoll_event};

/// Octets of an entry that are looked at.
pub(super) const ENTRY_LEN: usize = 64;

const NOP: u8 = 0;
const CLOSE: u8 = 19;
const FILES_UPDATE: u8 = 20;
const EPOLL_CTL: u8 = 29;
const SPLICE: u8 = 30;
const TEE: u8 = 33;
/// `IOSQE_FIXED_FILE`: the number is one of a table of the ring's.
const FIXED_FILE: u8 = 1;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation(pub(super) [u8; ENTRY_LEN]);

/// What it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// `epoll_ctl(2)`
    Epoll {
        /// The set.
        epfd: c_int,
        /// `EPOLL_CTL_ADD` and so on.
        operation: c_int,
        /// What it is about.
        fd: c_int,
        /// Where the event is.
        event: *mut epoll_event,
    },
    /// `close(2)`
    Close(c_int),
    /// These are used, whatever for; -1 is none.
    Use(c_int, c_int),
    /// The ring gets a table of descriptors.
    Table,
}

impl Operation {
    /// What it concerns.
    pub fn target(&self) -> Target {
        let fd = self.int(4);
        match self.0[0] {
            EPOLL_CTL => Target::Epoll {
                epfd: fd,
                operation: self.int(24),
                fd: self.int(8),
                event: self.long(16) as *mut epoll_event,
            },
            // Else it is one of a table's.
            CLOSE if self.int(44) == 0 => Target::Close(fd),
            FILES_UPDATE => Target::Table,
            SPLICE | TEE => Target::Use(self.used(fd), self.int(44)),
            _ => Target::Use(self.used(fd), -1),
        }
    }

    fn used(&self, fd: c_int) -> c_int {
        if self.0[1] & FIXED_FILE == 0 { fd } else { -1 }
    }

    /// Makes it one that succeeds and does nothing: the library has done it.
    pub fn complete(&mut self) {
        // Flags and what the program knows it by stay.
        let (flags, user_data) = (self.0[1], self.long(32));
        self.0 = [0; ENTRY_LEN];
        self.0[0] = NOP;
        self.0[1] = flags;
        self.0[32..40].copy_from_slice(&user_data.to_ne_bytes());
    }

    /// Has the kernel refuse it with `EINVAL`.
    pub fn refuse_as_invalid(&mut self) {
        self.0[24..28].copy_from_slice(&c_int::MAX.to_ne_bytes());
    }

    /// Has the kernel refuse it with `EBADF`.
    pub fn refuse_descriptor(&mut self) {
        self.0[4..8].copy_from_slice(&(-1_i32).to_ne_bytes());
    }

    fn int(&self, at: usize) -> c_int {
        self.0[at..]
            .first_chunk()
            .map_or(-1, |octets| c_int::from_ne_bytes(*octets))
    }

    fn long(&self, at: usize) -> u64 {
        self.0[at..]
            .first_chunk()
            .map_or(0, |octets| u64::from_ne_bytes(*octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(code: u8, fields: &[(usize, i32)]) -> Operation {
        let mut octets = [0; ENTRY_LEN];
        octets[0] = code;
        for (at, value) in fields {
            octets[*at..*at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        Operation(octets)
    }

    #[test]
    fn an_operation_on_a_set_is_read_and_becomes_none() {
        let mut operation = entry(
            EPOLL_CTL,
            &[(4, 5), (24, 1), (8, 9), (16, 0x1000), (32, 77)],
        );
        let target = Target::Epoll {
            epfd: 5,
            operation: 1,
            fd: 9,
            event: 0x1000 as *mut epoll_event,
        };
        assert_eq!(operation.target(), target);
        operation.0[1] = 16;
        operation.complete();
        assert_eq!(operation.target(), Target::Use(0, -1));
        assert_eq!(
            (operation.0[0], operation.0[1], operation.0[32]),
            (NOP, 16, 77)
        );
    }

    #[test]
    fn descriptors_are_told_from_places_in_a_table() {
        let receive = |flags| {
            let mut operation = entry(27, &[(4, 8)]);
            operation.0[1] = flags;
            operation.target()
        };
        assert_eq!(receive(0), Target::Use(8, -1));
        assert_eq!(receive(FIXED_FILE), Target::Use(-1, -1));
        assert_eq!(entry(CLOSE, &[(4, 8)]).target(), Target::Close(8));
        assert_eq!(entry(CLOSE, &[(44, 3)]).target(), Target::Use(0, -1));
        assert_eq!(
            entry(SPLICE, &[(4, 8), (44, 6)]).target(),
            Target::Use(8, 6)
        );
        assert_eq!(entry(FILES_UPDATE, &[]).target(), Target::Table);
    }

    #[test]
    fn what_is_refused_keeps_its_mark() {
        let mut operation = entry(EPOLL_CTL, &[(4, 5), (24, 1), (32, 77)]);
        operation.refuse_descriptor();
        operation.refuse_as_invalid();
        assert!(matches!(
            operation.target(),
            Target::Epoll {
                epfd: -1,
                operation: c_int::MAX,
                ..
            }
        ));
        assert_eq!(operation.0[32], 77);
    }
}
