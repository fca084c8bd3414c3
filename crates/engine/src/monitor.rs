//! The library's internal thread: follows the network's configuration, and keeps slow gauges up to date. It never
//! touches a packet.

use ring::Backend;

use crate::engine::Engine;
use crate::netconf_network::NetconfNetwork;
use crate::sys;

/// How often gauges are brought up to date.
const GAUGE_INTERVAL_MSEC: libc::c_int = 500;

/// Runs until the process ends. The caller has blocked every signal for this thread.
pub fn run<B: Backend>(engine: &'static Engine<B>, network: &NetconfNetwork) {
    let mut generation = network.generation();
    loop {
        let mut fds = [libc::pollfd {
            fd: network.events_fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        sys::wait(&mut fds, GAUGE_INTERVAL_MSEC);
        engine.refresh_gauges();
        if fds[0].revents == 0 {
            continue;
        }
        let interfaces = match network.process_events() {
            Ok(changes) => changes.links || changes.addresses || changes.resynchronised,
            Err(error) => {
                log::error!("network configuration is not followed any more: {error}");
                return;
            }
        };
        let current = network.generation();
        if current != generation || interfaces {
            generation = current;
            engine.network_changed(interfaces);
        }
    }
}
