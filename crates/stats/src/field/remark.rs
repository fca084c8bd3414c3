//! Text in shared memory that changes while it is read.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::field::text::{cut, decode, word};
use crate::field::value::Value;
use crate::field::{Field, FieldKind};
use crate::mapping::EntryView;

/// Text of at most 8 × `WORDS` bytes, padded with zeros, that may be replaced at any time.
///
/// `version` is odd while the words are stored. A reader that finds it odd, or another one
/// afterwards, reads again; one that meets a writer who stopped half-way shows no text.
#[derive(Debug)]
#[repr(C)]
pub struct Remark<const WORDS: usize> {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// A writer is done in less than a microsecond, unless it was interrupted.
const ATTEMPTS: usize = 1000;

impl<const WORDS: usize> Remark<WORDS> {
    /// Bytes of text that fit.
    pub const CAPACITY_BYTES: usize = WORDS * 8;

    /// Stores `text`, cut at a character boundary when it is too long and at a zero byte. One
    /// thread at a time.
    pub fn set(&self, text: &str) {
        let version = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(version, Ordering::Relaxed);
        // Orders the odd version before the words.
        fence(Ordering::Release);
        let mut chunks = cut(text, Self::CAPACITY_BYTES)
            .as_bytes()
            .chunks(8)
            .map(word);
        for slot in &self.words {
            slot.store(chunks.next().unwrap_or(0), Ordering::Relaxed);
        }
        self.version
            .store(version.wrapping_add(1), Ordering::Release);
    }

    /// The text as a reader sees it: control characters and invalid UTF-8 replaced.
    pub fn value(&self) -> String {
        read(WORDS, |index| match index.checked_sub(1) {
            None => self.version.load(Ordering::Relaxed),
            Some(index) => self
                .words
                .get(index)
                .map_or(0, |word| word.load(Ordering::Relaxed)),
        })
    }
}

/// `load` reads the word at an index counted from the version, relaxed.
fn read(words: usize, load: impl Fn(usize) -> u64) -> String {
    for _ in 0..ATTEMPTS {
        let version = load(0);
        fence(Ordering::Acquire);
        let text: Vec<u64> = (1..=words).map(&load).collect();
        fence(Ordering::Acquire);
        if version.is_multiple_of(2) && load(0) == version {
            return decode(text.into_iter());
        }
        std::hint::spin_loop();
    }
    String::new()
}

impl<const WORDS: usize> Default for Remark<WORDS> {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const WORDS: usize> Field for Remark<WORDS> {
    type Value = String;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        // Most have no text: a new socket need not touch these lines.
        let first = self.words.first();
        if first.is_some_and(|word| word.load(Ordering::Relaxed) != 0) {
            self.set("");
        }
    }

    fn copy_from(&self, other: &Self) {
        self.set(&other.value());
    }

    fn shown(value: &String) -> Value {
        Value::Text(value.clone())
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> String {
        read(WORDS, |index| {
            entry.load_u64(offset.saturating_add(index * 8))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_reads_back_and_is_cut_at_a_character() {
        let remark = Remark::<2>::default();
        assert_eq!(remark.value(), "");
        remark.set("IP_PKTINFO");
        assert_eq!(remark.value(), "IP_PKTINFO");
        remark.set("123456789abcdef\u{e9}tail");
        assert_eq!(remark.value(), "123456789abcdef");
        remark.set("lo\u{1b}");
        assert_eq!(remark.value(), "lo\u{fffd}");
    }

    #[test]
    fn remark_that_changes_is_never_mixed() {
        let remark = Remark::<4>::default();
        let texts = ["a".repeat(32), "b".repeat(32), String::new()];
        let turns = if cfg!(miri) { 100 } else { 100_000 };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for turn in 0..turns {
                    remark.set(&texts[turn % 3]);
                }
            });
            while !writer.is_finished() {
                let seen = remark.value();
                assert!(texts.contains(&seen), "{seen}");
            }
        });
    }

    #[test]
    fn remark_of_a_writer_that_stopped_is_empty() {
        let remark = Remark::<2>::default();
        remark.set("one");
        remark.version.store(7, Ordering::Relaxed);
        assert_eq!(remark.value(), "");
        remark.set("two");
        assert_eq!(remark.value(), "two");
    }
}
