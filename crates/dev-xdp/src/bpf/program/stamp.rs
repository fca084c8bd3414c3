//! Times of arrival, which the program writes in front of a packet: from there on they go with it
//! through the rings (Documentation/networking/xdp-rx-metadata.rst).

use super::layout::{DEVICE_TIME, context};
use crate::bpf::asm::Assembler;
use crate::bpf::driver_time::DriverTime;
use crate::bpf::insn::Condition::{Equal, Greater, NotEqual};
use crate::bpf::insn::Helper;
use crate::bpf::insn::Register::{R0, R1, R2, R3, R6, R10};
use crate::bpf::insn::Width::{U32, U64};

/// The time, and what tells it from other bytes.
const STAMP_BYTES: usize = 16;
/// The time by the device's clock is in front of that.
const DEVICE_TIME_BYTES: usize = 8;
/// Bytes in front of a packet that say when it came.
pub const FRONT_BYTES: usize = STAMP_BYTES + DEVICE_TIME_BYTES;
const _: () = assert!(FRONT_BYTES <= dev_core::NOTED_BYTES as usize);

/// Behind the time.
const MARK: i32 = 0x7651_4d41;
/// The same if the time by the device's clock is in front.
const MARK_WITH_DEVICE_TIME: i32 = 0x7651_4d42;

/// What lies in front of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// When it came, in nanoseconds of `CLOCK_MONOTONIC`.
    pub arrived_nsec: u64,
    /// The same by the device's clock, if that knows.
    pub device_nsec: Option<u64>,
}

impl Front {
    /// `bytes`: those just in front of a packet, at most [`FRONT_BYTES`] of them. `None`: they are
    /// something else.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (rest, mark) = bytes.split_last_chunk::<8>()?;
        let (rest, arrived) = rest.split_last_chunk::<8>()?;
        let device = match i64::from_ne_bytes(*mark) {
            it if it == i64::from(MARK) => None,
            it if it == i64::from(MARK_WITH_DEVICE_TIME) => rest.last_chunk::<8>(),
            _ => return None,
        };
        Some(Self {
            arrived_nsec: u64::from_ne_bytes(*arrived),
            device_nsec: device
                .map(|it| u64::from_ne_bytes(*it))
                .filter(|it| *it != 0),
        })
    }
}

/// Writes the time in front of the packet, after which R7 is not valid any more.
pub(super) fn put(a: &mut Assembler, device: Option<DriverTime>) {
    let no_room = a.label();
    if let Some(time) = device {
        ask_driver(a, time);
    }
    let len = match device {
        None => STAMP_BYTES,
        Some(_) => FRONT_BYTES,
    } as i32;
    a.mov(R1, R6);
    a.mov(R2, -len);
    a.call(Helper::XdpAdjustMeta);
    a.jump_if(R0, NotEqual, 0, no_room);
    a.call(Helper::KtimeGetNs);
    a.load(R1, U32, R6, context::DATA_META);
    a.load(R2, U32, R6, context::DATA);
    a.mov(R3, R1);
    a.add(R3, len);
    a.jump_if(R3, Greater, R2, no_room);
    match device {
        None => {
            a.store(U64, R1, 0, R0);
            a.store(U64, R1, 8, MARK);
        }
        Some(_) => {
            a.load(R2, U64, R10, DEVICE_TIME);
            a.store(U64, R1, 0, R2);
            a.store(U64, R1, 8, R0);
            a.store(U64, R1, 16, MARK_WITH_DEVICE_TIME);
        }
    }
    a.place(no_room);
}

/// The time on the stack is the driver's, or 0 if it has none for the packet.
fn ask_driver(a: &mut Assembler, time: DriverTime) {
    let told = a.label();
    a.store(U64, R10, DEVICE_TIME, 0);
    a.mov(R1, R6);
    a.mov(R2, R10);
    a.add(R2, i32::from(DEVICE_TIME));
    a.call_function(time.function);
    // The result is of 32 bits, with anything above.
    a.shift_left(R0, 32);
    a.jump_if(R0, Equal, 0, told);
    a.store(U64, R10, DEVICE_TIME, 0);
    a.place(told);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(device: u64, arrived: u64, mark: i32) -> [u8; FRONT_BYTES] {
        let words = [device, arrived, i64::from(mark).cast_unsigned()];
        let mut bytes = [0; FRONT_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn times_are_told_from_other_bytes() {
        let known = |device_nsec| {
            Some(Front {
                arrived_nsec: 7,
                device_nsec,
            })
        };
        for (bytes, expected) in [
            (front(5, 7, MARK), known(None)),
            (front(5, 7, MARK_WITH_DEVICE_TIME), known(Some(5))),
            (front(0, 7, MARK_WITH_DEVICE_TIME), known(None)),
            (front(5, 7, 0), None),
        ] {
            assert_eq!(Front::read(&bytes), expected);
        }
        let short = &front(5, 7, MARK_WITH_DEVICE_TIME)[DEVICE_TIME_BYTES..];
        assert_eq!(Front::read(short), known(None), "there was no room for it");
        assert_eq!(Front::read(&short[1..]), None);
    }
}
