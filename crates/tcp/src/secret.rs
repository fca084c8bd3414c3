//! Numbers that an attacker off the path must not guess, from a secret key and the flow: initial
//! sequence numbers (RFC 6528) and timestamp offsets (RFC 7323 §5.4).

use core::net::SocketAddr;

use siphasher::sip::SipHasher24;

use crate::{Instant, Secrets, SeqNumber, address};

/// A secret key from a source of random numbers that is fit for cryptography, one for all
/// connections of a stack.
#[derive(Clone, Copy)]
pub struct SecretKey([u8; 16]);

impl core::fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("SecretKey(..)")
    }
}

/// What a hash is for, so that one number tells nothing about another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    InitialSequenceNumber = 1,
    TimestampOffset,
    CookieBase,
    CookieData,
}

impl SecretKey {
    #[must_use]
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// The secrets of a connection that is opened at `now`.
    #[must_use]
    pub fn secrets(&self, local: SocketAddr, remote: SocketAddr, now: Instant) -> Secrets {
        Secrets {
            iss: self.initial_sequence_number(local, remote, now),
            timestamp_offset: self.timestamp_offset(local, remote),
        }
    }

    /// RFC 6528 §3: `ISN = M + F(localip, localport, remoteip, remoteport, secretkey)`, where `M`
    /// is a timer of 4 microseconds and `F` SipHash-2-4.
    #[must_use]
    pub fn initial_sequence_number(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        now: Instant,
    ) -> SeqNumber {
        let hash = self.hash(Purpose::InitialSequenceNumber, local, remote, 0);
        // Modulo 2^32, as sequence numbers are: it goes around in less than five hours.
        SeqNumber(hash) + truncated(now.as_nanos() / 4000)
    }

    /// The same for all ports of two addresses, so that a new connection's timestamps are not older
    /// than those of one that is in TIME-WAIT at the peer (RFC 6191).
    #[must_use]
    pub fn timestamp_offset(&self, local: SocketAddr, remote: SocketAddr) -> u32 {
        let portless = |address: SocketAddr| SocketAddr::new(address.ip(), 0);
        self.hash(
            Purpose::TimestampOffset,
            portless(local),
            portless(remote),
            0,
        )
    }

    pub(crate) fn hash(
        &self,
        purpose: Purpose,
        local: SocketAddr,
        remote: SocketAddr,
        count: u32,
    ) -> u32 {
        // Purpose, count, and both addresses in the form of IPv6 with their ports: all of fixed
        // length.
        let mut message = [0_u8; 48];
        let fields: [&[u8]; 6] = [
            &(purpose as u32).to_be_bytes(),
            &count.to_be_bytes(),
            &address::octets(local.ip()),
            &local.port().to_be_bytes(),
            &address::octets(remote.ip()),
            &remote.port().to_be_bytes(),
        ];
        for (byte, value) in message.iter_mut().zip(fields.into_iter().flatten()) {
            *byte = *value;
        }
        truncated(SipHasher24::new_with_key(&self.0).hash(&message))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is wanted"
)]
const fn truncated(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const KEY: SecretKey = SecretKey::new([7; 16]);

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn isn(local: &str, remote: &str, at: Duration) -> u32 {
        KEY.initial_sequence_number(address(local), address(remote), Instant::ZERO + at)
            .0
    }

    /// The vector of the SipHash paper's appendix A, through the crate that is used.
    #[test]
    fn the_hash_is_siphash_2_4() {
        let key: [u8; 16] = core::array::from_fn(|index| u8::try_from(index).unwrap());
        let message: [u8; 15] = core::array::from_fn(|index| u8::try_from(index).unwrap());
        let hash = SipHasher24::new_with_key(&key).hash(&message);
        assert_eq!(hash, 0xa129_ca61_49be_45e5);
    }

    /// RFC 6528 §3
    // Requirement: RFC 9293 MUST-8; RFC 6528 3-1
    #[test]
    fn a_flow_s_numbers_rise_by_one_each_four_microseconds() {
        let (local, remote) = ("192.0.2.1:1000", "192.0.2.2:80");
        let first = isn(local, remote, Duration::ZERO);
        for (micros, steps) in [(3, 0), (4, 1), (4_000_000, 1_000_000), (17_179_869_184, 0)] {
            let later = isn(local, remote, Duration::from_micros(micros));
            assert_eq!(later.wrapping_sub(first), steps, "after {micros} us");
        }
    }

    // Requirement: RFC 9293 MUST-9, SHLD-1; RFC 6528 3-1, 3-2
    #[test]
    fn each_part_of_the_flow_and_the_key_matter() {
        let numbers = [
            isn("192.0.2.1:1000", "192.0.2.2:80", Duration::ZERO),
            isn("192.0.2.1:1001", "192.0.2.2:80", Duration::ZERO),
            isn("192.0.2.1:1000", "192.0.2.2:81", Duration::ZERO),
            isn("192.0.2.3:1000", "192.0.2.2:80", Duration::ZERO),
            isn("192.0.2.1:1000", "192.0.2.3:80", Duration::ZERO),
            isn("192.0.2.2:80", "192.0.2.1:1000", Duration::ZERO),
            isn("[2001:db8::1]:1000", "[2001:db8::2]:80", Duration::ZERO),
            SecretKey::new([8; 16])
                .initial_sequence_number(
                    address("192.0.2.1:1000"),
                    address("192.0.2.2:80"),
                    Instant::ZERO,
                )
                .0,
        ];
        for (index, number) in numbers.iter().enumerate() {
            assert!(!numbers[..index].contains(number), "{index}");
        }
    }

    #[test]
    fn timestamps_of_two_hosts_have_one_offset() {
        let offset = |local, remote| KEY.timestamp_offset(address(local), address(remote));
        let first = offset("192.0.2.1:1000", "192.0.2.2:80");
        assert_eq!(first, offset("192.0.2.1:2000", "192.0.2.2:81"));
        assert_ne!(first, offset("192.0.2.1:1000", "192.0.2.3:80"));
    }

    #[test]
    fn the_key_is_not_printed() {
        assert_eq!(format!("{KEY:?}"), "SecretKey(..)");
    }
}
