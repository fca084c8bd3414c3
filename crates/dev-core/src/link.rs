//! What a back-end is told of the interface that it is to open.

/// The interface that a back-end is asked to open.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Kernel interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Hardware address.
    pub mac: [u8; 6],
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// It lies over others. `None`: it is a device.
    pub upper: Option<Upper>,
}

/// An interface over others, such as a VLAN or a bond: the kernel sorts its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Receive queues that it has.
    pub queues: u32,
    /// The interfaces that a bond is made of: their queues are its queues, as far as it has them.
    pub parts: Vec<String>,
    /// The number in its tag (IEEE 802.1Q), if it is a VLAN.
    pub vlan_id: Option<u16>,
    /// The devices whose packets it has: what a VLAN lies on, and the parts of a bond. Empty if it
    /// cannot be told by which of them a flow goes.
    pub carriers: Vec<Carrier>,
}

/// A device below an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// Its name.
    pub name: String,
    /// Packets are sent, and taken, by it now. Of the parts of a bond not all may be.
    pub is_active: bool,
}
