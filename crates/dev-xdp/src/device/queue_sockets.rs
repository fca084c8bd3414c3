//! The AF_XDP sockets of an interface's queues, and what becomes of them: the sides of a port.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::{FramePool, LinkSpec, OpenError, ReceivingSide, RingsMax};

use super::XdpBackend;
use crate::bpf::program::FlowMaps;
use crate::device::sizes::{rx_entries, tx_entries};
use crate::ethtool;
use crate::modes::refused;
use crate::queue_count::rx_queues;
use crate::rings::{OwnRx, OwnTx, XdpKick, XdpRx, XdpTx};
use crate::steering::Queues;
use crate::xsk::{Binding, SendingXsk, Sizes, Xsk};

/// How many queues, of which so many send, and into how many rings what they receive is gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) queues: u32,
    pub(super) senders: u32,
    pub(super) receivers: u32,
}

impl Counts {
    pub(super) fn of(link: &LinkSpec, rings: RingsMax) -> Self {
        let queues = rx_queues(link);
        let tx_queues = ethtool::tx_queues(&link.name).unwrap_or(1);
        Self {
            queues,
            // A socket sends by the queue that it receives from.
            senders: queues.min(tx_queues).min(rings.senders).max(1),
            receivers: queues.min(rings.receivers).max(1),
        }
    }
}

/// One socket a queue, and one for sending where the queue sends.
pub(super) struct QueueSockets {
    sockets: Vec<(Xsk, Option<SendingXsk>)>,
}

impl QueueSockets {
    /// Opens them, and has the program redirect to them.
    pub(super) fn open(
        backend: &XdpBackend,
        link: &LinkSpec,
        pool: &FramePool,
        counts: Counts,
        binding: Binding,
        maps: &FlowMaps,
    ) -> Result<Self, OpenError> {
        let sizes = Sizes {
            rx: rx_entries(counts.queues, pool),
            tx: tx_entries(counts.senders, pool),
        };
        let mut sockets = Vec::new();
        for queue in 0..counts.queues {
            let no_socket = |error: std::io::Error| {
                let what = format!("AF_XDP socket on queue {queue} of {}: {error}", link.name);
                refused(&what, error.raw_os_error())
            };
            let xsk = backend
                .open_queue(link, queue, pool, sizes, binding)
                .map_err(no_socket)?;
            let open_sending = || SendingXsk::open(link.index, queue, &xsk, sizes, binding);
            let sending = (queue < counts.senders).then(open_sending).transpose();
            let sending = sending.map_err(no_socket)?;
            maps.set_xsk(queue, xsk.fd.as_raw_fd())
                .map_err(|error| refused(&error, error.errno()))?;
            sockets.push((xsk, sending));
        }
        Ok(Self { sockets })
    }

    /// Those that receive, in the order of their queues.
    pub(super) fn receiving(&self) -> Vec<Arc<OwnDescriptor>> {
        let sockets = self.sockets.iter();
        sockets.map(|(xsk, _)| Arc::clone(&xsk.fd)).collect()
    }

    /// What keeps the queues from others.
    pub(super) fn kept(&self) -> Queues {
        let mut sockets = self.receiving();
        let mut rings: Vec<_> = self
            .sockets
            .iter()
            .flat_map(|(xsk, _)| xsk.mappings)
            .collect();
        for sending in self.sockets.iter().filter_map(|(_, it)| it.as_ref()) {
            sockets.push(Arc::clone(&sending.fd));
            rings.push(sending.mapping);
        }
        Queues { sockets, rings }
    }

    /// The rings, those that are received from spread over `receivers`.
    pub(super) fn into_sides(
        self,
        receivers: u32,
        pool: &'static FramePool,
        prefetch_bytes: usize,
    ) -> (Vec<ReceivingSide<XdpBackend>>, Vec<(XdpTx, XdpKick)>) {
        let mut tx = Vec::new();
        let mut rx: Vec<_> = (0..receivers).map(|_| Vec::new()).collect();
        for (queue, (xsk, sending)) in self.sockets.into_iter().enumerate() {
            if let Some(SendingXsk { fd, tx: ring, .. }) = sending {
                tx.push((
                    XdpTx::Own(OwnTx::new(ring, xsk.completion)),
                    XdpKick::new(fd),
                ));
            }
            // The queue of a ring's number is among those that the ring receives from.
            rx[queue % receivers as usize].push((xsk.rx, xsk.fill, xsk.fd));
        }
        let receiver = |queues: Vec<_>| {
            let count = queues.len() as u32;
            let rx = XdpRx::Own(OwnRx::new(queues, pool, prefetch_bytes));
            ReceivingSide {
                watch: rx.watch(),
                wait_fds: rx.wait_fds(),
                queues: count,
                rx,
            }
        };
        (rx.into_iter().map(receiver).collect(), tx)
    }
}
