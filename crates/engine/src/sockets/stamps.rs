//! Times of arrival: which a program asks for (`SO_TIMESTAMP` and its like), and how they are told.

use dev_core::Noted;
use libc::c_int;

use crate::sockets::control::ControlRoom;

/// What a socket's options ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StampWish(u8);

impl StampWish {
    /// `SO_TIMESTAMP` or `SO_TIMESTAMPNS`
    const STAMP: u8 = 1;
    /// The latter.
    const NSEC: u8 = 1 << 1;
    /// `SO_TIMESTAMPING`, of what the software receives.
    const STAMPING: u8 = 1 << 2;
    /// In the form that lasts beyond 2038.
    const NEW: u8 = 1 << 3;
    /// `SO_TIMESTAMPING`, of what the device receives: to be noted, for who asks (`vma_info_t`).
    const DEVICE: u8 = 1 << 4;
    /// The same, and to be told with what is received.
    const DEVICE_TOLD: u8 = 1 << 5;

    /// Nothing.
    pub(crate) const NONE: Self = Self(0);

    /// Asks the kernel's socket, which has the options.
    pub(crate) fn read(fd: c_int) -> Self {
        let has = |name| sys::option_int(fd, libc::SOL_SOCKET, name).unwrap_or(0);
        let mut wish = 0;
        // Each of these says yes only if it is in force itself, but for the last but one.
        for (name, bits) in [
            (libc::SO_TIMESTAMP, Self::STAMP),
            (libc::SO_TIMESTAMPNS, Self::STAMP | Self::NSEC),
            (SO_TIMESTAMP_NEW, Self::STAMP | Self::NEW),
            (SO_TIMESTAMPNS_NEW, Self::STAMP | Self::NSEC | Self::NEW),
        ] {
            if has(name) != 0 {
                wish |= bits;
            }
        }
        let software = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        let flags = has(libc::SO_TIMESTAMPING).cast_unsigned();
        if flags & software == software {
            wish |= Self::STAMPING;
        }
        if flags & libc::SOF_TIMESTAMPING_RX_HARDWARE != 0 {
            wish |= Self::DEVICE;
        }
        if tells_hardware_time(flags) {
            wish |= Self::DEVICE | Self::DEVICE_TOLD;
        }
        if has(SO_TIMESTAMPING_NEW) != 0 {
            wish |= Self::NEW;
        }
        Self(wish)
    }

    pub(crate) fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Whether it must be found out when something came.
    pub(crate) fn any(self) -> bool {
        self.0 & (Self::STAMP | Self::STAMPING | Self::DEVICE) != 0
    }

    /// What the device is to note.
    pub(crate) fn noted(self) -> Noted {
        match (self.device_times(), self.any()) {
            (true, _) => Noted::DeviceTime,
            (false, true) => Noted::Time,
            (false, false) => Noted::Nothing,
        }
    }

    /// Whether it must be found out when the device has received something.
    pub(crate) fn device_times(self) -> bool {
        self.has(Self::DEVICE)
    }

    /// The same without those.
    pub(crate) fn without_device_times(self) -> Self {
        Self(self.0 & !(Self::DEVICE | Self::DEVICE_TOLD))
    }

    /// Whether the time is told also of what came before it was asked for: it is the present then.
    pub(crate) fn is_always_told(self) -> bool {
        self.has(Self::STAMP)
    }

    fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// Tells a time since 1970. `software`: the same if it was asked for when it came, for
    /// `SO_TIMESTAMPING`. `device_nsec`: the time by the device's clock, or 0.
    pub(crate) fn put(
        self,
        nsec: u64,
        software: Option<u64>,
        device_nsec: u64,
        room: &mut ControlRoom,
    ) {
        let is_new = self.has(Self::NEW);
        let (seconds, nsec) = (nsec / NSEC, nsec % NSEC);
        if self.has(Self::STAMP) {
            let (name, fraction) = match (self.has(Self::NSEC), is_new) {
                (false, false) => (libc::SO_TIMESTAMP, nsec / 1000),
                (false, true) => (SO_TIMESTAMP_NEW, nsec / 1000),
                (true, false) => (libc::SO_TIMESTAMPNS, nsec),
                (true, true) => (SO_TIMESTAMPNS_NEW, nsec),
            };
            room.put(libc::SOL_SOCKET, name, &words::<2, 16>([seconds, fraction]));
        }
        let software = software.filter(|_| self.has(Self::STAMPING)).unwrap_or(0);
        let device = if self.has(Self::DEVICE_TOLD) {
            device_nsec
        } else {
            0
        };
        // As `__sock_recv_timestamp`: nothing if neither is known.
        if software != 0 || device != 0 {
            let name = if is_new {
                SO_TIMESTAMPING_NEW
            } else {
                libc::SO_TIMESTAMPING
            };
            // Software, nothing, hardware.
            let [software, device] = [software, device].map(|it| [it / NSEC, it % NSEC]);
            let times = [software[0], software[1], 0, 0, device[0], device[1]];
            let times: [u8; 48] = words(times);
            room.put(libc::SOL_SOCKET, name, &times);
        }
    }
}

/// Time stamps of what is sent come by the kernel's error queue.
const TX_STAMPS: u32 = libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_ACK;

fn stamping_flags(fd: c_int) -> u32 {
    let flags = sys::option_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    flags.unwrap_or(0).cast_unsigned()
}

/// Whether a program is to be told when something has left, which only the kernel tells.
pub(crate) fn wants_sending_times(fd: c_int) -> bool {
    stamping_flags(fd) & TX_STAMPS != 0
}

/// Whether a program is to be told when the device has received something, which only the kernel
/// knows.
pub(crate) fn wants_hardware_stamps(fd: c_int) -> bool {
    tells_hardware_time(stamping_flags(fd))
}

/// Whether it is to be told by which device, too.
pub(crate) fn tells_device(fd: c_int) -> bool {
    stamping_flags(fd) & SOF_TIMESTAMPING_OPT_PKTINFO != 0
}

const SOF_TIMESTAMPING_OPT_PKTINFO: u32 = 1 << 13;

/// As `__sock_recv_timestamp` (net/socket.c): who is to be told has the time, whoever had the
/// device note it, unless it filters that.
fn tells_hardware_time(flags: u32) -> bool {
    let has = |bit| flags & bit != 0;
    has(libc::SOF_TIMESTAMPING_RAW_HARDWARE)
        && (has(libc::SOF_TIMESTAMPING_RX_HARDWARE) || !has(SOF_TIMESTAMPING_OPT_RX_FILTER))
}

/// Linux 6.12.
const SOF_TIMESTAMPING_OPT_RX_FILTER: u32 = 1 << 17;

pub(crate) const SO_TIMESTAMP_NEW: c_int = 63;
pub(crate) const SO_TIMESTAMPNS_NEW: c_int = 64;
pub(crate) const SO_TIMESTAMPING_NEW: c_int = 65;

const NSEC: u64 = 1_000_000_000;

fn words<const COUNT: usize, const BYTES: usize>(words: [u64; COUNT]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use libc::{SOF_TIMESTAMPING_RAW_HARDWARE as TOLD, SOF_TIMESTAMPING_RX_HARDWARE as NOTED};

    use super::*;

    #[test]
    fn hardware_time_is_told_to_who_asks_to_be_told() {
        for (flags, expected) in [
            (TOLD | NOTED, true),
            (TOLD, true),
            (NOTED, false),
            (TOLD | SOF_TIMESTAMPING_OPT_RX_FILTER, false),
            (TOLD | NOTED | SOF_TIMESTAMPING_OPT_RX_FILTER, true),
            (libc::SOF_TIMESTAMPING_SOFTWARE, false),
        ] {
            assert_eq!(tells_hardware_time(flags), expected, "{flags:#x}");
        }
    }
}
