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

/// How RDMA devices are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerbsSettings {
    /// `VMA_RX_WRE`: how many frames the receive queue holds.
    pub rx_wre: u32,
    /// `VMA_RX_WRE_BATCHING`: how many are collected before it is given them.
    pub rx_wre_batching: u32,
    /// `VMA_TX_WRE`: how many frames the send queue holds.
    pub tx_wre: u32,
    /// `VMA_TX_WRE_BATCHING`: after how many the device is asked which are gone.
    pub tx_wre_batching: u32,
    /// `VMA_TX_MAX_INLINE`: the longest frame in bytes that is copied into the send queue.
    pub tx_max_inline: u32,
    /// `VMA_BF`: whether a short request is written to the device as a whole.
    pub blueflame: bool,
    /// `VMA_FORK`: whether the verbs library is prepared for fork(2).
    pub fork: bool,
}

impl VerbsSettings {
    pub(crate) fn of(settings: &Settings) -> Self {
        let unsigned = |id| u32::try_from(settings.number(id)).unwrap_or_default();
        Self {
            rx_wre: unsigned(const { ParameterId::of("VMA_RX_WRE") }),
            rx_wre_batching: unsigned(const { ParameterId::of("VMA_RX_WRE_BATCHING") }),
            tx_wre: unsigned(const { ParameterId::of("VMA_TX_WRE") }),
            tx_wre_batching: unsigned(const { ParameterId::of("VMA_TX_WRE_BATCHING") }),
            tx_max_inline: unsigned(const { ParameterId::of("VMA_TX_MAX_INLINE") }),
            blueflame: settings.is_on(const { ParameterId::of("VMA_BF") }),
            fork: settings.is_on(const { ParameterId::of("VMA_FORK") }),
        }
    }
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
