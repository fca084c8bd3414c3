//! `-s`: descriptors and ranges of them.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// Which sockets to show. None named: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FdList(Vec<RangeInclusive<i32>>);

impl FdList {
    pub(crate) fn contains(&self, fd: i32) -> bool {
        self.0.is_empty() || self.0.iter().any(|range| range.contains(&fd))
    }
}

/// `4-16,1`
impl FromStr for FdList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let fd = text.trim().parse::<i32>().ok().filter(|fd| *fd >= 0);
            fd.ok_or_else(|| format!("'-s' Invalid fds list val: {text}"))
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first)?..=number(last)?;
            if range.is_empty() {
                return Err(format!("'-s' Invalid fds range val: {part}"));
            }
            Ok(range)
        };
        text.split(',')
            .map(range)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_may_be_combined() {
        let list: FdList = "4-16,1".parse().unwrap();
        let listed: Vec<_> = (0..20).filter(|fd| list.contains(*fd)).collect();
        assert_eq!(listed, [1].into_iter().chain(4..=16).collect::<Vec<_>>());
        assert!(FdList::default().contains(7));
        for wrong in ["", "x", "4-", "-4", "9-4", "1,,2", "99999999999"] {
            assert!(wrong.parse::<FdList>().is_err(), "{wrong}");
        }
    }
}
