use std::collections::HashSet;

use super::*;

fn pool(count: u32) -> FramePool {
    FramePool::new(count, 2048, ThreadMode::SpinLock).unwrap()
}

#[test]
fn each_frame_is_handed_out_once() {
    let pool = pool(64);
    let mut seen = HashSet::new();
    let mut held = Vec::new();
    while let Some(frame) = pool.take() {
        assert!(seen.insert(pool.address(&frame)));
        held.push(frame);
    }
    assert_eq!(held.len(), 64);
    assert_eq!(pool.take_many(3, |_| unreachable!()), 0);
    held.into_iter().for_each(|frame| pool.give(frame));
    assert_eq!(pool.free_count(), 64);
}

#[test]
fn a_frame_that_continues_has_its_length() {
    let pool = pool(1);
    let mut frame = pool.take().unwrap();
    pool.set_len(&mut frame, 1500);
    assert!(!frame.continues());
    frame.set_continues();
    assert!(frame.continues() && !frame.is_empty());
    assert_eq!((frame.len(), pool.data(&frame).len()), (1500, 1500));
    pool.set_len(&mut frame, 0);
    assert!(!frame.continues() && frame.is_empty());
    pool.give(frame);
}

#[test]
fn what_is_said_of_a_frame_is_not_its_length() {
    let pool = pool(1);
    let mut frame = pool.take().unwrap();
    pool.chunk_mut(&mut frame)[4] = 7;
    pool.set_len(&mut frame, 1500);
    frame.set_checked();
    frame.set_continues();
    frame.skip(4);
    assert_eq!((frame.len(), pool.data(&frame)[0]), (1496, 7));
    assert!(frame.is_checked() && frame.continues());
    frame.skip(5000);
    assert!(frame.is_empty() && frame.is_checked());
    pool.set_len(&mut frame, 10);
    assert!(!frame.is_checked());
    pool.give(frame);
}

#[test]
fn take_many_takes_what_there_is() {
    let pool = pool(8);
    let mut held = Vec::new();
    assert_eq!(pool.take_many(5, |frame| held.push(frame)), 5);
    assert_eq!(pool.take_many(5, |frame| held.push(frame)), 3);
    let distinct: HashSet<u64> = held.iter().map(|frame| pool.address(frame)).collect();
    assert_eq!(distinct.len(), 8);
    held.into_iter().for_each(|frame| pool.give(frame));
}

#[test]
fn frames_are_scarce_while_the_reserve_is_touched() {
    let pool = pool(64);
    assert!(!pool.is_scarce());
    let mut held = Vec::new();
    pool.take_many(56, |frame| held.push(frame));
    assert!(!pool.is_scarce(), "an eighth is free");
    held.push(pool.take().unwrap());
    assert!(pool.is_scarce());
    for (given, scarce) in [(4, true), (1, false)] {
        held.drain(..given).for_each(|frame| pool.give(frame));
        assert_eq!(pool.is_scarce(), scarce, "{} are free", pool.free_count());
    }
    pool.take_many(64, |frame| held.push(frame));
    assert!(pool.is_scarce());
    held.into_iter().for_each(|frame| pool.give(frame));
    assert!(!pool.is_scarce());
}

#[test]
fn data_written_to_a_chunk_are_read_back() {
    let pool = pool(2);
    let mut frame = pool.take().unwrap();
    pool.chunk_mut(&mut frame)[..3].copy_from_slice(b"abc");
    pool.set_len(&mut frame, 3);
    assert_eq!(pool.data(&frame), b"abc");
    let address = pool.release_to_device(frame);
    let frame = pool.reclaim(address, 3).unwrap();
    assert_eq!(pool.data(&frame), b"abc");
    pool.give(frame);
}

#[test]
fn a_copy_has_the_data_and_what_is_in_front_of_them() {
    let pool = pool(3);
    let mut frame = pool.take().unwrap();
    let chunk = pool.chunk_mut(&mut frame);
    chunk[..12].copy_from_slice(b"in front|abc");
    let address = pool.release_to_device(frame);
    let frame = pool.reclaim(address + 9, 3).unwrap();
    assert_eq!(pool.data(&frame), b"abc");
    assert_eq!(pool.in_front(&frame), Some(*b"in front|"));
    assert_eq!(pool.in_front::<10>(&frame), None);
    let expected = [(2, *b"\0\0\0\0t|"), (20, *b"front|")];
    let copies = expected.map(|(front, expected)| {
        let copy = pool.copy(&frame, front).unwrap();
        assert_ne!(pool.address(&copy), pool.address(&frame));
        assert_eq!(pool.data(&copy), b"abc");
        assert_eq!(pool.in_front(&copy), Some(expected), "{front}");
        copy
    });
    assert_eq!(pool.copy(&frame, 0), None);
    copies.into_iter().for_each(|copy| pool.give(copy));
    pool.give(frame);
}

#[test]
fn descriptors_outside_a_chunk_are_refused() {
    let pool = pool(4);
    assert!(pool.reclaim(4 * 2048, 1).is_none());
    assert!(pool.reclaim(u64::MAX, 1).is_none());
    assert!(pool.reclaim(2048 + 256, 2048 - 255).is_none());
    assert!(pool.reclaim(0, u32::MAX).is_none());
    let frame = pool.reclaim(2048 + 256, 2048 - 256).unwrap();
    assert_eq!((frame.len(), pool.address(&frame)), (1792, 2048 + 256));
    pool.give(frame);
}

#[test]
fn random_traffic_agrees_with_a_set() {
    let pool = pool(32);
    let mut oracle: HashSet<u64> = HashSet::new();
    let mut held = Vec::new();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..if cfg!(miri) { 500 } else { 100_000 } {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if seed >> 63 == 0 {
            if let Some(frame) = pool.take() {
                assert!(oracle.insert(pool.address(&frame)), "handed out twice");
                held.push(frame);
            }
        } else if !held.is_empty() {
            let frame = held.swap_remove((seed >> 32) as usize % held.len());
            assert!(oracle.remove(&pool.address(&frame)));
            pool.give(frame);
        }
        assert_eq!(pool.free_count() + held.len(), 32);
    }
    held.into_iter().for_each(|frame| pool.give(frame));
}

#[test]
fn frames_are_usable_in_memory_of_every_kind() {
    for pages in [
        MemoryKind::Ordinary,
        MemoryKind::Contiguous,
        MemoryKind::HugePages,
    ] {
        let pool = match FramePool::with_pages(1024, 2048, ThreadMode::SpinLock, pages) {
            Ok(pool) => pool,
            // Most machines reserve none.
            Err(error) if pages == MemoryKind::HugePages => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
                continue;
            }
            Err(error) => panic!("{pages:?}: {error}"),
        };
        assert_eq!(pool.memory().len_bytes(), 2 << 20);
        let base = pool.memory().base().as_ptr();
        for offset in [0, (2 << 20) - 1] {
            // SAFETY: within the pool's memory.
            let byte = unsafe { base.add(offset) };
            // SAFETY: nobody else uses that memory.
            unsafe { byte.write_volatile(7) };
            // SAFETY: as above.
            assert_eq!(unsafe { byte.read_volatile() }, 7);
        }
    }
}
