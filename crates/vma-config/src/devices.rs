//! Which device an interface has, and how it is used.

use crate::params::ParameterId;
use crate::settings::Settings;

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

/// `VMA_HW_TS_CONVERSION`: what a program is told of times by a device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceTimes {
    /// Nothing.
    Off,
    /// What the device says.
    Raw,
    /// The system's time if the clocks can be compared, else what the device says.
    BestPossible,
    /// The system's time, if the clocks can be compared.
    System,
    /// What the device says if its clock can be set (PTP).
    Ptp,
}

impl DeviceTimes {
    pub(crate) fn of(settings: &Settings) -> Self {
        match settings.number(const { ParameterId::of("VMA_HW_TS_CONVERSION") }) {
            0 => Self::Off,
            1 => Self::Raw,
            2 => Self::BestPossible,
            4 => Self::Ptp,
            _ => Self::System,
        }
    }
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
