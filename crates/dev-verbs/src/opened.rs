//! An open device with one queue pair. What the provider has made of it lives as long as the
//! process: the kernel closes it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::FramePool;
use rdma_core_sys::{
    IBV_ACCESS_LOCAL_WRITE, IBV_QP_PORT, IBV_QP_STATE, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
    IBV_QPT_RAW_PACKET, Mlx5, Verbs, ibv_comp_channel, ibv_context, ibv_cq, ibv_device_attr,
    ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, req_notify_cq,
};

use crate::clock::Clock;
use crate::device::QueueSizes;
use crate::find::Found;
use crate::mlx5;

/// What failed, and the system's word.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: &'static str,
    pub(crate) error: io::Error,
}

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

/// What a device has opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) verbs: &'static Verbs,
    pub(crate) context: *mut ibv_context,
    pub(crate) qp: *mut ibv_qp,
    pub(crate) receive_cq: *mut ibv_cq,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) frames: Registered,
    /// Where its queues lie, if the library may use them without the provider.
    pub(crate) memory: Option<mlx5::Memory>,
    /// What stamps completions.
    pub(crate) clock: Option<Clock>,
    pub(crate) port: u8,
    pub(crate) sizes: QueueSizes,
    /// Commands to the kernel, and events of the device.
    commands: [Arc<OwnDescriptor>; 2],
    /// Events of the receiving completion queue.
    pub(crate) events: Arc<OwnDescriptor>,
}

// SAFETY: the provider's objects may be used by any thread; who uses a queue has its lock.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

fn made<T>(what: &'static str, pointer: *mut T) -> Result<*mut T, Failure> {
    match pointer.is_null() {
        false => Ok(pointer),
        true => Err(Failure {
            what,
            error: io::Error::last_os_error(),
        }),
    }
}

fn done(what: &'static str, errno: i32) -> Result<(), Failure> {
    match errno {
        0 => Ok(()),
        errno => Err(Failure {
            what,
            error: io::Error::from_raw_os_error(errno.abs()),
        }),
    }
}

/// Takes a descriptor out of the program's way.
///
/// # Safety
/// Whoever uses it looks for its number at this place.
unsafe fn own(number: &mut RawFd) -> Arc<OwnDescriptor> {
    // SAFETY: open, and nobody else closes it: devices are not closed.
    let fd = unsafe { OwnedFd::from_raw_fd(*number) };
    let own = OwnDescriptor::new(fd);
    *number = own.as_raw_fd();
    Arc::new(own)
}

impl Opened {
    /// Opens a device, registers the pool's memory, and makes a queue pair that can send and
    /// receive. What was made of it before a failure is given back.
    pub(crate) fn open(
        verbs: &'static Verbs,
        mlx5: Option<&'static Mlx5>,
        found: &Found,
        pool: &FramePool,
        asked: QueueSizes,
    ) -> Result<Self, Failure> {
        // SAFETY: the device's list is there.
        let context = unsafe { (verbs.ibv_open_device)(found.device) };
        let context = made("the device cannot be opened", context)?;
        Self::make(verbs, mlx5, context, found.port, pool, asked).inspect_err(|_| {
            // SAFETY: nothing of it is used any more. With it goes what was made: what lives in the
            // kernel ends with its descriptor.
            unsafe { (verbs.ibv_close_device)(context) };
        })
    }

    fn make(
        verbs: &'static Verbs,
        mlx5: Option<&'static Mlx5>,
        context: *mut ibv_context,
        port: u8,
        pool: &FramePool,
        asked: QueueSizes,
    ) -> Result<Self, Failure> {
        let sizes = asked.within(&limits(verbs, context)?);
        // SAFETY: the context is live.
        let pd = made("no protection domain", unsafe {
            (verbs.ibv_alloc_pd)(context)
        })?;
        let frames = register(verbs, pd, pool)?;
        // SAFETY: the context is live.
        let channel = made("no completion channel", unsafe {
            (verbs.ibv_create_comp_channel)(context)
        })?;
        let queue = |entries: u32, channel| {
            let entries = entries as i32;
            // SAFETY: the context and the channel are live; the program's word for it is none.
            let cq = unsafe {
                (verbs.ibv_create_cq)(context, entries, std::ptr::null_mut(), channel, 0)
            };
            made("no completion queue", cq)
        };
        let receive_cq = queue(sizes.receive, channel)?;
        let send_cq = queue(sizes.send, std::ptr::null_mut())?;
        let (qp, sizes) = make_pair(verbs, pd, [send_cq, receive_cq], sizes)?;
        bring_up(verbs, qp, port)?;
        let memory = mlx5.and_then(|mlx5| mlx5::Memory::of(mlx5, qp, [send_cq, receive_cq]));
        let clock = mlx5.and_then(|mlx5| Clock::of(mlx5, context));
        // SAFETY: the queue is live.
        done("the completion queue raises no events", unsafe {
            req_notify_cq(receive_cq)
        })?;
        // SAFETY: live, and read whenever they are used; see `refresh_numbers`.
        let (command, event) = unsafe { (&mut (*context).cmd_fd, &mut (*context).async_fd) };
        // SAFETY: as above.
        let commands = unsafe { [own(command), own(event)] };
        // SAFETY: as above.
        let events = unsafe { own(&mut (*channel).fd) };
        // Who looks for events does not wait for them.
        for descriptor in [&events, &commands[1]] {
            // SAFETY: sets a flag of an open descriptor.
            unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        Ok(Self {
            verbs,
            context,
            qp,
            receive_cq,
            send_cq,
            channel,
            frames,
            clock: clock.filter(|_| memory.is_some()),
            memory,
            port,
            sizes,
            commands,
            events,
        })
    }

    /// To be called before commands to the kernel: a program may have taken a number. Under the
    /// lock of whoever gives commands.
    pub(crate) fn refresh_numbers(&self) {
        let [command, event] = [0, 1].map(|index: usize| self.commands[index].as_raw_fd());
        // SAFETY: the context is live, and the caller alone uses it for commands.
        unsafe { (*self.context).cmd_fd = command };
        // SAFETY: as above.
        unsafe { (*self.context).async_fd = event };
    }

    /// The same of the completion channel, under the lock of who receives.
    pub(crate) fn refresh_channel(&self) {
        // SAFETY: the channel is live, and the caller alone uses it.
        unsafe { (*self.channel).fd = self.events.as_raw_fd() };
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

/// A queue pair, and the sizes that it has.
fn make_pair(
    verbs: &Verbs,
    pd: *mut ibv_pd,
    [send_cq, receive_cq]: [*mut ibv_cq; 2],
    sizes: QueueSizes,
) -> Result<(*mut ibv_qp, QueueSizes), Failure> {
    let mut attributes = ibv_qp_init_attr {
        qp_context: std::ptr::null_mut(),
        send_cq,
        recv_cq: receive_cq,
        srq: std::ptr::null_mut(),
        cap: ibv_qp_cap {
            max_send_wr: sizes.send,
            max_recv_wr: sizes.receive,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: sizes.inline_max,
        },
        qp_type: IBV_QPT_RAW_PACKET,
        sq_sig_all: 0,
    };
    // SAFETY: the domain and the queues are live.
    let mut qp = unsafe { (verbs.ibv_create_qp)(pd, &raw mut attributes) };
    if qp.is_null() && sizes.inline_max > 0 {
        // The device may know less inline data than was asked for, or none.
        attributes.cap.max_inline_data = 0;
        // SAFETY: as above.
        qp = unsafe { (verbs.ibv_create_qp)(pd, &raw mut attributes) };
    }
    let qp = made("no queue pair of raw packets", qp)?;
    let sizes = QueueSizes {
        inline_max: sizes.inline_max.min(attributes.cap.max_inline_data),
        ..sizes
    };
    Ok((qp, sizes))
}

fn bring_up(verbs: &Verbs, qp: *mut ibv_qp, port: u8) -> Result<(), Failure> {
    for state in [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS] {
        let mut attributes = ibv_qp_attr {
            qp_state: state,
            port_num: port,
            ..ibv_qp_attr::default()
        };
        let port = if state == IBV_QPS_INIT {
            IBV_QP_PORT
        } else {
            0
        };
        // SAFETY: the queue pair is live.
        let failed = unsafe { (verbs.ibv_modify_qp)(qp, &raw mut attributes, IBV_QP_STATE | port) };
        done("the queue pair does not begin", failed)?;
    }
    Ok(())
}
