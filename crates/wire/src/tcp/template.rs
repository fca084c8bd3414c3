use core::net::SocketAddrV4;

use super::{Header, MAX_OPTIONS_LEN, MIN_HEADER_LEN};
use crate::checksum::{self, add, word};
use crate::{EthernetAddresses, ethernet, ipv4};

/// The Ethernet and IPv4 headers and the ports of one connection, prepared once and stamped on each
/// segment.
///
/// [`emit`](Self::emit) always writes a full checksum, and leaves padding to the Ethernet minimum of
/// 60 bytes to the driver.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; Self::IP_HEADERS_LEN],
    ports: [u8; 4],
    /// Partial sum of the IPv4 header in `bytes`.
    ip_sum: u32,
    /// Partial sum of the pseudo header without the length, and of the ports.
    tcp_sum: u32,
}

impl Template {
    /// Length of the headers before the TCP header, in bytes.
    pub const IP_HEADERS_LEN: usize = ipv4::HEADERS_LEN;

    /// The longest that the headers of a segment can be, in bytes.
    pub const MAX_HEADERS_LEN: usize =
        Self::IP_HEADERS_LEN + MIN_HEADER_LEN as usize + MAX_OPTIONS_LEN;

    /// `tos` is the whole byte; its two lower bits are replaced by those given for each segment.
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
            protocol: ipv4::PROTOCOL_TCP,
            ttl,
            tos: tos & !ECN_MASK,
            dont_fragment,
        };
        let bytes = addressing.headers();

        let [source_high, source_low] = source.port().to_be_bytes();
        let [destination_high, destination_low] = destination.port().to_be_bytes();
        let ports = [source_high, source_low, destination_high, destination_low];
        let pseudo_header =
            checksum::pseudo_header_v4(*source.ip(), *destination.ip(), ipv4::PROTOCOL_TCP, 0);
        Self {
            ip_sum: checksum::sum(&bytes[14..34], 0),
            tcp_sum: checksum::sum(&ports, pseudo_header),
            bytes,
            ports,
        }
    }

    /// Writes the headers and the payload, which `parts` are together, to the start of `frame`; returns
    /// the length of the frame.
    ///
    /// `ecn` is the codepoint of the IP header, two bits. `None`, possibly with part of `frame` written,
    /// if the segment does not fit into `frame` or an IPv4 packet.
    #[inline]
    pub fn emit<'a>(
        &self,
        frame: &mut [u8],
        identification: u16,
        ecn: u8,
        header: &Header,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        let (ip_header, segment) = frame.split_first_chunk_mut::<{ Self::IP_HEADERS_LEN }>()?;
        let (fixed, behind) = segment.split_first_chunk_mut::<{ MIN_HEADER_LEN as usize }>()?;

        let mut list = [0; MAX_OPTIONS_LEN];
        let list_len = header.options.emit(&mut list);
        let (options, body) = behind.split_at_mut_checked(list_len)?;
        let list = list.get(..list_len)?;
        options.copy_from_slice(list);

        // Headers have an even length, so the payload begins at an even offset.
        let headers_sum = checksum::sum(list, self.tcp_sum);
        let (payload_len, mut sum) = checksum::gather_and_sum(body, parts, headers_sum)?;
        let headers_len = usize::from(MIN_HEADER_LEN).wrapping_add(list_len);
        let segment_len = u16::try_from(payload_len.wrapping_add(headers_len)).ok()?;
        let ip_len = segment_len.checked_add(ipv4::HEADER_LEN)?;

        self.write_fixed_header(fixed, header, list_len);
        sum = add(checksum::sum(fixed, sum), word(segment_len));
        [fixed[16], fixed[17]] = (!checksum::fold(sum)).to_be_bytes();
        fixed[0..4].copy_from_slice(&self.ports);
        self.write_ip_header(ip_header, identification, ecn & ECN_MASK, ip_len);
        Some(usize::from(ip_len).wrapping_add(usize::from(ethernet::HEADER_LEN)))
    }

    /// Writes the headers of a packet that the device cuts into segments and sums (`CHECKSUM_PARTIAL`, `struct virtio_net_hdr`);
    /// returns their length. Lengths are those of the whole packet, and the checksum is the pseudo header's sum.
    ///
    /// `None` if `payload_len` octets make more than an IPv4 packet.
    pub fn emit_headers(
        &self,
        headers: &mut [u8; Self::MAX_HEADERS_LEN],
        identification: u16,
        ecn: u8,
        header: &Header,
        payload_len: u32,
    ) -> Option<usize> {
        let (ip_header, segment) = headers.split_first_chunk_mut::<{ Self::IP_HEADERS_LEN }>()?;
        let (fixed, behind) = segment.split_first_chunk_mut::<{ MIN_HEADER_LEN as usize }>()?;
        let list_len = header.options.emit(behind.first_chunk_mut()?);
        let headers_len = usize::from(MIN_HEADER_LEN).wrapping_add(list_len);
        let payload_len = usize::try_from(payload_len).ok()?;
        let segment_len = u16::try_from(payload_len.checked_add(headers_len)?).ok()?;
        let ip_len = segment_len.checked_add(ipv4::HEADER_LEN)?;

        self.write_fixed_header(fixed, header, list_len);
        let addresses = checksum::sum(self.bytes.get(26..34)?, 0);
        let protocol = word(u16::from(ipv4::PROTOCOL_TCP));
        let sum = add(add(addresses, protocol), word(segment_len));
        [fixed[16], fixed[17]] = checksum::fold(sum).to_be_bytes();
        fixed[0..4].copy_from_slice(&self.ports);
        self.write_ip_header(ip_header, identification, ecn & ECN_MASK, ip_len);
        Some(Self::IP_HEADERS_LEN.wrapping_add(headers_len))
    }

    /// All but ports and checksum, which are left zero.
    #[inline]
    fn write_fixed_header(
        &self,
        fixed: &mut [u8; MIN_HEADER_LEN as usize],
        header: &Header,
        list_len: usize,
    ) {
        *fixed = [0; MIN_HEADER_LEN as usize];
        fixed[4..8].copy_from_slice(&header.seq.to_be_bytes());
        fixed[8..12].copy_from_slice(&header.ack.to_be_bytes());
        // At most 60 bytes, 15 words.
        let words = (usize::from(MIN_HEADER_LEN).wrapping_add(list_len) / 4) & 0xf;
        fixed[12] = u8::try_from(words).unwrap_or_default() << 4;
        fixed[13] = header.flags.bits();
        fixed[14..16].copy_from_slice(&header.window.to_be_bytes());
        fixed[18..20].copy_from_slice(&header.urgent.to_be_bytes());
    }

    #[inline]
    fn write_ip_header(
        &self,
        ip_header: &mut [u8; Self::IP_HEADERS_LEN],
        identification: u16,
        ecn: u8,
        ip_len: u16,
    ) {
        let varying = add(
            add(word(ip_len), word(identification)),
            word(u16::from(ecn)),
        );
        let ip_sum = add(self.ip_sum, varying);
        *ip_header = self.bytes;
        ip_header[15] |= ecn;
        [ip_header[16], ip_header[17]] = ip_len.to_be_bytes();
        [ip_header[18], ip_header[19]] = identification.to_be_bytes();
        [ip_header[24], ip_header[25]] = (!checksum::fold(ip_sum)).to_be_bytes();
    }
}

/// The ECN codepoint in the TOS byte (RFC 3168 §5).
const ECN_MASK: u8 = 0x03;
