//! Times of arrival, which the program writes in front of a packet: from there on they go with it
//! through the rings (Documentation/networking/xdp-rx-metadata.rst).

use dev_core::{MARK, MARK_WITH_DEVICE_TIME, NOTED_BYTES};

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
/// Bytes in front of a packet that say when it came, as [`dev_core::NotedTimes`] reads them.
const FRONT_BYTES: usize = STAMP_BYTES + DEVICE_TIME_BYTES;
const _: () = assert!(FRONT_BYTES == NOTED_BYTES as usize);

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
