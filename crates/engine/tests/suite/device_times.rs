//! Times by a device's clock, past the kernel (`SO_TIMESTAMPING`, `VMA_HW_TS_CONVERSION`).

use engine::{Reason, RecvOutcome, Settings};
use vma_config::DeviceTimes;

use crate::support::calls::{Receiving, header, part};
use crate::support::device::{DEVICE_NSEC, Device, SYSTEM_NSEC};
use crate::support::host::{Host, Socket, settings};
use crate::support::isolation::isolated;
use crate::support::{OUR_IP, PEER};

const NSEC: u64 = 1_000_000_000;
const CONTROL_BYTES: usize = 128;

/// Of the times that are told of the next datagram that of the software, and that of the device.
/// `None`: nothing is told.
fn told(socket: &Socket<Device>) -> Option<(u64, u64)> {
    let (mut buffer, mut control) = ([0; 64], [0_u64; CONTROL_BYTES / 8]);
    let mut parts = [part(&mut buffer)];
    let mut header = header(&mut parts);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    let mut call = Receiving::begin(socket, libc::MSG_DONTWAIT);
    assert!(matches!(
        call.attempt_with(&mut header),
        RecvOutcome::Done(3)
    ));
    if header.msg_controllen == 0 {
        return None;
    }
    let level_and_kind = libc::SOL_SOCKET as u64 | (libc::SO_TIMESTAMPING as u64) << 32;
    assert_eq!(
        (header.msg_controllen, control[0], control[1]),
        (64, 64, level_and_kind)
    );
    assert_eq!((control[4], control[5]), (0, 0), "nothing is between them");
    let time = |at: usize| control[at] * NSEC + control[at + 1];
    Some((time(2), time(6)))
}

fn of_host(device_times: DeviceTimes, flags: u32) -> (Host<Device>, Socket<Device>) {
    let host = Host::with(Settings {
        device_times,
        ..settings()
    });
    host.device.set_shows_clock();
    let socket = host.any();
    socket.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags.cast_signed());
    assert_eq!(socket.reason(), Reason::Offloaded);
    host.arrives(PEER, socket.at(OUR_IP), b"abc");
    assert_eq!(socket.ours().next_len_after_poll(), Some(3));
    (host, socket)
}

#[test]
fn a_device_tells_by_its_clock_as_the_operator_says() {
    isolated(|| {
        use DeviceTimes::{BestPossible, Off, Ptp, Raw, System};
        for (device_times, expected) in [
            (Off, None),
            (Raw, Some(DEVICE_NSEC)),
            (BestPossible, Some(SYSTEM_NSEC + 5)),
            (System, Some(SYSTEM_NSEC + 5)),
            (Ptp, Some(DEVICE_NSEC)),
        ] {
            let (_host, socket) = of_host(device_times, libc::SOF_TIMESTAMPING_RAW_HARDWARE);
            let expected = expected.map(|device| (0, device));
            assert_eq!(told(&socket), expected, "{device_times:?}");
        }
    });
}

#[test]
fn both_times_are_told_to_who_asks_for_both() {
    isolated(|| {
        let software = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        let hardware = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        let (_host, socket) = of_host(DeviceTimes::Raw, software | hardware);
        let (software, device) = told(&socket).unwrap();
        assert!(sys::wall_clock_nsec().abs_diff(software) < 10 * NSEC);
        assert_eq!(device, DEVICE_NSEC);
    });
}

#[test]
fn who_asks_for_less_is_told_less() {
    isolated(|| {
        let software = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        let (_host, socket) = of_host(DeviceTimes::Raw, software);
        let (software, device) = told(&socket).unwrap();
        assert!(software > 0 && device == 0);
        // For `vma_info_t` and completions only.
        let (_host, socket) = of_host(DeviceTimes::Raw, libc::SOF_TIMESTAMPING_RX_HARDWARE);
        assert_eq!(told(&socket), None);
    });
}
