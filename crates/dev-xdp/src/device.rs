//! Opens an interface: program and maps, XDP attachment, one AF_XDP socket a queue.

mod queue_sockets;
mod sizes;

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use descriptors::OwnDescriptor;
use dev_core::{Admission, Backend, FramePool, LinkSpec, Noted, OpenError, Port, RingsMax};

use vma_config::XdpMode;

use crate::attacher::Attacher;
use crate::attachment::{Attached, Attachment};
use crate::bpf::admission::{LoopbackAdmission, Vouch};
use crate::bpf::link::AttachMode;
use crate::bpf::program::{Capacity, FlowMaps, OnMatch, Program};
use crate::bpf::skb_notes::{Held, NotesError, SkbNotes};
use crate::ethtool;
use crate::flow_rules::FlowRules;
use crate::frame_space::{HEADROOM_BYTES, mtu_max};
use crate::metadata_source::{self, MetadataSource, Needed};
use crate::modes::{
    choices, has_partial_checksums, in_some_mode, merging, refused, segmenter, with_first,
};
use crate::rings::{XdpKick, XdpRx, XdpTx, XdpWatch};
use crate::segmenter::XdpSegmenter;
use crate::shared::admission::ByBroker;
use crate::shared::join::join;
use crate::shared::membership::Membership;
use crate::shared::reserved;
use crate::steering::XdpSteering;
use crate::table::{FLOW_CAPACITY, Table};
use crate::xsk::{Binding, Patience, Sizes, Umem, Xsk};
use queue_sockets::{Counts, QueueSockets};

/// Frames that an open interface keeps ready for receiving, over all its queues: at most half of
/// those that are free. They bridge the time in which the program does not run: 30 ms of 133,000
/// packets a second are 4,096, which is half of the default pool. The queues of 200 sockets of the
/// kernel's with default buffers hold 55,400.
const RX_FRAMES_MAX: u32 = 65_536;
const RX_FRAMES_PER_QUEUE_MIN: u32 = 64;
/// Entries of each TX ring, and of all together if the pool is small.
const TX_ENTRIES: u32 = 1024;
const TX_ENTRIES_MIN: u32 = 64;

/// The AF_XDP back-end.
#[derive(Debug)]
pub struct XdpBackend {
    pub(crate) mode: XdpMode,
    prefetch_bytes: usize,
    /// A bound socket with the pool's memory registered, for later sockets to share, and whether it
    /// takes packets in pieces: those that share its memory do, too.
    donor: Mutex<Option<(Arc<OwnDescriptor>, bool)>>,
    /// Links that had a queue which nobody released in time.
    busy: Mutex<HashSet<u32>>,
    attacher: Attacher,
    /// One program takes notes for all interfaces in generic mode.
    notes: Mutex<Weak<SkbNotes>>,
    /// The function of the kernel that vouches for connections.
    vouch: Mutex<Option<Vouch>>,
    /// Where it is written down what a card keeps of a process that is killed.
    directory: Option<PathBuf>,
    /// Where a broker listens that opens interfaces for several processes.
    broker: Option<PathBuf>,
    /// The last part of an interface that it has given.
    membership: Mutex<Weak<Membership>>,
}

impl XdpBackend {
    /// A back-end that attaches its program as `mode` says, and brings up to `prefetch_bytes` of a
    /// received frame into the cache as soon as it is there.
    pub fn new(mode: XdpMode, prefetch_bytes: usize) -> Self {
        Self {
            mode,
            prefetch_bytes,
            donor: Mutex::new(None),
            busy: Mutex::new(HashSet::new()),
            attacher: Attacher::default(),
            notes: Mutex::new(Weak::new()),
            vouch: Mutex::new(None),
            membership: Mutex::default(),
            directory: None,
            broker: None,
        }
    }

    /// The same with a broker, if one listens there.
    pub fn with_broker(self, broker: Option<PathBuf>) -> Self {
        Self { broker, ..self }
    }

    /// The same with a directory for files of which later processes learn what a card has kept of
    /// this one, should it be killed.
    pub fn remembered_in(self, directory: Option<PathBuf>) -> Self {
        Self { directory, ..self }
    }

    /// Opens a socket on one queue, with the pool's memory registered once if the devices allow it.
    fn open_queue(
        &self,
        link: &LinkSpec,
        queue: u32,
        pool: &FramePool,
        sizes: Sizes,
        binding: Binding,
    ) -> io::Result<Xsk> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = if busy.contains(&link.index) {
            Patience::Short
        } else {
            Patience::Long
        };
        let open = |umem| Xsk::open(link.index, queue, pool, umem, sizes, binding, patience);
        let mut donor = self.donor.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = donor
            .as_ref()
            .filter(|(_, in_pieces)| *in_pieces == binding.in_pieces)
            .map(|(fd, _)| open(Umem::ShareWith(fd.as_fd())));
        let opened = match shared {
            Some(Err(error)) if !is_busy(&error) => {
                // The donor's interface is gone (EBADF), or its mode does not suit this device
                // (EOPNOTSUPP).
                open(Umem::Register)
            }
            Some(opened) => opened,
            None => open(Umem::Register),
        };
        let xsk = opened.inspect_err(|error| {
            if is_busy(error) {
                busy.insert(link.index);
            }
        })?;
        busy.remove(&link.index);
        *donor = Some((Arc::clone(&xsk.fd), binding.in_pieces));
        Ok(xsk)
    }

    /// Takes the pages that are to be registered, unless they have been.
    fn prepare_memory(&self, pool: &FramePool) {
        let donor = self.donor.lock().unwrap_or_else(PoisonError::into_inner);
        if donor.is_none() {
            pool.memory().populate();
        }
    }

    /// Notes of what generic mode hides, which every interface in it needs.
    fn notes(&self) -> Result<Held, OpenError> {
        let mut known = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let notes = match known.upgrade() {
            Some(notes) => Ok(notes),
            None => SkbNotes::begin().map(Arc::new),
        };
        let held = notes
            .and_then(|notes| notes.hold())
            .map_err(|error| without_notes(&error))?;
        *known = Arc::downgrade(held.notes());
        Ok(held)
    }

    /// How the program of an interface sees what frames do not show, and what there is to say of
    /// it.
    pub(crate) fn metadata(
        &self,
        link: &LinkSpec,
        driver: &str,
        attach: AttachMode,
    ) -> Result<(MetadataSource, String), OpenError> {
        let strips_tags = ethtool::strips_vlan_tags(&link.name);
        match metadata_source::needed(attach, driver, strips_tags) {
            Needed::Nothing => Ok((MetadataSource::FramesOnly, String::new())),
            Needed::Notes => Ok((MetadataSource::by_notes(self.notes()?), String::new())),
            Needed::DriverTags => Ok(MetadataSource::by_driver(link.index)),
            Needed::Impossible => Err(OpenError {
                held: false,
                what: "the device takes VLAN tags out of frames, which in native mode hides \
                       that they are of another network"
                    .to_owned(),
                remedy: "ethtool -K <interface> rxvlan off, or VMA_XDP_MODE=generic",
                locked_memory: false,
            }),
        }
    }

    fn open_in_mode(
        &self,
        asked: &Asked<'_>,
        attach: AttachMode,
        in_pieces: bool,
    ) -> Result<Port<Self>, OpenError> {
        let Asked {
            link,
            driver,
            pool,
            rings,
        } = *asked;
        let maps =
            FlowMaps::create(FLOW_CAPACITY).map_err(|error| refused(&error, error.errno()))?;
        let frame_capacity = u32::from(pool.frame_bytes()) - HEADROOM_BYTES;
        let (metadata, note) = self.metadata(link, driver, attach)?;
        let (mac, hidden) = (link.mac, metadata.hidden());
        let capacity = Capacity {
            frame_bytes: frame_capacity,
            in_pieces,
        };
        let binding = Binding {
            copy: attach == AttachMode::Generic,
            in_pieces,
        };
        let program = Program::load(&maps, mac, capacity, OnMatch::Redirect, hidden)
            .map_err(|error| refused(&error, error.errno()))?;
        let meanwhile = || self.prepare_memory(pool);
        let attached = self
            .attacher
            .attach(&program, link.index, attach, meanwhile);
        let attached = attached.map_err(|error| refused(&error, error.errno()))?;
        let counts = Counts::of(link, rings);
        let sockets = QueueSockets::open(self, link, pool, counts, binding, &maps)?;
        let receiving = sockets.receiving();
        let kept = sockets.kept();
        let (receivers, senders) = sockets.into_sides(counts.receivers, pool, self.prefetch_bytes);
        let rules = match counts.receivers {
            ..2 => FlowRules::none(),
            _ => FlowRules::of(&link.name, link.index, self.directory.as_deref()),
        };
        let (segmenter, note) = match segmenter(link, attach) {
            Ok(segmenter) => (segmenter, note),
            Err(error) => (None, format!("segments are sent one by one: {error}")),
        };
        let packet_socket = segmenter.as_ref().map(XdpSegmenter::descriptor);
        let slow_to_close = kept.sockets.iter().cloned().chain(packet_socket).collect();
        let parts = Attachment {
            maps,
            metadata,
            ifindex: link.index,
            mode: attach,
            capacity,
            mac,
            noted: Noted::Nothing,
            name: link.name.clone(),
        };
        Ok(Port {
            receivers,
            senders,
            steering: XdpSteering::new(
                Table::Own(Box::new(Attached::new(parts, attached))),
                receiving,
                slow_to_close,
                kept,
                rules,
            ),
            segmenter,
            partial_checksums: has_partial_checksums(link, driver),
            description: format!("xdp {}", attach.text()),
            mtu_max: mtu_max(frame_capacity),
            merging: merging(attach, in_pieces),
            note,
            queues: counts.queues,
            set_option: None,
            raw_sockets: Vec::new(),
        })
    }
}

/// What to open, for how many.
#[derive(Clone, Copy)]
struct Asked<'a> {
    link: &'a LinkSpec,
    driver: &'a str,
    pool: &'static FramePool,
    rings: RingsMax,
}

impl Backend for XdpBackend {
    type Rx = XdpRx;
    type Watch = XdpWatch;
    type Tx = XdpTx;
    type Kick = XdpKick;
    type Steering = XdpSteering;
    type Segmenter = XdpSegmenter;

    fn has_clock(&self, link: &LinkSpec) -> bool {
        ethtool::stamps_received(&link.name)
    }

    fn may_show_clock(&self, link: &LinkSpec) -> bool {
        let driver = ethtool::driver(&link.name);
        let first = choices(self.mode, link, &driver).map(|(first, _)| first);
        first == Some(AttachMode::Native) && !self.has_broker()
    }

    fn admission(&self) -> io::Result<Box<dyn Admission>> {
        let mut known = self.vouch.lock().unwrap_or_else(PoisonError::into_inner);
        let vouch = match *known {
            Some(vouch) => vouch,
            None => *known.insert(Vouch::find()?),
        };
        drop(known);
        LoopbackAdmission::begin(vouch)
            .map(|it| Box::new(it) as Box<dyn Admission>)
            .or_else(|error| {
                let known = self.membership.lock();
                let membership = known.unwrap_or_else(PoisonError::into_inner).upgrade();
                // It may be a right that is missing here, and not there.
                membership
                    .map(ByBroker)
                    .map(|it| Box::new(it) as Box<dyn Admission>)
                    .ok_or(error)
            })
    }

    fn join(
        &self,
        link: &LinkSpec,
        pool: &'static FramePool,
        rings: RingsMax,
    ) -> Option<Result<Port<Self>, OpenError>> {
        let keep = |membership: &Arc<Membership>| {
            let mut known = self
                .membership
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *known = Arc::downgrade(membership);
        };
        join(self.broker.as_ref()?, link, pool, rings, keep)
    }

    fn has_broker(&self) -> bool {
        let path = self.broker.as_deref();
        path.is_some_and(|path| Membership::connect(path).is_ok())
    }

    fn reserve_places(&self, count: usize) -> bool {
        let path = self.broker.as_deref();
        path.is_some_and(|path| reserved::reserve(path, count))
    }

    fn threads(&self) -> u32 {
        self.attacher.threads()
    }

    fn end_thread(&self) -> Option<libc::pid_t> {
        self.attacher.end()
    }

    fn open(
        &self,
        link: &LinkSpec,
        pool: &'static FramePool,
        rings: RingsMax,
    ) -> Result<Port<Self>, OpenError> {
        let driver = ethtool::driver(&link.name);
        let asked = Asked {
            link,
            driver: &driver,
            pool,
            rings,
        };
        let open = |attach, in_pieces| self.open_in_mode(&asked, attach, in_pieces);
        let (port, not_first) = in_some_mode(self.mode, link, &driver, open)?;
        Ok(Port {
            note: with_first(not_first, port.note),
            ..port
        })
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

/// Without notes, several datagrams of a kernel sender would arrive as one, and those of other
/// VLANs as ours.
fn without_notes(error: &NotesError) -> OpenError {
    OpenError {
        held: false,
        what: format!("generic mode needs the kernel's types and tracing: {error}"),
        remedy: "give the program CAP_PERFMON, on a kernel with BTF, or use VMA_XDP_MODE=native",
        locked_memory: false,
    }
}
