//! Whether a device notes the time at which it receives packets.

use std::os::fd::AsRawFd;

use crate::sys::{check, routes::scratch};

/// `struct ethtool_ts_info` (`include/uapi/linux/ethtool.h`)
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

const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// Whether an interface's device can stamp what it receives. `false` also if the kernel does not say.
pub(crate) fn has_hardware_time(interface: &str) -> bool {
    let mut info = StampInfo {
        command: ETHTOOL_GET_TS_INFO,
        ..StampInfo::default()
    };
    // SAFETY: all-zero is a value of this struct of integers and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return false;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    let Some(socket) = scratch() else {
        return false;
    };
    // SAFETY: the kernel reads the request and writes the struct of its command, which outlive the call.
    let asked = check(unsafe {
        libc::syscall(
            libc::SYS_ioctl,
            socket.as_raw_fd(),
            libc::SIOCETHTOOL,
            &raw mut request,
        )
    });
    asked.is_ok() && info.flags & libc::SOF_TIMESTAMPING_RX_HARDWARE != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_what_is_not_there_have_no_clock() {
        assert!(!has_hardware_time("lo"));
        assert!(!has_hardware_time("no-such-link"));
        assert!(!has_hardware_time("a-name-of-more-than-fifteen"));
    }
}
