//! How a program says what a socket's rate is.

use ::tcp::pacing::UNLIMITED;
use libc::c_int;

/// Bytes of a `struct vma_rate_limit_t`, the value of `SO_MAX_PACING_RATE` in VMA's extra API.
pub const RATE_LIMIT_BYTES: usize = 12;

/// What it says: kilobits a second, how many bytes may leave together at most, and how long packets
/// mostly are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit(pub [u8; RATE_LIMIT_BYTES]);

impl RateLimit {
    /// The value with which the kernel's socket has the same rate. VMA takes 0 for none.
    pub fn octets_per_second(self) -> u64 {
        match self.word(0) {
            0 => UNLIMITED,
            kilobits => u64::from(kilobits) * (1000 / 8),
        }
    }

    fn burst(self) -> u32 {
        self.word(4)
    }

    fn word(self, at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(word)
    }
}

/// At which rate a socket's datagrams leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(super) octets_per_second: u64,
    /// How many octets may leave together; 0: nobody has said.
    pub(super) burst: u32,
}

impl Rate {
    pub(crate) const NONE: Self = Self {
        octets_per_second: UNLIMITED,
        burst: 0,
    };

    /// That of a kernel's socket, with what the program has said in VMA's words. As in TCP's pacing
    /// (`tcp_update_skb_after_send`) a rate of 0 is none.
    pub(crate) fn read(fd: c_int, said: Option<RateLimit>) -> Self {
        let mut value = [0; 8];
        let name = libc::SO_MAX_PACING_RATE;
        let len = sys::streams::option_bytes(fd, libc::SOL_SOCKET, name, &mut value);
        let octets_per_second = match len {
            Ok(8) => u64::from_ne_bytes(value),
            _ => UNLIMITED,
        };
        match octets_per_second {
            0 | UNLIMITED => Self::NONE,
            octets_per_second => Self {
                octets_per_second,
                burst: said.map_or(0, RateLimit::burst),
            },
        }
    }

    pub(crate) fn is_limited(self) -> bool {
        self.octets_per_second != UNLIMITED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_it_lies_in_memory() {
        let mut bytes = [0; RATE_LIMIT_BYTES];
        assert_eq!(RateLimit(bytes).octets_per_second(), UNLIMITED);
        bytes[..4].copy_from_slice(&10_000_u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&3_028_u32.to_ne_bytes());
        let limit = RateLimit(bytes);
        assert_eq!(
            (limit.octets_per_second(), limit.burst()),
            (1_250_000, 3_028)
        );
    }
}
