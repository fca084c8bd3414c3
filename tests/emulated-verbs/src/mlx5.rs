//! What `libmlx5.so.1` exports: the queues of a ConnectX card, as they lie in memory. Two threads
//! are the card: the wire's, and one that looks at doorbells.

mod completions;
mod pair;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libc::c_int;
use rdma_core_sys::{
    IBV_VALUES_MASK_RAW_CLOCK, MLX5DV_OBJ_CQ, MLX5DV_OBJ_QP, ibv_context, ibv_device,
    ibv_values_ex, mlx5dv_clock_info, mlx5dv_obj,
};

pub(crate) use completions::{Asked, CompletionMemory};
pub(crate) use pair::PairMemory;

use crate::device::{Inner, State, inner};
use crate::sys::{self, call};
use crate::violation::violation;
use crate::wire::Leaving;

/// Whose queues it has: `Mlx5`, or else only the provider knows.
const QUEUES: &str = "EMULATED_VERBS_QUEUES";

/// Looks in vain after which the thread sleeps, shortly, and longer.
const LOOKS: u32 = 20;
const SHORT_SLEEPS: u32 = 400;
const SHORT_SLEEP: Duration = Duration::from_micros(20);
const LONG_SLEEP: Duration = Duration::from_micros(500);

/// Memory that a device and a program share; it is never given back.
fn shared(bytes: usize) -> *mut u8 {
    let whole = vec![0_u64; bytes.div_ceil(8) + 32];
    let start = Box::leak(whole.into_boxed_slice())
        .as_mut_ptr()
        .cast::<u8>();
    start.wrapping_add(start.align_offset(256))
}

#[unsafe(no_mangle)]
pub extern "C" fn mlx5dv_is_supported(_device: *mut ibv_device) -> bool {
    std::env::var(QUEUES).is_ok_and(|queues| queues == "Mlx5")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_init_obj(object: *mut mlx5dv_obj, kinds: u64) -> c_int {
    // SAFETY: the program's promise.
    let object = unsafe { *object };
    if kinds & MLX5DV_OBJ_CQ != 0 {
        let cq = object.cq_in;
        // SAFETY: a live queue, by the program's promise.
        let device = unsafe { inner((*cq).context) };
        let mut state = device.state();
        let number = state.number();
        match state.completions.get_mut(&(cq as usize)) {
            // SAFETY: the program's.
            Some(queue) => unsafe { object.cq_out.write(queue.use_memory(number)) },
            None => violation("a completion queue that there is not"),
        }
    }
    if kinds & MLX5DV_OBJ_QP != 0 {
        // SAFETY: a live queue pair, by the program's promise.
        let (device, number) = unsafe { (inner((*object.qp_in).context), (*object.qp_in).qp_num) };
        // SAFETY: the program's.
        unsafe {
            object
                .qp_out
                .write(device.state().pair(number).use_memory())
        };
        watch_doorbells(device);
    }
    0
}

fn watch_doorbells(device: &Arc<Inner>) {
    let device = Arc::clone(device);
    sys::spawn(move || {
        let mut looks_in_vain = 0;
        while !device.is_closed.load(Ordering::Relaxed) {
            let frames = look(&mut device.state());
            looks_in_vain = match frames {
                Some(_) => 0,
                None => looks_in_vain + 1,
            };
            for frame in frames.unwrap_or_default() {
                device.wire.send_leaving(&frame);
                device.fail_after_frames();
            }
            match looks_in_vain {
                0 => {}
                _ if looks_in_vain < LOOKS => drop(call!(libc::SYS_sched_yield)),
                _ if looks_in_vain < SHORT_SLEEPS => std::thread::sleep(SHORT_SLEEP),
                _ => std::thread::sleep(LONG_SLEEP),
            }
        }
    });
}

/// Does what doorbells that have been rung ask for. Returns the frames to send. `None`: none has
/// been.
fn look(state: &mut State) -> Option<Vec<Leaving>> {
    let numbers: Vec<_> = state.pairs.keys().copied().collect();
    let mut rung = false;
    let mut frames = Vec::new();
    for number in numbers {
        rung |= pair::look(state, number, &mut frames);
    }
    for queue in state.completions.values_mut() {
        rung |= queue.look();
    }
    if state.is_dead {
        frames.clear();
    }
    rung.then_some(frames)
}

/// Cycles of the card's clock: 156.25 MHz, whole since the host's start.
pub(crate) fn cycles_now() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let _ = call!(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now);
    let nsec = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    (nsec / 64 * 10 + nsec % 64 * 10 / 64) & CLOCK_MASK
}

pub(crate) unsafe extern "C" fn query_rt_values(
    _context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    // SAFETY: the program's.
    let values = unsafe { &mut *values };
    values.comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
    values.raw_clock.tv_nsec = cycles_now().cast_signed();
    0
}

/// The clock has so many bits.
const CLOCK_MASK: u64 = (1 << 48) - 1;
const CLOCK_SHIFT: u32 = 21;
/// A cycle takes 6.4 ns.
const CLOCK_MULT: u32 = (64 << CLOCK_SHIFT) / 10;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_get_clock_info(
    _context: *mut ibv_context,
    info: *mut mlx5dv_clock_info,
) -> c_int {
    let known = mlx5dv_clock_info {
        nsec: 0,
        last_cycles: 0,
        frac: 0,
        mult: CLOCK_MULT,
        shift: CLOCK_SHIFT,
        mask: CLOCK_MASK,
    };
    // SAFETY: the program's.
    unsafe { info.write(known) };
    0
}
