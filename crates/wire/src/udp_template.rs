use core::net::SocketAddrV4;

use crate::checksum::{self, add, word};
use crate::udp::{HEADERS_LEN, UDP_HEADER_LEN};
use crate::{EthernetAddresses, ipv4};

/// The Ethernet, IPv4 and UDP headers of one destination, with everything filled in but the lengths,
/// the IPv4 identification and the checksums.
///
/// Made once per destination; [`emit_one`](Self::emit_one) and [`emit`](Self::emit) then stamp it on
/// each datagram. Both always write a full UDP checksum, and leave padding to the Ethernet minimum
/// of 60 bytes to the driver.
#[derive(Clone, Debug)]
pub struct UdpTemplate {
    bytes: [u8; Self::HEADER_LEN],
    /// Partial sum of the IPv4 header in `bytes`.
    ip_sum: u32,
    /// Partial sum of the pseudo header and the UDP header, all lengths zero.
    udp_sum: u32,
}

impl UdpTemplate {
    /// Length of the three headers, in bytes: where the payload starts in an emitted frame.
    pub const HEADER_LEN: usize = HEADERS_LEN as usize;

    /// The longest payload that an IPv4 packet can carry, in bytes.
    pub const MAX_PAYLOAD_LEN: usize = (u16::MAX - ipv4::HEADER_LEN - UDP_HEADER_LEN) as usize;

    pub fn new(
        eth: EthernetAddresses,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        ttl: u8,
        tos: u8,
        dont_fragment: bool,
    ) -> Self {
        let addressing = ipv4::Addressing {
            eth,
            source: *source.ip(),
            destination: *destination.ip(),
            protocol: ipv4::PROTOCOL_UDP,
            ttl,
            tos,
            dont_fragment,
        };
        let mut bytes = [0; Self::HEADER_LEN];
        bytes[..ipv4::HEADERS_LEN].copy_from_slice(&addressing.headers());
        bytes[34..36].copy_from_slice(&source.port().to_be_bytes());
        bytes[36..38].copy_from_slice(&destination.port().to_be_bytes());

        let pseudo_header =
            checksum::pseudo_header_v4(*source.ip(), *destination.ip(), ipv4::PROTOCOL_UDP, 0);
        Self {
            ip_sum: checksum::sum(&bytes[14..34], 0),
            udp_sum: checksum::sum(&bytes[34..42], pseudo_header),
            bytes,
        }
    }

    /// The same without the bit "don't fragment".
    #[must_use]
    pub fn without_dont_fragment(&self) -> Self {
        let mut template = self.clone();
        template.bytes[20] &= !0x40;
        template.ip_sum = checksum::sum(&template.bytes[14..34], 0);
        template
    }

    /// Writes headers and `payload` to the start of `frame`; returns the length of the frame.
    ///
    /// `None`, with `frame` untouched, if it does not fit into `frame` or an IPv4 packet.
    #[inline]
    pub fn emit_one(&self, frame: &mut [u8], identification: u16, payload: &[u8]) -> Option<usize> {
        let lengths = Lengths::of_payload(payload.len())?;
        let (header, body) = frame.split_first_chunk_mut::<{ Self::HEADER_LEN }>()?;
        let payload_sum = checksum::copy_and_sum(body.get_mut(..payload.len())?, payload, 0);
        self.write_header(header, identification, lengths, payload_sum);
        Some(lengths.frame)
    }

    /// Like [`emit_one`](Self::emit_one), with the payload gathered from `parts` of any length, which
    /// are `payload_len` bytes together.
    ///
    /// `None` if it does not fit into `frame` or an IPv4 packet, or if the parts are not `payload_len`
    /// bytes together; in that last case part of `frame` may have been written.
    pub fn emit<'a>(
        &self,
        frame: &mut [u8],
        identification: u16,
        payload_len: usize,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        let lengths = Lengths::of_payload(payload_len)?;
        let (header, body) = frame.split_first_chunk_mut::<{ Self::HEADER_LEN }>()?;
        let body = body.get_mut(..payload_len)?;
        let (filled, payload_sum) = checksum::gather_and_sum(body, parts, 0)?;
        if filled != payload_len {
            return None;
        }
        self.write_header(header, identification, lengths, payload_sum);
        Some(lengths.frame)
    }

    #[inline]
    fn write_header(
        &self,
        header: &mut [u8; Self::HEADER_LEN],
        identification: u16,
        lengths: Lengths,
        payload_sum: u32,
    ) {
        let ip_sum = add(self.ip_sum, add(word(lengths.ip), word(identification)));
        // The UDP length counts twice: in the pseudo header and in the UDP header.
        let lengths_sum = add(word(lengths.udp), word(lengths.udp));
        let udp_sum = add(add(self.udp_sum, payload_sum), lengths_sum);
        let udp_checksum = match !checksum::fold(udp_sum) {
            // RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
            0 => 0xffff,
            nonzero => nonzero,
        };

        *header = self.bytes;
        [header[16], header[17]] = lengths.ip.to_be_bytes();
        [header[18], header[19]] = identification.to_be_bytes();
        [header[24], header[25]] = (!checksum::fold(ip_sum)).to_be_bytes();
        [header[38], header[39]] = lengths.udp.to_be_bytes();
        [header[40], header[41]] = udp_checksum.to_be_bytes();
    }
}

/// The length fields of one datagram, in bytes.
#[derive(Clone, Copy)]
struct Lengths {
    udp: u16,
    ip: u16,
    frame: usize,
}

impl Lengths {
    /// `None` if no IPv4 packet can carry such a payload.
    #[inline]
    fn of_payload(payload_len: usize) -> Option<Self> {
        let payload = u16::try_from(payload_len).ok()?;
        let udp = payload.checked_add(UDP_HEADER_LEN)?;
        let ip = udp.checked_add(ipv4::HEADER_LEN)?;
        Some(Self {
            udp,
            ip,
            frame: UdpTemplate::HEADER_LEN.checked_add(payload_len)?,
        })
    }
}
