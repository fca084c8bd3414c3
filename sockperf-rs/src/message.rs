//! The message header that every sockperf speaks.
//!
//! 14 bytes, big endian, packed: sequence number (u64), flags (u16), length of the whole message
//! including the header (u32). The payload follows. There is no handshake and no end marker.

/// Length of the header, which is also the shortest message.
pub const HEADER_LEN: usize = 14;

/// The longest UDP payload over IPv4: 65535 less the IP (20) and UDP (8) headers.
pub const MAX_UDP_LEN: usize = 65_507;

/// The longest message on a stream.
pub const MAX_STREAM_LEN: usize = 1_048_575;

/// Flag bits. The ones without a name are echoed unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// Set in what a client sends, clear in a server's reply.
    pub const CLIENT: u16 = 0x0001;
    /// The client wants the message back.
    pub const PONG_REQUEST: u16 = 0x0002;
    /// Sent before the test; neither counted nor answered.
    pub const WARM_UP: u16 = 0x0004;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }

    /// The flags of the reply to a message that carries `self`.
    #[must_use]
    pub const fn reply(self) -> Self {
        Self(self.0 & !Self::CLIENT)
    }
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts from 1; 0 in warm-up messages.
    pub sequence: u64,
    /// See [`Flags`].
    pub flags: Flags,
    /// Length of the message in bytes, header included.
    pub len: u32,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than a header has.
    Short,
    /// The length field is smaller than the header or larger than what arrived.
    Length,
}

impl Header {
    /// Reads the message at the start of `bytes`. Afterwards `HEADER_LEN <= len <= bytes.len()`
    /// holds.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(&[s0, s1, s2, s3, s4, s5, s6, s7, f0, f1, l0, l1, l2, l3]) =
            bytes.first_chunk::<HEADER_LEN>()
        else {
            return Err(Malformed::Short);
        };
        let header = Self {
            sequence: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            flags: Flags(u16::from_be_bytes([f0, f1])),
            len: u32::from_be_bytes([l0, l1, l2, l3]),
        };
        match usize::try_from(header.len) {
            Ok(len) if (HEADER_LEN..=bytes.len()).contains(&len) => Ok(header),
            _ => Err(Malformed::Length),
        }
    }

    /// The length that the header at the start of `bytes` gives; `None` when it is not all there.
    pub fn announced_len(bytes: &[u8]) -> Option<usize> {
        let field = bytes.get(10..HEADER_LEN)?.first_chunk()?;
        usize::try_from(u32::from_be_bytes(*field)).ok()
    }

    /// The bytes on the wire.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes[10..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Writes the header over the start of `message`; does nothing when that is shorter than a
    /// header.
    pub fn write(self, message: &mut [u8]) {
        if let Some(start) = message.first_chunk_mut::<HEADER_LEN>() {
            *start = self.to_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 0, 0, 0, 14];

    #[test]
    fn header_matches_captured_ping() {
        let header = Header {
            sequence: 1,
            flags: Flags(0x0003),
            len: 14,
        };
        assert_eq!(header.to_bytes(), PING);
        assert_eq!(Header::parse(&PING), Ok(header));
    }

    #[test]
    fn header_uses_every_byte_once() {
        let header = Header {
            sequence: 0x0102_0304_0506_0708,
            flags: Flags(0x090a),
            len: 0x0000_0b0c,
        };
        let mut message = vec![0xff; 0x0b0c];
        header.write(&mut message);
        assert_eq!(
            message[..15],
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 11, 12, 0xff]
        );
        assert_eq!(Header::parse(&message), Ok(header));
    }

    #[test]
    fn reply_clears_only_the_client_bit() {
        assert_eq!(Flags(0xfff3).reply(), Flags(0xfff2));
        assert_eq!(Flags(0x0003).reply(), Flags(0x0002));
    }

    #[test]
    fn every_truncation_is_short() {
        for len in 0..HEADER_LEN {
            assert_eq!(
                Header::parse(&PING[..len]),
                Err(Malformed::Short),
                "{len} bytes"
            );
        }
    }

    #[test]
    fn length_outside_the_datagram_is_malformed() {
        for len in [0, 13, 15, 65_508, u32::MAX] {
            let bytes = Header {
                sequence: 1,
                flags: Flags(1),
                len,
            }
            .to_bytes();
            assert_eq!(
                Header::parse(&bytes),
                Err(Malformed::Length),
                "length {len}"
            );
        }
    }

    #[test]
    fn write_ignores_a_buffer_that_is_too_short() {
        let mut message = [7; 13];
        Header {
            sequence: 1,
            flags: Flags(1),
            len: 14,
        }
        .write(&mut message);
        assert_eq!(message, [7; 13]);
    }
}
