//! Which cache lines a value or a list lies on.

use core::ops::Range;
use std::collections::VecDeque;

/// Octets of one.
pub(crate) const CACHE_LINE: usize = 64;

/// The first address and the number of lines.
pub(crate) type Lines = (*const u8, usize);

pub(crate) const NO_LINES: Lines = (core::ptr::null(), 0);

/// The lines of a value's octets.
#[inline]
pub(crate) fn lines_of<T>(value: &T, octets: Range<usize>) -> Lines {
    let start = core::ptr::from_ref(value).cast::<u8>();
    let first = start.wrapping_add(octets.start);
    let into_line = first.addr() % CACHE_LINE;
    let len = into_line.saturating_add(octets.len());
    (first.wrapping_sub(into_line), len.div_ceil(CACHE_LINE))
}

/// Where the first element is and where the next one goes.
#[inline]
pub(crate) fn ends<T>(list: &VecDeque<T>) -> [*const u8; 2] {
    let (first, second) = list.as_slices();
    let last = if second.is_empty() { first } else { second };
    [first.as_ptr().cast(), last.as_ptr_range().end.cast()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_list_are_found_across_its_end() {
        let mut list = VecDeque::with_capacity(4);
        list.extend([1_u32, 2, 3, 4]);
        list.pop_front();
        list.pop_front();
        list.push_back(5);
        let (first, second) = list.as_slices();
        assert_eq!((first, second), (&[3, 4][..], &[5][..]));
        let next = second.as_ptr().wrapping_add(1);
        assert_eq!(ends(&list), [first.as_ptr().cast(), next.cast()]);
        list.pop_back();
        assert_eq!(ends(&list)[1], list.as_slices().0.as_ptr_range().end.cast());
    }
}
