//! What ethtool(8) knows of an interface (`include/uapi/linux/ethtool.h`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use descriptors::OwnDescriptor;

const ETHTOOL_GDRVINFO: u32 = 3;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// `ETH_FLAG_RXVLAN`
const FLAG_RX_VLAN: u32 = 1 << 8;

/// `struct ethtool_channels`
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

const _: () = assert!(size_of::<Channels>() == 36);

/// `struct ethtool_drvinfo`
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// `struct ethtool_value`
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

const _: () = assert!(size_of::<Value>() == 8);

/// `struct ethtool_ts_info`
#[repr(C)]
#[derive(Default)]
struct StampInfo {
    command: u32,
    flags: u32,
    clock: i32,
    transmit: [u32; 4],
    receive: [u32; 4],
}

const _: () = assert!(size_of::<StampInfo>() == 44);

/// The name of the driver, such as "ice" or "veth"; empty if it does not tell.
pub fn driver(interface: &str) -> String {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    // SAFETY: the command is ETHTOOL_GDRVINFO, and the struct is its.
    if !unsafe { ask(interface, &mut info) } {
        return String::new();
    }
    let name = info.driver.split(|byte| *byte == 0).next();
    String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
}

/// Number of receive queues in use. `None`: the driver does not say, as drivers with one queue do.
pub(crate) fn rx_queues(interface: &str) -> Option<u32> {
    channels(interface).map(|channels| channels.rx + channels.combined)
}

/// The same of transmit queues.
pub(crate) fn tx_queues(interface: &str) -> Option<u32> {
    channels(interface).map(|channels| channels.tx + channels.combined)
}

fn channels(interface: &str) -> Option<Channels> {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    // SAFETY: the command is ETHTOOL_GCHANNELS, and the struct is its.
    unsafe { ask(interface, &mut channels) }.then_some(channels)
}

/// Whether the device takes VLAN tags out of the frames that it receives (`rxvlan`).
pub(crate) fn strips_vlan_tags(interface: &str) -> bool {
    let mut flags = Value {
        command: ETHTOOL_GFLAGS,
        data: 0,
    };
    // SAFETY: the command is ETHTOOL_GFLAGS, and the struct is its.
    unsafe { ask(interface, &mut flags) && flags.data & FLAG_RX_VLAN != 0 }
}

/// Whether the device cuts TCP segments (`tso`).
pub(crate) fn segments_tcp(interface: &str) -> bool {
    let mut value = Value {
        command: ETHTOOL_GTSO,
        data: 0,
    };
    // SAFETY: the command is ETHTOOL_GTSO, and the struct is its.
    unsafe { ask(interface, &mut value) && value.data != 0 }
}

/// Whether the device can stamp what it receives (`ethtool -T`).
pub(crate) fn stamps_received(interface: &str) -> bool {
    stamp_info(interface).is_some_and(|info| info.flags & libc::SOF_TIMESTAMPING_RX_HARDWARE != 0)
}

/// The number of the device's clock among those that can be read (`/dev/ptp*`).
pub(crate) fn clock(interface: &str) -> Option<u32> {
    u32::try_from(stamp_info(interface)?.clock).ok()
}

fn stamp_info(interface: &str) -> Option<StampInfo> {
    let mut info = StampInfo {
        command: ETHTOOL_GET_TS_INFO,
        ..StampInfo::default()
    };
    // SAFETY: the command is ETHTOOL_GET_TS_INFO, and the struct is its.
    unsafe { ask(interface, &mut info) }.then_some(info)
}

/// A socket through which interfaces of the calling thread's network namespace are asked, from
/// whichever one.
pub(crate) fn socket() -> Option<OwnDescriptor> {
    any_socket().map(OwnDescriptor::new)
}

fn any_socket() -> Option<OwnedFd> {
    // SAFETY: socket(2) touches no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    // SAFETY: the descriptor is new and ours alone.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the kernel fill in the answer to the command that `request` begins with. `false`: it did
/// not.
///
/// # Safety
/// `R` must be the struct that the command reads and writes.
unsafe fn ask<R>(interface: &str, request: &mut R) -> bool {
    let Some(socket) = any_socket() else {
        return false;
    };
    // SAFETY: the caller vouches for the struct.
    unsafe { ask_through(socket.as_raw_fd(), interface, request) }.is_ok()
}

/// The same through a socket.
///
/// # Safety
/// As for [`ask`].
pub(crate) unsafe fn ask_through<R>(
    socket: RawFd,
    interface: &str,
    request: &mut R,
) -> io::Result<()> {
    // SAFETY: all-zero is a value of this struct of integers and a null pointer.
    let mut envelope: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= envelope.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in envelope.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    envelope.ifr_ifru.ifru_data = std::ptr::from_mut(request).cast();
    // SAFETY: the kernel reads `envelope` and writes `request`, which outlive the call and have the
    // layout that the caller vouches for.
    match unsafe { libc::ioctl(socket, libc::SIOCETHTOOL, &raw mut envelope) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_are_not_there_tell_nothing() {
        assert_eq!(driver("no-such-link"), "");
        assert_eq!(rx_queues("no-such-link"), None);
        assert_eq!(tx_queues("no-such-link"), None);
        assert!(!strips_vlan_tags("no-such-link"));
        assert_eq!(rx_queues("a-name-of-more-than-fifteen"), None);
    }

    #[test]
    fn the_loopback_interface_strips_nothing() {
        assert!(!strips_vlan_tags("lo"));
    }

    #[test]
    fn loopback_and_what_is_not_there_have_no_clock() {
        assert!(!stamps_received("lo"));
        assert_eq!(clock("lo"), None);
        assert!(!stamps_received("no-such-link"));
        assert!(!stamps_received("a-name-of-more-than-fifteen"));
    }

    #[test]
    fn the_loopback_interface_cuts_nothing_less_than_all() {
        assert!(segments_tcp("lo") && !segments_tcp("no-such-link"));
    }
}
