//! `SO_VMA_RING_ALLOC_LOGIC` (`vma_extra.h`): a socket says itself with which others it has its
//! rings together.

use libc::c_int;
use links::rings::{RingPolicy, RingSharers};
use vma_config::RingLogic;

/// The option's number, at level `SOL_SOCKET`.
pub(crate) const SO_VMA_RING_ALLOC_LOGIC: c_int = 2810;

/// Octets of its value, `struct vma_ring_alloc_logic_attr`: five integers of 32 bits, the last of
/// them bit fields.
pub const RING_ASK_BYTES: usize = 20;

/// Bits of the first: which of the others count.
mod mask {
    pub(super) const PROFILE: u32 = 1;
    pub(super) const USER_ID: u32 = 2;
    pub(super) const INGRESS: u32 = 4;
    pub(super) const EGRESS: u32 = 8;
}

/// Bits of the last.
const INGRESS: u32 = 1;
const EGRESS: u32 = 2;

/// `RING_LOGIC_PER_USER_ID`
const PER_USER_ID: u32 = 11;

/// What one call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAsk {
    pub(super) sharers: RingSharers,
    pub(super) sends: bool,
    pub(super) receives: bool,
}

/// The only kind of rings that there is (`vma_add_ring_profile`): of packets.
pub const PACKET_RING_PROFILE: c_int = 1;

impl RingAsk {
    /// `None`: the value is none of the option's, or names a ring profile that there is not.
    pub fn parse(value: &[u8; RING_ASK_BYTES]) -> Option<Self> {
        let word = |number: usize| {
            let bytes = value.get(4 * number..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        let (counts, logic, user_id, directions) = (word(0)?, word(1)?, word(3)?, word(4)?);
        let all = mask::PROFILE | mask::USER_ID | mask::INGRESS | mask::EGRESS;
        let profile = (counts & mask::PROFILE != 0).then(|| word(2));
        let is_known = profile.is_none_or(|it| it == Some(PACKET_RING_PROFILE.cast_unsigned()));
        if !is_known || counts & all == 0 {
            return None;
        }
        let sharers = match logic {
            0 => RingSharers::By(RingLogic::PerInterface),
            1 => RingSharers::By(RingLogic::PerAddress),
            10 => RingSharers::By(RingLogic::PerSocket),
            PER_USER_ID if counts & mask::USER_ID != 0 => RingSharers::Numbered(user_id),
            PER_USER_ID => RingSharers::Numbered(0),
            20 => RingSharers::By(RingLogic::PerThread),
            30 => RingSharers::By(RingLogic::PerCore),
            31 => RingSharers::By(RingLogic::PerCoreAttached),
            _ => return None,
        };
        let is_for = |counted: u32, set: u32| counts & counted != 0 && directions & set != 0;
        Some(Self {
            sharers,
            sends: is_for(mask::EGRESS, EGRESS),
            receives: is_for(mask::INGRESS, INGRESS),
        })
    }
}

/// What a socket has chosen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingChoice {
    pub(super) send: Option<RingSharers>,
    pub(super) receive: Option<RingSharers>,
}

impl RingChoice {
    /// What the rings are chosen by that it receives by; `usual`: where it has not chosen.
    pub(crate) fn receive(self, usual: RingPolicy) -> RingPolicy {
        self.receive
            .map_or(usual, |sharers| usual.with_sharers(sharers))
    }

    pub(super) fn send(self, usual: RingPolicy) -> RingPolicy {
        self.send
            .map_or(usual, |sharers| usual.with_sharers(sharers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(words: [u32; 5]) -> [u8; RING_ASK_BYTES] {
        let mut value = [0; RING_ASK_BYTES];
        for (place, word) in value.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        value
    }

    #[test]
    fn values_say_for_which_direction_they_are() {
        let by = RingSharers::By(RingLogic::PerSocket);
        for (words, expected) in [
            ([4, 10, 0, 0, 1], Some((by, false, true))),
            ([8, 10, 0, 0, 2], Some((by, true, false))),
            ([12, 10, 0, 0, 3], Some((by, true, true))),
            // A direction that does not count, and one that is not set.
            ([4, 10, 0, 0, 3], Some((by, false, true))),
            ([12, 10, 0, 0, 2], Some((by, true, false))),
            (
                [14, PER_USER_ID, 0, 7, 3],
                Some((RingSharers::Numbered(7), true, true)),
            ),
            // Nothing counts, a profile, logics that there are not.
            ([0, 10, 0, 0, 3], None),
            ([13, 10, 5, 0, 3], None),
            ([13, 10, 0, 0, 3], None),
            ([12, 2, 0, 0, 3], None),
            ([12, 32, 0, 0, 3], None),
        ] {
            let ask = RingAsk::parse(&value(words));
            let found = ask.map(|ask| (ask.sharers, ask.sends, ask.receives));
            assert_eq!(found, expected, "{words:?}");
        }
    }

    #[test]
    fn a_choice_is_of_a_direction_and_leaves_the_limit() {
        let usual = RingPolicy::new(RingLogic::PerInterface, 100, 3);
        let choice = RingChoice {
            send: Some(RingSharers::By(RingLogic::PerThread)),
            receive: None,
        };
        assert_eq!(choice.receive(usual), usual);
        let expected = RingPolicy::new(RingLogic::PerThread, 100, 3);
        assert_eq!(choice.send(usual), expected);
    }
}
