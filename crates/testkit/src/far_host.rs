//! A host behind the peer, which forwards: what ICMP says of a path comes from the peer then.

use std::fs;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::namespace::Namespace;
use crate::pair::Pair;
use crate::skip::Skip;

const SOON: Duration = Duration::from_secs(60);

/// Where it is.
pub const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// Makes it: `vd` there and `vc` at the peer are a link with this MTU.
///
/// # Errors
///
/// What this machine does not offer.
///
/// # Panics
///
/// If the link cannot be made.
pub fn far_host(pair: &Pair, mtu: u32) -> Result<Namespace, Skip> {
    let far = Namespace::create("c")?;
    let link = format!("link add vc mtu {mtu} type veth peer name vd mtu {mtu} netns");
    let link: Vec<_> = link.split(' ').chain([far.name()]).collect();
    pair.a.ip(&link).expect("a link");
    let near = "address add 10.99.0.1/24 dev vc\nlink set vc up\n";
    pair.a.ip_batch(near).expect("the peer's end");
    let there =
        "address add 10.99.0.2/24 dev vd\nlink set vd up\nroute add default via 10.99.0.1\n";
    far.ip_batch(there).expect("the far end");
    let route = ["route", "add", "10.99.0.0/24", "via", "10.77.0.1"];
    pair.b.ip(&route).expect("a route");
    far.wait_until_running("vd", SOON).expect("a carrier");
    let forward = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    pair.a.enter(forward).expect("forwarding");
    for host in [&pair.a, &far] {
        // Else the ICMP errors of one run leave none for the next.
        let no_limit = || fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0");
        host.enter(no_limit).expect("no limit of ICMP messages");
    }
    Ok(far)
}
