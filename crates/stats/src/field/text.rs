//! Short text in shared memory.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::field::value::Value;
use crate::field::{Field, FieldKind};
use crate::mapping::EntryView;

/// Text of at most 8 × `WORDS` bytes, padded with zeros.
///
/// The first word is stored last, so a reader sees either nothing or the whole text; that holds for
/// the first text after a claim, which is the way names are used here.
#[derive(Debug)]
#[repr(transparent)]
pub struct Text<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Text<WORDS> {
    /// Bytes of text that fit.
    pub const CAPACITY_BYTES: usize = WORDS * 8;

    /// Stores `text`, cut at a character boundary when it is too long and at a zero byte.
    pub fn set(&self, text: &str) {
        let mut chunks = cut(text, Self::CAPACITY_BYTES)
            .as_bytes()
            .chunks(8)
            .map(word);
        let first = chunks.next().unwrap_or(0);
        for slot in self.0.iter().skip(1) {
            slot.store(chunks.next().unwrap_or(0), Ordering::Relaxed);
        }
        if let Some(slot) = self.0.first() {
            slot.store(first, Ordering::Release);
        }
    }

    /// The text as a reader sees it: control characters and invalid UTF-8 replaced.
    pub fn value(&self) -> String {
        Self::read_words(|index| {
            self.0
                .get(index)
                .map_or(0, |slot| slot.load(Ordering::Relaxed))
        })
    }

    fn read_words(load: impl Fn(usize) -> u64) -> String {
        decode((0..WORDS).map(|index| {
            let word = load(index);
            // Pairs with the release of the first word.
            fence(Ordering::Acquire);
            word
        }))
    }
}

impl<const WORDS: usize> Default for Text<WORDS> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const WORDS: usize> Field for Text<WORDS> {
    type Value = String;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        for slot in &self.0 {
            slot.store(0, Ordering::Relaxed);
        }
    }

    fn copy_from(&self, other: &Self) {
        self.set(&other.value());
    }

    fn shown(value: &String) -> Value {
        Value::Text(value.clone())
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> String {
        Self::read_words(|index| entry.load_u64(offset.saturating_add(index * 8)))
    }
}

/// The text in words as they lie in memory, up to the first zero byte. Control characters are
/// replaced because the text may come from a hostile file and ends on a terminal.
pub(super) fn decode(words: impl Iterator<Item = u64>) -> String {
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let replaced = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    String::from_utf8_lossy(text)
        .chars()
        .map(replaced)
        .collect()
}

/// The longest start of `text` that has at most `most` bytes and no zero byte.
pub(super) fn cut(text: &str, most: usize) -> &str {
    let text = text.split('\0').next().unwrap_or_default();
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Up to eight bytes as they lie in memory, padded with zeros.
pub(super) fn word(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_ne_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back() {
        let text = Text::<2>::default();
        assert_eq!(text.value(), "");
        text.set("enp129s0f0np0");
        assert_eq!(text.value(), "enp129s0f0np0");
        text.set("lo");
        assert_eq!(text.value(), "lo");
    }

    #[test]
    fn text_too_long_is_cut_at_a_character() {
        let text = Text::<2>::default();
        text.set("123456789abcdef\u{e9}tail");
        assert_eq!(text.value(), "123456789abcdef");
        text.set("123456789abcdefgh");
        assert_eq!(text.value(), "123456789abcdefg");
    }

    #[test]
    fn text_never_carries_terminal_control() {
        let text = Text::<2>::default();
        text.set("a\u{1b}[2Jb\0c");
        assert_eq!(text.value(), "a\u{fffd}[2Jb");
    }
}
