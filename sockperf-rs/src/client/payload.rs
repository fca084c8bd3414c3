//! Message bytes and sizes.

use crate::message::{Flags, HEADER_LEN, Header};

/// A small random number generator (SplitMix64, Steele, Lea and Flood 2014). For payload bytes and
/// sizes, nothing secret.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Makes the messages of a client. The payload is random and the same in every message of a run.
#[derive(Debug)]
pub struct MessageSource {
    bytes: Vec<u8>,
    shortest_len: usize,
    longest_len: usize,
    last_len: usize,
    random: Random,
}

impl MessageSource {
    /// Messages of `len` bytes, or of `len` ± `range`, no longer than `len_max`.
    pub fn new(len: usize, range: usize, len_max: usize, seed: u64) -> Self {
        let len_max = len_max.max(HEADER_LEN);
        let len = len.clamp(HEADER_LEN, len_max);
        let shortest_len = len.saturating_sub(range).max(HEADER_LEN);
        let longest_len = len.saturating_add(range).min(len_max);
        let mut random = Random::new(seed);
        let bytes = (0..longest_len)
            .map(|_| random.next_u64().to_be_bytes()[0])
            .collect();
        Self {
            bytes,
            shortest_len,
            longest_len,
            last_len: 0,
            random,
        }
    }

    /// The next message, complete with its header.
    #[inline]
    pub fn message(&mut self, sequence: u64, flags: Flags) -> &[u8] {
        let len = if self.shortest_len == self.longest_len {
            self.longest_len
        } else {
            let sizes = (self.longest_len - self.shortest_len + 1) as u64;
            // The remainder is a size, so it fits.
            self.shortest_len + usize::try_from(self.random.next_u64() % sizes).unwrap_or(0)
        };
        self.message_of(len, sequence, flags)
    }

    /// A message of `len` bytes, or of as many as there are.
    #[inline]
    pub fn message_of(&mut self, len: usize, sequence: u64, flags: Flags) -> &[u8] {
        let len = len.clamp(HEADER_LEN, self.bytes.len());
        self.last_len = len;
        let message = self.bytes.get_mut(..len).unwrap_or_default();
        Header {
            sequence,
            flags,
            len: u32::try_from(len).unwrap_or(u32::MAX),
        }
        .write(message);
        message
    }

    /// Whether `reply` is the reply to the message made last.
    pub fn is_echo(&self, reply: &[u8]) -> bool {
        let Some(message) = self.bytes.get(..self.last_len) else {
            return false;
        };
        let Ok(header) = Header::parse(message) else {
            return false;
        };
        let expected = Header {
            flags: header.flags.reply(),
            ..header
        }
        .to_bytes();
        reply
            .split_at_checked(HEADER_LEN)
            .is_some_and(|(start, payload)| {
                start == expected && Some(payload) == message.get(HEADER_LEN..)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MAX_UDP_LEN;

    #[test]
    fn random_matches_the_published_series() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn message_has_header_and_constant_payload() {
        let mut source = MessageSource::new(20, 0, MAX_UDP_LEN, 1);
        let first = source.message(1, Flags(3)).to_vec();
        let second = source.message(2, Flags(3)).to_vec();
        assert_eq!(first[..14], [0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 0, 0, 0, 20]);
        assert_eq!(second[..14], [0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0, 20]);
        assert_eq!(first[14..], second[14..]);
    }

    #[test]
    fn echo_differs_from_its_message_in_the_client_bit_only() {
        let mut source = MessageSource::new(20, 0, MAX_UDP_LEN, 1);
        assert!(!source.is_echo(&[]));
        let mut echo = source.message(5, Flags(3)).to_vec();
        assert!(!source.is_echo(&echo));
        echo[9] = 2;
        assert!(source.is_echo(&echo));
        for index in 0..echo.len() {
            let mut altered = echo.clone();
            altered[index] ^= 0x80;
            assert!(!source.is_echo(&altered), "byte {index}");
        }
        assert!(!source.is_echo(&echo[..19]));
        assert!(!source.is_echo(&echo[..13]));
    }

    #[test]
    fn sizes_cover_the_range_and_no_more() {
        let mut source = MessageSource::new(20, 3, MAX_UDP_LEN, 1);
        let mut seen = [0u32; 32];
        for sequence in 1..=2000 {
            let message = source.message(sequence, Flags(1));
            let header = Header::parse(message).unwrap();
            assert_eq!(header.len as usize, message.len());
            seen[message.len()] += 1;
        }
        for (len, &count) in seen.iter().enumerate() {
            assert_eq!(count > 0, (17..=23).contains(&len), "length {len}: {count}");
        }
    }

    #[test]
    fn sizes_stay_within_the_format() {
        let mut source = MessageSource::new(14, 100_000, MAX_UDP_LEN, 7);
        assert!((0..1000).all(|n| (14..=MAX_UDP_LEN).contains(&source.message(n, Flags(1)).len())));
    }
}
