//! The XDP program: which received packets go to an AF_XDP socket, and which to the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use descriptors::OwnDescriptor;

use super::asm::{Assembler, BadJump, Label};
use super::driver_time::DriverTime;
use super::error::BpfError;
use super::hidden::Hidden;
use super::insn::Condition::{AnyBitOf, Equal, Greater, Less, NotEqual};
use super::insn::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use super::insn::Width::{U8, U16, U32, U64};
use super::insn::{Helper, Instruction, Register};
use super::maps::{EXEMPT, WITH_EXEMPTIONS};
use super::syscall::{self, ProgramKind};

pub(crate) use super::maps::PROCESSES_MAX;
pub use super::maps::{FlowMaps, GROUPS_MAX, NOBODY, SHARED_QUEUES_MAX, Shares};

mod checks;
mod decision;
mod group;
mod ipv6;
mod layout;
mod measuring;
mod options;
mod owner;
mod stamp;
mod wildcard;

use checks::{check_group_mac, check_source, check_transport};
pub(super) use layout::PROTOCOL_TCP;
use layout::*;

/// A loaded program, not yet attached to an interface.
#[derive(Debug)]
pub struct Program {
    fd: OwnDescriptor,
}

/// What a receive buffer holds.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Bytes of one.
    pub frame_bytes: u32,
    /// TCP segments longer than that come in several: the sockets were bound with `XDP_USE_SG`.
    pub in_pieces: bool,
}

/// What the program does with a packet that is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMatch {
    /// Redirects it to the AF_XDP socket of its receive queue, or to the kernel if there is none.
    Redirect,
    /// The same, with the time in front of its bytes, where the driver has room for that: see
    /// [`dev_core::NotedTimes`].
    RedirectStamped,
    /// The same, and in front of that the time by the device's clock.
    RedirectStampedByDevice(DriverTime),
    /// Returns this verdict. Test runs use [`Verdict::Tx`] to tell a match from a pass without a
    /// socket; attached to an interface it would send the packets back.
    Verdict(Verdict),
}

/// The result of an XDP program (`enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Verdict {
    /// Dropped, as after an error in the program.
    Aborted = 0,
    /// Dropped.
    Drop = 1,
    /// Handed to the kernel.
    Pass = 2,
    /// Sent back where it came from.
    Tx = 3,
    /// Sent elsewhere: here, to an AF_XDP socket.
    Redirect = 4,
}

impl Program {
    /// Loads the program for an interface with Ethernet address `mac`. It reads `maps` for as long
    /// as it lives, also behind the life of `maps`.
    ///
    /// Packets that are not what their bytes show go to the kernel, as far as `hidden` tells of
    /// them.
    ///
    /// Frames that do not fit into a receive buffer go to the kernel. When the interface's address
    /// changes, the program must be loaded again.
    ///
    /// Takes `CAP_BPF`, `CAP_NET_ADMIN` and, before Linux 5.18, `CAP_PERFMON`.
    pub fn load(
        maps: &FlowMaps,
        mac: [u8; 6],
        capacity: Capacity,
        on_match: OnMatch,
        hidden: Hidden<'_>,
    ) -> Result<Self, BpfError> {
        let load = |hidden| Self::load_asking(maps, mac, capacity, on_match, hidden);
        load(hidden).or_else(|error| match hidden.asked_otherwise() {
            Some(hidden) => load(hidden).map_err(|_| error),
            None => Err(error),
        })
    }

    /// The same without another try where the kernel refuses how the program asks for what is
    /// hidden.
    pub(super) fn load_asking(
        maps: &FlowMaps,
        mac: [u8; 6],
        capacity: Capacity,
        on_match: OnMatch,
        hidden: Hidden<'_>,
    ) -> Result<Self, BpfError> {
        let load = |length_from| {
            let attempt = "load the XDP program";
            let instructions = assemble(maps, mac, capacity, on_match, hidden, length_from)
                .map_err(|bad_jump| BpfError::new(attempt, io::Error::other(bad_jump)))?;
            let bound_to = match (hidden, on_match) {
                (Hidden::Driver(tags), _) => Some(tags.ifindex),
                (_, OnMatch::RedirectStampedByDevice(time)) => Some(time.ifindex),
                _ => None,
            };
            let fd = syscall::load(
                ProgramKind::Xdp,
                bound_to,
                &instructions,
                PROGRAM_NAME,
                c"Dual MIT/GPL",
                attempt,
            )?;
            Ok(Self { fd })
        };
        load(LengthFrom::Pointers).or_else(|error: BpfError| match error.errno() {
            Some(libc::EACCES | libc::EPERM) => load(LengthFrom::Helper).map_err(|_| error),
            _ => Err(error),
        })
    }

    /// Runs the program in the kernel on one frame, outside any interface.
    ///
    /// The kernel takes frames from 14 bytes to about 3500 (a page less headroom).
    pub fn test_run(&self, frame: &[u8]) -> Result<Verdict, BpfError> {
        let attempt = "run the XDP program on a test frame";
        let result = syscall::test_run(self.as_fd(), frame)
            .map_err(|cause| BpfError::new(attempt, cause))?;
        use Verdict::{Aborted, Drop, Pass, Redirect, Tx};
        [Aborted, Drop, Pass, Tx, Redirect]
            .into_iter()
            .find(|verdict| (*verdict as i32).cast_unsigned() == result)
            .ok_or_else(|| {
                let message = format!("the result {result} is not an XDP verdict");
                BpfError::new(attempt, io::Error::other(message))
            })
    }

    /// The descriptor of the program.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// How the program learns the length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthFrom {
    /// As the difference of two pointers, which counts as a pointer leak without `CAP_PERFMON`.
    Pointers,
    /// From the kernel, which takes a call for each frame and Linux 5.18.
    Helper,
}

/// The program's source.
///
/// Registers: R6 the context, R7 the first byte of the frame, R8 the end and then the length of the
/// frame, then the port's key, and at last whether the port is redirected, R9 the IP protocol. R1
/// to R3 are scratch.
fn assemble(
    maps: &FlowMaps,
    mac: [u8; 6],
    capacity: Capacity,
    on_match: OnMatch,
    hidden: Hidden<'_>,
    length_from: LengthFrom,
) -> Result<Vec<Instruction>, BadJump> {
    let owners = owner::Owners::of(maps);
    let mut a = Assembler::default();
    let pass = a.label();
    let matched = a.label();
    let with_exemptions = a.label();
    let not_for_all = a.label();
    let not_ipv4 = a.label();
    let with_options = a.label();

    a.mov(R6, R1);
    a.load(R7, U32, R6, context::DATA);
    a.load(R8, U32, R6, context::DATA_END);

    // All headers are in the frame.
    a.mov(R1, R7);
    a.add(R1, frame::HEADERS_BYTES);
    a.jump_if(R1, Greater, R8, pass);
    match length_from {
        LengthFrom::Pointers => a.sub(R8, R7),
        LengthFrom::Helper => {
            a.mov(R1, R6);
            a.call(Helper::XdpBufferLength);
            a.mov(R8, R0);
        }
    }

    // Ethernet: to our address, or to that of the multicast group that the packet is for, and not
    // to everyone.
    let to_us = a.label();
    let not_to_us = a.label();
    let is_ipv4 = a.label();
    a.load(R1, U16, R7, frame::DESTINATION_MAC);
    a.jump_if(R1, NotEqual, in_memory([0x01, 0x00]), to_us);
    check_group_mac(&mut a, is_ipv4, pass);
    a.place(to_us);
    for (offset, pair, other) in [
        (0, [mac[0], mac[1]], not_to_us),
        (2, [mac[2], mac[3]], pass),
        (4, [mac[4], mac[5]], pass),
    ] {
        a.load(R1, U16, R7, frame::DESTINATION_MAC + offset);
        a.jump_if(R1, NotEqual, in_memory(pair), other);
    }

    // IPv4 without a VLAN tag, or perhaps IPv6.
    a.load(R1, U16, R7, frame::ETHER_TYPE);
    a.jump_if(R1, NotEqual, in_memory(ETHER_TYPE_IPV4), not_ipv4);

    // IPv4: version 4, header of five words (no options), not a fragment.
    a.place(is_ipv4);
    a.load(R1, U8, R7, frame::VERSION_AND_IHL);
    a.jump_if(R1, NotEqual, 0x45, with_options);
    a.load(R1, U16, R7, frame::FLAGS_AND_OFFSET);
    a.jump_if(R1, AnyBitOf, in_memory(FRAGMENT_MASK.to_be_bytes()), pass);

    check_source(&mut a, pass);

    // R1 = IP total length, and the frame must reach so far. What lies behind is padding.
    a.load(R1, U16, R7, frame::TOTAL_LENGTH);
    a.be16(R1);
    a.mov(R2, R1);
    a.add(R2, ETHERNET_HEADER_BYTES);
    a.jump_if(R2, Greater, R8, pass);

    a.load(R9, U8, R7, frame::PROTOCOL);
    check_transport(&mut a, capacity, frame::UDP_LENGTH, IP_HEADER_BYTES, pass);

    // Is the port one of ours? R8 = the key, as `maps` builds it. It is put together in a register:
    // a load of eight bytes just after stores of two and four waits until they are in the cache.
    a.load(R8, U32, R7, frame::DESTINATION_ADDRESS);
    a.shift_left(R8, KEY_SHIFTS.address);
    a.load(R1, U16, R7, frame::DESTINATION_PORT);
    owners.note_port(&mut a, R1);
    a.shift_left(R1, KEY_SHIFTS.port);
    a.or(R8, R1);
    a.mov(R1, R9);
    a.shift_left(R1, KEY_SHIFTS.protocol);
    a.or(R8, R1);

    // Mostly it is the one in the slot of its lower byte. If the slot is empty, no port is for
    // everybody that would have it.
    a.load(R1, U8, R7, frame::DESTINATION_PORT + 1);
    a.store(U32, R10, SLOT_INDEX, R1);
    look_up(&mut a, maps.v4().ports.slots_fd(), SLOT_INDEX);
    a.jump_if(R0, Equal, 0, pass);
    a.load(R1, U64, R0, 0);
    a.jump_if(R1, Equal, R8, matched);

    // Or is it one at any address of the interface?
    a.store(U64, R10, IN_SLOT, R1);
    wildcard::steer(
        &mut a,
        maps.v4(),
        owners,
        &wildcard::V4,
        matched,
        with_exemptions,
    );
    a.load(R1, U64, R10, IN_SLOT);
    a.jump_if(R1, Equal, 0, not_for_all);
    a.store(U64, R10, PORT_KEY, R8);
    look_up(&mut a, maps.v4().ports.all_fd(), PORT_KEY);
    a.jump_if(R0, Equal, 0, not_for_all);
    let flows = decision::flows_of_port(&mut a, matched, with_exemptions);

    // Is this one of the flows?
    a.place(not_for_all);
    a.mov(R8, 0);
    a.place(flows);
    put_flow_key(&mut a, R7);
    look_up(&mut a, maps.v4().flows_fd(), FLOW_KEY);
    decision::decide(&mut a, owners, group::V4, matched, pass);
    a.jump_if(R0, Equal, 0, pass);

    a.place(with_options);
    options::steer(&mut a, maps.v4(), capacity, owners, matched, pass);

    a.place(not_to_us);
    ipv6::check_group_mac(&mut a, pass);
    a.place(not_ipv4);
    ipv6::steer(&mut a, maps.v6(), capacity, owners, matched, pass);

    a.place(matched);
    owners.find(&mut a, pass);
    match hidden {
        Hidden::Nothing => {}
        Hidden::Notes(notes, reading) => notes.check(&mut a, reading, BELOW_KEYS, pass, R9),
        Hidden::Driver(tags) => {
            // What the function writes, protocol and tag, is of no interest here.
            a.store(U32, R10, TAG, 0);
            a.mov(R1, R6);
            a.mov(R2, R10);
            a.add(R2, i32::from(TAG));
            a.mov(R3, R10);
            a.add(R3, i32::from(TAG) + 2);
            a.call_function(tags.function);
            // The result is of 32 bits, with anything above.
            a.shift_left(R0, 32);
            a.mov(R1, -libc::ENODATA);
            a.shift_left(R1, 32);
            a.jump_if(R0, NotEqual, R1, pass);
        }
    }
    match on_match {
        OnMatch::RedirectStamped => stamp::put(&mut a, None),
        OnMatch::RedirectStampedByDevice(time) => stamp::put(&mut a, Some(time)),
        OnMatch::Redirect | OnMatch::Verdict(_) => {}
    }
    match on_match {
        OnMatch::Redirect | OnMatch::RedirectStamped | OnMatch::RedirectStampedByDevice(_) => {
            // To the socket of this queue; the third argument is the result if there is none.
            a.load(R2, U32, R6, context::RX_QUEUE_INDEX);
            owners.choose_socket(&mut a, pass);
            a.load_map(R1, maps.xsks_fd());
            a.mov(R3, Verdict::Pass as i32);
            a.call(Helper::RedirectMap);
        }
        OnMatch::Verdict(verdict) => a.mov(R0, verdict as i32),
    }
    a.exit();

    a.place(pass);
    a.mov(R0, Verdict::Pass as i32);
    a.exit();
    a.finish()
}

/// Puts the key of an IPv4 packet's flow together. `ports`: as far behind the frame's first byte as
/// the header's options are long; R9 is the protocol. R1 is the destination port afterwards.
fn put_flow_key(a: &mut Assembler, ports: Register) {
    a.load(R1, U32, R7, frame::SOURCE_ADDRESS);
    a.store(U32, R10, FLOW_KEY, R1);
    a.load(R1, U32, R7, frame::DESTINATION_ADDRESS);
    a.store(U32, R10, FLOW_KEY + 4, R1);
    a.load(R1, U16, ports, frame::SOURCE_PORT);
    a.store(U16, R10, FLOW_KEY + 8, R1);
    a.load(R1, U16, ports, frame::DESTINATION_PORT);
    a.store(U16, R10, FLOW_KEY + 10, R1);
    a.store(U32, R10, FLOW_KEY + 12, 0);
    a.store(U8, R10, FLOW_KEY + 12, R9);
}

/// R0 = the address of what the map has under the key at this place of the stack frame, or 0.
fn look_up(a: &mut Assembler, map: BorrowedFd<'_>, key: i16) {
    a.load_map(R1, map);
    a.mov(R2, R10);
    a.add(R2, i32::from(key));
    a.call(Helper::MapLookupElement);
}

/// Two bytes of the packet as a 16-bit load sees them.
const fn in_memory(bytes: [u8; 2]) -> i32 {
    u16::from_ne_bytes(bytes) as i32
}
