//! The broker's side of an interface: opens it, and answers what processes ask.

mod admission;
mod groups;
mod members;
mod remains;
mod requests;
mod socket_options;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use descriptors::OwnDescriptor;
use dev_core::{LinkSpec, Noted, OpenError};
use rustix::net::sockopt;
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc,
};

use super::area::{Area, Shape};
use super::budget::Budget;
use super::client::{CLIENTS_MAX, Client};
use super::ledger::Ledger;
use super::message::{Answer, Entries, Request, Welcome};
use super::refill::{Refill, recover};
use super::send::{IN_FLIGHT, Share, WITH_OWNER, take_completed};
use crate::attachment::{Attached, Attachment};
use crate::bpf::link::{AttachMode, XdpLink};
use crate::bpf::program::{Capacity, FlowMaps, OnMatch, Program, SHARED_QUEUES_MAX};
use crate::device::XdpBackend;
use crate::ethtool;
use crate::fds;
use crate::frame_space::HEADROOM_BYTES;
use crate::modes::{has_partial_checksums, in_some_mode, refused, with_first};
use crate::queue::{Consumer, Producer};
use crate::queue_count::rx_queues;
use crate::table::{FLOW_CAPACITY, taken_out};
use crate::xsk::{self, Binding, Mapping, Memory, Patience, Umem};

pub use members::MemberFacts;
pub use requests::{Question, System};

/// Entries of a socket's RX ring that never gets a packet.
const OWN_RX_ENTRIES: u32 = 64;
/// An interface that several processes have.
#[derive(Debug)]
pub struct Host {
    attached: Attached,
    mode: AttachMode,
    in_pieces: bool,
    partial_checksums: bool,
    note: String,
    ifindex: u32,
    mac: [u8; 6],
    area: Area,
    memory: OwnedFd,
    entries: Entries,
    queues: Vec<Queue>,
    refills: Vec<Refill>,
    budget: Budget,
    ledger: Ledger,
    addresses: HashSet<IpAddr>,
    members: HashMap<u8, Member>,
    generations: [u16; CLIENTS_MAX as usize],
    ended: Vec<Ended>,
    /// Who does not receive, though something has come: see [`groups`].
    late: HashSet<u8>,
    admission: admission::Admitting,
}

/// The socket that has a queue, and shares the memory with those of the processes.
#[derive(Debug)]
struct Queue {
    fd: OwnDescriptor,
    completion: Consumer<u64>,
    mappings: [Mapping; 2],
}

/// A process.
#[derive(Debug)]
struct Member {
    client: Client,
    sockets: Vec<MemberSockets>,
    rx_entries: u32,
    /// Of all queues.
    share: Share,
    progress: groups::Progress,
    /// The ports of TCP that it has, or has had, together with others.
    listened: HashSet<u16>,
}

/// Those of one queue, and its RX ring, of which the process has our end while it lives.
#[derive(Debug)]
struct MemberSockets {
    receiving: OwnDescriptor,
    sending: OwnDescriptor,
    rx: Consumer<XdpDesc>,
    mapping: Mapping,
}

/// A process that has gone, and since when.
#[derive(Debug)]
struct Ended {
    member: Member,
    since: Instant,
    /// Its received frames are back.
    is_recovered: bool,
}

/// What the kernel says of an interface.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl Host {
    /// Opens an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// As for a process that opens it for itself.
    pub fn open(
        backend: &XdpBackend,
        link: &LinkSpec,
        frames: (u32, u32),
    ) -> Result<Self, OpenError> {
        let driver = ethtool::driver(&link.name);
        let shape = Shape {
            frame_bytes: 2048,
            rx_frames: frames.0,
            tx_frames: frames.1,
        };
        let open =
            |mode, in_pieces| Self::open_in_mode(backend, link, &driver, shape, mode, in_pieces);
        let (mut host, not_first) = in_some_mode(backend.mode, link, &driver, open)?;
        host.note = with_first(not_first, std::mem::take(&mut host.note));
        Ok(host)
    }

    fn open_in_mode(
        backend: &XdpBackend,
        link: &LinkSpec,
        driver: &str,
        shape: Shape,
        mode: AttachMode,
        in_pieces: bool,
    ) -> Result<Self, OpenError> {
        let failed = |error: io::Error| refused(&error, error.raw_os_error());
        let queues = rx_queues(link);
        if queues > SHARED_QUEUES_MAX {
            let what = format!("{queues} queues, of which a broker serves {SHARED_QUEUES_MAX}");
            return Err(refused(&what, None));
        }
        let maps = FlowMaps::create_shared(FLOW_CAPACITY);
        let maps = maps.map_err(|error| refused(&error, error.errno()))?;
        let (metadata, note) = backend.metadata(link, driver, mode)?;
        let capacity = Capacity {
            frame_bytes: shape.frame_bytes - HEADROOM_BYTES,
            in_pieces,
        };
        let hidden = metadata.hidden();
        let program = Program::load(&maps, link.mac, capacity, OnMatch::Redirect, hidden)
            .map_err(|error| refused(&error, error.errno()))?;
        let attached = XdpLink::attach(&program, link.index, mode);
        let attached = attached.map_err(|error| refused(&error, error.errno()))?;
        let (memory, area) = Area::create(shape).map_err(failed)?;
        let entries = Entries {
            rx: 0,
            tx: 0,
            fill: shape.rx_frames.next_power_of_two(),
            completion: shape.tx_frames.next_power_of_two(),
        };
        let parts = Attachment {
            maps,
            metadata,
            ifindex: link.index,
            mode,
            capacity,
            mac: link.mac,
            noted: Noted::Nothing,
            name: link.name.clone(),
        };
        let mut host = Self {
            attached: Attached::new(parts, attached),
            mode,
            in_pieces,
            partial_checksums: has_partial_checksums(link, driver),
            note,
            ifindex: link.index,
            mac: link.mac,
            area,
            memory,
            entries,
            queues: Vec::new(),
            refills: Vec::new(),
            budget: Budget::new(shape, queues),
            ledger: Ledger::default(),
            addresses: HashSet::new(),
            members: HashMap::new(),
            generations: [0; CLIENTS_MAX as usize],
            ended: Vec::new(),
            late: HashSet::new(),
            admission: admission::Admitting::default(),
        };
        for queue in 0..queues {
            host.open_queue(queue).map_err(failed)?;
        }
        host.fill_up();
        Ok(host)
    }

    /// Opens the socket that has a queue.
    fn open_queue(&mut self, queue: u32) -> io::Result<()> {
        let fd = xsk::open_socket()?;
        let first = self.queues.first().map(|first| first.fd.as_fd());
        if first.is_none() {
            let memory = Memory {
                base: self.area.frames(),
                len_bytes: self.area.shape().frames_bytes(),
                frame_bytes: self.area.shape().frame_bytes,
            };
            xsk::register(&fd, memory)?;
        }
        sockopt::set_xdp_umem_fill_ring_size(&fd, self.entries.fill)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, self.entries.completion)?;
        sockopt::set_xdp_rx_ring_size(&fd, OWN_RX_ENTRIES)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let at = XDP_UMEM_PGOFF_FILL_RING;
        let (fill, fill_at) = xsk::map(&fd, at, &offsets.fr, self.entries.fill)?;
        let at = XDP_UMEM_PGOFF_COMPLETION_RING;
        let (completion, completion_at) = xsk::map(&fd, at, &offsets.cr, self.entries.completion)?;
        let umem = first.map_or(Umem::Register, Umem::ShareWith);
        let binding = Binding {
            // In copy mode no frame is the device's but for those in the rings, where they can be
            // found when a process has died.
            copy: true,
            in_pieces: self.in_pieces,
        };
        xsk::bind(&fd, self.ifindex, queue, umem, binding, Patience::Long)?;
        // SAFETY: both were just mapped, and stay so as long as this value; who has the area's lock
        // is the only one at this end.
        let fill = unsafe { Producer::new(fill) };
        // SAFETY: as above.
        let completion = unsafe { Consumer::new(completion) };
        self.queues.push(Queue {
            fd,
            completion,
            mappings: [fill_at, completion_at],
        });
        self.refills.push(Refill::new(fill, queue));
        Ok(())
    }

    /// The interface has these addresses.
    ///
    /// # Errors
    /// The kernel's. Packets to earlier addresses may still come to the processes.
    pub fn follow(&mut self, facts: &Facts) -> io::Result<()> {
        if self.mac != facts.mac {
            self.attached.set_mac(facts.mac)?;
            self.mac = facts.mac;
        }
        let now: HashSet<IpAddr> = facts.addresses.iter().copied().collect();
        let maps = self.attached.maps();
        for gone in self.addresses.difference(&now) {
            taken_out(maps.remove_address(*gone))?;
        }
        for new in now.difference(&self.addresses) {
            maps.add_address(*new)?;
        }
        self.addresses = now;
        Ok(())
    }

    /// Whether anybody has the interface, or has left something.
    pub fn is_in_use(&self) -> bool {
        !self.members.is_empty() || !self.ended.is_empty()
    }

    /// The broker is about to end: all that comes is the kernel's from here on, and processes are
    /// told so.
    pub fn end(&mut self) {
        self.attached.close();
        self.area.ends();
    }

    /// How it was opened, in a few words.
    pub fn description(&self) -> String {
        format!("xdp {}, {} queue(s)", self.mode.text(), self.queues.len())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let rings = self.queues.iter().flat_map(|queue| queue.mappings);
        let members = self.members.values();
        let ended = self.ended.iter().map(|it| &it.member);
        let sockets = members.chain(ended).flat_map(|it| &it.sockets);
        for mapping in rings.chain(sockets.map(|it| it.mapping)) {
            // They would keep the sockets, and the interface's queues. SAFETY: nobody uses the
            // rings but through this value.
            let _ = unsafe { mapping.remove() };
        }
    }
}

/// Tells a process that it does not get what it has asked for.
pub fn refuse(socket: BorrowedFd<'_>, why: &str) {
    // Who has gone need not know.
    let _ = fds::send(socket, &Answer::Refused(why.to_owned()).encode(), &[]);
}

/// A process's first message and the descriptor of its network namespace. `None`: it is neither.
pub fn greeting(socket: BorrowedFd<'_>) -> io::Result<Option<(super::Hello, OwnedFd)>> {
    let mut bytes = [0; super::message::BYTES_MAX];
    let (len, fds) = fds::receive(socket, &mut bytes)?;
    if len == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let hello = super::Hello::decode(&bytes[..len]);
    Ok(hello.zip(fds.into_iter().next()))
}
