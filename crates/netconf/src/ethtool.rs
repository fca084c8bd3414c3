//! The driver behind an interface: ETHTOOL_GDRVINFO, which exists as an ioctl only (linux/ethtool.h,
//! linux/sockios.h, netdevice(7)).

#![allow(unsafe_code, reason = "no safe wrapper of this ioctl exists")]

use std::ptr;

use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

const SIOCETHTOOL: Opcode = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 3;
const INTERFACE_NAME_BYTES: usize = 16;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ifreq` with the data pointer of its union.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; INTERFACE_NAME_BYTES],
    data: *mut DriverInfo,
    /// The union is larger than a pointer.
    padding: [u8; 16],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// The name of the driver behind interface `name` of the calling thread's network namespace, such as
/// "ice" or "veth". `None` if there is no such interface, or it does not tell.
pub fn driver_name(name: &str) -> Option<String> {
    let mut request = InterfaceRequest {
        name: [0; INTERFACE_NAME_BYTES],
        data: ptr::null_mut(),
        padding: [0; 16],
    };
    // One byte stays zero as the end of the string.
    if name.len() >= INTERFACE_NAME_BYTES {
        return None;
    }
    request
        .name
        .get_mut(..name.len())?
        .copy_from_slice(name.as_bytes());
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    request.data = &raw mut info;

    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
    // SAFETY: SIOCETHTOOL takes a `struct ifreq`, which the request has the layout of.
    let update = unsafe { Updater::<SIOCETHTOOL, _>::new(&mut request) };
    // SAFETY: with ETHTOOL_GDRVINFO the kernel writes one `struct ethtool_drvinfo` where the request's
    // data pointer points: to `info`, which has its layout and outlives the call.
    unsafe { ioctl(&socket, update) }.ok()?;

    let end = info
        .driver
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(info.driver.len());
    let driver = str::from_utf8(info.driver.get(..end)?).ok()?;
    if driver.is_empty() {
        None
    } else {
        Some(driver.to_owned())
    }
}
