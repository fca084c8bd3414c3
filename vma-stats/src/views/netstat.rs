//! View 5: the sockets of all processes, as netstat(8) lists them. Printed once.

use std::net::SocketAddr;

use stats::{PROTOCOL_TCP, PROTOCOL_UDP, ProcessInfo, Statistics, tcp_state};

use crate::kernel_table;

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) protocol: &'static str,
    pub(crate) fd: i32,
    pub(crate) offloaded: bool,
    pub(crate) rx_queue_bytes: u64,
    pub(crate) tx_queue_bytes: u64,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) state: &'static str,
    pub(crate) inode: u64,
}

pub(crate) fn heading() -> String {
    row([
        "Proto",
        "Offloaded",
        "Recv-Q",
        "Send-Q",
        "Local Address",
        "Foreign Address",
        "State",
        "Inode",
        "PID/Program name",
    ])
}

/// The sockets of one process.
pub(crate) fn format(process: &ProcessInfo, statistics: &Statistics) -> String {
    let lines = lines(process.pid, statistics);
    lines
        .iter()
        .map(|line| format_line(process, line))
        .collect()
}

/// Those of the segment, and what the kernel has beside them: sockets that are not ours, in the
/// order of the descriptors.
pub(crate) fn lines(pid: u32, statistics: &Statistics) -> Vec<Line> {
    let of_kernel = kernel_table::sockets_of(pid);
    let mut lines = Vec::new();
    for socket in &statistics.sockets {
        let queued = of_kernel
            .get(&socket.fd)
            .filter(|other| other.inode == socket.inode);
        lines.push(Line {
            protocol: match socket.protocol {
                PROTOCOL_TCP => "tcp",
                PROTOCOL_UDP => "udp",
                _ => "raw",
            },
            fd: socket.fd,
            offloaded: socket.offloaded,
            rx_queue_bytes: socket.rx_queue_bytes + queued.map_or(0, |it| it.rx_queue_bytes),
            tx_queue_bytes: socket.tx_queue_bytes + queued.map_or(0, |it| it.tx_queue_bytes),
            local: socket.local,
            peer: socket.peer,
            state: tcp_state(socket.tcp_state),
            inode: socket.inode,
        });
    }
    for connection in &statistics.tcp_connections {
        let line = Line {
            protocol: "tcp",
            fd: connection.fd,
            offloaded: true,
            rx_queue_bytes: connection.rx_queue_bytes,
            tx_queue_bytes: connection.tx_queue_bytes,
            local: connection.local,
            peer: connection.peer,
            state: tcp_state(connection.state),
            inode: connection.inode,
        };
        // It is among the sockets, too.
        let is_same = |other: &&mut Line| (other.fd, other.inode) == (line.fd, line.inode);
        match lines.iter_mut().find(is_same) {
            Some(other) => *other = line,
            None => lines.push(line),
        }
    }
    let of_library = kernel_table::descriptors_of_library(pid);
    let known: Vec<u64> = lines.iter().map(|line| line.inode).collect();
    for (fd, socket) in of_kernel {
        let is_library_s = socket.protocol == "raw" && of_library.contains(&fd);
        if known.contains(&socket.inode) || is_library_s {
            continue;
        }
        lines.push(Line {
            protocol: socket.protocol,
            fd,
            offloaded: false,
            rx_queue_bytes: socket.rx_queue_bytes,
            tx_queue_bytes: socket.tx_queue_bytes,
            local: Some(socket.local),
            peer: socket.peer,
            state: match socket.protocol {
                "tcp" => tcp_state(socket.state),
                _ => "",
            },
            inode: socket.inode,
        });
    }
    lines.sort_by_key(|line| line.fd);
    lines
}

fn format_line(process: &ProcessInfo, line: &Line) -> String {
    let local = line
        .local
        .unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let peer = match line.peer {
        Some(peer) => format!("{}:{:<5}", peer.ip(), peer.port()),
        None => "0.0.0.0:*".to_owned(),
    };
    row([
        line.protocol,
        if line.offloaded { "Yes" } else { "No" },
        &line.rx_queue_bytes.to_string(),
        &line.tx_queue_bytes.to_string(),
        &format!("{}:{:<5}", local.ip(), local.port()),
        &peer,
        line.state,
        &line.inode.to_string(),
        &format!("{}/{}", process.pid, process.program),
    ])
}

fn row([proto, offloaded, rx, tx, local, peer, state, inode, process]: [&str; 9]) -> String {
    format!(
        "{proto:<5} {offloaded:<9} {rx:<20} {tx:<20} {local:<22} {peer:<21} {state:<11} {inode:<10} {process}\n"
    )
}
