//! The system calls that std does not offer, each behind a safe function.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::time::Duration;

use libc::c_int;

/// Whether the effective user is root.
pub fn is_root() -> bool {
    // SAFETY: `geteuid` has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Sends `signal` to process `pid`, or to the process group `-pid` if negative.
pub(crate) fn kill(pid: i32, signal: c_int) -> io::Result<()> {
    // SAFETY: `kill` takes plain integers and touches no memory of this process.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Keeps the calling thread on one CPU.
pub(crate) fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    // SAFETY: a set of CPUs is plain bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set is this function's; a number that does not fit is left out.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel reads the set, whose size is given; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map(drop)
}

/// Has an interface of the calling thread's network namespace cut and merge segments, or not
/// (`ethtool -K <interface> tso gso gro`).
pub(crate) fn set_segmentation(interface: &str, on: bool) -> io::Result<()> {
    const ETHTOOL_STSO: u32 = 0x1f;
    const ETHTOOL_SGSO: u32 = 0x24;
    const ETHTOOL_SGRO: u32 = 0x2c;
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    for command in [ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_SGRO] {
        // `struct ethtool_value`
        let mut value = [command, u32::from(on)];
        // SAFETY: all-zero is a value of this struct of integers and a null pointer.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        let fd = socket.as_raw_fd();
        // SAFETY: the kernel reads `request` and what it refers to, which both outlive the call.
        check(unsafe { libc::ioctl(fd, libc::SIOCETHTOOL, &raw mut request) })?;
    }
    Ok(())
}

/// Moves the calling thread into the network namespace that `namespace` refers to.
pub(crate) fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open (borrowed), and a network namespace is a property of the
    // thread.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Makes `command` start in the network namespace of `namespace`, with a `/sys` that shows that
/// namespace's interfaces (a sysfs mount shows the namespace it was mounted in).
pub(crate) fn start_in_network_namespace(command: &mut Command, namespace: File) {
    let prepare = move || {
        enter_network_namespace(std::os::fd::AsFd::as_fd(&namespace))?;
        mount_own_sysfs()
    };
    // SAFETY: between fork and exec the closure makes system calls only: no allocation, no lock.
    // `io::Error::last_os_error`, its only other action, merely reads errno.
    unsafe { command.pre_exec(prepare) };
}

/// Gives the calling process a private mount of sysfs, as `ip netns exec` does.
fn mount_own_sysfs() -> io::Result<()> {
    // SAFETY: `unshare` takes a plain integer.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let none = ptr::null();
    let flags = libc::MS_SLAVE | libc::MS_REC;
    // SAFETY: the strings are terminated and static; the kernel ignores the null arguments here.
    check(unsafe { libc::mount(c"".as_ptr(), c"/".as_ptr(), none, flags, ptr::null()) })?;
    let sysfs: &CStr = c"sysfs";
    // SAFETY: as above; the new mount covers the old `/sys` in this mount namespace only.
    check(unsafe {
        libc::mount(
            sysfs.as_ptr(),
            c"/sys".as_ptr(),
            sysfs.as_ptr(),
            0,
            ptr::null(),
        )
    })
    .map(drop)
}

/// An anonymous file, opened for appending so that a child's stdout and stderr never overwrite.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name is terminated, and the flags are a plain integer.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    let file = unsafe { File::from_raw_fd(fd) };
    // SAFETY: the descriptor is open; F_SETFL takes an integer.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND) })?;
    Ok(file)
}

/// A socket for whole Ethernet frames of every protocol, bound to interface `name` of the calling
/// thread's namespace, and the interface's hardware address. Frames sent by this host are not seen.
pub(crate) fn packet_socket(name: &CStr) -> io::Result<(OwnedFd, [u8; 6])> {
    // SAFETY: the string is terminated.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    // Protocol 0: nothing is received before the socket is bound to the interface.
    // SAFETY: `socket` takes plain integers.
    let fd = check(unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            0,
        )
    })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };

    let on: c_int = 1;
    // SAFETY: the pointer and length describe `on`.
    check(unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            ptr::from_ref(&on).cast(),
            socklen::<c_int>(),
        )
    })?;

    // SAFETY: all zeroes is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).expect("an address family fits in 16 bits");
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL)
        .expect("3 fits in 16 bits")
        .to_be();
    address.sll_ifindex = c_int::try_from(index).expect("the kernel's indexes are positive ints");
    let length = socklen::<libc::sockaddr_ll>();
    // SAFETY: the pointer and length describe `address`.
    check(unsafe { libc::bind(fd, ptr::from_ref(&address).cast(), length) })?;

    let mut filled = length;
    // SAFETY: the pointers and length describe `address` and `filled`.
    check(unsafe { libc::getsockname(fd, ptr::from_mut(&mut address).cast(), &raw mut filled) })?;
    let mut mac = [0; 6];
    mac.copy_from_slice(&address.sll_addr[..6]);
    Ok((socket, mac))
}

/// Has interface `name` of the calling thread's namespace given frames of its MTU, with checksums:
/// nothing is left to it.
pub(crate) fn make_whole_frames(name: &CStr) -> io::Result<()> {
    // kernel `include/uapi/linux/ethtool.h`
    const ETHTOOL_STXCSUM: u32 = 0x17;
    const ETHTOOL_STSO: u32 = 0x1f;
    // SAFETY: `socket` takes plain integers.
    let fd =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    for command in [ETHTOOL_STSO, ETHTOOL_STXCSUM] {
        let mut value = [command, 0];
        // SAFETY: all zeroes is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        // SAFETY: the kernel reads `request` and the command and value behind it, which both
        // outlive the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })?;
    }
    Ok(())
}

/// Sends one datagram (or frame) on `socket`.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length describe `bytes`.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives one datagram (or frame); with the true length, even if `buffer` is shorter.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the pointer and length describe `buffer`.
    let got = unsafe { libc::recv(socket.as_raw_fd(), start, length, libc::MSG_TRUNC) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Waits until `fd` is readable; false if `timeout` passed first.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    Ok(wait_any_readable(&[fd], timeout)?[0])
}

/// Waits until one of `fds` is readable or `timeout` has passed, and says which are.
pub(crate) fn wait_any_readable(
    fds: &[BorrowedFd<'_>],
    timeout: Duration,
) -> io::Result<Vec<bool>> {
    let entry = |fd: &BorrowedFd<'_>| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<_> = fds.iter().map(entry).collect();
    let count = libc::nfds_t::try_from(entries.len()).expect("tests have few descriptors");
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: the pointers describe `count` entries and one `timespec`; no signal mask is given.
    check(unsafe { libc::ppoll(entries.as_mut_ptr(), count, &raw const timeout, ptr::null()) })?;
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}

/// Timeouts of the calling thread's waits are exact; otherwise the kernel adds 50 us, to wake up
/// for several at once.
pub(crate) fn wait_exactly() -> io::Result<()> {
    let slack_nanos: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes an integer.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_nanos) }).map(drop)
}

/// The packets of interface `name`, which is made in the calling thread's namespace: layer 3. With
/// `offload`, each begins with a `virtio_net_hdr` and may be longer than the MTU (TSO).
pub(crate) fn tun_device(name: &CStr, offload: bool) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: all zeroes is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let bytes = name.to_bytes_with_nul();
    if bytes.len() > request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let header = if offload { libc::IFF_VNET_HDR } else { 0 };
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | header;
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).expect("both are small");
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    if offload {
        let what = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO_ECN;
        // SAFETY: TUNSETOFFLOAD takes an integer.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, what) })?;
    }
    Ok(file)
}

/// Whether interface `name` of the calling thread's namespace can carry traffic (IFF_RUNNING).
pub(crate) fn interface_is_running(name: &CStr) -> io::Result<bool> {
    // SAFETY: `socket` takes plain integers.
    let fd =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zeroes is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let bytes = name.to_bytes_with_nul();
    if bytes.len() > request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: SIOCGIFFLAGS reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) })?;
    // SAFETY: a successful SIOCGIFFLAGS filled the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(c_int::from(flags) & libc::IFF_RUNNING != 0)
}

/// Takes the XDP programs of process `pid` away from their interfaces, as `bpftool link detach`
/// does.
///
/// # Errors
///
/// The process cannot be looked into, has none, or the kernel refuses.
pub fn detach_xdp(pid: u32) -> io::Result<()> {
    const BPF_LINK_GET_FD_BY_ID: c_int = 30;
    const BPF_LINK_DETACH: c_int = 34;
    // `union bpf_attr`, as far as these commands read it: an id or a descriptor, and flags.
    let bpf = |command: c_int, number: u32| {
        let attributes = [number, 0, 0];
        let size = size_of_val(&attributes);
        // SAFETY: the kernel reads the attributes, whose size is given.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const attributes, size) };
        check(c_int::try_from(result).unwrap_or(-1))
    };
    let mut detached = io::Error::from(io::ErrorKind::NotFound);
    let mut count = 0;
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let text = std::fs::read_to_string(entry?.path()).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_whitespace().last().unwrap_or_default())
        };
        let is_attached = field("ifindex:").is_some_and(|index| index != "0");
        let (Some("xdp"), Some(id), true) = (field("link_type:"), field("link_id:"), is_attached)
        else {
            continue;
        };
        let id = id.parse().map_err(io::Error::other)?;
        let fd = bpf(BPF_LINK_GET_FD_BY_ID, id)?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let link = unsafe { OwnedFd::from_raw_fd(fd) };
        match bpf(BPF_LINK_DETACH, link.as_raw_fd().unsigned_abs()) {
            Ok(_) => count += 1,
            Err(error) => detached = error,
        }
    }
    if count > 0 { Ok(()) } else { Err(detached) }
}

fn socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("socket structures are small")
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The values, of four octets each, of a BPF hash map with this number (bpf(2)).
pub(crate) fn bpf_map_values(id: u32, key_bytes: usize) -> io::Result<Vec<u32>> {
    const BPF_MAP_LOOKUP_ELEM: c_int = 1;
    const BPF_MAP_GET_NEXT_KEY: c_int = 4;
    const BPF_MAP_GET_FD_BY_ID: c_int = 14;
    /// The largest of the parts of `union bpf_attr` that are used here.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let bpf = |command: c_int, attributes: &mut Attributes| {
        let at = ptr::from_mut(attributes);
        // SAFETY: the kernel reads the attributes, and follows their addresses to keys and values
        // of the caller's.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<Attributes>()) };
        check(c_int::try_from(result).unwrap_or(-1))
    };
    let mut attributes = Attributes {
        map: id,
        ..Attributes::default()
    };
    let fd = bpf(BPF_MAP_GET_FD_BY_ID, &mut attributes)?;
    // SAFETY: the kernel has just made it, for nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let map = fd.as_raw_fd().cast_unsigned();
    let (mut key, mut next) = (vec![0_u8; key_bytes], vec![0_u8; key_bytes]);
    let mut is_first = true;
    let mut values = Vec::new();
    loop {
        let at = if is_first {
            0
        } else {
            key.as_ptr().expose_provenance()
        };
        let mut attributes = Attributes {
            map,
            key: at as u64,
            value: next.as_mut_ptr().expose_provenance() as u64,
            ..Attributes::default()
        };
        match bpf(BPF_MAP_GET_NEXT_KEY, &mut attributes) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(values),
            found => found?,
        };
        (is_first, key) = (false, next.clone());
        let mut value = 0_u32;
        let mut attributes = Attributes {
            map,
            key: key.as_ptr().expose_provenance() as u64,
            value: (&raw mut value).expose_provenance() as u64,
            ..Attributes::default()
        };
        // It may have gone meanwhile.
        if bpf(BPF_MAP_LOOKUP_ELEM, &mut attributes).is_ok() {
            values.push(value);
        }
    }
}
