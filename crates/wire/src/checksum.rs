//! The Internet checksum (RFC 1071): the 16-bit ones-complement sum of a packet.
//!
//! A *partial sum* is a `u32` congruent, modulo 65535, to the ones-complement sum of the data taken
//! as little-endian 16-bit words. RFC 1071 §2(B) allows any byte order as long as it is kept to,
//! and little-endian loads are free on the machines this runs on. Partial sums come from the
//! functions of this module and go back into them as `initial`; only [`fold`] turns one into a
//! number in the usual byte order. A checksum field holds `!fold(sum)`, big-endian; data that
//! includes its own correct checksum folds to `0xffff`.
//!
//! Zero stands for all-zero data only, so that `0xffff` is the one value to compare with.

/// Adds `data` to the partial sum `initial`.
///
/// An odd last byte counts as if a zero byte followed. To sum data in pieces, every piece but the
/// last must have an even length.
#[inline]
pub fn sum(data: &[u8], initial: u32) -> u32 {
    let (words, _) = data.as_chunks::<WORD>();
    let mut total = u128::from(initial);
    for word in words {
        total = total.wrapping_add(u128::from(u64::from_le_bytes(*word)));
    }
    reduce(total.wrapping_add(u128::from(tail(data))))
}

/// Copies `src` to `dst` and adds it to the partial sum `initial`, touching the data once.
///
/// # Panics
///
/// If the slices have different lengths, as `copy_from_slice` does.
#[inline]
pub fn copy_and_sum(dst: &mut [u8], src: &[u8], initial: u32) -> u32 {
    assert_eq!(
        dst.len(),
        src.len(),
        "copy_and_sum between slices of different lengths"
    );
    let (dst_words, _) = dst.as_chunks_mut::<WORD>();
    let (src_words, _) = src.as_chunks::<WORD>();
    let mut total = u128::from(initial);
    for (dst_word, src_word) in dst_words.iter_mut().zip(src_words) {
        *dst_word = *src_word;
        total = total.wrapping_add(u128::from(u64::from_le_bytes(*src_word)));
    }
    match (dst.last_chunk_mut::<WORD>(), src.last_chunk::<WORD>()) {
        // Writing some bytes twice is cheaper than copying a tail of unknown length.
        (Some(dst_last), Some(src_last)) => *dst_last = *src_last,
        _ => dst.copy_from_slice(src),
    }
    reduce(total.wrapping_add(u128::from(tail(src))))
}

/// Copies `parts` one behind the other to the start of `dst` and adds them to the partial sum
/// `initial`, whatever their lengths. Returns how many bytes they were, and the sum.
///
/// `None`, possibly with part of `dst` written, if they do not fit.
#[inline]
pub(crate) fn gather_and_sum<'a>(
    dst: &mut [u8],
    parts: impl IntoIterator<Item = &'a [u8]>,
    initial: u32,
) -> Option<(usize, u32)> {
    let room = dst.len();
    let mut unfilled = dst;
    let mut total = initial;
    let mut is_at_odd_offset = false;
    for part in parts {
        let (target, rest) = unfilled.split_at_mut_checked(part.len())?;
        unfilled = rest;
        let part_sum = copy_and_sum(target, part, 0);
        let placed_sum = if is_at_odd_offset {
            at_odd_offset(part_sum)
        } else {
            part_sum
        };
        total = add(total, placed_sum);
        is_at_odd_offset ^= part.len() % 2 != 0;
    }
    Some((room.wrapping_sub(unfilled.len()), total))
}

/// The 16-bit ones-complement sum that a partial sum stands for, as a number in host order.
#[inline]
pub const fn fold(sum: u32) -> u16 {
    // Adding the sum to itself with its halves exchanged leaves their end-around sum in the upper
    // half.
    let [_, _, first, second] = sum.wrapping_add(sum.rotate_left(16)).to_le_bytes();
    u16::from_be_bytes([first, second])
}

/// The ones-complement sum of two partial sums.
#[inline]
pub(crate) const fn add(left: u32, right: u32) -> u32 {
    let (total, carry) = left.overflowing_add(right);
    total.wrapping_add(carry as u32)
}

/// The partial sum of one 16-bit field, given in host order.
#[inline]
pub(crate) const fn word(value: u16) -> u32 {
    let [first, second] = value.to_be_bytes();
    u32::from_le_bytes([first, second, 0, 0])
}

/// The partial sum of the same data moved by one byte, so that it starts at an odd offset.
#[inline]
const fn at_odd_offset(sum: u32) -> u32 {
    // Rotation multiplies by 256 modulo 2^32 - 1, of which 65535 is a factor.
    sum.rotate_left(8)
}

/// Bytes summed at a time.
const WORD: usize = size_of::<u64>();

/// The bytes of `data` behind its last whole [`WORD`], as a little-endian number.
#[inline]
fn tail(data: &[u8]) -> u64 {
    let Some(last_word) = data.last_chunk::<WORD>() else {
        return data
            .iter()
            .rfold(0, |value, byte| (value << 8) | u64::from(*byte));
    };
    // The last eight bytes end with the tail; the others, summed already, are shifted out.
    match data.len().wrapping_neg() % WORD {
        0 => 0,
        summed => u64::from_le_bytes(*last_word) >> summed.wrapping_mul(8),
    }
}

/// Folds a sum of words to 32 bits with end-around carry.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "splits the number into 32-bit digits"
)]
fn reduce(total: u128) -> u32 {
    let [a, b, c, d] = [total, total >> 32, total >> 64, total >> 96].map(|part| part as u32);
    add(add(a, b), add(c, d))
}

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "test data"
)]
mod tests {
    use super::*;

    /// RFC 1071 §1 word by word: big-endian words, an odd byte padded with zero, carries added
    /// back.
    fn reference(data: &[u8]) -> u16 {
        let mut total = 0_u64;
        for pair in data.chunks(2) {
            total += u64::from(u16::from_be_bytes([
                pair[0],
                pair.get(1).copied().unwrap_or(0),
            ]));
        }
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    /// Bytes without a short period, none of the runs alike.
    fn pattern(length: usize) -> Vec<u8> {
        (0..length as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect()
    }

    #[test]
    fn sum_matches_the_reference_for_all_lengths_and_alignments() {
        let buffer = pattern(256);
        for length in 0..200 {
            for offset in 0..16 {
                let data = &buffer[offset..offset + length];
                assert_eq!(
                    fold(sum(data, 0)),
                    reference(data),
                    "length {length} offset {offset}"
                );
            }
        }
    }

    #[test]
    fn copy_and_sum_copies_exactly_and_matches_sum() {
        let buffer = pattern(256);
        for length in 0..200 {
            for offset in 0..16 {
                let src = &buffer[offset..offset + length];
                let mut dst = [0xa5; 256];
                let dst_offset = 16 - offset;
                let copied = copy_and_sum(&mut dst[dst_offset..dst_offset + length], src, 0x1234);
                assert_eq!(copied, sum(src, 0x1234));
                assert_eq!(&dst[dst_offset..dst_offset + length], src);
                assert!(dst[..dst_offset].iter().all(|byte| *byte == 0xa5));
                assert!(dst[dst_offset + length..].iter().all(|byte| *byte == 0xa5));
            }
        }
    }

    #[test]
    fn parts_of_any_length_are_summed_as_if_they_were_one() {
        let data = pattern(60);
        for first in 0..20 {
            for second in first..40 {
                let parts = [&data[..first], &data[first..second], &[], &data[second..]];
                let mut dst = [0xa5; 64];
                let gathered = gather_and_sum(&mut dst, parts, 0x1234).unwrap();
                assert_eq!(gathered.0, 60);
                assert_eq!(
                    fold(gathered.1),
                    fold(sum(&data, 0x1234)),
                    "{first} {second}"
                );
                assert_eq!((&dst[..60], dst[60]), (&data[..], 0xa5));
            }
        }
        assert_eq!(gather_and_sum(&mut [0; 59], [&data[..]], 0), None);
    }

    #[test]
    fn sums_of_even_pieces_chain() {
        let data = pattern(199);
        for split in (0..199).step_by(2) {
            let (head, rest) = data.split_at(split);
            assert_eq!(
                fold(sum(rest, sum(head, 0))),
                reference(&data),
                "split at {split}"
            );
        }
    }

    #[test]
    fn sum_at_an_odd_offset_equals_the_sum_behind_a_zero_byte() {
        for length in 0..64 {
            let data = pattern(length);
            let shifted = [vec![0], data.clone()].concat();
            assert_eq!(
                fold(at_odd_offset(sum(&data, 0))),
                reference(&shifted),
                "length {length}"
            );
        }
    }

    #[test]
    fn carries_of_saturated_data_are_kept() {
        let ones = vec![0xff; 65_535];
        for length in [1, 2, 7, 8, 9, 64, 1472, 65_535] {
            let data = &ones[..length];
            assert_eq!(
                fold(sum(data, u32::MAX)),
                reference(data),
                "length {length}"
            );
        }
    }

    #[test]
    fn only_zero_data_sums_to_zero() {
        assert_eq!(fold(sum(&[0; 63], 0)), 0);
        assert_eq!(fold(sum(&[0xff, 0xff], 0)), 0xffff);
        assert_eq!(fold(sum(&[0xff, 0xfe, 0, 1], 0)), 0xffff);
    }

    #[test]
    fn rfc_1071_example() {
        // RFC 1071 §3 adds these eight bytes to 2ddf0; folding the carry gives ddf2.
        assert_eq!(
            fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0)),
            0xddf2
        );
    }

    #[test]
    #[should_panic(expected = "different lengths")]
    fn copy_and_sum_refuses_different_lengths() {
        copy_and_sum(&mut [0; 3], &[0; 4], 0);
    }
}
