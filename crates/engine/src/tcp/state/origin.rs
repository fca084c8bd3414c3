//! Where a segment comes from.

/// Where a segment comes from.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Origin {
    /// Index of the interface that it came in on.
    pub(in crate::tcp) link_index: u32,
    /// Who sent it on the link.
    pub(in crate::tcp) mac: [u8; 6],
}

impl Origin {
    #[inline]
    pub(in crate::tcp) fn of(frame: &[u8], link_index: u32) -> Self {
        let mac = frame.get(6..).and_then(|rest| rest.first_chunk());
        Self {
            link_index,
            mac: mac.copied().unwrap_or_default(),
        }
    }
}
