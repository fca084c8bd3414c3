//! The devices, and what an open one has.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use libc::c_char;
use rdma_core_sys::{IBV_EVENT_DEVICE_FATAL, ibv_context, ibv_device, verbs_context};

use crate::flows::Flows;
use crate::queues::{self, Completions, Pair};
use crate::steal::Steal;
use crate::wire::Wire;
use crate::{calls, flows, mlx5, sys};

/// Where the files are that say whose devices are: as `/sys/class/infiniband`.
const SYSFS: &str = "EMULATED_VERBS_SYSFS";
/// What the device cannot.
const FAULT: &str = "EMULATED_VERBS_FAULT";

const FATAL_AFTER: u64 = 5;

/// Whether the device is to have a fault.
pub(crate) fn has_fault(name: &str) -> bool {
    std::env::var(FAULT).is_ok_and(|fault| fault == name)
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Device {
    device: ibv_device,
    interface: String,
}

fn fill(to: &mut [c_char], text: &str) {
    let room = to.len() - 1;
    for (to, from) in to[..room].iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
}

fn make_device(root: &Path, interface: String) -> io::Result<Device> {
    let name = format!("emu_{interface}");
    let path = root.join(&name);
    fs::create_dir_all(path.join("device/net").join(&interface))?;
    // SAFETY: zeroes are a device without functions, names and paths.
    let mut device: ibv_device = unsafe { mem::zeroed() };
    (device.node_type, device.transport_type) = (1, 0);
    fill(&mut device.name, &name);
    fill(&mut device.ibdev_path, &path.to_string_lossy());
    Ok(Device { device, interface })
}

/// Whether an interface lies over others: then those are devices.
fn is_upper(name: &str) -> bool {
    let entries = fs::read_dir(format!("/sys/class/net/{name}"))
        .into_iter()
        .flatten();
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.any(|name| name.starts_with("lower_"))
}

/// The Ethernet interfaces of the network namespace that lie over no other, each a device.
pub(crate) fn devices() -> &'static [Device] {
    static ALL: OnceLock<Vec<Device>> = OnceLock::new();
    ALL.get_or_init(|| {
        let Some(root) = std::env::var_os(SYSFS).map(PathBuf::from) else {
            return Vec::new();
        };
        let entries = fs::read_dir("/sys/class/net").into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_ethernet = |name: &String| {
            let kind = fs::read_to_string(format!("/sys/class/net/{name}/type"));
            kind.is_ok_and(|kind| kind.trim() == "1") && !is_upper(name)
        };
        let made = names
            .filter(is_ethernet)
            .map(|name| make_device(&root, name));
        made.filter_map(Result::ok).collect()
    })
}

/// What a device shares with its threads.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) wire: Wire,
    pub(crate) steal: Steal,
    state: Mutex<State>,
    pub(crate) is_closed: AtomicBool,
    /// Where its events are told.
    events: i32,
}

/// Memory that the device may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) address: u64,
    pub(crate) len: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) last_number: u32,
    /// By key.
    pub(crate) regions: HashMap<u32, Region>,
    /// By number.
    pub(crate) pairs: HashMap<u32, Pair>,
    /// By the address that the program knows them by.
    pub(crate) completions: HashMap<usize, Completions>,
    pub(crate) flows: Flows,
    /// Frames that were sent.
    pub(crate) sent: u64,
    /// It takes requests still, and does nothing.
    pub(crate) is_dead: bool,
}

impl State {
    pub(crate) fn number(&mut self) -> u32 {
        self.last_number += 1;
        self.last_number
    }
}

impl Inner {
    /// The fault "fatal": after a few frames.
    pub(crate) fn fail_after_frames(&self) {
        let mut state = self.state();
        state.sent += 1;
        if state.sent == FATAL_AFTER && has_fault("fatal") {
            state.is_dead = true;
            let State { flows, .. } = &mut *state;
            flows.clear(&self.steal);
            let event = u64::from(IBV_EVENT_DEVICE_FATAL);
            sys::write(self.events, &event.to_ne_bytes());
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[repr(C)]
pub(crate) struct Context {
    extended: verbs_context,
    pub(crate) inner: Arc<Inner>,
}

/// What stands around a context that the program has.
///
/// # Safety
/// `context` comes from [`open`].
pub(crate) unsafe fn inner<'a>(context: *mut ibv_context) -> &'a Arc<Inner> {
    let outer = context.wrapping_byte_sub(mem::offset_of!(verbs_context, context));
    // SAFETY: the extended context is the first field of ours.
    unsafe { &(*outer.cast::<Context>()).inner }
}

/// Descriptors that a forked child closes: else a parent's rules outlive it.
static OF_PARENT: Mutex<Vec<i32>> = Mutex::new(Vec::new());

extern "C" fn child_begins() {
    if let Ok(descriptors) = OF_PARENT.try_lock() {
        descriptors.iter().for_each(|fd| sys::close(*fd));
    }
}

/// Opens a device, whose wire begins to be listened to.
///
/// # Safety
/// `device` is one of [`devices`].
pub(crate) unsafe fn open(device: *mut ibv_device) -> io::Result<*mut ibv_context> {
    // SAFETY: the caller's promise.
    let known = unsafe { &*device.cast::<Device>() };
    let name = CString::new(known.interface.as_str())?;
    // SAFETY: a text that ends with a zero byte.
    let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let inner = Arc::new(Inner {
        wire: Wire::open(ifindex)?,
        steal: Steal::begin(ifindex)?,
        state: Mutex::default(),
        is_closed: AtomicBool::new(false),
        events: sys::event(libc::EFD_NONBLOCK)?,
    });
    // SAFETY: zeroes are a context without functions.
    let mut extended: verbs_context = unsafe { mem::zeroed() };
    extended.sz = size_of::<verbs_context>();
    extended.query_device_ex = Some(calls::query_device_ex);
    extended.query_rt_values = Some(mlx5::query_rt_values);
    extended.ibv_create_flow = Some(flows::create);
    extended.ibv_destroy_flow = Some(flows::destroy);
    let context = &mut extended.context;
    context.device = device;
    context.abi_compat = usize::MAX as *mut libc::c_void;
    context.num_comp_vectors = 1;
    context.cmd_fd = sys::event(0)?;
    // The program may give it another number.
    let events = libc::c_long::from(inner.events);
    context.async_fd = sys::copy(events)?;
    context.ops.poll_cq = Some(queues::poll_cq);
    context.ops.req_notify_cq = Some(queues::req_notify_cq);
    context.ops.post_send = Some(queues::post_send);
    context.ops.post_recv = Some(queues::post_recv);
    let mut of_parent = OF_PARENT.lock().unwrap_or_else(PoisonError::into_inner);
    if of_parent.is_empty() {
        // SAFETY: the handler closes descriptors, nothing else.
        unsafe { libc::pthread_atfork(None, None, Some(child_begins)) };
    }
    of_parent.extend(inner.steal.descriptors());
    of_parent.push(inner.wire.descriptor());
    drop(of_parent);
    Wire::listen(&inner);
    let context = Box::into_raw(Box::new(Context { extended, inner }));
    // SAFETY: just made.
    Ok(unsafe { &raw mut (*context).extended.context })
}

/// # Safety
/// `context` comes from [`open`], and is not used any more.
pub(crate) unsafe fn close(context: *mut ibv_context) {
    // SAFETY: the caller's promise.
    let inner = unsafe { inner(context) };
    inner.is_closed.store(true, Ordering::Relaxed);
    // SAFETY: as above.
    let numbers = unsafe { [(*context).cmd_fd, (*context).async_fd] };
    numbers.into_iter().for_each(sys::close);
}
