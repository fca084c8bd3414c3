//! What an interface's XDP program must ask beyond the frame itself, in each mode and with each
//! driver: packets that are several datagrams, and VLAN tags that are not in the frame. The frames
//! of other VLANs would be taken for ours.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::bpf::hidden::{DriverTags, Hidden};
use crate::bpf::link::AttachMode;
use crate::bpf::skb_notes::{Held, NotesError, SkbNotes};

/// How the program of one interface sees what frames do not show.
#[derive(Debug)]
pub(crate) enum MetadataSource {
    /// There is nothing more to see, or no way to.
    FramesOnly,
    /// Through notes. They stay for the life of the process, as their descriptors do; they are
    /// taken while they are held.
    Notes(Arc<SkbNotes>, Mutex<Option<Held>>),
    /// Through the driver.
    Driver(DriverTags),
}

/// What it takes to see everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// Frames are as they were on the wire.
    Nothing,
    /// Notes of the generic receive path.
    Notes,
    /// The driver's word about tags. Without it, the interface is used all the same.
    DriverTags,
    /// The device takes tags out of frames, and only its driver knows.
    Impossible,
}

/// `strips_tags`: the device is set to take VLAN tags out of the frames that it receives.
pub(crate) fn needed(mode: AttachMode, driver: &str, strips_tags: bool) -> Needed {
    match (mode, driver) {
        (AttachMode::Generic, _) => Needed::Notes,
        // Frames have lost their tags on the peer's side, whatever this side is set to.
        (AttachMode::Native, "veth") => Needed::DriverTags,
        (AttachMode::Native, _) if strips_tags => Needed::Impossible,
        (AttachMode::Native, _) => Needed::Nothing,
    }
}

impl MetadataSource {
    pub(crate) fn by_notes(held: Held) -> Self {
        Self::Notes(Arc::clone(held.notes()), Mutex::new(Some(held)))
    }

    /// What the driver of a veth interface tells, and what to say if it does not.
    pub(crate) fn by_driver(ifindex: u32) -> (Self, String) {
        let unseen = |error: io::Error| format!("VLAN tags are not seen: {error}");
        match DriverTags::find(ifindex) {
            Ok(tags) => (Self::Driver(tags), String::new()),
            Err(error) => (Self::FramesOnly, unseen(error)),
        }
    }

    pub(crate) fn hidden(&self) -> Hidden<'_> {
        match self {
            Self::FramesOnly => Hidden::Nothing,
            Self::Notes(notes, _) => Hidden::Notes(notes, notes.reading()),
            Self::Driver(tags) => Hidden::Driver(*tags),
        }
    }

    /// The interface needs again what it has [ended](Self::end).
    pub(crate) fn begin_again(&self) -> Result<(), NotesError> {
        if let Self::Notes(notes, held) = self {
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(notes.hold()?);
        }
        Ok(())
    }

    /// The interface needs nothing, for now or for good.
    pub(crate) fn end(&self) {
        if let Self::Notes(_, held) = self {
            drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_seen_in_every_mode_or_the_mode_is_impossible() {
        use AttachMode::{Generic, Native};
        for (mode, driver, strips_tags, expected) in [
            (Generic, "ixgbe", true, Needed::Notes),
            (Generic, "veth", false, Needed::Notes),
            (Native, "ixgbe", true, Needed::Impossible),
            (Native, "ixgbe", false, Needed::Nothing),
            (Native, "", true, Needed::Impossible),
            (Native, "veth", true, Needed::DriverTags),
            (Native, "veth", false, Needed::DriverTags),
        ] {
            assert_eq!(needed(mode, driver, strips_tags), expected, "{driver}");
        }
    }
}
