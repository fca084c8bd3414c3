//! Ethernet frames with an IPv4 UDP datagram in them, and what can be wrong with them.

use testkit::Pair;

/// Of the receiver.
pub(crate) const PORT: u16 = 7600;
/// Of the sender; nobody has it.
const SOURCE_PORT: u16 = 7601;

/// A well-formed frame with one thing or another to change.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) destination_mac: [u8; 6],
    pub(crate) source_mac: [u8; 6],
    pub(crate) options: Vec<u8>,
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
    pub(crate) payload: Vec<u8>,
}

/// Where the IP header begins.
pub(crate) const IP: usize = 14;

impl Frame {
    pub(crate) fn new(destination_mac: [u8; 6], source_mac: [u8; 6]) -> Self {
        Self {
            destination_mac,
            source_mac,
            options: Vec::new(),
            source: Pair::ADDRESS_A.octets(),
            destination: Pair::ADDRESS_B.octets(),
            payload: Vec::new(),
        }
    }

    pub(crate) fn with_payload(&self, payload: &[u8]) -> Self {
        Self {
            payload: payload.to_vec(),
            ..self.clone()
        }
    }

    /// IP options, a multiple of four bytes.
    pub(crate) fn with_options(&self, options: &[u8]) -> Self {
        Self {
            options: options.to_vec(),
            ..self.clone()
        }
    }

    /// The frame, with correct lengths and checksums.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let ip_len = 20 + self.options.len();
        let udp_len = 8 + self.payload.len();
        let mut bytes = [&self.destination_mac[..], &self.source_mac, &[0x08, 0x00]].concat();
        let first = 0x40 | u8::try_from(ip_len / 4).unwrap();
        bytes.extend([first, 0]);
        bytes.extend(be(ip_len + udp_len));
        bytes.extend([0x12, 0x34, 0x40, 0x00, 64, 17, 0, 0]);
        bytes.extend(self.source);
        bytes.extend(self.destination);
        bytes.extend(&self.options);
        bytes.extend(SOURCE_PORT.to_be_bytes());
        bytes.extend(PORT.to_be_bytes());
        bytes.extend(be(udp_len));
        bytes.extend([0, 0]);
        bytes.extend(&self.payload);
        repair_ip_checksum(&mut bytes);
        repair_udp_checksum(&mut bytes);
        bytes
    }

    /// The frame with `text` as payload after `change`; the IP checksum is right whatever was
    /// changed.
    pub(crate) fn changed(&self, text: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = self.with_payload(text.as_bytes()).bytes();
        change(&mut bytes);
        repair_ip_checksum(&mut bytes);
        bytes
    }
}

pub(crate) fn be(len: usize) -> [u8; 2] {
    u16::try_from(len).unwrap().to_be_bytes()
}

/// The Internet checksum (RFC 1071).
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded above")
}

fn ip_header_len(bytes: &[u8]) -> usize {
    usize::from(bytes[IP] & 15) * 4
}

/// Makes the IP checksum right, if the header length makes any sense.
pub(crate) fn repair_ip_checksum(bytes: &mut [u8]) {
    let end = IP + ip_header_len(bytes);
    if (IP + 20..=bytes.len()).contains(&end) {
        bytes[IP + 10..IP + 12].fill(0);
        let sum = checksum(&bytes[IP..end]);
        bytes[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Makes the UDP checksum right, if the lengths make any sense.
pub(crate) fn repair_udp_checksum(bytes: &mut [u8]) {
    let udp = IP + ip_header_len(bytes);
    if udp + 8 > bytes.len() {
        return;
    }
    let len = usize::from(u16::from_be_bytes([bytes[udp + 4], bytes[udp + 5]]));
    if len < 8 || udp + len > bytes.len() {
        return;
    }
    bytes[udp + 6..udp + 8].fill(0);
    let pseudo = [&bytes[IP + 12..IP + 20], &[0, 17], &be(len)].concat();
    let sum = checksum(&[&pseudo, &bytes[udp..udp + len]].concat());
    let sum = if sum == 0 { 0xffff } else { sum };
    bytes[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
}

/// Numbers that are the same in every run (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}
