//! What programs have of packets: buffers, whose addresses they give back. They lie in memory that
//! is never freed, and what a program says of one is checked: it is one of these, and in use.

use std::collections::VecDeque;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use engine::LentPacket;
use vma_api::abi::Buff;

use crate::process_state::{Device, engine};

/// Made at once; a block lies at a multiple of its size.
const BLOCK_BUFFERS: usize = 256;
/// A packet has one buffer; a list that a program has made may be a circle.
const LIST_MAX: usize = 1 << 16;

#[repr(C, align(64))]
struct Buffer {
    /// First: its address is the buffer's.
    buff: Buff,
    users: u32,
    packet: Option<LentPacket<Device>>,
}

#[repr(C, align(32768))]
struct Block([Buffer; BLOCK_BUFFERS]);

const _: () = assert!(size_of::<Block>() == align_of::<Block>());

#[derive(Default)]
struct Buffers {
    /// In order.
    blocks: Vec<usize>,
    /// The one that was given back longest ago is used first.
    free: VecDeque<Address>,
}

/// Of a buffer.
#[derive(Clone, Copy)]
struct Address(*mut Buffer);

// SAFETY: of memory that lasts, and is used under the lock.
unsafe impl Send for Address {}

static BUFFERS: LazyLock<Mutex<Buffers>> = LazyLock::new(Mutex::default);

fn buffers() -> MutexGuard<'static, Buffers> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Buffers {
    fn take(&mut self) -> *mut Buffer {
        if self.free.is_empty() {
            self.make();
        }
        // There is one: they were just made.
        self.free.pop_front().map_or(ptr::null_mut(), |it| it.0)
    }

    #[cold]
    fn make(&mut self) {
        let block = Box::into_raw(Box::new(Block(std::array::from_fn(|_| Buffer {
            buff: Buff {
                next: ptr::null_mut(),
                payload: ptr::null_mut(),
                len: 0,
            },
            users: 0,
            packet: None,
        }))));
        let place = self.blocks.partition_point(|it| *it < block.addr());
        self.blocks.insert(place, block.addr());
        let first = block.cast::<Buffer>();
        let all = (0..BLOCK_BUFFERS).map(|index| Address(first.wrapping_add(index)));
        self.free.extend(all);
    }

    /// The buffer behind an address of a program's, if it is one that it has.
    fn find(&mut self, buff: *mut Buff) -> Option<&mut Buffer> {
        let is_one = buff.addr().is_multiple_of(size_of::<Buffer>())
            && self
                .blocks
                .binary_search(&(buff.addr() & !(align_of::<Block>() - 1)))
                .is_ok();
        if !is_one {
            return None;
        }
        // SAFETY: one of a block's, which last; the lock is held.
        let buffer = unsafe { &mut *buff.cast::<Buffer>() };
        (buffer.users > 0).then_some(buffer)
    }
}

/// A buffer with a packet, which the program has from here on.
pub(super) fn lend(packet: LentPacket<Device>) -> *mut Buff {
    let octets = packet.octets();
    let buff = Buff {
        next: ptr::null_mut(),
        payload: octets.as_ptr().cast_mut().cast(),
        len: octets.len() as u16,
    };
    let place = buffers().take();
    // SAFETY: it lasts, and nobody else has it.
    if let Some(place) = unsafe { place.as_mut() } {
        (place.buff, place.users, place.packet) = (buff, 1, Some(packet));
    }
    place.cast()
}

/// One user more. Returns how many there are. `None`: the program has no such buffer.
pub(super) fn keep(buff: *mut Buff) -> Option<u32> {
    let mut buffers = buffers();
    let buffer = buffers.find(buff)?;
    buffer.users = buffer.users.saturating_add(1);
    Some(buffer.users)
}

/// One user less; the last gives the packet back.
pub(super) fn free(buff: *mut Buff) -> Option<u32> {
    free_and_next(buff).map(|(users, _)| users)
}

/// Returns the next buffer of its list, too.
fn free_and_next(buff: *mut Buff) -> Option<(u32, *mut Buff)> {
    let mut buffers = buffers();
    let buffer = buffers.find(buff)?;
    buffer.users -= 1;
    let (users, next) = (buffer.users, buffer.buff.next);
    let packet = if users == 0 {
        buffer.packet.take()
    } else {
        None
    };
    if users == 0 {
        buffers.free.push_back(Address(buff.cast()));
    }
    drop(buffers);
    if let (Some(packet), Some(engine)) = (packet, engine()) {
        engine.release(packet);
    }
    Some((users, next))
}

/// One user less of each buffer of a list.
pub(super) fn free_list(first: *mut Buff) -> Option<()> {
    let mut next = first;
    for _ in 0..LIST_MAX {
        if next.is_null() {
            return Some(());
        }
        (_, next) = free_and_next(next)?;
    }
    None
}
