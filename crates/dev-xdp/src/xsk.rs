//! An AF_XDP socket: creation, memory registration, rings and binding (`Documentation/networking/af_xdp.rst`).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use descriptors::OwnDescriptor;
use dev_core::FramePool;

use crate::queue::{Consumer, Layout, Producer};

/// An entry of the RX and TX rings (`struct xdp_desc`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

/// In [`Descriptor::options`]: the next descriptor holds more of the same packet (`XDP_PKT_CONTD`).
pub(crate) const CONTINUES: u32 = 1;
/// The socket takes packets that are longer than a frame in several (Linux 6.6).
const XDP_USE_SG: u16 = 1 << 4;

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
pub(crate) enum Umem {
    /// Register the pool's memory with this socket.
    Register,
    /// Use what another, bound socket of this process has registered.
    ShareWith(RawFd),
}

/// Number of entries of each ring, powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rx: u32,
    pub(crate) tx: u32,
}

/// A bound socket and our ends of its rings. The rings' memory stays as long as the process: a ring end may be in
/// use by a thread while the port is torn down, when its interface is gone, or left to another process ([`Mapping::detach`]).
///
/// It does not send: whoever waits for a socket that does drives its TX ring, under a mutex that is held while another thread's
/// frames are delivered (kernel `xsk_poll`, net/xdp/xsk.c).
#[derive(Debug)]
pub(crate) struct Xsk {
    pub(crate) fd: Arc<OwnDescriptor>,
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    pub(crate) rx: Consumer<Descriptor>,
    pub(crate) mappings: [Mapping; 3],
}

/// The socket that sends by a queue, and our end of its ring, which is mapped as long.
#[derive(Debug)]
pub(crate) struct SendingXsk {
    pub(crate) fd: Arc<OwnDescriptor>,
    pub(crate) tx: Producer<Descriptor>,
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
    /// Puts a copy in the ring's place, which is no socket's.
    ///
    /// # Safety
    /// Nobody but the kernel may write to the ring meanwhile.
    pub(crate) unsafe fn detach(&self) -> io::Result<()> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let copy = unsafe { libc::mmap(std::ptr::null_mut(), self.len, access, flags, -1, 0) };
        if copy == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both are mapped for `len` bytes and are two mappings; nobody else writes (the caller's promise).
        unsafe { std::ptr::copy_nonoverlapping(self.base.as_ptr(), copy.cast(), self.len) };
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let place = self.base.as_ptr().cast::<libc::c_void>();
        // SAFETY: the ring's mapping, which lives for good, is replaced by one of its length, and content, at once.
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
        umem: Umem,
        sizes: Sizes,
        binding: Binding,
        patience: Patience,
    ) -> io::Result<Self> {
        let fd = open_socket()?;
        let raw = fd.as_raw_fd();
        if matches!(umem, Umem::Register) {
            register(raw, pool)?;
        }
        for (option, entries) in [
            (libc::XDP_UMEM_FILL_RING, sizes.rx),
            (libc::XDP_UMEM_COMPLETION_RING, sizes.tx),
            (libc::XDP_RX_RING, sizes.rx),
        ] {
            set_option(raw, option, &entries)?;
        }
        let offsets = mmap_offsets(raw)?;
        let (fill, fill_at) = map(
            raw,
            libc::XDP_UMEM_PGOFF_FILL_RING.cast_signed(),
            &offsets.fr,
            sizes.rx,
        )?;
        let (completion, completion_at) = map(
            raw,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING.cast_signed(),
            &offsets.cr,
            sizes.tx,
        )?;
        let (rx, rx_at) = map(raw, libc::XDP_PGOFF_RX_RING, &offsets.rx, sizes.rx)?;
        let address = address(link_index, queue, umem, binding);
        bind(raw, &address, patience)?;
        // SAFETY: the layout was just mapped from a fresh socket, stays mapped for good, and nobody else has our end.
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
        let raw = fd.as_raw_fd();
        set_option(raw, libc::XDP_TX_RING, &sizes.tx)?;
        let offsets = mmap_offsets(raw)?;
        let (tx, mapping) = map(raw, libc::XDP_PGOFF_TX_RING, &offsets.tx, sizes.tx)?;
        let umem = Umem::ShareWith(receiving.fd.as_raw_fd());
        let address = address(link_index, queue, umem, binding);
        bind(raw, &address, Patience::Short)?;
        // SAFETY: the layout was just mapped from a fresh socket, stays mapped for good, and nobody else has our end.
        let tx = unsafe { Producer::new(tx) };
        let fd = Arc::new(fd);
        Ok(Self { fd, tx, mapping })
    }
}

/// The kernel releases the queue of a socket that was closed, or whose process has ended, in the background, which takes a while on a
/// busy machine. The XDP program is attached by then, so hardly anybody else has the queue.
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

fn open_socket() -> io::Result<OwnDescriptor> {
    // SAFETY: socket(2) touches no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours alone.
    Ok(OwnDescriptor::new(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn register(fd: RawFd, pool: &FramePool) -> io::Result<()> {
    let memory = pool.memory();
    let registration = libc::xdp_umem_reg_v1 {
        addr: memory.base().as_ptr().expose_provenance() as u64,
        len: memory.len_bytes() as u64,
        chunk_size: u32::from(pool.frame_bytes()),
        headroom: 0,
    };
    set_option(fd, libc::XDP_UMEM_REG, &registration)
}

fn set_option<T>(fd: RawFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes, the size of `value`.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Frames that a socket has dropped for lack of an empty frame or of room in its RX ring (`XDP_STATISTICS`).
pub(crate) fn dropped(fd: RawFd) -> u64 {
    /// `struct xdp_statistics`
    #[repr(C)]
    #[derive(Default)]
    struct Statistics {
        rx_dropped: u64,
        rx_invalid_descs: u64,
        tx_invalid_descs: u64,
        rx_ring_full: u64,
        rx_fill_ring_empty_descs: u64,
        tx_ring_empty_descs: u64,
    }
    let mut statistics = Statistics::default();
    let mut len = size_of::<Statistics>() as libc::socklen_t;
    let value = std::ptr::from_mut(&mut statistics).cast();
    // SAFETY: the kernel writes at most `len` bytes, the size of `statistics`.
    unsafe { libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS, value, &raw mut len) };
    statistics.rx_dropped + statistics.rx_ring_full
}

fn mmap_offsets(fd: RawFd) -> io::Result<libc::xdp_mmap_offsets> {
    let mut len = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: all-zero is a value of this struct of integers.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most `len` bytes, the size of `offsets`.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            std::ptr::from_mut(&mut offsets).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if len as usize != size_of::<libc::xdp_mmap_offsets>() {
        // Kernels before 5.4 know no ring flags and answer with a shorter struct.
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(offsets)
}

fn map<T>(
    fd: RawFd,
    page_offset: libc::off_t,
    offsets: &libc::xdp_ring_offset,
    entries: u32,
) -> io::Result<(Layout<T>, Mapping)> {
    let at = |offset: u64| {
        usize::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))
    };
    let len = at(offsets.desc)? + entries as usize * size_of::<T>();
    // SAFETY: a mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            fd,
            page_offset,
        )
    };
    let base = match NonNull::new(address.cast::<u8>()) {
        Some(base) if address != libc::MAP_FAILED => base,
        _ => return Err(io::Error::last_os_error()),
    };
    // A forked child closes its copies of our descriptors; the mapping would keep the socket alive in it.
    // SAFETY: the range is the mapping made above.
    unsafe { libc::madvise(address, len, libc::MADV_DONTFORK) };
    // SAFETY: the kernel's offsets lie inside the mapping, whose length was computed from the largest of them.
    let part = |offset: usize| unsafe { base.add(offset) };
    let layout = Layout {
        producer: part(at(offsets.producer)?).cast(),
        consumer: part(at(offsets.consumer)?).cast(),
        flags: part(at(offsets.flags)?).cast(),
        entries: part(at(offsets.desc)?).cast(),
        size: entries,
    };
    Ok((layout, Mapping { base, len }))
}

fn address(link_index: u32, queue: u32, umem: Umem, binding: Binding) -> libc::sockaddr_xdp {
    let copy = if binding.copy { libc::XDP_COPY } else { 0 };
    let in_pieces = if binding.in_pieces { XDP_USE_SG } else { 0 };
    let (flags, shared_fd) = match umem {
        // The mode of a shared registration is that of its first socket; other flags are refused beside it.
        Umem::ShareWith(other) => (libc::XDP_SHARED_UMEM, other.cast_unsigned()),
        Umem::Register => (libc::XDP_USE_NEED_WAKEUP | copy | in_pieces, 0),
    };
    libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: link_index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared_fd,
    }
}

fn bind(fd: RawFd, address: &libc::sockaddr_xdp, patience: Patience) -> io::Result<()> {
    let len = size_of_val(address) as libc::socklen_t;
    let until = Instant::now() + patience.limit();
    loop {
        // SAFETY: the kernel reads `len` bytes, the size of `address`.
        let result = unsafe { libc::bind(fd, std::ptr::from_ref(address).cast(), len) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) || Instant::now() >= until {
            return Err(error);
        }
        std::thread::sleep(BUSY_INTERVAL);
    }
}
