//! What the library exports, but for what programs call through a context.

use std::mem;
use std::ptr;

use libc::{c_char, c_int, c_uint, c_void};
use rdma_core_sys::{
    IBV_DEVICE_MANAGED_FLOW_STEERING, IBV_QP_PORT, IBV_QP_STATE, IBV_QPT_RAW_PACKET,
    ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr,
    ibv_device_attr_ex, ibv_mr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

use crate::device::{self, Region, devices, has_fault, inner};
use crate::queues::{Completions, Pair};
use crate::sys::{self, call};
use crate::violation::violation;

const INLINE_MAX: u32 = 884;
const REQUESTS_MAX: u32 = 32_768;

/// The reason is in `errno`.
fn refused<T>(errno: c_int) -> *mut T {
    // SAFETY: it is the thread's own.
    unsafe { *libc::__errno_location() = errno };
    ptr::null_mut()
}

fn allocated<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let all = devices();
    // SAFETY: null, or the program's.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = all.len() as c_int;
    }
    let pointers = all.iter().map(|it| ptr::from_ref(it).cast_mut().cast());
    let list: Vec<*mut ibv_device> = pointers.chain([ptr::null_mut()]).collect();
    // As small as it is, it is never given back.
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_free_device_list(_list: *mut *mut ibv_device) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: the program's promise.
    match unsafe { device::open(device) } {
        Ok(context) => context,
        Err(error) => {
            let line = format!("emulated-verbs: {error}\n");
            sys::write(2, line.as_bytes());
            refused(error.raw_os_error().unwrap_or(libc::EIO))
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the program's promise.
    unsafe { device::close(context) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    _: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: zeroes are numbers.
    let mut known: ibv_device_attr = unsafe { mem::zeroed() };
    known.max_qp_wr = REQUESTS_MAX as c_int;
    known.max_cqe = 1 << 20;
    known.max_sge = 1;
    known.phys_port_cnt = 1;
    known.device_cap_flags = IBV_DEVICE_MANAGED_FLOW_STEERING;
    // SAFETY: the program's.
    unsafe { attr.write(known) };
    0
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    _input: *const c_void,
    attr: *mut ibv_device_attr_ex,
    _size: usize,
) -> c_int {
    // SAFETY: the program's.
    let attr = unsafe { &mut *attr };
    attr.tso_caps.max_tso = 1 << 18;
    attr.tso_caps.supported_qpts = 1 << IBV_QPT_RAW_PACKET;
    // SAFETY: as above.
    unsafe { ibv_query_device(context, &raw mut attr.orig_attr) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let mut event_type = 0_u64;
    // SAFETY: the program's promise.
    let fd = unsafe { (*context).async_fd };
    if call!(libc::SYS_read, fd, &raw mut event_type, 8).is_err() {
        return -1;
    }
    let happened = ibv_async_event {
        element: ptr::null_mut(),
        event_type: event_type as u32,
    };
    // SAFETY: the program's.
    unsafe { event.write(happened) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    allocated(ibv_pd { context, handle: 1 })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: it comes from `ibv_alloc_pd`.
    drop(unsafe { Box::from_raw(pd) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    _access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the program's promise.
    let context = unsafe { (*pd).context };
    // SAFETY: as above.
    let mut state = unsafe { inner(context) }.state();
    let lkey = state.number();
    let region = Region {
        address: addr as u64,
        len: length as u64,
    };
    state.regions.insert(lkey, region);
    allocated(ibv_mr {
        context,
        pd,
        addr,
        length,
        handle: lkey,
        lkey,
        rkey: lkey,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: it comes from `ibv_reg_mr`.
    let mr = unsafe { Box::from_raw(mr) };
    // SAFETY: its context is live.
    unsafe { inner(mr.context) }
        .state()
        .regions
        .remove(&mr.lkey);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    match sys::event(libc::EFD_SEMAPHORE) {
        Ok(fd) => allocated(ibv_comp_channel {
            context,
            fd,
            refcnt: 0,
        }),
        Err(error) => refused(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: it comes from `ibv_create_comp_channel`.
    let channel = unsafe { Box::from_raw(channel) };
    sys::close(channel.fd);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    _vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: zeroes are a queue that nobody uses.
    let mut cq: ibv_cq = unsafe { mem::zeroed() };
    (cq.context, cq.cq_context, cq.channel, cq.cqe) = (context, cq_context, channel, cqe);
    // The program may give the channel's descriptor another number.
    // SAFETY: null, or a channel.
    let fd = unsafe { channel.as_ref() }.and_then(|channel| sys::copy(channel.fd.into()).ok());
    let cq = allocated(cq);
    // SAFETY: as above.
    if let Some(channel) = unsafe { channel.as_mut() } {
        channel.refcnt += 1;
        CHANNELS
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push((ptr::from_mut(channel) as usize, cq as usize));
    }
    let completions = Completions::new(cqe as usize, fd);
    // SAFETY: the program's promise.
    let mut state = unsafe { inner(context) }.state();
    state.completions.insert(cq as usize, completions);
    cq
}

/// The queue of each channel: one.
static CHANNELS: std::sync::Mutex<Vec<(usize, usize)>> = std::sync::Mutex::new(Vec::new());

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: it comes from `ibv_create_cq`.
    let owned = unsafe { Box::from_raw(cq) };
    // SAFETY: its context is live.
    let mut state = unsafe { inner(owned.context) }.state();
    let known = state.completions.remove(&(cq as usize));
    if let Some(fd) = known.and_then(|known| known.channel) {
        sys::close(fd);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let mut count = 0_u64;
    // SAFETY: the program's promise.
    let fd = unsafe { (*channel).fd };
    if call!(libc::SYS_read, fd, &raw mut count, 8).is_err() {
        return -1;
    }
    let channels = CHANNELS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = channels.iter().find(|(it, _)| *it == channel as usize);
    let Some((_, queue)) = known else {
        violation("an event of a channel without a queue");
    };
    let queue = *queue as *mut ibv_cq;
    // SAFETY: it comes from `ibv_create_cq`.
    let context = unsafe { (*queue).cq_context };
    // SAFETY: the program's.
    unsafe { cq.write(queue) };
    // SAFETY: as above.
    unsafe { cq_context.write(context) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_cq_events(_cq: *mut ibv_cq, _events: c_uint) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: the program's promise.
    let (context, attr) = unsafe { ((*pd).context, &*attr) };
    if attr.qp_type != IBV_QPT_RAW_PACKET || has_fault("no-raw-packets") {
        return refused(libc::EOPNOTSUPP);
    }
    let cap = attr.cap;
    let requests = cap.max_send_wr.max(cap.max_recv_wr);
    if requests > REQUESTS_MAX || cap.max_inline_data > INLINE_MAX {
        return refused(libc::EINVAL);
    }
    // SAFETY: zeroes are a pair that nobody uses.
    let mut qp: ibv_qp = unsafe { mem::zeroed() };
    (qp.context, qp.pd, qp.qp_type) = (context, pd, attr.qp_type);
    (qp.send_cq, qp.recv_cq) = (attr.send_cq, attr.recv_cq);
    // SAFETY: as above.
    let mut state = unsafe { inner(context) }.state();
    qp.qp_num = state.number();
    let pair = Pair::new(cap, attr.send_cq as usize, attr.recv_cq as usize);
    state.pairs.insert(qp.qp_num, pair);
    allocated(qp)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the program's promise.
    let (qp, attr) = unsafe { (&mut *qp, &*attr) };
    let is_next = mask & IBV_QP_STATE != 0 && attr.qp_state == qp.state + 1;
    let has_port = qp.state > 0 || mask & IBV_QP_PORT != 0 && attr.port_num == 1;
    if !is_next || !has_port {
        return libc::EINVAL;
    }
    qp.state = attr.qp_state;
    // SAFETY: its context is live.
    let mut state = unsafe { inner(qp.context) }.state();
    match state.pairs.get_mut(&qp.qp_num) {
        Some(pair) => pair.state = attr.qp_state,
        None => violation("a queue pair that there is not"),
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: it comes from `ibv_create_qp`.
    let qp = unsafe { Box::from_raw(qp) };
    // SAFETY: its context is live.
    let mut state = unsafe { inner(qp.context) }.state();
    if state.flows.has_any_of(qp.qp_num) {
        violation("a queue pair is destroyed that has flow rules");
    }
    state.pairs.remove(&qp.qp_num);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(_status: u32) -> *const c_char {
    c"a status".as_ptr()
}
