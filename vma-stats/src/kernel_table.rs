//! The sockets of a process as the kernel lists them in `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// A socket of the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelSocket {
    /// `tcp`, `udp` or `raw`.
    pub(crate) protocol: &'static str,
    pub(crate) local: SocketAddr,
    /// `None`: not connected.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) rx_queue_bytes: u64,
    pub(crate) tx_queue_bytes: u64,
    /// As the kernel numbers it.
    pub(crate) state: u32,
    pub(crate) inode: u64,
}

/// Tables of `/proc/PID/net`, and what is in them.
const TABLES: [(&str, &str); 6] = [
    ("tcp", "tcp"),
    ("tcp6", "tcp"),
    ("udp", "udp"),
    ("udp6", "udp"),
    ("raw", "raw"),
    ("raw6", "raw"),
];

/// The process's sockets by descriptor. Empty where this user may not look.
pub(crate) fn sockets_of(pid: u32) -> BTreeMap<i32, KernelSocket> {
    let inodes = inodes_of(pid);
    if inodes.is_empty() {
        return BTreeMap::new();
    }
    let mut known = BTreeMap::new();
    for (table, protocol) in TABLES {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for socket in text
            .lines()
            .skip(1)
            .filter_map(|line| parse(line, protocol))
        {
            known.insert(socket.inode, socket);
        }
    }
    let found = |(fd, inode)| Some((fd, known.get(&inode)?.clone()));
    inodes.into_iter().filter_map(found).collect()
}

/// Where the library has descriptors of its own: the highest numbers below 1024, or below the
/// process's limit. Programs come there last, and with raw sockets hardly ever.
pub(crate) fn descriptors_of_library(pid: u32) -> Range<i32> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    below(open_files(&limits).unwrap_or(USUAL_END))
}

const USUAL_END: i32 = 1024;
/// With one interface they are some fifty.
const ROOM: i32 = 128;

fn below(limit: i32) -> Range<i32> {
    let end = limit.min(USUAL_END);
    (end - ROOM).max(0)..end
}

/// The soft limit; `None`: there is none.
fn open_files(limits: &str) -> Option<i32> {
    let mut lines = limits.lines();
    let rest = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Descriptors that are sockets, and their inodes.
fn inodes_of(pid: u32) -> Vec<(i32, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let socket = |entry: fs::DirEntry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target
            .to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?;
        Some((fd, inode.parse().ok()?))
    };
    let mut sockets: Vec<_> = entries.flatten().filter_map(socket).collect();
    sockets.sort_unstable();
    sockets
}

/// A line of such a table: `sl local rem st tx_queue:rx_queue tr:tm retrnsmt uid timeout inode
/// ...`.
fn parse(line: &str, protocol: &'static str) -> Option<KernelSocket> {
    let mut fields = line.split_whitespace().skip(1);
    let local = address(fields.next()?)?;
    let peer = address(fields.next()?)?;
    let state = u32::from_str_radix(fields.next()?, 16).ok()?;
    let (tx, rx) = fields.next()?.split_once(':')?;
    let bytes = |text| u64::from_str_radix(text, 16).ok();
    Some(KernelSocket {
        protocol,
        local,
        peer: Some(peer).filter(|peer| peer.port() != 0),
        rx_queue_bytes: bytes(rx)?,
        tx_queue_bytes: bytes(tx)?,
        state,
        inode: fields.nth(4)?.parse().ok()?,
    })
}

/// `0100007F:0035`: words in the machine's byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let word = u32::from_str_radix(ip.get(index * 8..index * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn sockets_of_this_process_are_found_with_addresses_and_queues() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(receiver.local_addr().unwrap()).unwrap();
        connected.send(&[0; 100]).unwrap();
        let found = sockets_of(std::process::id());
        let of = |fd: i32| found[&fd].clone();
        let listening = of(listener.as_raw_fd());
        assert_eq!((listening.protocol, listening.state), ("tcp", 10));
        assert_eq!(listening.local, listener.local_addr().unwrap());
        assert_eq!(listening.peer, None);
        assert!(of(receiver.as_raw_fd()).rx_queue_bytes > 0);
        assert_eq!(of(sender.as_raw_fd()).local, sender.local_addr().unwrap());
        let peer = of(connected.as_raw_fd()).peer;
        assert_eq!(peer, receiver.local_addr().ok());
    }

    #[test]
    fn the_library_s_descriptors_are_the_highest() {
        let limits = "Limit Soft Limit Hard Limit Units\nMax open files            256      4096     files\n";
        assert_eq!(open_files(limits), Some(256));
        assert_eq!(below(256), 128..256);
        assert_eq!(below(64), 0..64);
        assert_eq!(below(1_048_576), 896..1024);
        assert_eq!(open_files("Max open files unlimited unlimited files"), None);
        assert_eq!(descriptors_of_library(4_194_999), 896..1024);
    }

    #[test]
    fn broken_lines_are_left_out() {
        let line =
            "  0: 0100007F:0035 00000000:0000 0A 00000000:00000001 00:00000000 00000000 0 0 17 1";
        assert_eq!(
            parse(line, "tcp").map(|it| (it.inode, it.rx_queue_bytes)),
            Some((17, 1))
        );
        for end in 0..line.len() - 3 {
            let _ = line.get(..end).and_then(|line| parse(line, "tcp"));
        }
        assert_eq!(parse("", "tcp"), None);
        assert_eq!(parse("0: x:1 00000000:0000 0A 0:0", "tcp"), None);
    }
}
