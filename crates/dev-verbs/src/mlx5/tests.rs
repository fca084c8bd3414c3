//! The queues against a card that is a few lines: it reads requests and writes completions.

use std::ffi::c_void;

use rdma_core_sys::{
    MLX5_CQE_INVALID, MLX5_CQE_L4_OK, MLX5_CQE_REQ, MLX5_CQE_REQ_ERR, MLX5_CQE_RESP_SEND,
    MLX5_INLINE_SEG, MLX5_RCV_DBR, MLX5_SND_DBR, mlx5_cqe64, mlx5dv_blueflame, mlx5dv_cq,
    mlx5dv_qp, mlx5dv_queue,
};

use super::*;
use crate::arrived::Arrived;
use crate::opened::Registered;
use crate::tag::Tag;
use crate::work::{Done, Place, Work};

const PAIR: u32 = 0x1234;
const KEY: u32 = 77;
const BLOCKS: usize = 8;
const PLACES: usize = 4;
const ENTRIES: usize = 4;
const REGISTER_BYTES: usize = 256;

/// Words, so that all of it is aligned. Kept behind one pointer: the card and the library share it.
#[derive(Debug)]
struct Shared(*mut u64, usize);

impl Shared {
    fn new(bytes: usize) -> Self {
        let words = vec![0_u64; bytes / 8].into_boxed_slice();
        let len = words.len();
        Self(Box::into_raw(words).cast(), len)
    }

    fn start(&self) -> *mut c_void {
        self.0.cast()
    }

    fn bytes(&self, from: usize, len: usize) -> Vec<u8> {
        let at = self.0.cast::<u8>().wrapping_add(from);
        // SAFETY: inside of what was allocated.
        let byte = |index: usize| unsafe { at.wrapping_add(index).read() };
        (0..len).map(byte).collect()
    }

    fn word(&self, from: usize) -> u32 {
        u32::from_be_bytes(self.bytes(from, 4).try_into().unwrap())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let words = std::ptr::slice_from_raw_parts_mut(self.0, self.1);
        // SAFETY: it comes from a box of so many words.
        drop(unsafe { Box::from_raw(words) });
    }
}

/// The card's side of a completion queue.
#[derive(Debug)]
struct CardQueue {
    entries: Shared,
    record: Shared,
    page: Shared,
    written: usize,
}

impl CardQueue {
    fn new() -> Self {
        let queue = Self {
            entries: Shared::new(ENTRIES * 64),
            record: Shared::new(8),
            page: Shared::new(64),
            written: 0,
        };
        for place in 0..ENTRIES {
            queue.set_op_own(place, MLX5_CQE_INVALID << 4);
        }
        queue
    }

    fn memory(&self) -> mlx5dv_cq {
        mlx5dv_cq {
            buf: self.entries.start(),
            dbrec: self.record.start().cast(),
            cqe_cnt: ENTRIES as u32,
            cqe_size: 64,
            cq_uar: self.page.start(),
            cqn: 9,
            comp_mask: 0,
        }
    }

    fn entry(&self, place: usize) -> *mut mlx5_cqe64 {
        self.entries
            .start()
            .cast::<mlx5_cqe64>()
            .wrapping_add(place)
    }

    fn set_op_own(&self, place: usize, op_own: u8) {
        // SAFETY: inside of the queue.
        unsafe { (*self.entry(place)).op_own = op_own };
    }

    fn complete(&mut self, kind: u8, request: u16, len: u32) {
        let (place, round) = (self.written % ENTRIES, self.written / ENTRIES % 2);
        let entry = self.entry(place);
        // SAFETY: inside of the queue.
        unsafe {
            (*entry).wqe_counter = request.to_be();
            (*entry).byte_cnt = len.to_be();
            (*entry).timestamp = 5_u64.to_be();
            // Every other is right.
            (*entry).hds_ip_ext = (len as u8 & 1) * MLX5_CQE_L4_OK;
        }
        self.set_op_own(place, kind << 4 | round as u8);
        self.written += 1;
    }
}

#[derive(Debug)]
struct Card {
    send: Shared,
    receive: Shared,
    record: Shared,
    register: Shared,
    sent: CardQueue,
    received: CardQueue,
    frames: Shared,
}

impl Card {
    fn new() -> Self {
        Self {
            send: Shared::new(BLOCKS * 64),
            receive: Shared::new(PLACES * 16),
            record: Shared::new(8),
            register: Shared::new(2 * REGISTER_BYTES),
            sent: CardQueue::new(),
            received: CardQueue::new(),
            frames: Shared::new(4096),
        }
    }

    fn memory(&self) -> Memory {
        let queue = |shared: &Shared, count: usize, stride: u32| mlx5dv_queue {
            buf: shared.start(),
            wqe_cnt: count as u32,
            stride,
        };
        let pair = mlx5dv_qp {
            dbrec: self.record.start().cast(),
            sq: queue(&self.send, BLOCKS, 64),
            rq: queue(&self.receive, PLACES, 16),
            bf: mlx5dv_blueflame {
                reg: self.register.start(),
                size: REGISTER_BYTES as u32,
            },
            ..empty()
        };
        Memory {
            pair,
            sent: self.sent.memory(),
            received: self.received.memory(),
        }
    }

    fn frames(&self) -> Registered {
        Registered::at(self.frames.start() as u64, KEY)
    }

    fn sender(&self, uses_blueflame: bool) -> SendQueue {
        SendQueue::of(&self.memory(), PAIR, self.frames(), uses_blueflame, None)
    }

    /// The frame whose octets count up from `first`.
    fn fill(&self, offset: usize, len: usize, first: u8) -> Place {
        for index in 0..len {
            let at = self
                .frames
                .start()
                .cast::<u8>()
                .wrapping_add(offset + index);
            // SAFETY: inside of the frames.
            unsafe { at.write(first.wrapping_add(index as u8)) };
        }
        Place {
            offset: offset as u64,
            len: len as u32,
        }
    }
}

fn counting(first: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| first.wrapping_add(index as u8))
        .collect()
}

#[test]
fn a_request_says_where_the_frame_is() {
    let card = Card::new();
    let mut queue = card.sender(false);
    let frame = card.fill(128, 100, 1);
    assert!(!queue.put(frame, false, true), "the card reads it later");
    assert_eq!(queue.ring(), (1, Ok(())));
    let send = &card.send;
    assert_eq!(send.word(0), 0x0a, "the first request sends");
    assert_eq!(send.word(4), PAIR << 8 | 4);
    assert_eq!(send.bytes(11, 1), [8], "it has a completion");
    assert_eq!(send.bytes(16 + 12, 2), [0, 18]);
    assert_eq!(send.bytes(16 + 14, 18), counting(1, 18));
    assert_eq!((send.word(48), send.word(52)), (82, KEY));
    let address = u64::from_be_bytes(send.bytes(56, 8).try_into().unwrap());
    assert_eq!(address, card.frames.start() as u64 + 128 + 18);
    assert_eq!(card.record.word(MLX5_SND_DBR * 4), 1);
    assert_eq!(card.register.bytes(0, 8), send.bytes(0, 8), "the doorbell");
    assert_eq!(card.register.word(8), 0, "and nothing else");
}

#[test]
fn a_vlans_tag_is_put_behind_the_addresses() {
    let card = Card::new();
    let tag = Tag::new(5);
    let mut queue = SendQueue::of(&card.memory(), PAIR, card.frames(), false, tag);
    queue.put(card.fill(0, 64, 0), true, true);
    queue.put(card.fill(64, 64, 0), false, true);
    queue.ring().1.unwrap();
    let header = [counting(0, 12), vec![0x81, 0, 0, 5], counting(12, 2)].concat();
    // 16 + 32 + 4 + 50 bytes are two blocks.
    for start in [0, 128] {
        assert_eq!(card.send.bytes(start + 16 + 14, 18), header);
    }
    assert_eq!(card.send.word(48), 50 | MLX5_INLINE_SEG);
    assert_eq!(card.send.bytes(52, 50), counting(14, 50));
    assert_eq!(card.send.word(128 + 48), 50);
    let address = u64::from_be_bytes(card.send.bytes(128 + 56, 8).try_into().unwrap());
    assert_eq!(address, card.frames.start() as u64 + 64 + 14);
}

#[test]
fn a_short_request_is_written_to_the_register_whole() {
    let card = Card::new();
    let mut queue = card.sender(true);
    for half in [0, REGISTER_BYTES, 0] {
        let frame = card.fill(0, 64, 9);
        let block = card.record.word(MLX5_SND_DBR * 4) as usize;
        assert!(queue.put(frame, true, false), "its memory is free");
        queue.ring().1.unwrap();
        assert_eq!(card.send.word(block * 64 + 48), 46 | MLX5_INLINE_SEG);
        assert_eq!(card.send.bytes(block * 64 + 52, 46), counting(27, 46));
        // 16 + 32 + 4 + 46 bytes are two blocks.
        assert_eq!(
            card.register.bytes(half, 98),
            card.send.bytes(block * 64, 98)
        );
    }
    // Several leave by a doorbell alone.
    let frame = card.fill(0, 64, 1);
    queue.put(frame, false, false);
    queue.put(frame, false, false);
    queue.ring().1.unwrap();
    assert_eq!(card.register.word(REGISTER_BYTES), 7 << 8 | 0x0a);
}

/// Its headers are in the request, and its payload in frames.
#[test]
fn a_packet_that_is_cut_has_its_headers_and_its_parts() {
    let mut card = Card::new();
    let mut queue = card.sender(false);
    for _ in 0..7 {
        queue.put(card.fill(0, 64, 0), false, true);
    }
    queue.ring().1.unwrap();
    for request in 0..7 {
        card.sent.complete(MLX5_CQE_REQ, request, 0);
        queue.done();
    }
    let parts = [(0, 1000), (1024, 900)].map(|(offset, len)| Place { offset, len });
    queue.put_whole(&counting(1, 66), &parts, Some(500), true);
    queue.ring().1.unwrap();
    // 16 bytes of control, 14 before the headers, and those: six units. The queue ends after four.
    let request = [card.send.bytes(7 * 64, 64), card.send.bytes(0, 64)].concat();
    assert_eq!(request[..4], [0, 0, 7, 0x0e]);
    assert_eq!(request[4..8], (PAIR << 8 | 8).to_be_bytes());
    assert_eq!(request[16 + 4], 0xc0, "both checksums");
    assert_eq!(request[16 + 6..16 + 8], 500_u16.to_be_bytes());
    assert_eq!(request[16 + 12..16 + 14], 66_u16.to_be_bytes());
    assert_eq!(request[30..96], counting(1, 66));
    for (at, (offset, len)) in [(96, (0, 1000_u32)), (112, (1024, 900))] {
        let address = card.frames.start() as u64 + offset;
        let part = [
            &len.to_be_bytes()[..],
            &KEY.to_be_bytes(),
            &address.to_be_bytes(),
        ];
        assert_eq!(request[at..at + 16], part.concat());
    }
    assert_eq!(card.record.word(MLX5_SND_DBR * 4), 9, "two blocks more");
    card.sent.complete(MLX5_CQE_REQ, 7, 0);
    let last = Some(8);
    let is_lost = false;
    assert_eq!(
        queue.done(),
        Done { last, is_lost },
        "each part is a number"
    );
}

#[test]
fn inline_data_go_on_at_the_queues_beginning() {
    let mut card = Card::new();
    let mut queue = card.sender(false);
    for _ in 0..7 {
        queue.put(card.fill(0, 64, 0), false, true);
    }
    queue.ring().1.unwrap();
    for request in 0..4 {
        card.sent.complete(MLX5_CQE_REQ, request, 0);
    }
    assert_eq!(
        queue.done(),
        Done {
            last: Some(3),
            is_lost: false
        }
    );
    queue.put(card.fill(0, 64, 50), true, true);
    queue.ring().1.unwrap();
    let data = [card.send.bytes(7 * 64 + 52, 12), card.send.bytes(0, 34)].concat();
    assert_eq!(data, counting(68, 46));
}

#[test]
fn a_full_queue_has_room_when_the_card_is_done() {
    let mut card = Card::new();
    let mut queue = card.sender(false);
    for number in 0..20_u16 {
        for _ in 0..4 {
            assert!(queue.has_room(64), "{number}");
            queue.put(card.fill(0, 64, 0), true, false);
        }
        assert!(!queue.has_room(64));
        queue.ring().1.unwrap();
        let last = (number * 4 + 3) * 2;
        card.sent.complete(MLX5_CQE_REQ, last, 0);
        let last = Some(u64::from(number) * 4 + 3);
        assert_eq!(
            queue.done(),
            Done {
                last,
                is_lost: false
            }
        );
    }
    assert_eq!(card.sent.record.word(0), 20, "the card knows what was read");
}

#[test]
fn a_request_that_fails_is_the_queues_end() {
    let mut card = Card::new();
    let mut queue = card.sender(false);
    queue.put(card.fill(0, 64, 0), false, true);
    queue.ring().1.unwrap();
    card.sent.complete(MLX5_CQE_REQ_ERR, 0, 0);
    assert!(queue.done().is_lost);
}

#[test]
fn packets_come_in_the_order_of_their_memory() {
    let mut card = Card::new();
    let mut queue = ReceiveQueue::new(&card.memory(), card.frames());
    let mut arrived = [Arrived::default(); 8];
    let mut next = 0_u64;
    for round in 0..10_u64 {
        while queue.room() > 0 {
            queue.put(next * 64, 48);
            next += 1;
        }
        queue.ring();
        assert_eq!(u64::from(card.record.word(MLX5_RCV_DBR * 4)), next);
        let place = ((next - 1) % PLACES as u64) as usize * 16;
        assert_eq!(
            (card.receive.word(place), card.receive.word(place + 4)),
            (48, KEY)
        );
        assert_eq!(queue.take(&mut arrived), 0, "nothing has come");
        for packet in 0..3 {
            card.received.complete(MLX5_CQE_RESP_SEND, 0, 60 + packet);
        }
        assert_eq!(queue.take(&mut arrived), 3);
        for (packet, came) in (0..).zip(&arrived[..3]) {
            let offset = (round * 3 + packet) * 64;
            assert_eq!((came.offset, came.len), (offset, Some(60 + packet as u32)));
            assert_eq!((came.cycles, came.is_checked), (5, packet & 1 != 0));
        }
    }
}

#[test]
fn an_event_is_asked_for_with_what_was_read() {
    let mut card = Card::new();
    let mut queue = ReceiveQueue::new(&card.memory(), card.frames());
    queue.put(0, 48);
    queue.ring();
    card.received.complete(MLX5_CQE_RESP_SEND, 0, 60);
    assert_eq!(queue.take(&mut [Arrived::default(); 2]), 1);
    queue.ask_for_event();
    let asked = 1 << 28 | 1;
    assert_eq!(card.received.record.word(4), asked);
    assert_eq!(card.received.page.word(0x20), asked);
    assert_eq!(card.received.page.word(0x24), 9, "the queue's number");
}

/// What a device that is out of its mind completes is nobody's memory.
#[test]
fn more_completions_than_memory_name_none() {
    let mut card = Card::new();
    let mut queue = ReceiveQueue::new(&card.memory(), card.frames());
    card.received.complete(MLX5_CQE_RESP_SEND, 0, 60);
    let mut arrived = [Arrived::default(); 2];
    assert_eq!(queue.take(&mut arrived), 1);
    assert_eq!(arrived[0].offset, u64::MAX);
}
