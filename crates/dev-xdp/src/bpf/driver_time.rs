//! What a driver tells XDP programs of the time.

use std::io;

use super::btf::Btf;

/// A function of a driver that tells when its device has received a packet, by that device's clock
/// (Linux 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverTime {
    pub(super) ifindex: u32,
    /// Number of its type.
    pub(super) function: u32,
}

impl DriverTime {
    /// The function, of the driver of an interface. Whether that driver implements it is not known.
    pub fn find(ifindex: u32) -> io::Result<Self> {
        let function = Btf::of_kernel()?
            .function("bpf_xdp_metadata_rx_timestamp")
            .ok_or_else(|| io::Error::other("drivers show times since Linux 6.3"))?;
        Ok(Self { ifindex, function })
    }
}
