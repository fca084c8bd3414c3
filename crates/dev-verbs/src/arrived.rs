//! What a completion of receiving says.

/// A frame that the device gives back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// Where it begins, from the start of the pool. Outside it: nobody knows.
    pub(crate) offset: u64,
    /// Bytes of the packet. `None`: none came.
    pub(crate) len: Option<u32>,
    /// The device has found the checksum of UDP or TCP right.
    pub(crate) is_checked: bool,
    /// When it came, in cycles of the card's clock.
    pub(crate) cycles: u64,
}
