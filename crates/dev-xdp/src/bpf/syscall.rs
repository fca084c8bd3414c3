//! bpf(2), one function per command in use. The kernel makes all descriptors close-on-exec.
//!
//! The attribute structures are the leading members of the kernel's `union bpf_attr`
//! (`include/uapi/linux/bpf.h`), as short as the command allows: older kernels know fewer members
//! and refuse unknown ones that are not zero.

mod keys;
pub(super) mod objects;

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use descriptors::OwnDescriptor;

use super::error::BpfError;
use super::insn::Instruction;

/// What a map is (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum MapKind {
    /// Key and value of any size; memory is taken as entries are added.
    Hash = 1,
    /// Index to a value of any size, zero at first. A look-up is a few instructions of the program
    /// itself.
    Array = 2,
    /// The same, with a value for each CPU. Only for programs: to a process it has values of
    /// another size.
    PerCpuArray = 6,
    /// As [`Hash`](Self::Hash), with memory for all entries; where there is no room, one that was
    /// not used for long makes way.
    LruHash = 9,
    /// Index to AF_XDP socket.
    XskMap = 17,
}

/// Names of maps and programs in the kernel's listings: letters, digits, `_` and `.`, ends with
/// zero.
pub(super) type Name = [u8; 16];

/// A map whose keys are `KEY` and whose values `VALUE` bytes long.
#[derive(Debug)]
pub(super) struct Map<const KEY: usize, const VALUE: usize> {
    fd: OwnDescriptor,
}

impl<const KEY: usize, const VALUE: usize> Map<KEY, VALUE> {
    pub(super) fn create(
        kind: MapKind,
        name: Name,
        max_entries: u32,
        attempt: &'static str,
    ) -> Result<Self, BpfError> {
        let mut attributes = MapCreate {
            map_type: kind as u32,
            key_size: const { size_as_u32(KEY) },
            value_size: const { size_as_u32(VALUE) },
            max_entries,
            map_flags: if kind == MapKind::Hash {
                BPF_F_NO_PREALLOC
            } else {
                0
            },
            inner_map_fd: 0,
            numa_node: 0,
            map_name: name,
            map_ifindex: 0,
        };
        // SAFETY: the attributes hold no address.
        let created = unsafe { bpf(BPF_MAP_CREATE, &mut attributes) };
        created
            .and_then(owned)
            .map(|fd| Self { fd })
            .map_err(|cause| BpfError::new(attempt, cause))
    }

    /// Sets the value of `key`, whether there was one or not.
    pub(super) fn update(&self, key: &[u8; KEY], value: &[u8; VALUE]) -> io::Result<()> {
        let mut attributes = self.element(key, value.as_ptr().expose_provenance());
        // SAFETY: the kernel reads KEY and VALUE bytes, which the arrays have.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
    }

    /// The value of `key`, if it has one.
    pub(super) fn lookup(&self, key: &[u8; KEY]) -> io::Result<Option<[u8; VALUE]>> {
        let mut value = [0; VALUE];
        let mut attributes = self.element(key, value.as_mut_ptr().expose_provenance());
        // SAFETY: the kernel reads KEY bytes and writes VALUE bytes, which the arrays have.
        match unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut attributes) } {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes `key`; an error (`ENOENT`) if it was not there.
    pub(super) fn delete(&self, key: &[u8; KEY]) -> io::Result<()> {
        let mut attributes = self.element(key, 0);
        // SAFETY: the kernel reads KEY bytes, which the array has.
        unsafe { bpf(BPF_MAP_DELETE_ELEM, &mut attributes) }.map(drop)
    }

    /// From here on only programs write. Linux 5.2.
    pub(super) fn freeze(&self) -> io::Result<()> {
        let mut attributes = MapFreeze {
            map_fd: fd_as_u32(&self.fd),
        };
        // SAFETY: the attributes hold no address.
        unsafe { bpf(BPF_MAP_FREEZE, &mut attributes) }.map(drop)
    }

    fn element(&self, key: &[u8; KEY], value_address: usize) -> MapElement {
        MapElement {
            map_fd: fd_as_u32(&self.fd),
            padding: 0,
            key: key.as_ptr().expose_provenance() as u64,
            value: value_address as u64,
            flags: BPF_ANY,
        }
    }
}

impl<const KEY: usize, const VALUE: usize> Map<KEY, VALUE> {
    pub(super) fn descriptor(&self) -> &OwnDescriptor {
        &self.fd
    }
}

impl<const KEY: usize, const VALUE: usize> AsFd for Map<KEY, VALUE> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a program is for (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ProgramKind {
    /// Sees packets at traffic control (`BPF_PROG_TYPE_SCHED_CLS`).
    Classifier = 3,
    Xdp = 6,
    RawTracepoint = 17,
}

/// Loads a program. On refusal the error carries the verifier's log.
///
/// `bound_to`: the only interface that the program may be attached to, which lets it call functions
/// of its driver (Linux 6.3).
pub(super) fn load(
    kind: ProgramKind,
    bound_to: Option<u32>,
    instructions: &[Instruction],
    name: Name,
    license: &CStr,
    attempt: &'static str,
) -> Result<OwnDescriptor, BpfError> {
    let load = |log: &mut [u8]| {
        let mut attributes = ProgramLoad {
            prog_type: kind as u32,
            insn_cnt: u32::try_from(instructions.len()).map_err(io::Error::other)?,
            insns: instructions.as_ptr().expose_provenance() as u64,
            license: license.as_ptr().expose_provenance() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: u32::try_from(log.len()).map_err(io::Error::other)?,
            log_buf: match log {
                [] => 0,
                _ => log.as_mut_ptr().expose_provenance() as u64,
            },
            kern_version: 0,
            prog_flags: bound_to.map_or(0, |_| BPF_F_XDP_DEV_BOUND_ONLY),
            prog_name: name,
            prog_ifindex: bound_to.unwrap_or(0),
            expected_attach_type: match kind {
                ProgramKind::Xdp => BPF_XDP,
                ProgramKind::Classifier => BPF_TCX_INGRESS,
                ProgramKind::RawTracepoint => 0,
            },
        };
        // SAFETY: the kernel reads insn_cnt instructions and a string that ends with zero, and
        // writes at most log_size bytes; all of it is borrowed for the duration of the call.
        unsafe { bpf(BPF_PROG_LOAD, &mut attributes) }.and_then(owned)
    };
    // Without a log first: writing one is slow, and a log that does not fit makes loading fail.
    let cause = match load(&mut []) {
        Ok(fd) => return Ok(fd),
        Err(cause) => cause,
    };
    let mut log = vec![0; VERIFIER_LOG_BYTES];
    let _ = load(&mut log);
    let text = CStr::from_bytes_until_nul(&log)
        .map(CStr::to_string_lossy)
        .unwrap_or_default();
    Err(BpfError::new(attempt, cause).with_verifier_log(text.into_owned()))
}

/// Attaches an XDP program to an interface until the returned link is closed. `flags` are of
/// `XDP_FLAGS_*` in kernel `include/uapi/linux/if_link.h`.
pub(super) fn create_xdp_link(
    program: BorrowedFd<'_>,
    target_ifindex: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate {
        prog_fd: fd_as_u32(&program),
        target_ifindex,
        attach_type: BPF_XDP,
        flags,
    };
    // SAFETY: the attributes hold no address.
    unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }.and_then(new_descriptor)
}

/// Has a classifier see what an interface receives, after those that do already, until the returned
/// link is closed. Linux 6.6.
pub(super) fn create_ingress_link(
    program: BorrowedFd<'_>,
    target_ifindex: u32,
) -> io::Result<OwnDescriptor> {
    let mut attributes = LinkCreate {
        prog_fd: fd_as_u32(&program),
        target_ifindex,
        attach_type: BPF_TCX_INGRESS,
        flags: 0,
    };
    // SAFETY: the attributes hold no address.
    unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }.and_then(owned)
}

/// Replaces the program of a link, without a packet in between that no program sees.
pub(super) fn update_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes = LinkUpdate {
        link_fd: fd_as_u32(&link),
        new_prog_fd: fd_as_u32(&program),
        flags: 0,
        old_prog_fd: 0,
    };
    // SAFETY: the attributes hold no address.
    unsafe { bpf(BPF_LINK_UPDATE, &mut attributes) }.map(|_| ())
}

/// Runs a program whenever the kernel passes a tracepoint, until the returned descriptor is closed.
pub(super) fn open_raw_tracepoint(
    program: BorrowedFd<'_>,
    name: &CStr,
) -> io::Result<OwnDescriptor> {
    let mut attributes = RawTracepointOpen {
        name: name.as_ptr().expose_provenance() as u64,
        prog_fd: fd_as_u32(&program),
        padding: 0,
    };
    // SAFETY: the kernel reads a string that ends with zero.
    unsafe { bpf(BPF_RAW_TRACEPOINT_OPEN, &mut attributes) }.and_then(owned)
}

/// Runs a program once on `frame`, which is not modified, and returns the program's result.
///
/// The kernel wants at least an Ethernet header, and no more than fits into a page with headroom.
pub(super) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut attributes = TestRun {
        prog_fd: fd_as_u32(&program),
        retval: 0,
        data_size_in: u32::try_from(frame.len()).map_err(io::Error::other)?,
        data_size_out: 0,
        data_in: frame.as_ptr().expose_provenance() as u64,
        data_out: 0,
        repeat: 1,
        duration: 0,
    };
    // SAFETY: the kernel reads data_size_in bytes, which the frame has, and there is no output
    // buffer.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) }?;
    Ok(attributes.retval)
}

/// Calls bpf(2), again if a signal or a concurrent change disturbed the verifier.
///
/// # Safety
///
/// Every address in `attributes` must be good for what `command` reads from it or writes to it, and
/// `A` must be a prefix of the kernel's structure for `command`.
unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> io::Result<libc::c_long> {
    for _ in 0..ATTEMPTS_MAX {
        // SAFETY: the caller vouches for the addresses; the attributes are as long as said.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<A>()) };
        if result >= 0 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

/// Takes over the descriptor that a bpf(2) call returned.
fn owned(returned: libc::c_long) -> io::Result<OwnDescriptor> {
    new_descriptor(returned).map(OwnDescriptor::new)
}

fn new_descriptor(returned: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(returned).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn fd_as_u32(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time, and checked"
)]
const fn size_as_u32(size: usize) -> u32 {
    assert!(size <= u32::MAX as usize);
    size as u32
}

/// `BPF_MAP_CREATE`
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: Name,
    map_ifindex: u32,
}
const _: () = assert!(size_of::<MapCreate>() == 48);

/// `BPF_MAP_*_ELEM`
#[repr(C)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
const _: () = assert!(size_of::<MapElement>() == 32);

/// `BPF_MAP_FREEZE`
#[repr(C)]
struct MapFreeze {
    map_fd: u32,
}

/// `BPF_PROG_LOAD`
#[repr(C)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: Name,
    prog_ifindex: u32,
    expected_attach_type: u32,
}
const _: () = assert!(size_of::<ProgramLoad>() == 72);

/// `BPF_LINK_CREATE`
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}
const _: () = assert!(size_of::<LinkCreate>() == 16);

/// `BPF_LINK_UPDATE`
#[repr(C)]
struct LinkUpdate {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}
const _: () = assert!(size_of::<LinkUpdate>() == 16);

/// `BPF_OBJ_GET_INFO_BY_FD`
#[repr(C)]
struct ObjectInfo {
    fd: u32,
    info_len: u32,
    info: u64,
}
const _: () = assert!(size_of::<ObjectInfo>() == 16);

/// `BPF_RAW_TRACEPOINT_OPEN`
#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    prog_fd: u32,
    padding: u32,
}
const _: () = assert!(size_of::<RawTracepointOpen>() == 16);

/// `BPF_PROG_TEST_RUN`
#[repr(C)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}
const _: () = assert!(size_of::<TestRun>() == 40);

// enum bpf_cmd
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BPF_MAP_FREEZE: libc::c_int = 22;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;

/// `enum bpf_attach_type`
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
/// Map flag: take memory for entries as they are added.
const BPF_F_NO_PREALLOC: u32 = 1;
/// Program flag: the program is for one interface, and not offloaded to it.
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
/// Element flag: create or replace.
const BPF_ANY: u64 = 0;

/// Calls that a signal may interrupt before it counts as an error, as libbpf does.
const ATTEMPTS_MAX: u32 = 5;
/// Enough for every step the verifier takes through a program of our size.
const VERIFIER_LOG_BYTES: usize = 256 * 1024;
