//! What is compared, and by which ways.

use super::super::services::{self, PING_PONGS, Service};
use super::super::trial::{Ends, Hosts, Placement, Setting, Way};
use crate::failure::Failure;

/// A piece of work.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) service: &'static Service,
    hosts: Hosts,
}

const SERVICES: [&str; 5] = [
    "redis-1",
    "redis-50",
    "memcached-tcp",
    "nginx-small",
    "iperf3-4",
];
/// Those whose two ends can be one user's.
const ON_ONE_HOST: [&str; 2] = ["redis-1", "redis-50"];

pub(super) fn all() -> Result<Vec<Subject>, Failure> {
    let of = |hosts: Hosts, names: &[&str]| -> Result<Vec<Subject>, Failure> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let services = services::named(&names)?.into_iter();
        Ok(services.map(|service| Subject { service, hosts }).collect())
    };
    let ping_pong = |service, hosts| Subject { service, hosts };
    let [tcp, udp] = &PING_PONGS;
    let mut all = vec![
        ping_pong(tcp, Hosts::One),
        ping_pong(tcp, Hosts::Two),
        ping_pong(udp, Hosts::Two),
    ];
    all.extend(of(Hosts::One, &ON_ONE_HOST)?);
    all.extend(of(Hosts::Two, &SERVICES)?);
    let is_here = |subject: &Subject| subject.service.missing().is_none();
    all.retain(is_here);
    Ok(all)
}

impl Subject {
    pub(super) fn title(&self) -> String {
        let hosts = match self.hosts {
            Hosts::Two => "two hosts (veth)",
            Hosts::One => "one host (127.0.0.1, one user)",
        };
        format!("{}, {hosts}", self.service.name)
    }

    fn is_ping_pong(&self) -> bool {
        PING_PONGS.iter().any(|it| it.name == self.service.name)
    }

    /// Whether shared memory without sockets is measured beside it.
    pub(super) fn has_floor(&self) -> bool {
        self.is_ping_pong() && self.hosts == Hosts::One
    }

    /// Each with its name. Those whose name begins with the kernel's are its ways.
    pub(super) fn contenders(&self) -> impl Iterator<Item = (&'static str, Setting)> {
        use Ends::{Both, Kernel, Server};
        use Placement::{Apart, Same};
        let hosts = self.hosts;
        let setting = move |ends, placement, way| Setting {
            ends,
            placement,
            hosts,
            way,
        };
        let mut all = vec![
            ("kernel", setting(Kernel, Apart, Way::Usual)),
            ("kernel, one CPU", setting(Kernel, Same, Way::Usual)),
        ];
        if self.is_ping_pong() {
            all.push(("kernel, spinning", setting(Kernel, Apart, Way::Spinning)));
        }
        if hosts == Hosts::One {
            all.extend([
                ("sockmap", setting(Kernel, Apart, Way::Sockmap)),
                ("sockmap, one CPU", setting(Kernel, Same, Way::Sockmap)),
            ]);
        } else {
            all.push(("libvma at the server", setting(Server, Apart, Way::Usual)));
        }
        all.extend([
            ("libvma", setting(Both, Apart, Way::Usual)),
            ("libvma, one CPU", setting(Both, Same, Way::Usual)),
        ]);
        if self.is_ping_pong() {
            all.push(("libvma, latency", setting(Both, Apart, Way::Spinning)));
        }
        all.into_iter()
    }
}
