//! The RDMA device of an interface.

use std::ffi::{CStr, c_char};
use std::fs;
use std::path::{Path, PathBuf};

use rdma_core_sys::{Verbs, ibv_device};

/// Where the kernel lists RDMA devices.
const SYSFS: &str = "/sys/class/infiniband";

/// Whether the kernel knows any RDMA device.
pub(crate) fn has_any() -> bool {
    fs::read_dir(SYSFS).is_ok_and(|mut entries| entries.next().is_some())
}

/// A device and its port of the same interface.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) device: *mut ibv_device,
    pub(crate) name: String,
    pub(crate) port: u8,
}

fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|it| it.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes);
    text.map_or_else(
        |_| String::new(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// Which of a device's ports an interface is: from one. The kernel counts from zero.
fn port_of(device: &Path, interface: &str) -> u8 {
    let path = device.join("device/net").join(interface).join("dev_port");
    let number = fs::read_to_string(path);
    let number = number.ok().and_then(|text| text.trim().parse::<u8>().ok());
    number.map_or(1, |number| number.saturating_add(1))
}

/// Has `open` open the device of an interface, if there is one, while the list of devices is there.
pub(crate) fn with_device_of<T>(
    verbs: &Verbs,
    interface: &str,
    open: impl FnOnce(&Found) -> T,
) -> Option<T> {
    let mut count = 0;
    // SAFETY: the count is this function's.
    let list = unsafe { (verbs.ibv_get_device_list)(&raw mut count) };
    if list.is_null() {
        return None;
    }
    let devices = (0..usize::try_from(count).unwrap_or(0)).map(|index| list.wrapping_add(index));
    let found = devices.into_iter().find_map(|entry| {
        // SAFETY: the list has as many entries.
        let device = unsafe { *entry };
        // SAFETY: a device lives as long as the list.
        let facts = unsafe { device.as_ref() }?;
        let path = PathBuf::from(text(&facts.ibdev_path));
        let is_its = path.join("device/net").join(interface).exists();
        is_its.then(|| Found {
            device,
            name: text(&facts.name),
            port: port_of(&path, interface),
        })
    });
    let opened = found.as_ref().map(open);
    // SAFETY: nothing of the list is used any more; what was opened stays.
    unsafe { (verbs.ibv_free_device_list)(list) };
    opened
}
