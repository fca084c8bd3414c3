//! Which sockets are shown, and in which order.

use std::net::SocketAddr;

use stats::{ProcessInfo, SocketSnapshot, Statistics};

use super::{App, Tab};
use crate::explain;
use crate::tui::cpu_share::CpuShare;
use crate::tui::history::{History, received, sent};

/// What the sockets are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Sort {
    Fd,
    Received,
    Sent,
    Dropped,
    Hits,
    Kernel,
}

impl Sort {
    pub(super) const ALL: [Self; 6] = [
        Self::Fd,
        Self::Received,
        Self::Sent,
        Self::Dropped,
        Self::Hits,
        Self::Kernel,
    ];

    pub(in crate::tui) fn name(self) -> &'static str {
        match self {
            Self::Fd => "fd",
            Self::Received => "Rx",
            Self::Sent => "Tx",
            Self::Dropped => "drops",
            Self::Hits => "poll%",
            Self::Kernel => "kernel share",
        }
    }
}

/// A process whose statistics are read again and again.
#[derive(Debug)]
pub(in crate::tui) struct Followed {
    pub(in crate::tui) process: ProcessInfo,
    pub(in crate::tui) history: History,
    /// `None`: of a recording.
    pub(in crate::tui) cpu: Option<CpuShare>,
}

impl Followed {
    pub(in crate::tui) fn new(process: ProcessInfo) -> Self {
        Self {
            process,
            history: History::default(),
            cpu: None,
        }
    }

    /// At most once in a moment, over which hardly a tick passes.
    pub(in crate::tui) fn look_at_cpu(&mut self) {
        if self.cpu.is_none_or(|cpu| cpu.is_old()) {
            self.cpu = CpuShare::look(self.cpu, self.process.pid);
        }
    }
}

/// A socket of the table.
#[derive(Clone, Copy, Debug)]
pub(in crate::tui) struct Shown<'a> {
    pub(in crate::tui) process: &'a ProcessInfo,
    pub(in crate::tui) history: &'a History,
    pub(in crate::tui) statistics: &'a Statistics,
    pub(in crate::tui) socket: &'a SocketSnapshot,
}

impl<'a> Shown<'a> {
    pub(in crate::tui) fn key(&self) -> (u32, u64) {
        (self.socket.slot, self.socket.generation)
    }

    /// What it did between the last two looks, and the seconds between them.
    pub(in crate::tui) fn change(&self) -> Option<(&'a SocketSnapshot, f64)> {
        self.history.socket_change(self.key())
    }

    /// What the order goes by: processes and descriptors, or the largest first.
    fn sort_key(&self, sort: Sort) -> u64 {
        let socket = self.socket;
        let change = || self.change().map_or(socket, |(change, _)| change);
        let largest_first = |value: u64| u64::MAX - value;
        match sort {
            Sort::Fd => u64::from(self.process.pid),
            Sort::Received => largest_first(received(change())),
            Sort::Sent => largest_first(sent(change())),
            Sort::Dropped => largest_first(socket.rx_dropped_packets),
            Sort::Hits => {
                let polls = socket.rx_poll_hit + socket.rx_poll_miss;
                largest_first(socket.rx_poll_miss * 1000 / polls.max(1))
            }
            Sort::Kernel => largest_first(kernel_permille(socket)),
        }
    }

    /// What the filter looks at.
    fn words(&self) -> String {
        let socket = self.socket;
        let address = |end: Option<SocketAddr>| end.map_or_else(String::new, |end| end.to_string());
        let state = if socket.offloaded {
            "offloaded"
        } else {
            "kernel"
        };
        let reason = explain::reason(self.statistics, socket.reason);
        let text = format!(
            "fd {} {} {} {state} {reason} {} pid {} {}",
            socket.fd,
            address(socket.local),
            address(socket.peer),
            socket.detail,
            self.process.pid,
            self.process.program,
        );
        text.to_lowercase()
    }
}

/// The share of a socket's packets that went through the kernel, in thousandths.
fn kernel_permille(socket: &SocketSnapshot) -> u64 {
    let os = socket.rx_os_packets.saturating_add(socket.tx_os_packets);
    let all = received(socket).saturating_add(sent(socket));
    os.saturating_mul(1000) / all.max(1)
}

impl App {
    /// The processes whose sockets are in the table: the one that was chosen, or all.
    fn in_table(&self) -> impl Iterator<Item = &Followed> {
        let others = self.others.iter().filter(|_| self.all);
        std::iter::once(&self.current).chain(others)
    }

    /// Puts the sockets that match the filter in the order that was chosen. To be called when
    /// anything of that has changed: drawing looks at the order several times.
    pub(in crate::tui) fn arrange(&mut self) {
        let wanted = self.filter.to_lowercase();
        let mut found = Vec::new();
        for (place, followed) in self.in_table().enumerate() {
            let Some(latest) = followed.history.latest() else {
                continue;
            };
            for (index, socket) in latest.statistics.sockets.iter().enumerate() {
                let shown = Shown {
                    process: &followed.process,
                    history: &followed.history,
                    statistics: &latest.statistics,
                    socket,
                };
                if wanted.is_empty() || shown.words().contains(&wanted) {
                    let key = (shown.sort_key(self.sort), followed.process.pid, socket.fd);
                    found.push((key, (place, index)));
                }
            }
        }
        found.sort_unstable();
        if self.reversed {
            found.reverse();
        }
        self.order = found.into_iter().map(|(_, place)| place).collect();
        let last = self.row_count().saturating_sub(1);
        self.selected = self.selected.min(last);
    }

    /// The socket in a row of the table.
    pub(in crate::tui) fn socket_in_row(&self, row: usize) -> Option<Shown<'_>> {
        let (place, index) = *self.order.get(row)?;
        let followed = self.in_table().nth(place)?;
        let statistics = &followed.history.latest()?.statistics;
        Some(Shown {
            process: &followed.process,
            history: &followed.history,
            statistics,
            socket: statistics.sockets.get(index)?,
        })
    }

    pub(in crate::tui) fn selected_socket(&self) -> Option<Shown<'_>> {
        self.socket_in_row(self.selected)
    }

    /// The processes that the present screen is about.
    pub(in crate::tui) fn shown_processes(&self) -> Vec<&Followed> {
        match self.tab {
            Tab::Processes => self.processes(),
            Tab::Sockets => self.in_table().collect(),
            _ => vec![&self.current],
        }
    }

    /// All processes that are known, lowest process id first.
    pub(in crate::tui) fn processes(&self) -> Vec<&Followed> {
        let mut all: Vec<_> = std::iter::once(&self.current).chain(&self.others).collect();
        all.sort_by_key(|followed| followed.process.pid);
        all
    }
}
