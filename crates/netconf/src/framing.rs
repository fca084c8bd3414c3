//! Taking a netlink datagram apart into messages (netlink(7)).

use netlink_packet_core::{
    NetlinkBuffer, NetlinkDeserializable, NetlinkHeader, Parseable, parse_i32,
};
use netlink_packet_route::RouteNetlinkMessage;

/// One message of a datagram, its payload not yet decoded.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) header: NetlinkHeader,
    pub(crate) payload: &'a [u8],
}

impl Message<'_> {
    /// The family byte that every rtnetlink payload begins with.
    pub(crate) fn family(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    pub(crate) fn has_flag(&self, flag: u16) -> bool {
        self.header.flags & flag != 0
    }

    /// The number that an NLMSG_ERROR or NLMSG_DONE payload begins with: 0 for success, else a
    /// negated errno. The payload of NLMSG_DONE may be absent.
    pub(crate) fn status(&self) -> i32 {
        self.payload
            .get(..4)
            .and_then(|bytes| parse_i32(bytes).ok())
            .unwrap_or(0)
    }

    pub(crate) fn decode(&self) -> Result<RouteNetlinkMessage, String> {
        RouteNetlinkMessage::deserialize(&self.header, self.payload)
            .map_err(|error| error.to_string())
    }
}

/// The messages of a datagram, in order; an error is the last item.
#[derive(Debug)]
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    pub(crate) fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        self.rest = &[];
        let header = NetlinkBuffer::new_checked(&rest)
            .and_then(|buffer| NetlinkHeader::parse(&buffer))
            .map_err(|error| error.to_string());
        let header = match header {
            Ok(header) => header,
            Err(error) => return Some(Err(error)),
        };
        // Checked above: the length is within the datagram and not less than a header's.
        let (length, payload) = usize::try_from(header.length)
            .ok()
            .and_then(|length| Some((length, rest.get(HEADER_LENGTH_BYTES..length)?)))?;
        let aligned = length.next_multiple_of(ALIGNMENT_BYTES);
        self.rest = rest.get(aligned..).unwrap_or(&[]);
        Some(Ok(Message { header, payload }))
    }
}

/// A datagram of one message. The kernel takes it without padding.
pub(crate) fn datagram(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = HEADER_LENGTH_BYTES.saturating_add(payload.len());
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

/// The attributes of a message (RTA_*, NLA_*), from behind its fixed header: type and value, each
/// as long as the length says. Ends at the first that is not whole.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?) & ATTRIBUTE_TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        rest = rest
            .get(length.next_multiple_of(ALIGNMENT_BYTES)..)
            .unwrap_or(&[]);
        Some((kind, value))
    })
}

const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// The upper two bits are NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;
const HEADER_LENGTH_BYTES: usize = 16;
const ALIGNMENT_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_LENGTH_BYTES + payload.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT_BYTES), 0);
        bytes
    }

    #[test]
    fn a_datagram_is_one_message() {
        let bytes = datagram(37, 5, 9, &[1, 2, 3]);
        let messages: Vec<_> = Messages::new(&bytes).map(Result::unwrap).collect();
        let [message] = &messages[..] else {
            panic!("{messages:?}")
        };
        let header = &message.header;
        assert_eq!((header.message_type, header.flags), (37, 5));
        assert_eq!(
            (header.sequence_number, message.payload),
            (9, &[1, 2, 3][..])
        );
    }

    #[test]
    fn attributes_end_where_one_is_not_whole() {
        let mut bytes = Vec::new();
        for (length, kind, value) in [(5_u16, 1_u16, 7_u32), (8, 0x8002, 8)] {
            bytes.extend(length.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value.to_le_bytes());
        }
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(1, &[7][..]), (2, &[8, 0, 0, 0])]);
        for length in 0..bytes.len() {
            assert!(attributes(&bytes[..length]).count() < 2, "{length}");
        }
        assert_eq!(
            attributes(&[3, 0, 1, 0, 0, 0, 0, 0]).count(),
            0,
            "too short for itself"
        );
    }

    #[test]
    fn messages_are_told_apart_by_length_and_alignment() {
        let datagram = [
            message(16, 1, &[1, 2, 3]),
            message(17, 2, &[]),
            message(18, 3, &[9]),
        ];
        let datagram = datagram.concat();
        let messages: Vec<_> = Messages::new(&datagram).map(Result::unwrap).collect();
        let kinds: Vec<_> = messages.iter().map(|it| it.header.message_type).collect();
        assert_eq!(kinds, [16, 17, 18]);
        assert_eq!(messages[0].payload, [1, 2, 3]);
        assert_eq!(messages[1].family(), None);
        assert_eq!(messages[2].family(), Some(9));
    }

    #[test]
    fn the_last_message_need_not_be_padded() {
        let mut datagram = message(16, 1, &[1, 2, 3]);
        datagram.truncate(HEADER_LENGTH_BYTES + 3);
        assert_eq!(Messages::new(&datagram).map(Result::unwrap).count(), 1);
    }

    #[test]
    fn every_truncation_ends_with_an_error() {
        let first = message(16, 1, &[1, 2, 3, 4]);
        let datagram = [first.clone(), message(17, 2, &[5, 6, 7, 8])].concat();
        for length in 1..datagram.len() {
            let items: Vec<_> = Messages::new(&datagram[..length]).collect();
            let whole = usize::from(length >= first.len());
            assert!(items[..whole].iter().all(Result::is_ok), "{length}");
            if length != first.len() {
                assert!(items.last().unwrap().is_err(), "{length}");
                assert_eq!(items.len(), whole + 1, "{length}");
            }
        }
    }

    #[test]
    fn a_length_below_the_header_does_not_loop() {
        for length in 0..16_u32 {
            let mut datagram = message(16, 1, &[]);
            datagram[..4].copy_from_slice(&length.to_ne_bytes());
            let items: Vec<_> = Messages::new(&datagram).collect();
            assert_eq!(items.len(), 1);
            assert!(items[0].is_err());
        }
    }

    #[test]
    fn garbage_is_refused_not_decoded() {
        // Each type whose payload is decoded, with payloads of every length up to two attributes.
        for kind in [16, 17, 20, 21, 24, 28, 29] {
            for fill in [0x00, 0x01, 0x7f, 0xff] {
                for length in 0..96 {
                    let datagram = message(kind, 1, &vec![fill; length]);
                    for item in Messages::new(&datagram) {
                        drop(item.unwrap().decode());
                    }
                }
            }
        }
    }

    #[test]
    fn status_is_zero_without_a_payload() {
        let datagram = [message(3, 1, &[]), message(2, 1, &(-13_i32).to_ne_bytes())].concat();
        let statuses: Vec<_> = Messages::new(&datagram)
            .map(|it| it.unwrap().status())
            .collect();
        assert_eq!(statuses, [0, -13]);
    }
}
