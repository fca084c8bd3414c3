//! The smallest possible AF_XDP ping-pong over the same veth pair: what no stack can be faster
//! than.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Pair, Running};

use crate::failure::Failure;
use crate::interrupt::{self, POLL_INTERVAL};
use crate::sockperf::Latency;

/// How long the server may take to take its interface over. The client sends again what gets lost.
const SERVER_START: Duration = Duration::from_millis(300);
/// How much longer than the client the server runs; it is killed as soon as the client has ended.
const SERVER_EXTRA_SEC: u32 = 10;
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs client and server for `seconds` and returns half round trips.
pub(super) fn measure(program: &Path, pair: &Pair, seconds: u32) -> Result<Latency, Failure> {
    let links = pair.b.ip(&["-json", "link", "show", "vb"])?;
    let peer = mac(&links)
        .ok_or_else(|| Failure::Reason(format!("no hardware address in ip's answer: {links}")))?;
    let mut server = pair.b.command(program);
    server.args(["server", "vb", &(seconds + SERVER_EXTRA_SEC).to_string()]);
    let mut server = Running::start(server)?;
    interrupt::sleep(SERVER_START)?;
    if server.status()?.is_some() {
        return Err(Failure::Reason(format!(
            "floor server: {}",
            server.stderr()
        )));
    }

    let mut client = pair.a.command(program);
    client.args(["client", "va", &peer, &seconds.to_string()]);
    let mut client = Running::start(client)?;
    let deadline = Instant::now() + Duration::from_secs(seconds.into()) + CLIENT_TIMEOUT;
    while client.status()?.is_none() && Instant::now() < deadline {
        interrupt::check()?;
        thread::sleep(POLL_INTERVAL);
    }
    let client = client.wait(Duration::ZERO)?;
    latency(&client.stdout)
        .ok_or_else(|| Failure::Reason(format!("floor client: {}{}", client.stdout, client.stderr)))
}

/// The hardware address in what `ip -json link show` printed.
fn mac(links: &str) -> Option<String> {
    let links: Value = serde_json::from_str(links).ok()?;
    links[0]["address"].as_str().map(str::to_owned)
}

/// Reads the client's line of JSON, which holds full round trips in nanoseconds.
fn latency(output: &str) -> Option<Latency> {
    let result: Value = serde_json::from_str(output.lines().last()?).ok()?;
    let half_usec = |name: &str| result[name].as_f64().map(|nsec| nsec / 2000.0);
    Some(Latency {
        p50_usec: half_usec("p50_nsec")?,
        p99_usec: half_usec("p99_nsec")?,
        p999_usec: half_usec("p999_nsec")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_halved() {
        let output = "{\"role\":\"client\",\"p50_nsec\":3000,\"p99_nsec\":5000,\"p999_nsec\":9000,\"rounds\":7}\n";
        let expected = Latency {
            p50_usec: 1.5,
            p99_usec: 2.5,
            p999_usec: 4.5,
        };
        assert_eq!(latency(output), Some(expected));
        assert_eq!(latency(""), None);
        assert_eq!(latency("{\"p50_nsec\":3000}\n"), None);
    }

    #[test]
    fn the_peer_s_address_is_found() {
        let links =
            r#"[{"ifindex":23,"link_index":12,"ifname":"vb","address":"02:00:00:00:00:01"}]"#;
        assert_eq!(mac(links).as_deref(), Some("02:00:00:00:00:01"));
        assert_eq!(mac("[]"), None);
    }
}
