//! What the generic receive path knows of a packet and does not show to XDP programs: that it is
//! several datagrams in one, to be cut later (`gso_size`), and that it had a VLAN tag, which is in
//! the packet's metadata now.
//!
//! A second program notes where the metadata is (`struct sk_buff *`), and the XDP program reads it
//! there, for packets of ours only: in place where the kernel lets programs read its structures so
//! (`bpf_rdonly_cast`, Linux 6.2), else from copies. The second one sits on the tracepoint
//! `netif_receive_skb`, which the kernel (`net/core/dev.c`, `__netif_receive_skb_core`) passes on
//! the same CPU just before generic XDP, with nothing that could receive another packet in between.
//! Every packet that the machine receives passes it, which costs some 60 ns whatever it does: it is
//! attached only while it is needed, and once for all processes (`taker`).
//!
//! The address is that of the packet that the XDP program sees: the kernel makes a new `sk_buff`
//! only for programs that take packets in fragments (`BPF_F_XDP_HAS_FRAGS`), which ours does not.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::asm::{Assembler, BadJump, Label};
use super::btf::Btf;
use super::error::BpfError;
use super::insn::Condition::{AnyBitOf, Equal, NotEqual};
use super::insn::Register::{self, R0, R1, R2, R3, R6, R10};
use super::insn::Width::{U16, U32, U64};
use super::insn::{Helper, Instruction};
use super::program::PROTOCOL_TCP;
use taker::Taker;

mod taker;

/// The notes, and the program that takes them. It is attached until this is dropped or the last
/// `Held` is, and again when there is another one.
#[derive(Debug)]
pub struct SkbNotes {
    offsets: Offsets,
    /// `None`: the kernel does not let programs read its structures in place.
    types: Option<Types>,
    /// Another one while nobody holds the notes, perhaps, and never while somebody does.
    taker: Taker,
    holders: Mutex<Holders>,
}

#[derive(Debug)]
struct Holders {
    count: u32,
    is_attached: bool,
}

/// One that needs the notes.
#[derive(Debug)]
pub(crate) struct Held(Arc<SkbNotes>);

/// How the XDP program reads what a note points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Four loads. Takes Linux 6.2 and the compiler of BPF programs (`net.core.bpf_jit_enable`).
    InPlace,
    /// Two copies, each by a call.
    Copied,
}

/// Why notes cannot be taken.
#[derive(Debug)]
pub enum NotesError {
    /// The kernel does not show its types (`CONFIG_DEBUG_INFO_BTF`), or they are not as expected.
    NoTypes(io::Error),
    /// bpf(2) refused: no tracing in this kernel, or `CAP_PERFMON` is missing.
    Refused(BpfError),
}

impl SkbNotes {
    /// Begins to take notes. Takes `CAP_BPF` and `CAP_PERFMON`.
    pub fn begin() -> Result<Self, NotesError> {
        let mut btf = Btf::of_kernel().map_err(NotesError::NoTypes)?;
        let offsets = Offsets::find(&mut btf)
            .ok_or_else(|| NotesError::NoTypes(io::Error::other("no such types")))?;
        let types = Types::find(&mut btf);
        Ok(Self {
            offsets,
            types,
            taker: Taker::attached()?,
            holders: Mutex::new(Holders {
                count: 0,
                is_attached: true,
            }),
        })
    }

    /// Notes are taken as long as what this returns lives.
    pub(crate) fn hold(self: &Arc<Self>) -> Result<Held, NotesError> {
        let mut holders = self.holders();
        if !holders.is_attached {
            self.taker.attach_again()?;
            holders.is_attached = true;
        }
        holders.count += 1;
        drop(holders);
        Ok(Held(Arc::clone(self)))
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cheapest way to read that the kernel seems to have.
    pub(crate) fn reading(&self) -> Reading {
        match self.types {
            Some(_) => Reading::InPlace,
            None => Reading::Copied,
        }
    }

    /// The part of an XDP program that jumps to `pass` if a packet is more than its bytes show, or
    /// if that is not known. Below `stack`, from the end of the stack frame, it overwrites
    /// [`STACK_BYTES_MAX`] bytes. Segments of TCP, which the protocol in `protocol` says it is, may
    /// be several in one: to a stream that is the same.
    pub(super) fn check(
        &self,
        a: &mut Assembler,
        reading: Reading,
        stack: i16,
        pass: Label,
        protocol: Register,
    ) {
        let checked = a.label();
        // A note serves once: where none was taken for this packet, the kernel gets it.
        look_up_note(a, self.taker.notes(), stack - 4, pass);
        a.load(R1, U64, R0, 0);
        a.store(U64, R0, 0, 0);
        a.jump_if(R1, Equal, 0, pass);
        match (reading, &self.types) {
            (Reading::InPlace, Some(types)) => {
                self.check_in_place(a, types, pass, protocol, checked);
            }
            _ => self.check_copies(a, stack, pass, protocol, checked),
        }
        a.place(checked);
    }

    /// R1 is where the metadata is.
    fn check_in_place(
        &self,
        a: &mut Assembler,
        types: &Types,
        pass: Label,
        protocol: Register,
        checked: Label,
    ) {
        let offsets = &self.offsets;
        types.cast(a, types.sk_buff);
        offsets
            .tag
            .jump_if_there(a, R0, as_offset(offsets.tag.octet), pass);
        a.jump_if(protocol, Equal, PROTOCOL_TCP, checked);

        a.load(R1, U64, R0, as_offset(offsets.head));
        a.load(R2, U32, R0, as_offset(offsets.end));
        a.add(R1, R2);
        types.cast(a, types.skb_shared_info);
        a.load(R1, U16, R0, as_offset(offsets.gso_size));
        a.jump_if(R1, NotEqual, 0, pass);
    }

    /// The same.
    fn check_copies(
        &self,
        a: &mut Assembler,
        stack: i16,
        pass: Label,
        protocol: Register,
        checked: Label,
    ) {
        let offsets = &self.offsets;
        let (first, len) = (offsets.first(), offsets.len());
        let copy = stack - as_offset(len);
        let copied = |member: u32| copy + as_offset(member - first);

        // head, end and the tag in one go.
        a.mov(R3, R1);
        a.add(R3, i32::from(as_offset(first)));
        a.mov(R1, R10);
        a.add(R1, i32::from(copy));
        a.mov(R2, i32::from(as_offset(len)));
        a.call(Helper::ProbeReadKernel);
        a.jump_if(R0, NotEqual, 0, pass);
        offsets
            .tag
            .jump_if_there(a, R10, copied(offsets.tag.octet), pass);
        a.jump_if(protocol, Equal, PROTOCOL_TCP, checked);

        a.load(R3, U64, R10, copied(offsets.head));
        a.load(R1, U32, R10, copied(offsets.end));
        a.add(R3, R1);
        a.add(R3, i32::from(as_offset(offsets.gso_size)));
        a.mov(R1, R10);
        a.add(R1, i32::from(copy));
        a.mov(R2, 2);
        a.call(Helper::ProbeReadKernel);
        a.jump_if(R0, NotEqual, 0, pass);
        a.load(R1, U16, R10, copy);
        a.jump_if(R1, NotEqual, 0, pass);
    }
}

impl Held {
    pub(crate) fn notes(&self) -> &Arc<SkbNotes> {
        &self.0
    }
}

impl Drop for Held {
    /// After the last one the program is detached, whoever still has the notes.
    fn drop(&mut self) {
        let mut holders = self.0.holders();
        holders.count = holders.count.saturating_sub(1);
        if holders.count == 0 {
            holders.is_attached = false;
            self.0.taker.detach();
        }
    }
}

impl From<BpfError> for NotesError {
    fn from(error: BpfError) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for NotesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTypes(error) => write!(formatter, "cannot read the types: {error}"),
            Self::Refused(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for NotesError {}

/// Where things are, in bytes.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    /// In `struct sk_buff`. `end` counts from where `head` points to, as on every 64-bit machine.
    head: u32,
    end: u32,
    tag: Tag,
    /// In `struct skb_shared_info`, which lies behind the packet.
    gso_size: u32,
}

impl Offsets {
    fn find(btf: &mut Btf) -> Option<Self> {
        let offsets = Self {
            head: btf.offset_of("sk_buff", "head")?,
            end: btf.offset_of("sk_buff", "end")?,
            tag: Tag::find(btf)?,
            gso_size: btf.offset_of("skb_shared_info", "gso_size")?,
        };
        let is_supported = cfg!(target_pointer_width = "64") && offsets.len() <= STACK_BYTES_MAX;
        is_supported.then_some(offsets)
    }

    /// Where the part of `struct sk_buff` begins that is looked at. What is aligned in it is
    /// aligned in a copy.
    fn first(&self) -> u32 {
        self.head.min(self.end).min(self.tag.octet) & !7
    }

    fn len(&self) -> u32 {
        let end = (self.head + 8).max(self.end + 4).max(self.tag.octet + 2);
        (end - self.first()).next_multiple_of(8)
    }
}

/// What says that a packet has a VLAN tag in `struct sk_buff`.
#[derive(Clone, Copy, Debug)]
struct Tag {
    octet: u32,
    /// In two octets.
    mask: i32,
}

impl Tag {
    /// A bit before Linux 6.2, where a VLAN's packets keep the tag that they had (`vlan_present`,
    /// `__vlan_hwaccel_clear_tag`); then the tag itself.
    fn find(btf: &mut Btf) -> Option<Self> {
        match btf.bit_offset_of("sk_buff", "vlan_present") {
            Some(bit) if cfg!(target_endian = "little") => Some(Self {
                octet: bit / 16 * 2,
                mask: 1 << (bit % 16),
            }),
            _ => Some(Self {
                octet: btf.offset_of("sk_buff", "vlan_tci")?,
                mask: 0xffff,
            }),
        }
    }

    /// `at`: where it lies behind what `base` points to. R1 is lost.
    fn jump_if_there(self, a: &mut Assembler, base: Register, at: i16, target: Label) {
        a.load(R1, U16, base, at);
        a.jump_if(R1, AnyBitOf, self.mask, target);
    }
}

/// The kernel's numbers of what it takes to read in place.
#[derive(Clone, Copy, Debug)]
struct Types {
    /// `bpf_rdonly_cast`: of an address and a structure's number it makes what programs may read.
    /// An address that is not readable reads as zeros. The kernel compiles the call to a move.
    rdonly_cast: u32,
    sk_buff: u32,
    skb_shared_info: u32,
}

impl Types {
    /// `None`: before Linux 6.2.
    fn find(btf: &mut Btf) -> Option<Self> {
        Some(Self {
            sk_buff: btf.structure("sk_buff")?,
            skb_shared_info: btf.structure("skb_shared_info")?,
            rdonly_cast: btf.function("bpf_rdonly_cast")?,
        })
    }

    /// R0 = R1 as a structure.
    fn cast(&self, a: &mut Assembler, structure: u32) {
        a.mov(R2, structure.cast_signed());
        a.call_function(self.rdonly_cast);
    }
}

/// The source of the program that takes the notes. R6 is the packet (`struct sk_buff *`). Another
/// source gets another name (`taker`).
fn assemble(map: BorrowedFd<'_>) -> Result<Vec<Instruction>, BadJump> {
    let mut a = Assembler::default();
    let done = a.label();
    a.load(R6, U64, R1, 0);
    look_up_note(&mut a, map, -4, done);
    a.store(U64, R0, 0, R6);
    a.place(done);
    a.mov(R0, 0);
    a.exit();
    a.finish()
}

/// R0 = the address of this CPU's note. `index`: four bytes of the stack frame for use.
fn look_up_note(a: &mut Assembler, map: BorrowedFd<'_>, index: i16, missing: Label) {
    a.store(U32, R10, index, 0);
    a.load_map(R1, map);
    a.mov(R2, R10);
    a.add(R2, i32::from(index));
    a.call(Helper::MapLookupElement);
    a.jump_if(R0, Equal, 0, missing);
}

/// The kernel's structures are smaller than what an instruction's offset can say.
fn as_offset(bytes: u32) -> i16 {
    i16::try_from(bytes).unwrap_or(i16::MAX)
}

/// A program's stack frame is of 512 bytes.
const STACK_BYTES_MAX: u32 = 256;

#[cfg(test)]
mod tests;
