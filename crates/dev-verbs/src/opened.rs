//! An open device. What the provider has made of it lives as long as the process: the kernel closes
//! it.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use descriptors::OwnDescriptor;
use dev_core::{Carrier, FramePool};
use rdma_core_sys::{
    IBV_ACCESS_LOCAL_WRITE, Mlx5, Verbs, ibv_context, ibv_device_attr, ibv_pd,
    longest_packet_to_cut,
};

use crate::clock::Clock;
use crate::device::QueueSizes;
use crate::find::Found;
use crate::pair::{Failure, Made, Pair, do_not_block, done, made, own};
use crate::tag::Tag;

/// The pool's frames, as the device knows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    base: u64,
    pub(crate) lkey: u32,
}

impl Registered {
    #[cfg(test)]
    pub(crate) fn at(base: u64, lkey: u32) -> Self {
        Self { base, lkey }
    }

    /// Where what is so many bytes from the start of the pool lies in memory.
    #[inline]
    pub(crate) fn address(&self, offset: u64) -> u64 {
        self.base + offset
    }
}

/// A device while it is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Making {
    pub(crate) verbs: &'static Verbs,
    pub(crate) mlx5: Option<&'static Mlx5>,
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) port: u8,
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) verbs: &'static Verbs,
    pub(crate) context: *mut ibv_context,
    pub(crate) port: u8,
    pub(crate) frames: Registered,
    /// What stamps completions.
    pub(crate) clock: Option<Clock>,
    /// The longest packet that it cuts, in bytes; 0: it does not.
    pub(crate) cuts_bytes: u32,
    /// Of the VLAN that it is used for.
    pub(crate) tag: Option<Tag>,
    /// The interfaces whose device it is.
    carriers: Vec<String>,
    /// Whether packets are sent and taken by it now.
    is_active: AtomicBool,
    /// Commands to the kernel, and events of the device.
    commands: [Arc<OwnDescriptor>; 2],
}

// SAFETY: the provider's objects may be used by any thread; commands are given under a lock.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What a device is opened for.
#[derive(Debug)]
pub(crate) struct Purpose<'a> {
    pub(crate) pool: &'a FramePool,
    pub(crate) sizes: QueueSizes,
    /// Queue pairs that there is a use for.
    pub(crate) pairs: usize,
    pub(crate) tag: Option<Tag>,
    pub(crate) carriers: Vec<String>,
}

/// Opens a device, registers the pool's memory, and makes queue pairs: one at least. What was made
/// of it before a failure is given back.
pub(crate) fn open(
    verbs: &'static Verbs,
    mlx5: Option<&'static Mlx5>,
    found: &Found,
    purpose: &Purpose<'_>,
) -> Result<Vec<Arc<Pair>>, Failure> {
    // SAFETY: the device's list is there.
    let context = unsafe { (verbs.ibv_open_device)(found.device) };
    let context = made("the device cannot be opened", context)?;
    make(verbs, mlx5, context, found, purpose).inspect_err(|_| {
        // SAFETY: nothing of it is used any more. With it goes what was made: what lives in the
        // kernel ends with its descriptor.
        unsafe { (verbs.ibv_close_device)(context) };
    })
}

fn make(
    verbs: &'static Verbs,
    mlx5: Option<&'static Mlx5>,
    context: *mut ibv_context,
    found: &Found,
    purpose: &Purpose<'_>,
) -> Result<Vec<Arc<Pair>>, Failure> {
    let sizes = purpose.sizes.within(&limits(verbs, context)?);
    // SAFETY: the context is live.
    let pd = made("no protection domain", unsafe {
        (verbs.ibv_alloc_pd)(context)
    })?;
    let frames = register(verbs, pd, purpose.pool)?;
    let making = Making {
        verbs,
        mlx5,
        context,
        pd,
        port: found.port,
    };
    let first = Made::make(&making, sizes)?;
    // The device may have room for fewer.
    let more = (1..purpose.pairs).map_while(|_| Made::make(&making, sizes).ok());
    let all: Vec<_> = [first].into_iter().chain(more).collect();
    // SAFETY: live, and read whenever they are used; see `refresh_numbers`.
    let (command, event) = unsafe { (&mut (*context).cmd_fd, &mut (*context).async_fd) };
    // SAFETY: as above.
    let commands = unsafe { [own(command), own(event)] };
    do_not_block(&commands[1]);
    let device = Arc::new(Device {
        name: found.name.clone(),
        verbs,
        context,
        port: found.port,
        frames,
        clock: mlx5.and_then(|mlx5| Clock::of(mlx5, context)),
        // SAFETY: the context is live.
        cuts_bytes: unsafe { longest_packet_to_cut(context) },
        tag: purpose.tag,
        carriers: purpose.carriers.clone(),
        is_active: AtomicBool::new(true),
        commands,
    });
    let pair = |it| Arc::new(Pair::new(&device, it));
    Ok(all.into_iter().map(pair).collect())
}

impl Device {
    /// To be called before commands to the kernel: a program may have taken a number. Under the
    /// lock of whoever gives commands.
    pub(crate) fn refresh_numbers(&self) {
        let [command, event] = [0, 1].map(|index: usize| self.commands[index].as_raw_fd());
        // SAFETY: the context is live, and the caller alone uses it for commands.
        unsafe { (*self.context).cmd_fd = command };
        // SAFETY: as above.
        unsafe { (*self.context).async_fd = event };
    }

    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    pub(crate) fn follow(&self, carriers: &[Carrier]) {
        let is_active = |it: &Carrier| it.is_active && self.carriers.contains(&it.name);
        let is_active = carriers.iter().any(is_active);
        if self.is_active.swap(is_active, Ordering::Relaxed) != is_active {
            let does = if is_active { "carries" } else { "waits" };
            log::info!(
                "RDMA device {} ({}) {does}",
                self.name,
                self.carriers.join(", ")
            );
        }
    }
}

fn limits(verbs: &Verbs, context: *mut ibv_context) -> Result<ibv_device_attr, Failure> {
    // SAFETY: zeroes are numbers.
    let mut attributes: ibv_device_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the context is live.
    let failed = unsafe { (verbs.ibv_query_device)(context, &raw mut attributes) };
    done("the device does not say what it can", failed)?;
    Ok(attributes)
}

/// All of the pool's memory, once.
fn register(verbs: &Verbs, pd: *mut ibv_pd, pool: &FramePool) -> Result<Registered, Failure> {
    let memory = pool.memory();
    memory.populate();
    let (base, len) = (memory.base().as_ptr(), memory.len_bytes());
    // SAFETY: the pool's memory is mapped for as long as the process lives.
    let region = unsafe { (verbs.ibv_reg_mr)(pd, base.cast(), len, IBV_ACCESS_LOCAL_WRITE) };
    let region = made("the memory of the frames cannot be registered", region)?;
    // SAFETY: just made.
    let lkey = unsafe { (*region).lkey };
    let base = base as u64;
    Ok(Registered { base, lkey })
}
