//! A queue pair that sends and receives raw packets, with its completion queues.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use descriptors::OwnDescriptor;
use rdma_core_sys::{
    IBV_QP_PORT, IBV_QP_STATE, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_RAW_PACKET,
    ibv_comp_channel, ibv_cq, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, req_notify_cq,
};

use crate::clock::Clock;
use crate::device::QueueSizes;
use crate::mlx5;
use crate::opened::{Device, Making};

/// What failed, and the system's word.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: &'static str,
    pub(crate) error: io::Error,
}

/// What the provider has made. It lives as long as the process: the kernel ends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    qp: *mut ibv_qp,
    receive_cq: *mut ibv_cq,
    send_cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    memory: Option<mlx5::Memory>,
    sizes: QueueSizes,
}

/// A queue pair of an open device.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) device: Arc<Device>,
    pub(crate) qp: *mut ibv_qp,
    pub(crate) receive_cq: *mut ibv_cq,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) channel: *mut ibv_comp_channel,
    /// Where its queues lie, if the library may use them without the provider.
    pub(crate) memory: Option<mlx5::Memory>,
    pub(crate) sizes: QueueSizes,
    /// Events of the receiving completion queue.
    pub(crate) events: Arc<OwnDescriptor>,
}

// SAFETY: the provider's objects may be used by any thread; who uses a queue has its lock.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

pub(crate) fn made<T>(what: &'static str, pointer: *mut T) -> Result<*mut T, Failure> {
    match pointer.is_null() {
        false => Ok(pointer),
        true => Err(Failure {
            what,
            error: io::Error::last_os_error(),
        }),
    }
}

pub(crate) fn done(what: &'static str, errno: i32) -> Result<(), Failure> {
    match errno {
        0 => Ok(()),
        errno => Err(Failure {
            what,
            error: io::Error::from_raw_os_error(errno.abs()),
        }),
    }
}

/// Takes a descriptor out of the program's way. Who looks for events does not wait for them.
///
/// # Safety
/// Whoever uses it looks for its number at this place.
pub(crate) unsafe fn own(number: &mut RawFd) -> Arc<OwnDescriptor> {
    // SAFETY: open, and nobody else closes it: devices are not closed.
    let fd = unsafe { OwnedFd::from_raw_fd(*number) };
    let own = OwnDescriptor::new(fd);
    *number = own.as_raw_fd();
    Arc::new(own)
}

pub(crate) fn do_not_block(descriptor: &OwnDescriptor) {
    // SAFETY: sets a flag of an open descriptor.
    unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
}

impl Made {
    /// Makes a queue pair that can send and receive.
    pub(crate) fn make(making: &Making, sizes: QueueSizes) -> Result<Self, Failure> {
        let Making { verbs, context, .. } = *making;
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
        let (qp, sizes) = make_pair(making, [send_cq, receive_cq], sizes)?;
        bring_up(making, qp)?;
        let cqs = [send_cq, receive_cq];
        let memory = making.mlx5.and_then(|mlx5| mlx5::Memory::of(mlx5, qp, cqs));
        // SAFETY: the queue is live.
        done("the completion queue raises no events", unsafe {
            req_notify_cq(receive_cq)
        })?;
        Ok(Self {
            qp,
            receive_cq,
            send_cq,
            channel,
            memory,
            sizes,
        })
    }
}

impl Pair {
    pub(crate) fn new(device: &Arc<Device>, it: Made) -> Self {
        // SAFETY: live, and the number is read whenever it is used; see `refresh_channel`.
        let events = unsafe { own(&mut (*it.channel).fd) };
        do_not_block(&events);
        Self {
            device: Arc::clone(device),
            qp: it.qp,
            receive_cq: it.receive_cq,
            send_cq: it.send_cq,
            channel: it.channel,
            memory: it.memory,
            sizes: it.sizes,
            events,
        }
    }

    /// To be called before the channel is used: a program may have taken its number. Under the lock
    /// of who receives.
    pub(crate) fn refresh_channel(&self) {
        // SAFETY: the channel is live, and the caller alone uses it.
        unsafe { (*self.channel).fd = self.events.as_raw_fd() };
    }

    /// What stamps its completions, if anything does.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.device.clock.as_ref().filter(|_| self.memory.is_some())
    }
}

/// A queue pair, and the sizes that it has.
fn make_pair(
    making: &Making,
    [send_cq, receive_cq]: [*mut ibv_cq; 2],
    sizes: QueueSizes,
) -> Result<(*mut ibv_qp, QueueSizes), Failure> {
    let Making { verbs, pd, .. } = *making;
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

fn bring_up(making: &Making, qp: *mut ibv_qp) -> Result<(), Failure> {
    let Making { verbs, port, .. } = *making;
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
