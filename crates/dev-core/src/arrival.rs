//! What a device notes of the frames that it receives, and its clock.

/// What is noted of each frame when it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noted {
    /// Nothing.
    #[default]
    Nothing,
    /// The time.
    Time,
    /// That, and the time by the device's own clock.
    DeviceTime,
}

/// So many bytes in front of a frame hold at most what is noted of it.
pub const NOTED_BYTES: u16 = 24;

/// What two clocks show at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSample {
    /// The device's, in nanoseconds.
    pub device_nsec: u64,
    /// The system's, in nanoseconds since 1970.
    pub system_nsec: u64,
}
