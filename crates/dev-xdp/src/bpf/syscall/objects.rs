//! What the kernel knows of links, programs and maps, and those of other processes by number, which
//! takes `CAP_SYS_ADMIN` and Linux 5.8.
//!
//! A descriptor that is opened by number counts like the first one: the object lives until the last
//! is closed, whoever has it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use descriptors::OwnDescriptor;

use super::{
    BPF_OBJ_GET_INFO_BY_FD, Map, MapKind, Name, ObjectInfo, ProgramKind, bpf, fd_as_u32, owned,
    size_as_u32,
};

/// The number of the link behind that of `number`; 0: of the first one. They come in the order of
/// their numbers, which is that in which they were made. `None`: there are no more.
pub(in crate::bpf) fn next_link(number: u32) -> io::Result<Option<u32>> {
    let mut attributes = ById {
        number,
        next: 0,
        flags: 0,
    };
    // SAFETY: the attributes hold no address.
    match unsafe { bpf(BPF_LINK_GET_NEXT_ID, &mut attributes) } {
        Ok(_) => Ok(Some(attributes.next)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A link. `EAGAIN`: it is not complete yet. `ENOENT`: it is gone.
pub(in crate::bpf) fn link(number: u32) -> io::Result<OwnDescriptor> {
    open(BPF_LINK_GET_FD_BY_ID, number)
}

/// A program.
pub(in crate::bpf) fn program(number: u32) -> io::Result<OwnDescriptor> {
    open(BPF_PROG_GET_FD_BY_ID, number)
}

/// A map, if it is one of this kind with `max_entries` entries of these sizes.
pub(in crate::bpf) fn map<const KEY: usize, const VALUE: usize>(
    number: u32,
    kind: MapKind,
    max_entries: u32,
) -> io::Result<Option<Map<KEY, VALUE>>> {
    let fd = open(BPF_MAP_GET_FD_BY_ID, number)?;
    let mut info = MapInfo::default();
    // SAFETY: the structure has no address.
    unsafe { ask(fd.as_fd(), &mut info) }?;
    let is_it = (info.map_type, info.max_entries) == (kind as u32, max_entries)
        && (info.key_size, info.value_size) == const { (size_as_u32(KEY), size_as_u32(VALUE)) };
    Ok(is_it.then_some(Map { fd }))
}

/// Index of the interface that an XDP link's program is on; 0: none, because the link was detached
/// or the interface deleted.
pub(in crate::bpf) fn xdp_link_ifindex(link: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = XdpLinkInfo::default();
    // SAFETY: the structure has no address.
    unsafe { ask(link, &mut info) }?;
    match info.link_type {
        BPF_LINK_TYPE_XDP => Ok(info.ifindex),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The number of the program that a link runs at a tracepoint; `None`: that is not what it does.
pub(in crate::bpf) fn program_at_tracepoint(
    link: BorrowedFd<'_>,
    tracepoint: &[u8],
) -> io::Result<Option<u32>> {
    let mut info = TracepointLinkInfo::default();
    // Without addresses first: links of other kinds have something else in their place, and write
    // more than a name there. SAFETY: the structure has no address.
    unsafe { ask(link, &mut info) }?;
    if info.link_type != BPF_LINK_TYPE_RAW_TRACEPOINT {
        return Ok(None);
    }
    let mut name = [0_u8; TRACEPOINT_NAME_MAX];
    let mut info = TracepointLinkInfo {
        name: name.as_mut_ptr().expose_provenance() as u64,
        name_len: const { size_as_u32(TRACEPOINT_NAME_MAX) },
        ..Default::default()
    };
    // SAFETY: of a link of this kind the kernel writes name_len bytes at most, which `name` has.
    match unsafe { ask(link, &mut info) } {
        Ok(()) => {}
        // A longer name.
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => return Ok(None),
        Err(error) => return Err(error),
    }
    let behind = name.strip_prefix(tracepoint);
    let is_it = behind.is_some_and(|rest| rest.first() == Some(&0));
    Ok(is_it.then_some(info.program))
}

/// What the kernel says of a program.
#[derive(Clone, Copy, Debug)]
pub(in crate::bpf) struct ProgramFacts {
    pub(in crate::bpf) name: Name,
    /// Who has loaded it.
    pub(in crate::bpf) user: u32,
    /// The map that it uses; `None`: it uses none, or several.
    pub(in crate::bpf) only_map: Option<u32>,
}

/// The facts of a program; `None`: it is of another kind.
pub(in crate::bpf) fn program_facts(
    program: BorrowedFd<'_>,
    kind: ProgramKind,
) -> io::Result<Option<ProgramFacts>> {
    let mut map = 0_u32;
    let mut info = ProgramInfo {
        map_count: 1,
        maps: (&raw mut map).expose_provenance() as u64,
        ..Default::default()
    };
    // SAFETY: the kernel writes the numbers of as many maps as said, and nothing to the addresses
    // that are zero.
    unsafe { ask(program, &mut info) }?;
    let facts = ProgramFacts {
        name: info.name,
        user: info.user,
        only_map: (info.map_count == 1).then_some(map),
    };
    Ok((info.program_type == kind as u32).then_some(facts))
}

fn open(command: libc::c_int, number: u32) -> io::Result<OwnDescriptor> {
    let mut attributes = ById {
        number,
        next: 0,
        flags: 0,
    };
    // SAFETY: the attributes hold no address.
    unsafe { bpf(command, &mut attributes) }.and_then(owned)
}

/// Fills in what the kernel knows of an object.
///
/// # Safety
///
/// `info` is the leading part of the kernel's structure for the object, all of it initialized, and
/// every address in it is good for what the kernel writes there.
unsafe fn ask<T>(object: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attributes = ObjectInfo {
        fd: fd_as_u32(&object),
        info_len: const { size_as_u32(size_of::<T>()) },
        info: (&raw mut *info).expose_provenance() as u64,
    };
    // SAFETY: the kernel writes info_len bytes at most, which is the size of `info`; the caller
    // vouches for what it holds.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }.map(drop)
}

/// `BPF_*_GET_NEXT_ID` and `BPF_*_GET_FD_BY_ID`
#[repr(C)]
struct ById {
    number: u32,
    next: u32,
    flags: u32,
}
const _: () = assert!(size_of::<ById>() == 12);

/// `struct bpf_map_info`
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    map_type: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}
const _: () = assert!(size_of::<MapInfo>() == 24);

/// `struct bpf_link_info`, as far as it is about XDP.
#[repr(C)]
#[derive(Default)]
struct XdpLinkInfo {
    link_type: u32,
    id: u32,
    program: u32,
    /// What follows is aligned to eight bytes.
    padding: u32,
    ifindex: u32,
    padding_behind: u32,
}
const _: () = assert!(size_of::<XdpLinkInfo>() == 24);

/// `struct bpf_link_info`, as far as it is about raw tracepoints.
#[repr(C)]
#[derive(Default)]
struct TracepointLinkInfo {
    link_type: u32,
    id: u32,
    program: u32,
    padding: u32,
    name: u64,
    name_len: u32,
    padding_behind: u32,
}
const _: () = assert!(size_of::<TracepointLinkInfo>() == 32);

/// `struct bpf_prog_info`
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    program_type: u32,
    id: u32,
    tag: [u8; 8],
    compiled_len: u32,
    instructions_len: u32,
    compiled: u64,
    instructions: u64,
    loaded_at: u64,
    user: u32,
    map_count: u32,
    maps: u64,
    name: Name,
}
const _: () = assert!(size_of::<ProgramInfo>() == 80);

// enum bpf_cmd
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;
const BPF_LINK_GET_FD_BY_ID: libc::c_int = 30;
const BPF_LINK_GET_NEXT_ID: libc::c_int = 31;

/// `enum bpf_link_type`
const BPF_LINK_TYPE_RAW_TRACEPOINT: u32 = 1;
const BPF_LINK_TYPE_XDP: u32 = 6;

/// Longer than the names that are asked for.
const TRACEPOINT_NAME_MAX: usize = 64;
