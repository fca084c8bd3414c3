//! The epoll sets of this process, whoever has made them, and what is in them, as the kernel shows
//! it in `/proc`.

use libc::c_int;

/// A descriptor in an epoll set, with what the set was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetMember {
    pub fd: c_int,
    pub events: u32,
    pub data: u64,
    pub inode: u64,
}

/// The descriptors of all sets. `None`: there is no `/proc`.
pub fn epoll_sets() -> Option<Vec<c_int>> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    let sets = entries.flatten().filter(|entry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
    });
    Some(
        sets.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect(),
    )
}

/// What is in a set. Nothing if the descriptor is none.
pub fn set_members(set: c_int) -> Vec<SetMember> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{set}")).unwrap_or_default();
    text.lines().filter_map(SetMember::parse).collect()
}

impl SetMember {
    /// "tfd:        3 events:       19 data:                3  pos:0 ino:1e6070a sdev:9"
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let fd = words.next()?.parse().ok()?;
        let mut after = |name: &str| match words.next() {
            Some(word) if word == name => words.next(),
            _ => None,
        };
        let events = u32::from_str_radix(after("events:")?, 16).ok()?;
        let data = u64::from_str_radix(after("data:")?, 16).ok()?;
        let inode = words.find_map(|word| word.strip_prefix("ino:"))?;
        Some(Self {
            fd,
            events,
            data,
            inode: u64::from_str_radix(inode, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn members_of_a_set_are_read() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let (set, fd) = (crate::epoll().unwrap(), reader.as_raw_fd());
        let event = libc::epoll_event {
            events: 1,
            u64: 0xfedc_ba98_7654_3210,
        };
        assert!(crate::epoll_add(set.as_raw_fd(), fd, event));
        let member = SetMember {
            fd,
            // The kernel adds what it reports to everybody.
            events: 0x19,
            data: 0xfedc_ba98_7654_3210,
            inode: crate::inode(fd),
        };
        assert_eq!(set_members(set.as_raw_fd()), [member]);
        assert_eq!(set_members(fd), []);
        let sets = epoll_sets().unwrap();
        assert!(sets.contains(&set.as_raw_fd()) && !sets.contains(&fd));
    }
}
