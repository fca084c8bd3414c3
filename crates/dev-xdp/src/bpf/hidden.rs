//! What a frame does not show of the packet that it is, and how the XDP program learns of it.

use std::io;

use super::btf::Btf;
use super::skb_notes::{Reading, SkbNotes};

/// Where the program asks whether a packet is more than its bytes.
#[derive(Clone, Copy, Debug)]
pub enum Hidden<'a> {
    /// Nothing is hidden: every frame is as it was on the wire.
    Nothing,
    /// In the notes that another program takes: in the generic receive path.
    Notes(&'a SkbNotes, Reading),
    /// At the interface's driver.
    Driver(DriverTags),
}

impl Hidden<'_> {
    /// The same for a kernel that refuses programs which ask in this way.
    pub(super) fn asked_otherwise(self) -> Option<Self> {
        match self {
            Self::Notes(notes, Reading::InPlace) => Some(Self::Notes(notes, Reading::Copied)),
            Self::Notes(_, Reading::Copied) | Self::Nothing | Self::Driver(_) => None,
        }
    }
}

/// A function of a driver that tells of a VLAN tag which is not in the frame (`xdp-rx-metadata`,
/// Linux 6.8).
#[derive(Clone, Copy, Debug)]
pub struct DriverTags {
    pub(super) ifindex: u32,
    /// Number of its type.
    pub(super) function: u32,
}

impl DriverTags {
    /// The function, of the driver of an interface. Whether that driver implements it is not known.
    pub fn find(ifindex: u32) -> io::Result<Self> {
        let function = Btf::of_kernel()?
            .function("bpf_xdp_metadata_rx_vlan_tag")
            .ok_or_else(|| io::Error::other("VLAN tags are shown to programs since Linux 6.8"))?;
        Ok(Self { ifindex, function })
    }
}
