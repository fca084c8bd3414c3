use super::*;

/// Just below the wrap.
const BASE: SeqNumber = SeqNumber(u32::MAX - 50);

fn insert(assembler: &mut Assembler<Vec<u8>>, start: u32, end: u32) {
    let data: Vec<u8> = (start..end)
        .map(|octet| u8::try_from(octet % 251).unwrap())
        .collect();
    assembler.insert(BASE + start, data);
    assembler.check_invariants(BASE);
}

fn blocks(assembler: &mut Assembler<Vec<u8>>) -> Vec<(u32, u32)> {
    let blocks = assembler.take_blocks(4, true);
    let offset = |seq: u32| seq.wrapping_sub(BASE.0);
    blocks
        .as_slice()
        .iter()
        .map(|block| (offset(block.left), offset(block.right)))
        .collect()
}

fn drain(assembler: &mut Assembler<Vec<u8>>, from: u32) -> u32 {
    let mut next = BASE + from;
    while let Some(payload) = assembler.pop_at(next) {
        for octet in payload {
            let offset = next - BASE;
            assert_eq!(u32::from(octet), offset % 251);
            next += 1;
        }
    }
    assembler.on_advance(next);
    assembler.check_invariants(next);
    next - BASE
}

// Requirement: RFC 2018 4-1, 4-3
#[test]
fn rfc2018_section4_the_first_block_is_the_last_to_have_changed() {
    let mut assembler = Assembler::default();
    insert(&mut assembler, 10, 20);
    insert(&mut assembler, 30, 40);
    insert(&mut assembler, 50, 60);
    assert_eq!(blocks(&mut assembler), [(50, 60), (30, 40), (10, 20)]);
    insert(&mut assembler, 20, 25);
    assert_eq!(blocks(&mut assembler), [(10, 25), (50, 60), (30, 40)]);
    insert(&mut assembler, 25, 30);
    assert_eq!(blocks(&mut assembler), [(10, 40), (50, 60)]);
    assert_eq!(drain(&mut assembler, 0), 0);
    assert_eq!(drain(&mut assembler, 10), 40);
    assert_eq!(blocks(&mut assembler), [(50, 60)]);
}

// Requirement: RFC 2883 4-1, 4-3
#[test]
fn rfc2883_section4_a_duplicate_is_the_first_block_once() {
    let mut assembler = Assembler::default();
    insert(&mut assembler, 10, 20);
    insert(&mut assembler, 15, 30);
    assert_eq!(blocks(&mut assembler), [(15, 20), (10, 30)]);
    assert_eq!(blocks(&mut assembler), [(10, 30)]);
    insert(&mut assembler, 12, 14);
    assert_eq!(blocks(&mut assembler), [(12, 14), (10, 30)]);
}

#[test]
fn overlaps_keep_each_octet_once() {
    for (start, end) in [(5, 35), (10, 20), (15, 35), (12, 18), (5, 12), (1, 100)] {
        let mut assembler = Assembler::default();
        insert(&mut assembler, 10, 20);
        insert(&mut assembler, 25, 30);
        insert(&mut assembler, start, end);
        let first = start.min(10);
        let expected = if end >= 25 { end.max(30) } else { end.max(20) };
        assert_eq!(drain(&mut assembler, first), expected, "{start}..{end}");
    }
}

#[test]
fn pieces_below_rcv_nxt_are_dropped() {
    let mut assembler = Assembler::default();
    insert(&mut assembler, 10, 20);
    insert(&mut assembler, 20, 40);
    assert_eq!(drain(&mut assembler, 30), 40);
    assert!(assembler.is_empty());
    assert_eq!(assembler.footprint(), 0);
}

#[test]
fn pruning_drops_the_furthest_first_and_its_blocks() {
    let mut assembler = Assembler::default();
    insert(&mut assembler, 10, 20);
    insert(&mut assembler, 30, 40);
    insert(&mut assembler, 50, 60);
    assembler.prune(20);
    assert_eq!(blocks(&mut assembler), [(30, 40), (10, 20)]);
    assembler.prune(0);
    assert!(!assembler.has_blocks());
}

#[test]
fn random_insertions_reassemble() {
    let mut seed = 1u32;
    for _ in 0..200 {
        let mut assembler = Assembler::default();
        let mut received = [false; 200];
        for _ in 0..30 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let start = 1 + (seed >> 8) % 150;
            let end = start + 1 + (seed >> 20) % 40;
            insert(&mut assembler, start, end);
            received[start as usize..end as usize].fill(true);
        }
        received[0] = true;
        let expected = received
            .iter()
            .position(|is_received| !is_received)
            .unwrap();
        let got = drain(&mut assembler, 1);
        assert_eq!(got as usize, expected);
    }
}

// Requirement: RFC 2018 8-2
#[test]
fn rfc2018_section8_what_was_pruned_is_not_reported() {
    let mut assembler = Assembler::default();
    insert(&mut assembler, 10, 20);
    insert(&mut assembler, 30, 40);
    insert(&mut assembler, 40, 60);
    assembler.prune(25);
    assembler.check_invariants(BASE);
    assert_eq!(assembler.footprint(), 20);
    // A part of what was reported as one block is there.
    assert_eq!(blocks(&mut assembler), [(30, 40), (10, 20)]);
    assert_eq!(assembler.end(), Some(BASE + 40));
    insert(&mut assembler, 40, 60);
    assert_eq!(blocks(&mut assembler), [(30, 60), (10, 20)]);
}

#[test]
fn pieces_that_follow_on_each_other_share_memory_until_enough_is_free() {
    let mut assembler = Assembler::default();
    for (start, end) in [(10, 20), (20, 30), (30, 40), (50, 60), (60, 70)] {
        let mut data = Vec::with_capacity(100);
        data.extend((start..end).map(|octet: u8| octet));
        assembler.insert(BASE + u32::from(start), data);
    }
    assert_eq!(assembler.footprint(), 500);
    assembler.collapse(400);
    assembler.check_invariants(BASE);
    assert_eq!(assembler.footprint(), 400);
    assembler.collapse(0);
    assembler.check_invariants(BASE);
    assert_eq!(assembler.footprint(), 200);
    assert_eq!(blocks(&mut assembler), [(50, 70), (10, 40)]);
    assert_eq!(drain(&mut assembler, 10), 40);
    assert_eq!(drain(&mut assembler, 50), 70);
}
