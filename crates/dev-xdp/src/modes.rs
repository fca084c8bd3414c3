//! In which mode a program is attached, and what follows from that.

use std::fmt;
use std::io;
use std::path::Path;

use dev_core::{LinkSpec, Merging, OpenError};
use vma_config::XdpMode;

use crate::bpf::link::AttachMode;
use crate::ethtool;
use crate::measured_modes;
use crate::segmenter::XdpSegmenter;

/// Opens something in the first mode that goes: by `open`, which is told the mode, and whether
/// packets longer than a frame are to come in several. Says why it is not the first choice, if it
/// is not.
pub(crate) fn in_some_mode<T>(
    mode: XdpMode,
    link: &LinkSpec,
    driver: &str,
    open: impl Fn(AttachMode, bool) -> Result<T, OpenError>,
) -> Result<(T, Option<String>), OpenError> {
    let (first, second) = choices(mode, link, driver).ok_or_else(no_native_mode)?;
    let open = |attach| match attach {
        AttachMode::Native => open(attach, false),
        // What was merged before it came here is longer than a frame.
        AttachMode::Generic => open(attach, true).or_else(|error| match error.held {
            true => Err(error),
            // Before Linux 6.6.
            false => open(attach, false),
        }),
    };
    match (open(first), second) {
        (Ok(opened), _) => Ok((opened, None)),
        (Err(error), Some(second)) if !error.held => match open(second) {
            Ok(opened) => {
                let why = format!("not {}: {} ({})", first.text(), error.what, error.remedy);
                Ok((opened, Some(why)))
            }
            Err(_) => Err(error),
        },
        (Err(error), _) => Err(error),
    }
}

/// The mode that is tried first, and the second. `None`: there is not the one that was asked for.
///
/// A bond passes a native program on to its parts, whose packets do not come to sockets of the
/// bond's (`xsk_rcv_check`, net/xdp/xsk.c). Other interfaces over others have no such mode.
pub(crate) fn choices(
    mode: XdpMode,
    link: &LinkSpec,
    driver: &str,
) -> Option<(AttachMode, Option<AttachMode>)> {
    use AttachMode::{Generic, Native};
    let measured = || measured_modes::look_up(Path::new(measured_modes::FILE), link.mac, driver);
    let has_native = link.upper.is_none();
    match mode {
        XdpMode::Native => has_native.then_some((Native, None)),
        XdpMode::Auto if has_native => match measured() {
            Some(Generic) => Some((Generic, Some(Native))),
            None if faster_in_generic_mode(driver) => Some((Generic, Some(Native))),
            Some(Native) | None => Some((Native, Some(Generic))),
        },
        XdpMode::Auto | XdpMode::Generic => Some((Generic, None)),
    }
}

fn no_native_mode() -> OpenError {
    OpenError {
        held: false,
        what: "an interface over others, such as a VLAN or a bond, has no native mode".to_owned(),
        remedy: "VMA_XDP_MODE=auto",
        locked_memory: false,
    }
}

/// Why it is not the first choice, and what was said of it.
pub(crate) fn with_first(not_first: Option<String>, note: String) -> String {
    match not_first {
        None => note,
        Some(why) if note.is_empty() => why,
        Some(why) => format!("{why}; {note}"),
    }
}

/// What becomes of packets that were merged before the program sees them.
pub(crate) fn merging(attach: AttachMode, in_pieces: bool) -> Merging {
    match attach {
        AttachMode::Native => Merging::None,
        AttachMode::Generic if in_pieces => Merging::InPieces,
        AttachMode::Generic => Merging::LeftToKernel,
    }
}

/// In generic mode every frame sent is a packet of the kernel's by itself; a device that cuts
/// segments gets many as one. Without it the port works as well.
pub(crate) fn segmenter(link: &LinkSpec, attach: AttachMode) -> io::Result<Option<XdpSegmenter>> {
    if attach == AttachMode::Native || !ethtool::segments_tcp(&link.name) {
        return Ok(None);
    }
    XdpSegmenter::open(link).map(Some)
}

/// On veth a ping-pong took 3.1 us in generic and 4.1 us in native mode: native mode detours
/// through NAPI and a pointer ring.
fn faster_in_generic_mode(driver: &str) -> bool {
    driver == "veth"
}

/// Devices whose frames come from a local kernel and were never on a wire, or interfaces over such
/// ones, perhaps: the transport checksum then holds just the pseudo-header's sum
/// (`CHECKSUM_PARTIAL`).
pub(crate) fn has_partial_checksums(link: &LinkSpec, driver: &str) -> bool {
    link.upper.is_some() || matches!(driver, "veth" | "virtio_net" | "tun")
}

pub(crate) fn refused(what: &dyn fmt::Display, errno: Option<i32>) -> OpenError {
    let remedy = match errno {
        Some(libc::EPERM | libc::EACCES) => {
            "run as root or give the program CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"
        }
        Some(libc::EBUSY | libc::EEXIST) => {
            "it is taken over when it is free; see `ip link` for the XDP program that is on it"
        }
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            "raise the limit of locked memory: ulimit -l unlimited"
        }
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::ENOSYS | libc::EINVAL) => {
            "AF_XDP with need_wakeup and bpf_link for XDP needs Linux 5.9 or later, built with \
             CONFIG_XDP_SOCKETS"
        }
        _ => "see the system's message",
    };
    OpenError {
        what: what.to_string(),
        remedy,
        locked_memory: matches!(errno, Some(libc::ENOBUFS | libc::ENOMEM)),
        held: matches!(errno, Some(libc::EBUSY | libc::EEXIST)),
    }
}
