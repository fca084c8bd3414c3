//! Which services there are.

use crate::failure::Failure;
use crate::needs;

/// A service under one kind of load.
#[derive(Debug)]
pub(super) struct Service {
    /// The file that knows it and, after the dash, what is asked of it.
    pub(super) name: &'static str,
    /// Without one of these there is nothing to measure.
    programs: &'static [&'static str],
    /// What the rate counts.
    pub(super) unit: &'static str,
    /// Each request is a connection of its own, which costs more past the kernel: no limit for
    /// these.
    pub(super) short: bool,
}

impl Service {
    /// A program that it needs and this machine lacks.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let mut programs = self.programs.iter().copied();
        programs.find(|program| !needs::has_service(program))
    }
}

const fn service(
    name: &'static str,
    programs: &'static [&'static str],
    unit: &'static str,
) -> Service {
    Service {
        name,
        programs,
        unit,
        short: false,
    }
}

const fn short(name: &'static str, programs: &'static [&'static str]) -> Service {
    Service {
        name,
        programs,
        unit: "connections/s",
        short: true,
    }
}

const REQUESTS: &str = "requests/s";
const ANSWERS: &str = "answers/s";
const MESSAGES: &str = "messages/s";
const MEGABYTES: &str = "MB/s";

/// A message there and back at a time: no service, but what the others are compared by.
pub(super) static PING_PONGS: [Service; 2] = [
    service("sockperf-tcp", &["sockperf"], "round trips/s"),
    service("sockperf-udp", &["sockperf"], "round trips/s"),
];

pub(super) const SERVICES: &[Service] = &[
    service("nginx-small", &["nginx", "wrk"], REQUESTS),
    service("nginx-100k", &["nginx", "wrk"], REQUESTS),
    service("nginx-1m", &["nginx", "wrk"], REQUESTS),
    short("nginx-short", &["nginx", "wrk"]),
    service("nginx-tls", &["nginx", "wrk", "openssl"], REQUESTS),
    service("nginx-proxy", &["nginx", "wrk"], REQUESTS),
    service("apache-small", &["apache2", "wrk"], REQUESTS),
    service("haproxy-http", &["haproxy", "nginx", "wrk"], REQUESTS),
    service("redis-1", &["redis-server", "redis-benchmark"], REQUESTS),
    service("redis-50", &["redis-server", "redis-benchmark"], REQUESTS),
    service(
        "redis-pipeline",
        &["redis-server", "redis-benchmark"],
        REQUESTS,
    ),
    service("memcached-tcp", &["memcached"], REQUESTS),
    service("memcached-udp", &["memcached"], REQUESTS),
    service("postgres-select", &["psql"], REQUESTS),
    short("postgres-connect", &["psql"]),
    service("mariadb-select", &["mariadbd", "sysbench"], REQUESTS),
    service(
        "mosquitto-messages",
        &["mosquitto", "mosquitto_pub"],
        MESSAGES,
    ),
    service("node-http", &["node", "wrk"], REQUESTS),
    service("node-cluster", &["node", "wrk"], REQUESTS),
    service("python-uvicorn", &["uvicorn", "wrk"], REQUESTS),
    service("python-asyncio", &["python3", "wrk"], REQUESTS),
    short("python-gunicorn", &["gunicorn", "wrk"]),
    service("java-pool", &["javac", "wrk"], REQUESTS),
    service("java-nio", &["javac", "wrk"], REQUESTS),
    service("tokio-http", &["wrk", "curl"], REQUESTS),
    service("ssh-upload", &["sshd", "scp"], MEGABYTES),
    service("ssh-download", &["sshd", "scp"], MEGABYTES),
    service("rsync-upload", &["rsync"], MEGABYTES),
    service("iperf3-4", &["iperf3"], "Mbit/s"),
    service("threads-60", &["cc", "wrk"], REQUESTS),
    service("threads-1000", &["cc", "wrk"], REQUESTS),
    service("unbound-udp", &["unbound", "dnsperf"], ANSWERS),
    service("nsd-udp", &["nsd", "dnsperf"], ANSWERS),
    service("knot-udp", &["knotd", "dnsperf"], ANSWERS),
    service("dnsmasq-udp", &["dnsmasq", "dnsperf"], ANSWERS),
    service("chrony-udp", &["chronyd"], ANSWERS),
    service("rsyslog-udp", &["rsyslogd"], MESSAGES),
];

/// The services of these names, or all if there is none.
pub(super) fn named(names: &[String]) -> Result<Vec<&'static Service>, Failure> {
    if names.is_empty() {
        return Ok(SERVICES.iter().collect());
    }
    let find = |name: &String| {
        SERVICES
            .iter()
            .find(|service| service.name == name)
            .ok_or_else(|| {
                let known: Vec<_> = SERVICES.iter().map(|service| service.name).collect();
                Failure::Usage(format!(
                    "there is no everyday service {name}, but {}",
                    known.join(", ")
                ))
            })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::fs;

    #[test]
    fn every_service_is_a_file_that_says_what_it_is() {
        let directory = crate::cargo::programs().join("everyday");
        for service in SERVICES {
            let (file, variant) = service.name.split_once('-').unwrap();
            let text = fs::read_to_string(directory.join(format!("{file}.bash"))).unwrap();
            assert!(text.starts_with("# "), "{file}");
            let functions = ["prepare()", "serve()", "until_served()", "load()"];
            assert!(functions.iter().all(|it| text.contains(it)), "{file}");
            assert!(!variant.is_empty());
        }
        let names: HashSet<_> = SERVICES.iter().map(|service| service.name).collect();
        assert_eq!(names.len(), SERVICES.len());
    }

    #[test]
    fn a_name_that_is_unknown_is_told() {
        let names = |names: &[&str]| named(&names.iter().map(|&it| it.into()).collect::<Vec<_>>());
        assert_eq!(names(&[]).unwrap().len(), SERVICES.len());
        assert_eq!(names(&["nsd-udp"]).unwrap()[0].name, "nsd-udp");
        assert!(names(&["nds"]).unwrap_err().to_string().contains("nsd-udp"));
    }
}
