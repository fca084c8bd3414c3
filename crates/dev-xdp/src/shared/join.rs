//! A process becomes one of those that have an interface.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::{FramePool, LinkSpec, OpenError, Port, ReceivingSide, RingsMax};
use rustix::net::sockopt;
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
};

use super::area::Area;
use super::client::Client;
use super::membership::{Membership, retry};
use super::message::{Answer, BYTES_MAX, Hello, Welcome};
use super::receive::SharedRx;
use super::refill::Refill;
use super::reserved;
use super::send::{Share, SharedTx};
use crate::bpf::link::AttachMode;
use crate::bpf::program::SHARED_QUEUES_MAX;
use crate::device::XdpBackend;
use crate::fds;
use crate::flow_rules::FlowRules;
use crate::frame_space::{HEADROOM_BYTES, mtu_max};
use crate::modes;
use crate::queue::{Consumer, Producer};
use crate::rings::XdpKick;
use crate::rings::sides::{XdpRx, XdpTx};
use crate::segmenter::XdpSegmenter;
use crate::steering::{Queues, XdpSteering};
use crate::table::Table;
use crate::xsk::{self, Mapping};

/// Asks the broker that listens at `path` for an interface of the calling thread's network
/// namespace. `None`: there is no broker.
pub(crate) fn join(
    path: &Path,
    link: &LinkSpec,
    pool: &'static FramePool,
    rings: RingsMax,
    keep: impl FnOnce(&Arc<Membership>),
) -> Option<Result<Port<XdpBackend>, OpenError>> {
    let membership = reserved::take().or_else(|| Membership::connect(path).ok())?;
    Some(
        enter(membership, link, pool, rings, keep).map_err(|what| OpenError {
            what,
            remedy: "see the broker's log, /etc/vma/vmad.conf and docs/broker.md",
            locked_memory: false,
            held: false,
        }),
    )
}

fn enter(
    mut membership: Membership,
    link: &LinkSpec,
    pool: &'static FramePool,
    rings: RingsMax,
    keep: impl FnOnce(&Arc<Membership>),
) -> Result<Port<XdpBackend>, String> {
    let (welcome, fds) = greet(&membership, link, pool)?;
    let parts =
        Parts::of(&welcome, fds).map_err(|error| format!("the broker's answer: {error}"))?;
    membership.keep_area(Arc::clone(&parts.area));
    let membership = Arc::new(membership);
    keep(&membership);
    Ok(parts.into_port(membership, &welcome, link, rings))
}

/// Says hello.
fn greet(
    membership: &Membership,
    link: &LinkSpec,
    pool: &FramePool,
) -> Result<(Welcome, Vec<OwnedFd>), String> {
    let hello = Hello {
        ifindex: link.index,
        frame_bytes: pool.frame_bytes().into(),
    };
    let failed = |error: io::Error| format!("the broker does not answer: {error}");
    let socket = membership.socket().as_fd();
    let namespace = File::open("/proc/thread-self/ns/net").map_err(failed)?;
    fds::send(socket, &hello.encode(), &[namespace.as_fd()]).map_err(failed)?;
    let mut bytes = [0; BYTES_MAX];
    let (len, fds) = retry(|| fds::receive(socket, &mut bytes)).map_err(failed)?;
    match Answer::decode(&bytes[..len]) {
        Some(Answer::Welcome(welcome)) => Ok((welcome, fds)),
        Some(Answer::Refused(why)) => Err(format!("the broker refuses: {why}")),
        None => Err("the broker is of another version".to_owned()),
    }
}

/// What the broker has given, mapped.
struct Parts {
    client: Client,
    area: Arc<Area>,
    queues: Vec<QueueParts>,
    raw_sockets: Vec<OwnDescriptor>,
}

struct QueueParts {
    rx: SharedRxParts,
    tx: SharedTx,
    receiving: Arc<OwnDescriptor>,
    sending: Arc<OwnDescriptor>,
    mappings: [Mapping; 4],
}

type SharedRxParts = (
    Consumer<rustix::net::xdp::XdpDesc>,
    Refill,
    Arc<OwnDescriptor>,
);

impl Parts {
    fn of(welcome: &Welcome, fds: Vec<OwnedFd>) -> io::Result<Self> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let client = Client::new(welcome.place, welcome.generation).ok_or_else(bad)?;
        let queues = (1..=SHARED_QUEUES_MAX).contains(&welcome.queues);
        let entries = welcome.entries;
        let are_sizes = [entries.rx, entries.tx, entries.fill, entries.completion];
        let are_good = are_sizes.iter().all(|it| it.is_power_of_two());
        let sent = welcome.queues.checked_mul(welcome.sent);
        let last = sent.and_then(|sent| sent.checked_add(welcome.first_sent));
        let is_share = last.is_some_and(|last| last <= welcome.shape.tx_frames);
        let count = 1 + 2 * welcome.queues as usize;
        // One or two raw sockets, or none, lie behind.
        if !queues || !are_good || !is_share || !(count..=count + 2).contains(&fds.len()) {
            return Err(bad());
        }
        let mut fds = fds.into_iter();
        let memory = fds.next().ok_or_else(bad)?;
        let area = Arc::new(Area::map(&memory, welcome.shape)?);
        let mut queues = Vec::new();
        for queue in 0..welcome.queues {
            let (Some(receiving), Some(sending)) = (fds.next(), fds.next()) else {
                return Err(bad());
            };
            let share = Share {
                first: welcome.first_sent + queue * welcome.sent,
                count: welcome.sent,
            };
            queues.push(QueueParts::map(
                welcome, &area, client, queue, share, receiving, sending,
            )?);
        }
        Ok(Self {
            client,
            area,
            queues,
            raw_sockets: fds.map(OwnDescriptor::new).collect(),
        })
    }

    fn into_port(
        self,
        membership: Arc<Membership>,
        welcome: &Welcome,
        link: &LinkSpec,
        rings: RingsMax,
    ) -> Port<XdpBackend> {
        let mode = match welcome.is_generic {
            true => AttachMode::Generic,
            false => AttachMode::Native,
        };
        let receivers = welcome.queues.min(rings.receivers).max(1) as usize;
        let senders_max = rings.senders.max(1) as usize;
        let mut sockets = Vec::new();
        let mut mappings = Vec::new();
        let mut receiving = Vec::new();
        let mut senders = Vec::new();
        let mut sides: Vec<_> = (0..receivers).map(|_| Vec::new()).collect();
        for (index, queue) in self.queues.into_iter().enumerate() {
            sockets.extend([Arc::clone(&queue.receiving), Arc::clone(&queue.sending)]);
            receiving.push(queue.receiving);
            mappings.extend(queue.mappings);
            if senders.len() < senders_max {
                senders.push((XdpTx::Shared(queue.tx), XdpKick::new(queue.sending)));
            }
            sides[index % receivers].push(queue.rx);
        }
        let (area, client) = (self.area, self.client);
        let receiver = |queues: Vec<SharedRxParts>| {
            let count = queues.len() as u32;
            let rx = XdpRx::Shared(SharedRx::new(queues, Arc::clone(&area), client));
            ReceivingSide {
                watch: rx.watch(),
                wait_fds: rx.wait_fds(),
                queues: count,
                rx,
            }
        };
        // With the process's own rights: who may open one needs no broker for that.
        let segmenter = modes::segmenter(link, mode).unwrap_or(None);
        let slow_to_close = segmenter.as_ref().map(XdpSegmenter::descriptor);
        Port {
            receivers: sides.into_iter().map(receiver).collect(),
            senders,
            steering: XdpSteering::new(
                Table::Shared(Arc::clone(&membership)),
                receiving,
                slow_to_close.into_iter().collect(),
                Queues {
                    sockets,
                    rings: mappings,
                },
                FlowRules::none(),
            ),
            segmenter,
            partial_checksums: welcome.partial_checksums,
            description: format!("xdp {} shared", mode.text()),
            mtu_max: mtu_max(welcome.shape.frame_bytes - HEADROOM_BYTES),
            merging: modes::merging(mode, welcome.in_pieces),
            note: welcome.note.clone(),
            queues: welcome.queues,
            raw_sockets: self.raw_sockets,
            set_option: Some(Box::new(move |fd, name, value| {
                membership.set_option(fd, name, value)
            })),
        }
    }
}

impl QueueParts {
    fn map(
        welcome: &Welcome,
        area: &Arc<Area>,
        client: Client,
        queue: u32,
        share: Share,
        receiving: OwnedFd,
        sending: OwnedFd,
    ) -> io::Result<Self> {
        let entries = welcome.entries;
        let receiving = Arc::new(OwnDescriptor::new(receiving));
        let sending = Arc::new(OwnDescriptor::new(sending));
        let offsets = sockopt::xdp_mmap_offsets(&receiving)?;
        let (rx, rx_at) = xsk::map(&receiving, XDP_PGOFF_RX_RING, &offsets.rx, entries.rx)?;
        let at = XDP_UMEM_PGOFF_FILL_RING;
        let (fill, fill_at) = xsk::map(&receiving, at, &offsets.fr, entries.fill)?;
        let at = XDP_UMEM_PGOFF_COMPLETION_RING;
        let (completion, completion_at) =
            xsk::map(&receiving, at, &offsets.cr, entries.completion)?;
        let (tx, tx_at) = xsk::map(&sending, XDP_PGOFF_TX_RING, &offsets.tx, entries.tx)?;
        // SAFETY: the rings were just mapped and stay so for good. The RX ring is this process's.
        let rx = unsafe { Consumer::new(rx) };
        // SAFETY: as above; who has the area's lock is the only one at this end.
        let fill = unsafe { Producer::new(fill) };
        // SAFETY: as above.
        let completion = unsafe { Consumer::new(completion) };
        // SAFETY: the TX ring is this process's.
        let tx = unsafe { Producer::new(tx) };
        let refill = Refill::new(fill, queue);
        Ok(Self {
            rx: (rx, refill, Arc::clone(&receiving)),
            tx: SharedTx::new(tx, completion, Arc::clone(area), client, share),
            receiving,
            sending,
            mappings: [rx_at, fill_at, completion_at, tx_at],
        })
    }
}
