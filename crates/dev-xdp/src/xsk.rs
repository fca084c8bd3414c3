//! An AF_XDP socket: creation, memory registration, rings and binding
//! (`Documentation/networking/af_xdp.rst`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use descriptors::OwnDescriptor;
use dev_core::FramePool;
use rustix::net::addr::SocketAddrArg;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc,
    XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::queue::{Consumer, Layout, Producer};

/// How a socket is bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// Forbids zero-copy mode.
    pub(crate) copy: bool,
    /// Packets longer than a frame come in several.
    pub(crate) in_pieces: bool,
}

/// Where the memory of a new socket comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Umem<'a> {
    /// Register the pool's memory with this socket.
    Register,
    /// Use what another, bound socket of this process has registered.
    ShareWith(BorrowedFd<'a>),
}

/// Number of entries of each ring, powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rx: u32,
    pub(crate) tx: u32,
}

/// A bound socket and our ends of its rings. The rings' memory stays as long as the process: a ring
/// end may be in use by a thread while the port is torn down, when its interface is gone, or left
/// to another process ([`Mapping::detach`]).
///
/// It does not send: whoever waits for a socket that does drives its TX ring, under a mutex that is
/// held while another thread's frames are delivered (kernel `xsk_poll`, net/xdp/xsk.c).
#[derive(Debug)]
pub(crate) struct Xsk {
    pub(crate) fd: Arc<OwnDescriptor>,
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    pub(crate) rx: Consumer<XdpDesc>,
    pub(crate) mappings: [Mapping; 3],
}

/// The socket that sends by a queue, and our end of its ring, which is mapped as long.
#[derive(Debug)]
pub(crate) struct SendingXsk {
    pub(crate) fd: Arc<OwnDescriptor>,
    pub(crate) tx: Producer<XdpDesc>,
    pub(crate) mapping: Mapping,
}

/// Where a ring is mapped. The mapping keeps the socket open, whatever becomes of its descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length; who uses the memory says why it may.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Unmaps it.
    ///
    /// # Safety
    /// Nobody uses the ring any more.
    pub(crate) unsafe fn remove(&self) -> io::Result<()> {
        // SAFETY: a mapping of that length, which nobody uses (the caller's promise).
        match unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Puts a copy in the ring's place, which is no socket's.
    ///
    /// # Safety
    /// Nobody but the kernel may write to the ring meanwhile.
    pub(crate) unsafe fn detach(&self) -> io::Result<()> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing
        // memory.
        let copy = unsafe { libc::mmap(std::ptr::null_mut(), self.len, access, flags, -1, 0) };
        if copy == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both are mapped for `len` bytes and are two mappings; nobody else writes (the
        // caller's promise).
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr(), copy.cast(), self.len) };
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let place = self.base.as_ptr().cast::<libc::c_void>();
        // SAFETY: the ring's mapping, which lives for good, is replaced by one of its length, and
        // content, at once.
        let moved = unsafe { libc::mremap(copy, self.len, self.len, flags, place) };
        if moved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is a mapping of ours.
        unsafe { libc::madvise(place, self.len, libc::MADV_DONTFORK) };
        Ok(())
    }
}

/// A descriptor that is never ready.
pub(crate) fn silent_descriptor() -> io::Result<OwnDescriptor> {
    // SAFETY: integers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours alone.
    Ok(OwnDescriptor::new(unsafe { OwnedFd::from_raw_fd(fd) }))
}

impl Xsk {
    /// Opens a socket on one queue of an interface.
    pub(crate) fn open(
        link_index: u32,
        queue: u32,
        pool: &FramePool,
        umem: Umem<'_>,
        sizes: Sizes,
        binding: Binding,
        patience: Patience,
    ) -> io::Result<Self> {
        let fd = open_socket()?;
        if matches!(umem, Umem::Register) {
            register(&fd, Memory::of(pool))?;
        }
        sockopt::set_xdp_umem_fill_ring_size(&fd, sizes.rx)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, sizes.tx)?;
        sockopt::set_xdp_rx_ring_size(&fd, sizes.rx)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let (fill, fill_at) = map(&fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, sizes.rx)?;
        let (completion, completion_at) =
            map(&fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, sizes.tx)?;
        let (rx, rx_at) = map(&fd, XDP_PGOFF_RX_RING, &offsets.rx, sizes.rx)?;
        bind(&fd, link_index, queue, umem, binding, patience)?;
        // SAFETY: the layout was just mapped from a fresh socket, stays mapped for good, and nobody
        // else has our end.
        let fill = unsafe { Producer::new(fill) };
        // SAFETY: as above.
        let completion = unsafe { Consumer::new(completion) };
        // SAFETY: as above.
        let rx = unsafe { Consumer::new(rx) };
        Ok(Self {
            fd: Arc::new(fd),
            fill,
            completion,
            rx,
            mappings: [fill_at, completion_at, rx_at],
        })
    }
}

impl SendingXsk {
    /// Opens one beside the socket that has the queue.
    pub(crate) fn open(
        link_index: u32,
        queue: u32,
        receiving: &Xsk,
        sizes: Sizes,
        binding: Binding,
    ) -> io::Result<Self> {
        let fd = open_socket()?;
        sockopt::set_xdp_tx_ring_size(&fd, sizes.tx)?;
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let (tx, mapping) = map(&fd, XDP_PGOFF_TX_RING, &offsets.tx, sizes.tx)?;
        let umem = Umem::ShareWith(receiving.fd.as_fd());
        bind(&fd, link_index, queue, umem, binding, Patience::Short)?;
        // SAFETY: the layout was just mapped from a fresh socket, stays mapped for good, and nobody
        // else has our end.
        let tx = unsafe { Producer::new(tx) };
        let fd = Arc::new(fd);
        Ok(Self { fd, tx, mapping })
    }
}

/// The kernel releases the queue of a socket that was closed, or whose process has ended, in the
/// background, which takes a while on a busy machine. The XDP program is attached by then, so
/// hardly anybody else has the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// For a first attempt to open the interface.
    Long,
    /// The queue was not released before.
    Short,
}

impl Patience {
    fn limit(self) -> Duration {
        match self {
            Self::Long => Duration::from_secs(2),
            Self::Short => Duration::from_millis(260),
        }
    }
}

const BUSY_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) fn open_socket() -> io::Result<OwnDescriptor> {
    let fd = net::socket_with(
        AddressFamily::XDP,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(OwnDescriptor::new(fd))
}

/// What is registered with a device: frames behind each other, which stay mapped for as long as the
/// device may use them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) base: NonNull<u8>,
    pub(crate) len_bytes: usize,
    pub(crate) frame_bytes: u32,
}

impl Memory {
    fn of(pool: &FramePool) -> Self {
        Self {
            base: pool.memory().base(),
            len_bytes: pool.memory().len_bytes(),
            frame_bytes: pool.frame_bytes().into(),
        }
    }
}

pub(crate) fn register(fd: &OwnDescriptor, memory: Memory) -> io::Result<()> {
    let registration = XdpUmemReg {
        addr: memory.base.as_ptr().expose_provenance() as u64,
        len: memory.len_bytes as u64,
        chunk_size: memory.frame_bytes,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    Ok(sockopt::set_xdp_umem_reg(fd, registration)?)
}

/// Frames that a socket has dropped for lack of an empty frame or of room in its RX ring
/// (`XDP_STATISTICS`).
pub(crate) fn dropped(fd: impl AsFd) -> u64 {
    sockopt::xdp_statistics(fd).map_or(0, |statistics| {
        statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0)
    })
}

pub(crate) fn map<T>(
    fd: &OwnDescriptor,
    page_offset: u64,
    offsets: &XdpRingOffset,
    entries: u32,
) -> io::Result<(Layout<T>, Mapping)> {
    let at = |offset: u64| {
        usize::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))
    };
    // Kernels before 5.4 know no ring flags.
    let flags = offsets
        .flags
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
    let len = at(offsets.desc)? + entries as usize * size_of::<T>();
    // SAFETY: a mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            fd.as_raw_fd(),
            page_offset.cast_signed(),
        )
    };
    let base = match NonNull::new(address.cast::<u8>()) {
        Some(base) if address != libc::MAP_FAILED => base,
        _ => return Err(io::Error::last_os_error()),
    };
    // A forked child closes its copies of our descriptors; the mapping would keep the socket alive
    // in it. SAFETY: the range is the mapping made above.
    unsafe { libc::madvise(address, len, libc::MADV_DONTFORK) };
    // SAFETY: the kernel's offsets lie inside the mapping, whose length was computed from the
    // largest of them.
    let part = |offset: usize| unsafe { base.add(offset) };
    let layout = Layout {
        producer: part(at(offsets.producer)?).cast(),
        consumer: part(at(offsets.consumer)?).cast(),
        flags: part(at(flags)?).cast(),
        entries: part(at(offsets.desc)?).cast(),
        size: entries,
    };
    Ok((layout, Mapping { base, len }))
}

pub(crate) fn bind(
    fd: &OwnDescriptor,
    link_index: u32,
    queue: u32,
    umem: Umem<'_>,
    binding: Binding,
    patience: Patience,
) -> io::Result<()> {
    let with = |flags| SocketAddrXdp::new(flags, link_index, queue);
    match umem {
        // The mode of a shared registration is that of its first socket; other flags are refused
        // beside it.
        Umem::ShareWith(shared_umem_fd) => {
            let addr = with(SocketAddrXdpFlags::XDP_SHARED_UMEM);
            let address = SocketAddrXdpWithSharedUmem {
                addr,
                shared_umem_fd,
            };
            bind_to(fd, &address, patience)
        }
        Umem::Register => {
            let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
            flags.set(SocketAddrXdpFlags::XDP_COPY, binding.copy);
            // Linux 6.6.
            flags.set(SocketAddrXdpFlags::XDP_USE_SG, binding.in_pieces);
            bind_to(fd, &with(flags), patience)
        }
    }
}

fn bind_to(fd: &OwnDescriptor, address: &impl SocketAddrArg, patience: Patience) -> io::Result<()> {
    let until = Instant::now() + patience.limit();
    loop {
        match net::bind(fd, address) {
            Err(rustix::io::Errno::BUSY) if Instant::now() < until => {
                std::thread::sleep(BUSY_INTERVAL);
            }
            bound => return Ok(bound?),
        }
    }
}
