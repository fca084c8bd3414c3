use super::*;

/// The octets of the stream from `from` on.
fn stream(from: u32, len: u32) -> Vec<u8> {
    (from..from + len).map(octet).collect()
}

fn octet(position: u32) -> u8 {
    (position.wrapping_mul(0x9e37_79b1) >> 24).to_le_bytes()[0]
}

fn concat(pieces: Pieces<'_>) -> Vec<u8> {
    pieces.flatten().copied().collect()
}

/// A queue and what it must be, far enough that numbers wrap.
struct Model {
    queue: SendQueue,
    iss: SeqNumber,
    written: u32,
    acknowledged: u32,
}

impl Model {
    fn new() -> Self {
        let iss = SeqNumber(u32::MAX - 9);
        Self {
            queue: SendQueue::new(iss),
            iss,
            written: 0,
            acknowledged: 0,
        }
    }

    fn push(&mut self, len: u32) {
        self.queue.push(&stream(self.written, len));
        self.written += len;
        self.check();
    }

    fn push_chunk(&mut self, len: u32) {
        let mut chunk = self.queue.take_spare();
        assert!(chunk.is_empty());
        chunk.extend(stream(self.written, len));
        self.queue.push_chunk(&mut chunk);
        assert!(chunk.is_empty());
        self.written += len;
        self.check();
    }

    fn advance(&mut self, len: u32) {
        self.acknowledged += len;
        self.queue.advance(self.iss + self.acknowledged);
        self.check();
    }

    fn queued(&self) -> u32 {
        self.written - self.acknowledged
    }

    fn check(&self) {
        self.queue.check_invariants();
        assert_eq!(self.queue.start(), self.iss + self.acknowledged);
        assert_eq!(self.queue.end(), self.iss + self.written);
    }

    fn check_slices(&self, skipped: u32, len: u32) {
        let from = self.acknowledged + skipped;
        let pieces = self.queue.slices(self.iss + from, len);
        assert!(pieces.clone().all(|piece| !piece.is_empty()));
        let expected = stream(from, len.min(self.queued().saturating_sub(skipped)));
        assert!(concat(pieces) == expected, "{len} octets from {from} on");
    }

    /// Octets of memory.
    fn memory(&self) -> usize {
        let older = self.queue.older.as_ref();
        self.queue.last.capacity() + older.map_or(0, |older| older.memory())
    }
}

#[test]
fn slices_are_the_stream_whatever_was_written_and_acknowledged() {
    let mut random: u64 = 1;
    let mut below = move |limit: u32| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(((random >> 32) * u64::from(limit.max(1))) >> 32).unwrap()
    };
    for most in [100, 3_000, 70_000, 300_000] {
        let mut model = Model::new();
        for _ in 0..200 {
            if model.queued() < 4 * most {
                match below(2) {
                    0 => model.push(1 + below(most)),
                    _ => model.push_chunk(1 + below(most.min(65_536))),
                }
            }
            for _ in 0..5 {
                model.check_slices(below(model.queued() + 2), below(70_000));
            }
            match below(3) {
                0 => model.advance(below(model.queued() + 1)),
                1 => model.advance(below(2_000).min(model.queued())),
                _ => model.advance(model.queued()),
            }
        }
    }
}

#[test]
fn a_chunk_is_found_among_many_that_are_short() {
    let mut model = Model::new();
    for _ in 0..500 {
        model.push(300);
        model.push_chunk(16_384);
    }
    for from in (0..model.queued()).step_by(9_973) {
        model.check_slices(from, 70_000);
    }
    while model.queued() > 0 {
        model.advance(100_003.min(model.queued()));
        model.check_slices(0, 2_000);
        model.check_slices(model.queued() / 2, 2_000);
    }
}

#[test]
fn a_chunk_is_not_copied_and_serves_again() {
    let mut queue = SendQueue::new(SeqNumber(100));
    queue.push(b"before");
    let mut chunk = Vec::with_capacity(CHUNK_MAX);
    chunk.resize(CHUNK_MAX, 7);
    let at = chunk.as_ptr();
    queue.push_chunk(&mut chunk);
    assert_eq!(chunk.capacity(), 0);
    let octets = queue.slices(SeqNumber(106), 10).next().unwrap();
    assert_eq!(octets.as_ptr(), at);
    queue.push(b"behind");
    queue.advance(queue.end() - 6);
    let spare = queue.take_spare();
    assert_eq!((spare.as_ptr(), spare.len()), (at, 0));
    assert_eq!(concat(queue.slices(queue.start(), 10)), b"behind");
}

#[test]
fn slices_outside_of_the_queue_are_empty() {
    let mut queue = SendQueue::new(SeqNumber(100));
    queue.push(b"abc");
    assert_eq!(concat(queue.slices(SeqNumber(99), 5)), b"");
    assert_eq!(concat(queue.slices(SeqNumber(103), 5)), b"");
    assert_eq!(concat(queue.slices(SeqNumber(102), 5)), b"c");
    assert_eq!(concat(queue.slices(SeqNumber(101), 0)), b"");
    let mut queue = SendQueue::new(SeqNumber(100));
    queue.push(&[7; 200_000]);
    queue.advance(SeqNumber(150));
    assert_eq!(concat(queue.slices(SeqNumber(149), 5)), b"");
    assert_eq!(concat(queue.slices(SeqNumber(200_100), 5)), b"");
    assert_eq!(concat(queue.slices(SeqNumber(200_099), 5)), b"\x07");
}

#[test]
fn what_is_acknowledged_beyond_the_end_or_again_changes_nothing() {
    let mut queue = SendQueue::new(SeqNumber(100));
    queue.push(b"abc");
    queue.advance(SeqNumber(101));
    queue.advance(SeqNumber(100));
    assert_eq!((queue.start(), queue.len()), (SeqNumber(101), 2));
    // With the number of FIN.
    queue.advance(SeqNumber(104));
    assert_eq!((queue.start(), queue.len()), (SeqNumber(103), 0));
}

#[test]
fn octets_stay_where_they_were_written() {
    let mut model = Model::new();
    let place = |model: &Model, seq: SeqNumber| {
        let piece = model.queue.slices(seq, 1).next().unwrap();
        piece.as_ptr()
    };
    let mut places = Vec::new();
    for _ in 0..50 {
        let seq = model.queue.end();
        model.push(10_000);
        places.push((seq, place(&model, seq)));
        for (seq, known) in &places {
            assert_eq!(place(&model, *seq), *known, "the queue grew");
        }
    }
}

#[test]
fn a_short_message_takes_little_memory_and_the_same_again() {
    let mut model = Model::new();
    model.push(64);
    let place = model.queue.last.as_ptr();
    for _ in 0..10 {
        assert_eq!(model.memory(), 64);
        model.advance(64);
        assert!(model.queue.older.is_none());
        model.push(64);
        assert_eq!(model.queue.last.as_ptr(), place);
    }
}

#[test]
fn memory_follows_what_is_queued() {
    let mut model = Model::new();
    while model.queued() < 4 << 20 {
        model.push(5_000);
        let queued = model.queued() as usize;
        assert!(model.memory() <= 3 * queued + CHUNK, "for {queued}");
    }
    while model.queued() > 0 {
        model.advance(model.queued().min(100_000));
        let queued = model.queued() as usize;
        assert!(model.memory() <= 2 * queued + 4 * CHUNK, "for {queued}");
    }
    assert!(model.memory() <= CHUNK);
    model.queue.shrink();
    assert_eq!(model.memory(), 0);
}

#[test]
fn a_stream_that_never_ends_uses_its_chunks_again() {
    let mut model = Model::new();
    model.push(300_000);
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..1_000 {
        model.advance(10_000);
        model.push(10_000);
        let last = model.queue.slices(model.queue.end() - 1, 1).next().unwrap();
        // A chunk is aligned to less than its length.
        places.insert(last.as_ptr().addr() / CHUNK);
    }
    assert!(model.memory() <= 2 * 300_000 + 2 * CHUNK);
    assert!(places.len() <= 2 * 300_000 / CHUNK + 4, "{}", places.len());
}

#[test]
fn spares_can_be_given_back() {
    let mut model = Model::new();
    model.push(400_000);
    model.advance(200_000);
    let before = model.memory();
    model.queue.shrink();
    assert!(model.memory() < before);
    assert!(model.memory() <= 200_000 + 2 * CHUNK);
    model.check_slices(0, 200_000);
}

const CHUNK: usize = 64 << 10;
