//! From the bytes of a receive call to messages.
//!
//! A datagram holds whole messages, normally one; what does not fit into it is malformed, and costs
//! nothing but itself. On a stream a message may arrive in parts; bytes that cannot start a message
//! make everything after them useless.

use std::ops::ControlFlow;

use crate::message::{HEADER_LEN, Header, MAX_UDP_LEN, Malformed};

/// Received bytes that are not yet taken.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    stream: bool,
    message_len_max: usize,
}

/// Room for one receive call on a stream.
const STREAM_READ_LEN: usize = 65_536;
/// Larger than every datagram.
const DATAGRAM_LEN: usize = MAX_UDP_LEN + 29;

impl Inbox {
    /// For datagrams.
    pub fn for_datagrams() -> Self {
        Self {
            bytes: vec![0; DATAGRAM_LEN],
            start: 0,
            end: 0,
            stream: false,
            message_len_max: DATAGRAM_LEN,
        }
    }

    /// For a stream of messages of up to `message_len_max` bytes.
    pub fn for_stream(message_len_max: usize) -> Self {
        let message_len_max = message_len_max.max(HEADER_LEN);
        Self {
            bytes: vec![0; message_len_max + STREAM_READ_LEN],
            start: 0,
            end: 0,
            stream: true,
            message_len_max,
        }
    }

    /// Where the next receive call shall write to; never empty. What was left of a datagram is
    /// gone.
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        if !self.stream || self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.bytes.len() - self.end < STREAM_READ_LEN {
            // At most one incomplete message is left, so there is room for a read behind it.
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Notes that a receive call wrote `len` bytes.
    #[inline]
    pub fn filled(&mut self, len: usize) {
        self.end = (self.end + len).min(self.bytes.len());
    }

    /// The next message; `None` when there is no whole one. After an error a datagram has no
    /// further message, and a stream is to be closed.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "lends from itself")]
    pub fn next(&mut self) -> Option<Result<(Header, &mut [u8]), Malformed>> {
        let rest = self.bytes.get(self.start..self.end).unwrap_or_default();
        if rest.is_empty() && (self.stream || self.start > 0) {
            return None;
        }
        let header = match Header::parse(rest) {
            Ok(header) => header,
            Err(problem) => {
                if self.stream && self.is_incomplete(rest) {
                    return None;
                }
                // An empty datagram is malformed once.
                self.end = 0;
                self.start = 1;
                return Some(Err(problem));
            }
        };
        // The length was checked against what arrived; as a usize it is the same number.
        let len = header.len as usize;
        if len > self.message_len_max {
            return Some(Err(Malformed::Length));
        }
        let start = self.start;
        self.start += len;
        let message = self.bytes.get_mut(start..start + len)?;
        Some(Ok((header, message)))
    }

    /// Shows the messages of bytes that lie elsewhere: a datagram, or what comes next of a stream.
    /// The beginning of a message that is not whole stays here. Ends when `show` says so, or after
    /// an error, as with [`next`](Self::next).
    #[inline]
    pub fn pass(
        &mut self,
        part: &mut [u8],
        mut show: impl FnMut(Result<(Header, &mut [u8]), Malformed>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut rest = part;
        while self.stream && self.start < self.end && !rest.is_empty() {
            let (now, later) = rest.split_at_mut(self.missing().min(rest.len()));
            rest = later;
            self.keep(now);
            if let Some(next) = self.next() {
                let is_over = next.is_err();
                show(next)?;
                if is_over {
                    return ControlFlow::Break(());
                }
            }
        }
        // An empty datagram is malformed once.
        let mut is_first = !self.stream;
        while !rest.is_empty() || is_first {
            is_first = false;
            let header = match Header::parse(rest) {
                Ok(header) => header,
                Err(_) if self.stream && self.is_incomplete(rest) => {
                    self.keep(rest);
                    break;
                }
                Err(problem) => {
                    show(Err(problem))?;
                    return ControlFlow::Break(());
                }
            };
            // The length was checked against what arrived; as a usize it is the same number.
            let len = header.len as usize;
            if len > self.message_len_max {
                show(Err(Malformed::Length))?;
                return ControlFlow::Break(());
            }
            let (message, later) = rest.split_at_mut(len);
            rest = later;
            show(Ok((header, message)))?;
        }
        ControlFlow::Continue(())
    }

    /// Bytes that are to come before a message is whole, or before its length is known.
    fn missing(&self) -> usize {
        let begun = self.bytes.get(self.start..self.end).unwrap_or_default();
        let whole = Header::announced_len(begun).filter(|_| begun.len() >= HEADER_LEN);
        let wanted = whole.map_or(HEADER_LEN, |len| len.min(self.message_len_max));
        wanted.saturating_sub(begun.len()).max(1)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(space) = self.space().get_mut(..bytes.len()) {
            space.copy_from_slice(bytes);
            self.filled(bytes.len());
        }
    }

    /// Whether the bytes are the start of a message that is allowed.
    fn is_incomplete(&self, rest: &[u8]) -> bool {
        Header::announced_len(rest)
            .is_none_or(|len| (HEADER_LEN..=self.message_len_max).contains(&len))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Flags;

    fn message(sequence: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![sequence.to_be_bytes()[7]; len];
        Header {
            sequence,
            flags: Flags(3),
            len: u32::try_from(len).unwrap(),
        }
        .write(&mut bytes);
        bytes
    }

    fn fill(inbox: &mut Inbox, bytes: &[u8]) {
        inbox.space()[..bytes.len()].copy_from_slice(bytes);
        inbox.filled(bytes.len());
    }

    #[test]
    fn datagram_with_two_messages_gives_both() {
        let mut inbox = Inbox::for_datagrams();
        fill(&mut inbox, &[message(1, 14), message(2, 20)].concat());
        assert_eq!(inbox.next().unwrap().unwrap().0.sequence, 1);
        assert_eq!(inbox.next().unwrap().unwrap().1.len(), 20);
        assert!(inbox.next().is_none());
    }

    #[test]
    fn bad_datagrams_cost_only_themselves() {
        let mut inbox = Inbox::for_datagrams();
        let mut long = message(1, 20);
        long.truncate(19);
        let zero = vec![0; 20];
        for bad in [&[][..], &[1, 2, 3], &long, &zero] {
            fill(&mut inbox, bad);
            assert!(inbox.next().unwrap().is_err(), "{bad:?}");
            assert!(inbox.next().is_none(), "{bad:?}");
        }
        fill(&mut inbox, &message(7, 14));
        assert_eq!(inbox.next().unwrap().unwrap().0.sequence, 7);
    }

    #[test]
    fn bad_parts_cost_only_themselves() {
        let mut inbox = Inbox::for_datagrams();
        let mut long = message(1, 20);
        long.truncate(19);
        for bad in [&[][..], &[1, 2, 3], &long, &[0; 20]] {
            let mut results = Vec::new();
            let flow = inbox.pass(&mut bad.to_vec(), |next| {
                results.push(next.is_ok());
                ControlFlow::Continue(())
            });
            assert_eq!(
                (results, flow),
                (vec![false], ControlFlow::Break(())),
                "{bad:?}"
            );
        }
        let mut sequences = Vec::new();
        let flow = inbox.pass(&mut [message(1, 14), message(2, 20)].concat(), |next| {
            sequences.push(next.unwrap().0.sequence);
            ControlFlow::Continue(())
        });
        assert_eq!((sequences, flow), (vec![1, 2], ControlFlow::Continue(())));
    }

    #[test]
    fn stream_refuses_lengths_at_once() {
        for (len, is_bad) in [(0, true), (13, true), (100, false), (101, true)] {
            let mut inbox = Inbox::for_stream(100);
            let header = Header {
                sequence: 1,
                flags: Flags(1),
                len,
            };
            fill(&mut inbox, &header.to_bytes());
            assert_eq!(
                inbox.next().is_some_and(|next| next.is_err()),
                is_bad,
                "{len}"
            );
        }
    }

    proptest! {
        #[test]
        fn headers_survive_the_wire(sequence: u64, flags: u16, extra in 0usize..2000) {
            let len = u32::try_from(HEADER_LEN + extra).unwrap();
            let header = Header { sequence, flags: Flags(flags), len };
            let mut bytes = vec![0; HEADER_LEN + extra];
            header.write(&mut bytes);
            prop_assert_eq!(Header::parse(&bytes), Ok(header));
            prop_assert!(extra == 0 || Header::parse(&bytes[..bytes.len() - 1]).is_err());
        }

        #[test]
        fn stream_gives_what_was_sent_however_it_is_cut(
            lens in prop::collection::vec(14usize..3000, 1..40),
            cuts in prop::collection::vec(1usize..5000, 1..100),
        ) {
            let sent: Vec<Vec<u8>> = (1..).zip(&lens).map(|(n, &len)| message(n, len)).collect();
            let bytes = sent.concat();
            let mut inbox = Inbox::for_stream(3000);
            let (mut rest, mut got) = (&bytes[..], Vec::new());
            for &cut in cuts.iter().cycle() {
                let len = cut.min(rest.len()).min(inbox.space().len());
                fill(&mut inbox, &rest[..len]);
                rest = &rest[len..];
                while let Some(next) = inbox.next() {
                    got.push(next.unwrap().1.to_vec());
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn stream_in_parts_gives_what_was_sent(
            lens in prop::collection::vec(14usize..3000, 1..40),
            cuts in prop::collection::vec(1usize..5000, 1..100),
        ) {
            let sent: Vec<Vec<u8>> = (1..).zip(&lens).map(|(n, &len)| message(n, len)).collect();
            let mut bytes = sent.concat();
            let mut inbox = Inbox::for_stream(3000);
            let (mut rest, mut got) = (&mut bytes[..], Vec::new());
            for &cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at_mut(cut.min(rest.len()));
                rest = later;
                let flow = inbox.pass(now, |next| {
                    got.push(next.unwrap().1.to_vec());
                    ControlFlow::Continue(())
                });
                prop_assert!(flow.is_continue());
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn any_parts_end(
            mut parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..99), 1..9),
            stream: bool,
        ) {
            let mut inbox = if stream { Inbox::for_stream(200) } else { Inbox::for_datagrams() };
            for part in &mut parts {
                let mut errors = 0;
                let flow = inbox.pass(part, |next| {
                    errors += u32::from(next.is_err());
                    ControlFlow::Continue(())
                });
                prop_assert_eq!(flow.is_break(), errors == 1);
                if stream && flow.is_break() {
                    break;
                }
            }
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300), stream: bool) {
            let mut inbox = if stream { Inbox::for_stream(200) } else { Inbox::for_datagrams() };
            fill(&mut inbox, &bytes);
            let mut taken = 0;
            while let Some(Ok((header, message))) = inbox.next() {
                prop_assert_eq!(header.len as usize, message.len());
                taken += message.len();
            }
            prop_assert!(taken <= bytes.len());
        }
    }
}
