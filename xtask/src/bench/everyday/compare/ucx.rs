//! What two processes reach through shared memory without sockets: UCX's tagged messages.

use std::process::Command;

use testkit::Namespaces;

use super::super::trial::Trial;

pub(super) const NAME: &str = "UCX posix (no sockets)";

/// The server ends with its client. CPU 1 and CPU 0, as the ends of all others.
const SCRIPT: &str = "\
ucx_perftest -c 1 >/dev/null 2>&1 & sleep 0.5
timeout 20 ucx_perftest 127.0.0.1 -t tag_lat -s 64 -n 1000000 -w 10000 -c 0 -f -v 2>/dev/null
kill %1 2>/dev/null; wait";

/// Of 64 octets. `None`: it is not installed, or fails.
pub(super) fn round_trips() -> Option<Trial> {
    let pair = Namespaces::pair().ok()?;
    let mut command: Command = pair.b.command("/bin/bash");
    command.args(["-c", SCRIPT]).env("UCX_TLS", "posix");
    let output = command.output().ok()?;
    trial(&String::from_utf8_lossy(&output.stdout))
}

/// The last line begins with how many there were, the median and the mean of half a round trip.
fn trial(output: &str) -> Option<Trial> {
    let mean_usec: f64 = output.lines().last()?.split(',').nth(2)?.parse().ok()?;
    (mean_usec > 0.0).then(|| Trial {
        rate: 1e6 / (2.0 * mean_usec),
        p99_usec: None,
        // It polls, and says nothing of CPU time.
        server_usec: f64::NAN,
        client_usec: f64::NAN,
        offloaded: 1.0,
        reasons: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_round_trip_is_in_the_third_column() {
        let said = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw\n300000,0.236,0.250,0.258,236.94\n";
        assert_eq!(trial(said).unwrap().rate, 2e6);
        assert_eq!(trial("a,b,c,d\n"), None);
        assert_eq!(trial(""), None);
    }
}
