//! Packets as pcapng (draft-ietf-opsawg-pcapng): blocks in this machine's order of octets.

use std::io::{self, Write};

use stats::Direction;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
/// Of a section.
const SYSTEM: u16 = 3;
const PROGRAM: u16 = 4;
/// Of an interface.
const NAME: u16 = 2;
const TIME_RESOLUTION: u16 = 9;
const NANOSECONDS: u8 = 9;
/// Of a packet.
const FLAGS: u16 = 2;
const DROPPED_BEFORE: u16 = 4;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// Of statistics.
const SYSTEM_DROPPED: u16 = 7;

/// A packet, and what is said of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    /// Number of its interface in the file.
    pub(super) interface: u32,
    pub(super) nsec: u64,
    pub(super) direction: Direction,
    pub(super) len: u32,
    pub(super) bytes: &'a [u8],
    pub(super) comment: &'a str,
    /// Packets that were lost between the one before and this one.
    pub(super) dropped: u64,
}

/// A block that is being made.
struct Block(Vec<u8>);

impl Block {
    fn new(kind: u32) -> Self {
        let mut block = Self(Vec::with_capacity(256));
        block.word(kind);
        // Its length.
        block.word(0);
        block
    }

    fn word(&mut self, value: u32) {
        self.0.extend(value.to_ne_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// What does not fit into an option is cut.
    fn option(&mut self, code: u16, value: &[u8]) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.0.extend(code.to_ne_bytes());
        self.0.extend(len.to_ne_bytes());
        self.padded(value.get(..len.into()).unwrap_or(value));
    }

    fn finish(mut self, to: &mut dyn Write) -> io::Result<u64> {
        self.option(END_OF_OPTIONS, &[]);
        let len = u32::try_from(self.0.len() + 4).map_err(|_| io::ErrorKind::InvalidData)?;
        self.word(len);
        if let Some(place) = self.0.get_mut(4..8) {
            place.copy_from_slice(&len.to_ne_bytes());
        }
        to.write_all(&self.0)?;
        Ok(len.into())
    }
}

/// Begins a file. Returns, as all of these do, how much was written.
pub(super) fn begin(to: &mut dyn Write, comment: &str) -> io::Result<u64> {
    let mut block = Block::new(SECTION_HEADER);
    block.word(BYTE_ORDER);
    // Version 1.0.
    block.0.extend(1_u16.to_ne_bytes());
    block.0.extend(0_u16.to_ne_bytes());
    // How long it is nobody knows yet.
    block.0.extend(u64::MAX.to_ne_bytes());
    block.option(SYSTEM, b"Linux");
    block.option(
        PROGRAM,
        concat!("vma_stats ", env!("CARGO_PKG_VERSION")).as_bytes(),
    );
    block.option(COMMENT, comment.as_bytes());
    block.finish(to)
}

/// The next interface.
pub(super) fn interface(to: &mut dyn Write, name: &str, snap: u32) -> io::Result<u64> {
    let mut block = Block::new(INTERFACE);
    block.0.extend(ETHERNET.to_ne_bytes());
    block.0.extend(0_u16.to_ne_bytes());
    block.word(snap);
    block.option(NAME, name.as_bytes());
    block.option(TIME_RESOLUTION, &[NANOSECONDS]);
    block.finish(to)
}

pub(super) fn packet(to: &mut dyn Write, packet: &Packet<'_>) -> io::Result<u64> {
    let mut block = Block::new(PACKET);
    block.word(packet.interface);
    time(&mut block, packet.nsec);
    block.word(u32::try_from(packet.bytes.len()).unwrap_or(u32::MAX));
    block.word(packet.len);
    block.padded(packet.bytes);
    let flags = match packet.direction {
        Direction::Received => INBOUND,
        Direction::Sent => OUTBOUND,
    };
    block.option(FLAGS, &flags.to_ne_bytes());
    if packet.dropped > 0 {
        block.option(DROPPED_BEFORE, &packet.dropped.to_ne_bytes());
    }
    if !packet.comment.is_empty() {
        block.option(COMMENT, packet.comment.as_bytes());
    }
    block.finish(to)
}

/// What became of the others, at the end.
pub(super) fn statistics(
    to: &mut dyn Write,
    interface: u32,
    nsec: u64,
    dropped: u64,
) -> io::Result<u64> {
    let mut block = Block::new(STATISTICS);
    block.word(interface);
    time(&mut block, nsec);
    block.option(SYSTEM_DROPPED, &dropped.to_ne_bytes());
    block.finish(to)
}

/// Two words, the upper one first, in either order of octets.
fn time(block: &mut Block, nsec: u64) {
    let [upper, lower] = [nsec >> 32, nsec & u64::from(u32::MAX)];
    block.word(u32::try_from(upper).unwrap_or(u32::MAX));
    block.word(u32::try_from(lower).unwrap_or(u32::MAX));
}
