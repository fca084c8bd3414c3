//! Urgent data as Linux has it: one octet, the one before the urgent pointer (RFC 6093 §3.1), taken
//! out of the stream.

use crate::{SeqNumber, UrgentError};

/// What the peer has announced as urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrgentOctet {
    /// Its place: among what was not read, or at the next number expected or later.
    pub seq: SeqNumber,
    /// Somebody has read it (`MSG_OOB`).
    pub is_read: bool,
}

/// The urgent octet of the receiving side (`tcp_check_urg`, `tcp_urg`, `tcp_recv_urg`).
///
/// Six octets, which received data touches (`connection/layout.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(2))]
pub(crate) struct Urgent {
    state: UrgentState,
    seq: SeqNumber,
}

const _: () = assert!(size_of::<Urgent>() == 6);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum UrgentState {
    #[default]
    None,
    NotReceived,
    Received(u8),
    /// Read, but reading of the stream has not passed it yet.
    Read,
}

impl Urgent {
    /// A segment with URG; `pointer` is its field. Returns whether a new octet is announced.
    pub(crate) fn announce(
        &mut self,
        seq: SeqNumber,
        pointer: u16,
        rcv_nxt: SeqNumber,
        read_nxt: SeqNumber,
    ) -> bool {
        // RFC 6093 §2.1, §3.1: the pointer is that of the octet behind the urgent one.
        let at = seq + u32::from(pointer).saturating_sub(1);
        let is_known = self.mark().is_some_and(|known| at <= known);
        if at < read_nxt || at < rcv_nxt || is_known {
            return false;
        }
        *self = Self {
            state: UrgentState::NotReceived,
            seq: at,
        };
        true
    }

    /// Data starting at `seq` arrived; picks the octet from it.
    #[inline]
    pub(crate) fn pick(&mut self, seq: SeqNumber, data: &[u8]) {
        if self.state != UrgentState::NotReceived {
            return;
        }
        let offset = self.seq.distance_from(seq);
        if let Some(octet) = usize::try_from(offset)
            .ok()
            .and_then(|offset| data.get(offset))
        {
            self.state = UrgentState::Received(*octet);
        }
    }

    /// What `recv(MSG_OOB)` gives.
    pub(crate) fn octet(&self) -> Result<u8, UrgentError> {
        match self.state {
            UrgentState::None | UrgentState::Read => Err(UrgentError::None),
            UrgentState::NotReceived => Err(UrgentError::NotReceived),
            UrgentState::Received(octet) => Ok(octet),
        }
    }

    /// The application has taken [`octet`](Self::octet).
    pub(crate) fn take(&mut self) {
        if self.is_received() {
            self.state = UrgentState::Read;
        }
    }

    /// The octet's place in the stream until it is passed.
    #[inline]
    pub(crate) fn mark(&self) -> Option<SeqNumber> {
        (self.state != UrgentState::None).then_some(self.seq)
    }

    /// What another stack has to be told to know as much.
    pub(crate) fn announced(&self) -> Option<UrgentOctet> {
        let is_read = self.state == UrgentState::Read;
        self.mark().map(|seq| UrgentOctet { seq, is_read })
    }

    /// The octet is there (`POLLPRI`).
    pub(crate) fn is_received(&self) -> bool {
        matches!(self.state, UrgentState::Received(_))
    }

    /// The application has read up to `read_nxt`.
    pub(crate) fn on_read(&mut self, read_nxt: SeqNumber) {
        if self.mark().is_some_and(|mark| mark < read_nxt) {
            self.state = UrgentState::None;
        }
    }
}
