use core::net::SocketAddr;

use crate::checksum::{self, add, word};
use crate::flow_headers::FlowHeaders;
use crate::ip::{self, Headers, IpHeaders};
use crate::udp::UDP_HEADER_LEN;
use crate::{EthernetAddresses, ipv4, ipv6};

/// The Ethernet, IP and UDP headers of one destination, with everything filled in but the lengths,
/// the IPv4 identification and the checksums.
///
/// Made once per destination; [`emit_one`](Self::emit_one) and [`emit`](Self::emit) then stamp it
/// on each datagram. Both always write a full UDP checksum, and leave padding to the Ethernet
/// minimum of 60 bytes to the driver.
#[derive(Clone, Debug)]
pub struct UdpTemplate {
    flow: FlowHeaders,
}

const UDP: usize = UDP_HEADER_LEN as usize;

impl UdpTemplate {
    /// The longest that the three headers can be, in bytes.
    pub const MAX_HEADER_LEN: usize = ip::MAX_HEADERS_LEN + UDP;

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
            flow: FlowHeaders::new(ip::PROTOCOL_UDP, eth, ends, (ttl, tos), dont_fragment),
        }
    }

    /// The same with a flow label, of which 20 bits count (RFC 6437); IPv4 has none. Without it, it
    /// is zero.
    #[must_use]
    pub fn with_flow_label(mut self, label: u32) -> Self {
        self.flow.ip.set_flow_label(label);
        self
    }

    /// Length of the three headers, in bytes: where the payload starts in an emitted frame.
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.flow.ip.len().wrapping_add(UDP)
    }

    /// The longest payload that a packet can carry, in bytes.
    pub const fn max_payload_len(&self) -> usize {
        let udp_len = match self.flow.ip {
            Headers::V4(_) => ipv4::Headers::MAX_PAYLOAD_LEN,
            Headers::V6(_) => ipv6::Headers::MAX_PAYLOAD_LEN,
        };
        udp_len.wrapping_sub(UDP_HEADER_LEN) as usize
    }

    /// The same without IPv4's bit "don't fragment".
    #[must_use]
    pub fn without_dont_fragment(&self) -> Self {
        let mut template = self.clone();
        if let Headers::V4(ip) = &mut template.flow.ip {
            ip.allow_fragments();
        }
        template
    }

    /// Writes headers and `payload` to the start of `frame`; returns the length of the frame. IPv6
    /// has no use for `identification`.
    ///
    /// `None`, with `frame` untouched, if it does not fit into `frame` or an IP packet.
    #[inline]
    pub fn emit_one(&self, frame: &mut [u8], identification: u16, payload: &[u8]) -> Option<usize> {
        match &self.flow.ip {
            Headers::V4(ip) => self.stamp(ip, frame, identification, payload.len(), |body| {
                Some(checksum::copy_and_sum(body, payload, 0))
            }),
            // The same, called: both in one place took IPv4 20 instructions more.
            Headers::V6(_) => self.emit(frame, identification, payload.len(), [payload]),
        }
    }

    /// Like [`emit_one`](Self::emit_one), with the payload gathered from `parts` of any length,
    /// which are `payload_len` bytes together.
    ///
    /// `None` if it does not fit into `frame` or an IP packet, or if the parts are not
    /// `payload_len` bytes together; in that last case part of `frame` may have been written.
    pub fn emit<'a>(
        &self,
        frame: &mut [u8],
        identification: u16,
        payload_len: usize,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<usize> {
        let gather = |body: &mut [u8]| {
            let (filled, payload_sum) = checksum::gather_and_sum(body, parts, 0)?;
            (filled == payload_len).then_some(payload_sum)
        };
        match &self.flow.ip {
            Headers::V4(ip) => self.stamp(ip, frame, identification, payload_len, gather),
            Headers::V6(ip) => self.stamp(ip, frame, identification, payload_len, gather),
        }
    }

    /// Lets `fill` write the payload and return its partial sum, then writes the headers before it.
    #[inline(always)]
    fn stamp<H: IpHeaders>(
        &self,
        ip: &H,
        frame: &mut [u8],
        identification: u16,
        payload_len: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<u32>,
    ) -> Option<usize> {
        let udp_len = u16::try_from(payload_len)
            .ok()?
            .checked_add(UDP_HEADER_LEN)?;
        if udp_len > H::MAX_PAYLOAD_LEN {
            return None;
        }
        let (ip_header, datagram) = frame.split_at_mut_checked(H::LEN)?;
        let (header, body) = datagram.split_first_chunk_mut::<UDP>()?;
        let payload_sum = fill(body.get_mut(..payload_len)?)?;

        // The UDP length counts twice: in the pseudo header and in the UDP header.
        let lengths_sum = add(word(udp_len), word(udp_len));
        let sum = add(add(self.flow.sum, payload_sum), lengths_sum);
        let udp_checksum = match !checksum::fold(sum) {
            // RFC 768: "If the computed checksum is zero, it is transmitted as all ones".
            0 => 0xffff,
            nonzero => nonzero,
        };
        header[0..4].copy_from_slice(&self.flow.ports);
        [header[4], header[5]] = udp_len.to_be_bytes();
        [header[6], header[7]] = udp_checksum.to_be_bytes();
        ip.write(ip_header, identification, 0, udp_len)
    }
}
