//! Memberships as files of `/proc` list them. Nobody tells of changes: the files are read again and
//! again.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use descriptors::OwnDescriptor;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::GroupChanges;

/// Both versions'.
#[derive(Debug)]
pub(super) struct Listed {
    v4: List,
    /// `None`: the kernel has no IPv6.
    v6: Option<List>,
    /// A host of many groups is not looked at before.
    rests_until: Option<Instant>,
}

/// One file.
#[derive(Debug)]
struct List {
    /// It stays that of the network namespace in which it was opened.
    file: OwnDescriptor,
    parse: fn(&str) -> Option<Groups>,
    /// `None`: what was read is not as it is known to be, and any group may have members.
    groups: Option<Groups>,
}

/// By the numbers of interfaces.
type Groups = HashSet<(u32, IpAddr)>;

/// After a look so many times as long as it took: it takes a tenth of the time at most.
const RESTS: u32 = 9;
/// Looks that are shorter are no matter.
const SHORT: Duration = Duration::from_micros(100);
/// What the kernel gives at once is a page.
const PIECE_BYTES: usize = 4096;
/// Longer files are not read.
const FILE_BYTES_MAX: usize = 16 << 20;

impl Listed {
    /// Opens those of the calling thread's network namespace, and reads them.
    pub(super) fn open() -> Result<Self, Errno> {
        let v4 = List::open("/proc/thread-self/net/igmp", parse_v4)?;
        let v6 = match List::open("/proc/thread-self/net/igmp6", parse_v6) {
            Err(Errno::NOENT) => None,
            opened => Some(opened?),
        };
        Ok(Self {
            v4,
            v6,
            rests_until: None,
        })
    }

    pub(super) fn contains(&self, link_index: u32, group: IpAddr) -> bool {
        let list = match group {
            IpAddr::V4(_) => Some(&self.v4),
            IpAddr::V6(_) => self.v6.as_ref(),
        };
        list.is_some_and(|list| {
            let groups = list.groups.as_ref();
            groups.is_none_or(|groups| groups.contains(&(link_index, group)))
        })
    }

    pub(super) fn read_again(&mut self) -> Option<GroupChanges> {
        let begun = Instant::now();
        if self.rests_until.is_some_and(|until| begun < until) {
            return None;
        }
        let mut changed = Some(Vec::new());
        for list in [Some(&mut self.v4), self.v6.as_mut()].into_iter().flatten() {
            let now = list.read();
            let before = std::mem::replace(&mut list.groups, now);
            changed = match (&before, &list.groups) {
                (Some(before), Some(now)) => changed.map(|mut changed| {
                    changed.extend(before.symmetric_difference(now).map(|(_, group)| *group));
                    changed
                }),
                (None, None) => changed,
                _ => None,
            };
        }
        let took = begun.elapsed();
        self.rests_until = (took > SHORT).then(|| begun + took * RESTS);
        match changed {
            Some(changed) => GroupChanges::of(changed),
            None => Some(GroupChanges::Any),
        }
    }
}

impl List {
    fn open(path: &str, parse: fn(&str) -> Option<Groups>) -> Result<Self, Errno> {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut list = Self {
            file: OwnDescriptor::new(file),
            parse,
            groups: None,
        };
        list.groups = list.read();
        Ok(list)
    }

    fn read(&self) -> Option<Groups> {
        let (text, pieces) = self.text()?;
        let mut groups = (self.parse)(&text)?;
        if pieces > 1 {
            // Where one was taken out of those before, one more is passed over.
            groups.extend((self.parse)(&self.text()?.0)?);
        }
        Some(groups)
    }

    /// All of the file, and in how many pieces it was read.
    fn text(&self) -> Option<(String, usize)> {
        let mut text = Vec::new();
        let mut pieces = 0;
        loop {
            let len = text.len();
            if len > FILE_BYTES_MAX {
                return None;
            }
            text.resize(len + PIECE_BYTES, 0);
            let read = rustix::io::retry_on_intr(|| {
                rustix::io::pread(&self.file, &mut text[len..], len as u64)
            });
            let read = read.ok()?;
            text.truncate(len + read);
            if read == 0 {
                return Some((String::from_utf8(text).ok()?, pieces));
            }
            pieces += 1;
        }
    }
}

/// A head, and then for each interface `2\teth0      :     1      V3` and its groups:
/// `\t\t\t\t010000E0     1 0:00000000\t\t0`, octets as they lie in memory. `None`: a line is
/// something else.
fn parse_v4(text: &str) -> Option<Groups> {
    let mut lines = text.lines();
    if !lines.next()?.starts_with("Idx") {
        return None;
    }
    let mut groups = Groups::new();
    let mut link = None;
    for line in lines {
        let first = line.split_whitespace().next()?;
        if line.starts_with(char::is_whitespace) {
            let group = hexadecimal(first, 8)?;
            let group = u32::try_from(group).ok()?.to_ne_bytes();
            groups.insert((link?, group.into()));
        } else {
            link = Some(first.parse().ok()?);
        }
    }
    Some(groups)
}

/// `2    eth0            ff020000000000000000000000000001     1 0000000C 0`
fn parse_v6(text: &str) -> Option<Groups> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let link = words.next()?.parse().ok()?;
        let _name = words.next()?;
        let group = hexadecimal(words.next()?, 32)?;
        Some((link, group.to_be_bytes().into()))
    };
    text.lines().map(parse).collect()
}

fn hexadecimal(word: &str, digits: usize) -> Option<u128> {
    let is_one = word.len() == digits && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one
        .then(|| u128::from_str_radix(word, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n";
    const V4: &str = "1\tlo        :     1      V3\n\
                      \t\t\t\t010000E0     1 0:00000000\t\t0\n\
                      23\tvb        :     2      V2\n\
                      \t\t\t\t010101EF     2 1:0000003F\t\t1\n\
                      \t\t\t\t010000E0     1 0:00000000\t\t0\n";
    const V6: &str = "1    lo              ff020000000000000000000000000001     1 0000000C 0\n\
                      23   vb              ff050000000000000000000000010001     1 00000004 0\n";

    fn group(link: u32, group: &str) -> (u32, IpAddr) {
        (link, group.parse().unwrap())
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn groups_of_ipv4_are_below_their_interfaces() {
        let groups = parse_v4(&format!("{HEAD}{V4}")).unwrap();
        let expected = [
            group(1, "224.0.0.1"),
            group(23, "239.1.1.1"),
            group(23, "224.0.0.1"),
        ];
        assert_eq!(groups, Groups::from(expected));
        assert_eq!(parse_v4(HEAD), Some(Groups::new()));
    }

    #[test]
    fn groups_of_ipv6_are_beside_them() {
        let expected = [group(1, "ff02::1"), group(23, "ff05::1:1")];
        assert_eq!(parse_v6(V6), Some(Groups::from(expected)));
        assert_eq!(parse_v6(""), Some(Groups::new()));
    }

    #[test]
    fn what_is_not_understood_is_no_list() {
        for text in [
            "",
            V4,
            &format!("{HEAD}\t\t\t\t010000E0     1 0:00000000\t\t0\n"),
            &format!("{HEAD}1\tlo        :     1      V3\n\t\t\t\t10000E0     1\n"),
            &format!("{HEAD}1\tlo        :     1      V3\n\t\t\t\t+10000E0     1\n"),
            &format!("{HEAD}1\tlo        :     1      V3\n\t\t\t\t010000E01    1\n"),
            &format!("{HEAD}lo        :     1      V3\n"),
            &format!("{HEAD}\n"),
        ] {
            assert_eq!(parse_v4(text), None, "{text:?}");
        }
        for text in [
            "lo 1 ff020000000000000000000000000001\n",
            "1 lo ff02::1\n",
            "1 lo ff02000000000000000000000000000\n",
            "1 lo\n",
            "1 lo ff02000000000000000000000000000g\n",
            "\n",
        ] {
            assert_eq!(parse_v6(text), None, "{text:?}");
        }
    }

    #[test]
    fn where_a_list_is_none_any_group_may_have_members() {
        let mut listed = Listed::open().unwrap();
        let nobodys = "239.254.254.254".parse().unwrap();
        assert!(!listed.contains(1, nobodys));
        listed.v4.parse = |_| None;
        listed.rests_until = None;
        assert_eq!(listed.read_again(), Some(GroupChanges::Any));
        assert!(listed.contains(1, nobodys));
        listed.rests_until = None;
        assert_eq!(listed.read_again(), None);
        listed.v4.parse = parse_v4;
        listed.rests_until = None;
        assert_eq!(listed.read_again(), Some(GroupChanges::Any));
        assert!(!listed.contains(1, nobodys));
    }
}
