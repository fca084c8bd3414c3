//! Which known parameter a misspelled name was probably meant to be.

use crate::params::PARAMETERS;

/// Longer names than this resemble no parameter; it also bounds the work spent on a hostile name.
const LENGTH_MAX: usize = 64;

/// The known parameter whose name is nearest to `name`, if any is near enough to be worth
/// suggesting: of the name after `VMA_`, at most a quarter may differ, or two characters if that is
/// more, and never more than half.
///
/// `name` is a whole variable name such as `VMA_RX_POL`; case is ignored.
pub fn nearest_name(name: &str) -> Option<&'static str> {
    if name.len() > LENGTH_MAX {
        return None;
    }
    let name = name.to_ascii_uppercase();
    let stem_length = name.len().saturating_sub("VMA_".len());
    let distance_max = (stem_length / 4).max(2).min(stem_length / 2);
    PARAMETERS
        .iter()
        .map(|parameter| (edit_distance(&name, parameter.name), parameter.name))
        .min()
        .filter(|(distance, _)| *distance <= distance_max)
        .map(|(_, nearest)| nearest)
}

/// The number of bytes to insert, delete or replace to make `left` into `right` (Levenshtein).
fn edit_distance(left: &str, right: &str) -> usize {
    let right = right.as_bytes();
    // distances[n] is the distance between what was read of `left` and the first n bytes of
    // `right`.
    let mut distances: Vec<usize> = (0..=right.len()).collect();
    for (row, left_byte) in left.bytes().enumerate() {
        let mut diagonal = row;
        let mut last = row + 1;
        distances[0] = last;
        for (right_byte, above) in right.iter().zip(distances.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(left_byte != *right_byte);
            diagonal = *above;
            last = replaced.min(diagonal + 1).min(last + 1);
            *above = last;
        }
    }
    distances.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_textbook_pairs() {
        for (left, right, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(edit_distance(left, right), distance, "{left} {right}");
        }
    }

    #[test]
    fn misspelled_names_find_their_parameter() {
        for (name, nearest) in [
            ("VMA_RX_POL", "VMA_RX_POLL"),
            ("VMA_RXPOLL", "VMA_RX_POLL"),
            ("VMA_TRACE_LEVEL", "VMA_TRACELEVEL"),
            ("VMA_SELECT_POLL_RATIO", "VMA_SELECT_POLL_OS_RATIO"),
            ("VMA_NEIGH_UC_ARP_QUOTA", "VMA_NEIGH_UC_ARP_QUATA"),
            ("VMA_spec", "VMA_SPEC"),
        ] {
            assert_eq!(nearest_name(name), Some(nearest), "{name}");
        }
    }

    #[test]
    fn names_unlike_any_parameter_get_no_suggestion() {
        for name in [
            "VMA_",
            "VMA_COLOUR_OF_THE_BIKESHED",
            "",
            &"VMA_RX_POLL".repeat(1000),
        ] {
            assert_eq!(nearest_name(name), None, "{name}");
        }
    }
}
