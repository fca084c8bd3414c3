//! What the counters did over time: rates of the last samples, for sparklines and for sums.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use stats::{SocketSnapshot, Statistics};

use crate::rate::Rate;
use crate::sample::Sample;

/// Samples that a line of rates has.
pub(super) const LENGTH: usize = 240;

/// Rates of one socket.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketRates {
    pub(super) rx: VecDeque<u64>,
    pub(super) tx: VecDeque<u64>,
    pub(super) dropped: VecDeque<u64>,
}

/// The last two samples, and what was between all of them.
#[derive(Debug, Default)]
pub(super) struct History {
    latest: Option<Sample>,
    /// Differences of the last two samples, and the seconds between them.
    change: Option<(Statistics, f64)>,
    /// Where a socket is in them.
    places: HashMap<(u32, u64), usize>,
    sockets: HashMap<(u32, u64), SocketRates>,
    pub(super) rx: VecDeque<u64>,
    pub(super) tx: VecDeque<u64>,
    pub(super) dropped: VecDeque<u64>,
    connections: HashMap<(u32, u64), VecDeque<u64>>,
}

impl History {
    pub(super) fn push(&mut self, sample: Sample) {
        if let Some(earlier) = &self.latest {
            let seconds = sample
                .taken
                .saturating_sub(earlier.taken)
                .max(Duration::from_millis(1));
            let change = sample.statistics.since(&earlier.statistics);
            self.remember(&change, seconds.as_secs_f64());
            let keys = change.sockets.iter().map(|it| (it.slot, it.generation));
            self.places = keys.zip(0..).collect();
            self.change = Some((change, seconds.as_secs_f64()));
        }
        self.latest = Some(sample);
    }

    fn remember(&mut self, change: &Statistics, seconds: f64) {
        let over = Rate::Over(Duration::from_secs_f64(seconds));
        let rate = |count: u64| over.count(count);
        let (mut rx_all, mut tx_all, mut dropped_all) = (0, 0, 0);
        let mut alive = HashMap::new();
        for socket in &change.sockets {
            let key = (socket.slot, socket.generation);
            let mut rates = self.sockets.remove(&key).unwrap_or_default();
            let (rx, tx) = (rate(received(socket)), rate(sent(socket)));
            let dropped = rate(socket.rx_dropped_packets);
            push(&mut rates.rx, rx);
            push(&mut rates.tx, tx);
            push(&mut rates.dropped, dropped);
            (rx_all, tx_all, dropped_all) = (rx_all + rx, tx_all + tx, dropped_all + dropped);
            alive.insert(key, rates);
        }
        self.sockets = alive;
        push(&mut self.rx, rx_all);
        push(&mut self.tx, tx_all);
        push(&mut self.dropped, dropped_all);
        let mut alive = HashMap::new();
        for connection in &change.tcp_connections {
            let key = (connection.slot, connection.generation);
            let mut rates = self.connections.remove(&key).unwrap_or_default();
            push(&mut rates, rate(connection.retransmits));
            alive.insert(key, rates);
        }
        self.connections = alive;
    }

    pub(super) fn latest(&self) -> Option<&Sample> {
        self.latest.as_ref()
    }

    /// The change of every counter per second, where two samples are known.
    pub(super) fn rate(&self, count: impl Fn(&Statistics) -> Option<u64>) -> Option<f64> {
        let (change, seconds) = self.change.as_ref()?;
        Some(count(change)? as f64 / seconds)
    }

    /// The change of a socket, with the seconds that it covers.
    pub(super) fn socket_change(&self, key: (u32, u64)) -> Option<(&SocketSnapshot, f64)> {
        let (change, seconds) = self.change.as_ref()?;
        let found = change.sockets.get(*self.places.get(&key)?)?;
        Some((found, *seconds))
    }

    pub(super) fn socket_rates(&self, key: (u32, u64)) -> Option<&SocketRates> {
        self.sockets.get(&key)
    }

    pub(super) fn retransmissions(&self, key: (u32, u64)) -> Option<&VecDeque<u64>> {
        self.connections.get(&key)
    }
}

/// Packets received either way.
pub(super) fn received(socket: &SocketSnapshot) -> u64 {
    socket.rx_packets.saturating_add(socket.rx_os_packets)
}

/// Packets sent either way.
pub(super) fn sent(socket: &SocketSnapshot) -> u64 {
    socket.tx_packets.saturating_add(socket.tx_os_packets)
}

fn push(line: &mut VecDeque<u64>, value: u64) {
    if line.len() == LENGTH {
        line.pop_front();
    }
    line.push_back(value);
}
