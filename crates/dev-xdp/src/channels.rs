//! How many receive queues an interface has (`ETHTOOL_GCHANNELS`, `include/uapi/linux/ethtool.h`).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const ETHTOOL_GCHANNELS: u32 = 0x3c;

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

/// Number of receive queues in use. `None`: the driver does not say, as drivers with one queue do.
pub(crate) fn rx_queues(interface: &str) -> Option<u32> {
    // SAFETY: socket(2) touches no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the descriptor is new and ours alone.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero is a value of this struct of integers and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut channels).cast();
    // SAFETY: the kernel reads `request` and writes `channels`, which outlive the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (result == 0).then_some(channels.rx + channels.combined)
}
