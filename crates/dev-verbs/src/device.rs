//! Opens an interface's RDMA device.

use std::sync::{Arc, OnceLock};

use dev_core::{Backend, FramePool, LinkSpec, Merging, OpenError, Port, ReceivingSide, RingsMax};
use rdma_core_sys::{Mlx5, Verbs, ibv_device_attr};

use crate::completions::{Completions, VerbsWatch};
use crate::find::{has_any, with_devices_of};
use crate::opened::{Purpose, open};
use crate::pair::{Failure, Pair};
use crate::receive::VerbsRx;
use crate::receive_queue::FRONT_BYTES;
use crate::segmenter::VerbsSegmenter;
use crate::send::{SendQueue, VerbsKick, VerbsTx};
use crate::steering::VerbsSteering;
use crate::tag::Tag;

/// What is in front of an IP packet: addresses, type, and perhaps a tag.
const LINK_BYTES: u32 = 18;
/// Rings of each direction that an interface has at most: each receives into frames of its own.
const RINGS_MAX: u32 = 8;

/// How large the queues are.
#[derive(Clone, Copy, Debug)]
pub struct QueueSizes {
    /// Frames that wait for packets, at most.
    pub receive: u32,
    /// Frames that are collected before they are given to the device.
    pub receive_batch: u32,
    /// Frames on their way out, at most.
    pub send: u32,
    /// Frames after which the device says that they are gone.
    pub send_batch: u32,
    /// Bytes of the longest frame that is copied into the send queue.
    pub inline_max: u32,
    /// Whether a request may be written to the device as a whole.
    pub blueflame: bool,
}

impl QueueSizes {
    /// What a device can of it.
    pub(crate) fn within(self, limits: &ibv_device_attr) -> Self {
        let known = |limit: i32| u32::try_from(limit).ok().filter(|limit| *limit > 0);
        let most = known(limits.max_qp_wr).unwrap_or(u32::MAX);
        let most = most.min(known(limits.max_cqe).unwrap_or(u32::MAX));
        let receive = self.receive.clamp(16, most.max(16));
        let send = self.send.clamp(16, most.max(16));
        Self {
            receive,
            receive_batch: self.receive_batch.clamp(1, receive / 2),
            send,
            send_batch: self.send_batch.clamp(1, send / 2),
            ..self
        }
    }
}

/// The verbs back-end.
#[derive(Debug)]
pub struct VerbsBackend {
    sizes: QueueSizes,
    prepares_fork: bool,
    library: OnceLock<Option<Libraries>>,
}

/// What rdma-core has.
#[derive(Debug)]
struct Libraries {
    verbs: Verbs,
    mlx5: Option<Mlx5>,
}

impl VerbsBackend {
    /// A back-end with queues of this size. `prepares_fork`: the verbs library keeps what it shares
    /// with devices out of forked children.
    pub fn new(sizes: QueueSizes, prepares_fork: bool) -> Self {
        Self {
            sizes,
            prepares_fork,
            library: OnceLock::new(),
        }
    }

    /// Whether it is worth while to try: the kernel knows an RDMA device.
    pub fn has_devices(&self) -> bool {
        has_any()
    }

    fn library(&self) -> Option<&Libraries> {
        let load = || {
            let verbs = Verbs::load()
                .inspect_err(|missing| log::debug!("no RDMA devices: {missing}"))
                .ok()?;
            if self.prepares_fork {
                // Recent kernels need no preparation, and say so.
                // SAFETY: no device is open.
                unsafe { (verbs.ibv_fork_init)() };
            }
            let mlx5 = Mlx5::load()
                .inspect_err(|missing| log::debug!("no queues of mlx5: {missing}"))
                .ok();
            Some(Libraries { verbs, mlx5 })
        };
        self.library.get_or_init(load).as_ref()
    }
}

/// The largest IP packet in bytes that a frame holds.
fn mtu_max(pool: &FramePool) -> u32 {
    u32::from(pool.frame_bytes()) - FRONT_BYTES - LINK_BYTES
}

fn without(what: String, remedy: &'static str) -> OpenError {
    OpenError {
        what,
        remedy,
        locked_memory: false,
        held: false,
    }
}

fn failed(name: &str, failure: &Failure) -> OpenError {
    let Failure { what, error } = failure;
    let refused = error.raw_os_error();
    OpenError {
        what: format!("RDMA device {name}: {what}: {error}"),
        remedy: match refused {
            Some(libc::ENOMEM) => "raise the limit of locked memory (ulimit -l)",
            Some(libc::EPERM) => "give the program CAP_NET_RAW",
            _ => "VMA_DEVICE=xdp takes AF_XDP instead",
        },
        locked_memory: refused == Some(libc::ENOMEM),
        held: false,
    }
}

impl Backend for VerbsBackend {
    type Rx = VerbsRx;
    type Watch = VerbsWatch;
    type Tx = VerbsTx;
    type Kick = VerbsKick;
    type Steering = VerbsSteering;
    type Segmenter = VerbsSegmenter;

    fn open(
        &self,
        link: &LinkSpec,
        pool: &'static FramePool,
        rings: RingsMax,
    ) -> Result<Port<Self>, OpenError> {
        if link.mtu > mtu_max(pool) {
            // A longer packet of a flow would have no room, and the kernel has none of a flow.
            return Err(without(
                format!("its MTU is above {}", mtu_max(pool)),
                "lower the MTU, or VMA_DEVICE=xdp",
            ));
        }
        let libraries = self.library().ok_or_else(|| {
            without(
                "there is no libibverbs.so.1".to_owned(),
                "install libibverbs1, or VMA_DEVICE=xdp",
            )
        })?;
        // SAFETY: the back-end lives as long as the process: see `Links`.
        let libraries: &'static Libraries = unsafe { &*std::ptr::from_ref(libraries) };
        let rings = rings_of(rings);
        let by_device = by_device(libraries, link, &|carriers, tag| Purpose {
            pool,
            sizes: self.sizes,
            pairs: rings.senders.max(rings.receivers) as usize,
            tag,
            carriers,
        })?;
        if let Some(upper) = &link.upper {
            for pair in by_device.iter().filter_map(|pairs| pairs.first()) {
                pair.device.follow(&upper.carriers);
            }
        }
        let count = by_device.iter().map(Vec::len).min().unwrap_or(0);
        let ring = |index: usize| by_device.iter().map(move |pairs| Arc::clone(&pairs[index]));
        let all: Vec<Box<[_]>> = (0..count).map(|index| ring(index).collect()).collect();
        port(&all, rings, link, pool)
    }
}

fn rings_of(asked: RingsMax) -> RingsMax {
    RingsMax {
        senders: asked.senders.clamp(1, RINGS_MAX),
        receivers: asked.receivers.clamp(1, RINGS_MAX),
    }
}

/// Opens the devices that carry an interface's packets.
fn by_device<'a>(
    libraries: &'static Libraries,
    link: &LinkSpec,
    purpose: &dyn Fn(Vec<String>, Option<Tag>) -> Purpose<'a>,
) -> Result<Vec<Vec<Arc<Pair>>>, OpenError> {
    let none = || {
        without(
            "it has no RDMA device".to_owned(),
            "VMA_DEVICE=auto takes AF_XDP then",
        )
    };
    let (tag, names) = match &link.upper {
        None => (None, vec![link.name.clone()]),
        Some(upper) => (
            upper.vlan_id.and_then(Tag::new),
            upper.carriers.iter().map(|it| it.name.clone()).collect(),
        ),
    };
    let verbs = &libraries.verbs;
    let opened = with_devices_of(verbs, &names, |found| {
        // SAFETY: the list of devices is there.
        let is_its = |mlx5: &&Mlx5| unsafe { (mlx5.mlx5dv_is_supported)(found.device) };
        let mlx5 = libraries.mlx5.as_ref().filter(is_its);
        let purpose = purpose(found.interfaces.clone(), tag);
        open(verbs, mlx5, found, &purpose).map_err(|failure| failed(&found.name, &failure))
    });
    match opened {
        Some(devices) if !devices.is_empty() => devices.into_iter().collect(),
        _ => Err(none()),
    }
}

fn port(
    all: &[Box<[Arc<Pair>]>],
    rings: RingsMax,
    link: &LinkSpec,
    pool: &'static FramePool,
) -> Result<Port<VerbsBackend>, OpenError> {
    let receivers = &all[..all.len().min(rings.receivers as usize)];
    let receiving = receivers
        .iter()
        .map(|pairs| receiving_side(pairs, pool, receivers.len()))
        .collect::<Result<Vec<_>, _>>()?;
    let sending = all.iter().take(rings.senders as usize).map(|pairs| {
        let queues = pairs.iter().map(Arc::clone).map(SendQueue::new);
        queues.collect::<Arc<[SendQueue]>>()
    });
    let sending: Vec<_> = sending.collect();
    let segmenter = sending
        .first()
        .and_then(|queues| VerbsSegmenter::new(queues, pool));
    let senders = sending
        .into_iter()
        .map(|queues| (VerbsTx::new(Arc::clone(&queues)), VerbsKick::new(queues)));
    Ok(Port {
        queues: receiving.len() as u32,
        receivers: receiving,
        senders: senders.collect(),
        steering: VerbsSteering::new(receivers.to_vec(), link.mac),
        segmenter,
        partial_checksums: false,
        description: description(&all[0]),
        mtu_max: mtu_max(pool),
        merging: Merging::None,
        note: String::new(),
        set_option: None,
        raw_sockets: Vec::new(),
    })
}

/// How it works, and on which device; of several the first, and how many more.
fn description(pairs: &[Arc<Pair>]) -> String {
    let (first, more) = (&pairs[0], pairs.len() - 1);
    let way = match first.memory {
        Some(_) => "mlx5",
        None => "verbs",
    };
    let more = if more > 0 {
        format!("+{more}")
    } else {
        String::new()
    };
    format!("{way} {}{more}", first.device.name)
}

fn receiving_side(
    pairs: &[Arc<Pair>],
    pool: &FramePool,
    sides: usize,
) -> Result<ReceivingSide<VerbsBackend>, OpenError> {
    let completions = |pair: &Arc<Pair>| {
        let made = Completions::new(Arc::clone(pair)).map_err(|error| {
            let what = "no descriptor for its events";
            failed(&pair.device.name, &Failure { what, error })
        });
        made.map(Arc::new)
    };
    let queues = pairs
        .iter()
        .map(completions)
        .collect::<Result<Box<[_]>, _>>()?;
    let wait_fds = queues
        .iter()
        .flat_map(|queue| [&queue.pair.events, &queue.own_event].map(Arc::clone));
    Ok(ReceivingSide {
        wait_fds: wait_fds.collect(),
        rx: VerbsRx::new(&queues, pool, sides),
        watch: VerbsWatch::new(queues),
        queues: 1,
    })
}
