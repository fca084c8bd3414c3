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

/// A device, its port, and the interfaces that it is the device of.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) device: *mut ibv_device,
    pub(crate) name: String,
    pub(crate) port: u8,
    pub(crate) interfaces: Vec<String>,
}

fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|it| it.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes);
    text.map_or_else(
        |_| String::new(),
        |text| text.to_string_lossy().into_owned(),
    )
}

/// Which of a device's ports an interface is: from one. The kernel counts from zero. A card that
/// bonds its ports has one for both.
fn port_of(device: &Path, interface: &str) -> u8 {
    let path = device.join("device/net").join(interface).join("dev_port");
    let number = fs::read_to_string(path);
    let number = number.ok().and_then(|text| text.trim().parse::<u8>().ok());
    let number = number.map_or(1, |number| number.saturating_add(1));
    let is_there = device.join("ports").join(number.to_string()).exists();
    if is_there { number } else { 1 }
}

/// Has `open` open the devices of some interfaces, each once, while the list of devices is there.
/// `None`: one of the interfaces has none.
pub(crate) fn with_devices_of<T>(
    verbs: &Verbs,
    interfaces: &[String],
    open: impl FnMut(&Found) -> T,
) -> Option<Vec<T>> {
    let mut count = 0;
    // SAFETY: the count is this function's.
    let list = unsafe { (verbs.ibv_get_device_list)(&raw mut count) };
    if list.is_null() {
        return None;
    }
    let devices: Vec<_> = (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: the list has as many entries.
        .map(|index| unsafe { *list.wrapping_add(index) })
        .collect();
    let mut found: Vec<Found> = Vec::new();
    for interface in interfaces {
        let Some(its) = devices
            .iter()
            .find_map(|device| device_of(*device, interface))
        else {
            break;
        };
        let is_same = |known: &&mut Found| (known.device, known.port) == (its.device, its.port);
        match found.iter_mut().find(is_same) {
            Some(known) => known.interfaces.extend(its.interfaces),
            None => found.push(its),
        }
    }
    let known: usize = found.iter().map(|it| it.interfaces.len()).sum();
    let opened = (known == interfaces.len()).then(|| found.iter().map(open).collect());
    // SAFETY: nothing of the list is used any more; what was opened stays.
    unsafe { (verbs.ibv_free_device_list)(list) };
    opened
}

fn device_of(device: *mut ibv_device, interface: &str) -> Option<Found> {
    // SAFETY: a device lives as long as the list.
    let facts = unsafe { device.as_ref() }?;
    let path = PathBuf::from(text(&facts.ibdev_path));
    path.join("device/net")
        .join(interface)
        .exists()
        .then(|| Found {
            device,
            name: text(&facts.name),
            port: port_of(&path, interface),
            interfaces: vec![interface.to_owned()],
        })
}
