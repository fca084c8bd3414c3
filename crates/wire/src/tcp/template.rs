use core::net::SocketAddr;

use super::{Header, MAX_OPTIONS_LEN, MIN_HEADER_LEN};
use crate::EthernetAddresses;
use crate::checksum::{self, add, word};
use crate::flow_headers::FlowHeaders;
use crate::ip::{self, ECN_MASK, Headers, IpHeaders};

/// The Ethernet and IP headers and the ports of one connection, prepared once and stamped on each
/// segment.
///
/// [`emit`](Self::emit) always writes a full checksum, and leaves padding to the Ethernet minimum
/// of 60 bytes to the driver.
#[derive(Clone, Debug)]
pub struct Template {
    flow: FlowHeaders,
}

impl Template {
    /// The longest that the headers of a segment can be, in bytes.
    pub const MAX_HEADERS_LEN: usize =
        ip::MAX_HEADERS_LEN + MIN_HEADER_LEN as usize + MAX_OPTIONS_LEN;

    /// `tos` is the whole byte; its two lower bits are replaced by those given for each segment.
    /// `ttl` and `tos` are hop limit and traffic class in IPv6, which knows no `dont_fragment`.
    /// Flow label and scope of the addresses do not matter; one of IPv4 beside one of IPv6 is
    /// mapped.
    pub fn new(
        eth: EthernetAddresses,
        source: impl Into<SocketAddr>,
        destination: impl Into<SocketAddr>,
        ttl: u8,
        tos: u8,
        dont_fragment: bool,
    ) -> Self {
        let ends = (source.into(), destination.into());
        Self {
            flow: FlowHeaders::new(
                ip::PROTOCOL_TCP,
                eth,
                ends,
                (ttl, tos & !ECN_MASK),
                dont_fragment,
            ),
        }
    }

    /// The same with a flow label, of which 20 bits count (RFC 6437); IPv4 has none. Without it, it
    /// is zero.
    #[must_use]
    pub fn with_flow_label(mut self, label: u32) -> Self {
        self.flow.ip.set_flow_label(label);
        self
    }

    /// Length of the headers before the TCP header, in bytes.
    #[inline]
    pub const fn ip_headers_len(&self) -> usize {
        self.flow.ip.len()
    }

    /// Writes the headers and the payload, which `parts` are together, to the start of `frame`;
    /// returns the length of the frame.
    ///
    /// `ecn` is the codepoint of the IP header, two bits; IPv6 has no use for `identification`.
    /// `None`, possibly with part of `frame` written, if the segment does not fit into `frame` or
    /// an IP packet.
    #[inline]
    pub fn emit<'a>(
        &self,
        frame: &mut [u8],
        identification: u16,
        ecn: u8,
        header: &Header,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        match &self.flow.ip {
            Headers::V4(ip) => self.emit_behind(ip, frame, identification, ecn, header, parts),
            Headers::V6(ip) => self.emit_behind(ip, frame, identification, ecn, header, parts),
        }
    }

    #[inline(always)]
    fn emit_behind<'a, H: IpHeaders>(
        &self,
        ip: &H,
        frame: &mut [u8],
        identification: u16,
        ecn: u8,
        header: &Header,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        let (ip_header, segment) = frame.split_at_mut_checked(H::LEN)?;
        let (fixed, behind) = segment.split_first_chunk_mut::<{ MIN_HEADER_LEN as usize }>()?;

        let mut list = [0; MAX_OPTIONS_LEN];
        let list_len = header.options.emit(&mut list);
        let (options, body) = behind.split_at_mut_checked(list_len)?;
        let list = list.get(..list_len)?;
        options.copy_from_slice(list);

        // Headers have an even length, so the payload begins at an even offset.
        let headers_sum = checksum::sum(list, self.flow.sum);
        let (payload_len, mut sum) = checksum::gather_and_sum(body, parts, headers_sum)?;
        let headers_len = usize::from(MIN_HEADER_LEN).wrapping_add(list_len);
        let segment_len = u16::try_from(payload_len.wrapping_add(headers_len)).ok()?;
        if segment_len > H::MAX_PAYLOAD_LEN {
            return None;
        }

        self.write_fixed_header(fixed, header, list_len);
        sum = add(checksum::sum(fixed, sum), word(segment_len));
        [fixed[16], fixed[17]] = (!checksum::fold(sum)).to_be_bytes();
        fixed[0..4].copy_from_slice(&self.flow.ports);
        ip.write(ip_header, identification, ecn & ECN_MASK, segment_len)
    }

    /// Writes the headers of a packet that the device cuts into segments and sums
    /// (`CHECKSUM_PARTIAL`, `struct virtio_net_hdr`); returns their length. Lengths are those of
    /// the whole packet, and the checksum is the pseudo header's sum.
    ///
    /// `None` if `payload_len` octets make more than an IP packet.
    pub fn emit_headers(
        &self,
        headers: &mut [u8; Self::MAX_HEADERS_LEN],
        identification: u16,
        ecn: u8,
        header: &Header,
        payload_len: u32,
    ) -> Option<usize> {
        match &self.flow.ip {
            Headers::V4(ip) => {
                self.headers_behind(ip, headers, identification, ecn, header, payload_len)
            }
            Headers::V6(ip) => {
                self.headers_behind(ip, headers, identification, ecn, header, payload_len)
            }
        }
    }

    fn headers_behind<H: IpHeaders>(
        &self,
        ip: &H,
        headers: &mut [u8; Self::MAX_HEADERS_LEN],
        identification: u16,
        ecn: u8,
        header: &Header,
        payload_len: u32,
    ) -> Option<usize> {
        let (ip_header, segment) = headers.split_at_mut_checked(H::LEN)?;
        let (fixed, behind) = segment.split_first_chunk_mut::<{ MIN_HEADER_LEN as usize }>()?;
        let list_len = header.options.emit(behind.first_chunk_mut()?);
        let headers_len = usize::from(MIN_HEADER_LEN).wrapping_add(list_len);
        let payload_len = usize::try_from(payload_len).ok()?;
        let segment_len = u16::try_from(payload_len.checked_add(headers_len)?).ok()?;
        if segment_len > H::MAX_PAYLOAD_LEN {
            return None;
        }

        self.write_fixed_header(fixed, header, list_len);
        let sum = add(ip.pseudo_header(), word(segment_len));
        [fixed[16], fixed[17]] = checksum::fold(sum).to_be_bytes();
        fixed[0..4].copy_from_slice(&self.flow.ports);
        ip.write(ip_header, identification, ecn & ECN_MASK, segment_len)?;
        Some(H::LEN.wrapping_add(headers_len))
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
}
