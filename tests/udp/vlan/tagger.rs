//! Gives packets a VLAN tag on their way out of an interface, beside the frame: a BPF program at
//! the end of the sending path (tcx, Linux 6.6), because machines without `8021q` and `act_vlan`
//! have nothing else that does it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use testkit::Skip;

/// The program, attached until it is dropped.
pub(crate) struct Tagger {
    _link: OwnedFd,
}

/// The mark (`SO_MARK`) of packets that get this tag. No tag, no mark.
pub(crate) fn mark(tag: u16) -> u32 {
    if tag == 0 { 0 } else { MARKED | u32::from(tag) }
}

const MARKED: u32 = 0x1_0000;

// include/uapi/linux/bpf.h
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_EGRESS: u32 = 47;
/// `bpf_skb_vlan_push(skb, protocol, tag)`
const VLAN_PUSH: i32 = 18;
/// Offset in `struct __sk_buff`.
const MARK: i16 = 8;

/// `struct bpf_insn`, little-endian: opcode, source and destination register, offset, immediate.
fn instruction(opcode: u8, registers: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let [o0, o1] = offset.to_le_bytes();
    let [i0, i1, i2, i3] = immediate.to_le_bytes();
    [opcode, registers, o0, o1, i0, i1, i2, i3]
}

impl Tagger {
    /// On an interface of the calling thread's network namespace.
    pub(crate) fn attach(interface: &str) -> Result<Self, Skip> {
        if cfg!(target_endian = "big") {
            return Err(Skip::new("the program is for little-endian machines"));
        }
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: the name ends with zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert_ne!(index, 0, "{interface}");
        let tag_protocol = i32::from(u16::from_ne_bytes([0x81, 0x00]));
        let program = [
            instruction(0x61, 0x13, MARK, 0),         // r3 = mark
            instruction(0x15, 0x03, 3, 0),            // if r3 == 0 goto end
            instruction(0x57, 0x03, 0, 0xffff),       // r3 &= 0xffff
            instruction(0xb7, 0x02, 0, tag_protocol), // r2 = 802.1Q
            instruction(0x85, 0x00, 0, VLAN_PUSH),
            instruction(0xb7, 0x00, 0, -1), // end: go on
            instruction(0x95, 0x00, 0, 0),
        ];
        let license = c"Dual MIT/GPL";
        let mut load = [0_u64; 9];
        load[0] = u64::from(BPF_PROG_TYPE_SCHED_CLS) | (program.len() as u64) << 32;
        load[1] = program.as_ptr().expose_provenance() as u64;
        load[2] = license.as_ptr().expose_provenance() as u64;
        // Behind log, version, flags, name and interface: the kind of attachment.
        load[8] = u64::from(BPF_TCX_EGRESS) << 32;
        let program = bpf(BPF_PROG_LOAD, &mut load)?;
        let number = |fd: RawFd| u64::from(fd.cast_unsigned());
        let mut create = [
            number(program.as_raw_fd()) | u64::from(index) << 32,
            u64::from(BPF_TCX_EGRESS),
        ];
        let link = bpf(BPF_LINK_CREATE, &mut create)?;
        Ok(Self { _link: link })
    }
}

fn bpf<const WORDS: usize>(
    command: libc::c_int,
    attributes: &mut [u64; WORDS],
) -> Result<OwnedFd, Skip> {
    // SAFETY: the addresses in the attributes are those of arrays that outlive the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            size_of_val(attributes),
        )
    };
    let Ok(fd @ 0..) = RawFd::try_from(fd) else {
        let error = io::Error::last_os_error();
        return Err(Skip::new(format!("no program that tags packets: {error}")));
    };
    // SAFETY: the descriptor is new and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
