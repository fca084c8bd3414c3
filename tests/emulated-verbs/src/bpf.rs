//! What of bpf(2) is needed: a hash map, a program of a few instructions, and a link to an
//! interface's ingress, which ends with the process.

use std::io;

use libc::c_long;

use crate::sys::{call, out_of_the_way};

const MAP_CREATE: c_long = 0;
const MAP_UPDATE: c_long = 2;
const MAP_DELETE: c_long = 3;
const PROG_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;
const MAP_TYPE_HASH: u32 = 1;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const TCX_INGRESS: u32 = 46;

/// An instruction: operation, registers, offset, immediate value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insn {
    pub(crate) code: u8,
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) value: i32,
}

fn bpf(command: c_long, attributes: &mut [u32; 36]) -> io::Result<c_long> {
    let size = size_of_val(attributes);
    call!(libc::SYS_bpf, command, attributes.as_mut_ptr(), size)
}

fn put_pointer<T>(attributes: &mut [u32; 36], index: usize, pointer: *const T) {
    let address = pointer as u64;
    attributes[index] = address as u32;
    attributes[index + 1] = (address >> 32) as u32;
}

pub(crate) fn create_map(key_bytes: usize, entries: u32) -> io::Result<i32> {
    let mut attributes = [0; 36];
    attributes[..4].copy_from_slice(&[MAP_TYPE_HASH, key_bytes as u32, 4, entries]);
    out_of_the_way(bpf(MAP_CREATE, &mut attributes)?)
}

pub(crate) fn insert(map: i32, key: &[u8]) -> io::Result<()> {
    let value = 1_u32;
    let mut attributes = [0; 36];
    attributes[0] = map.cast_unsigned();
    put_pointer(&mut attributes, 2, key.as_ptr());
    put_pointer(&mut attributes, 4, &raw const value);
    bpf(MAP_UPDATE, &mut attributes).map(drop)
}

pub(crate) fn remove(map: i32, key: &[u8]) {
    let mut attributes = [0; 36];
    attributes[0] = map.cast_unsigned();
    put_pointer(&mut attributes, 2, key.as_ptr());
    let _ = bpf(MAP_DELETE, &mut attributes);
}

/// Runs a program on what comes in by an interface, until the descriptor is closed.
pub(crate) fn attach(program: &[Insn], ifindex: u32) -> io::Result<i32> {
    let mut log = vec![0_u8; 1 << 16];
    let mut attributes = [0; 36];
    attributes[..2].copy_from_slice(&[PROG_TYPE_SCHED_CLS, program.len() as u32]);
    put_pointer(&mut attributes, 2, program.as_ptr());
    put_pointer(&mut attributes, 4, c"GPL".as_ptr());
    attributes[6..8].copy_from_slice(&[1, log.len() as u32]);
    put_pointer(&mut attributes, 8, log.as_mut_ptr());
    let loaded = bpf(PROG_LOAD, &mut attributes)
        .map_err(|error| io::Error::other(format!("{error}: {}", String::from_utf8_lossy(&log))))?;
    let mut attributes = [0; 36];
    attributes[..3].copy_from_slice(&[loaded as u32, ifindex, TCX_INGRESS]);
    let link = bpf(LINK_CREATE, &mut attributes);
    call!(libc::SYS_close, loaded)?;
    out_of_the_way(link?)
}
