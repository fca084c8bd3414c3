//! Which device an interface has, and how it is used.

/// By what packets pass the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// An RDMA device if the interface has one, else AF_XDP.
    Auto,
    /// AF_XDP.
    Xdp,
    /// An RDMA device.
    Verbs,
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// Whichever of the two measures faster for the driver.
    Auto,
    /// In the driver.
    Native,
    /// In the kernel's network stack.
    Generic,
}
