//! Groups: interfaces, hops, membership.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use socket2::{InterfaceIndexOrAddress, Socket};

use crate::error::Error;
use crate::net::address::Flow;
use crate::options::MulticastOptions;

const HOPS: u8 = 2;

/// Sets how messages to a group leave.
pub fn prepare_sender(
    socket: &Socket,
    flow: &Flow,
    options: &MulticastOptions,
) -> Result<(), Error> {
    let Some(group) = flow.address.inet() else {
        return Ok(());
    };
    let ttl = u32::from(options.ttl.unwrap_or(HOPS));
    let interface = options.send_interface.as_deref();
    let set = || -> io::Result<()> {
        match group {
            SocketAddr::V4(_) => {
                socket.set_multicast_loop_v4(options.loopback)?;
                socket.set_multicast_ttl_v4(ttl)
            }
            SocketAddr::V6(_) => {
                socket.set_multicast_loop_v6(options.loopback)?;
                socket.set_multicast_hops_v6(ttl)
            }
        }
    };
    set().map_err(|error| Error::setup("cannot set the multicast options", error))?;
    let Some(text) = interface else {
        return Ok(());
    };
    let result = match group {
        SocketAddr::V4(_) => socket.set_multicast_if_v4(&ipv4(text, "--mc-tx-if")?),
        SocketAddr::V6(_) => socket.set_multicast_if_v6(index(text, "--mc-tx-if")?),
    };
    result.map_err(|error| Error::setup(format!("cannot send multicast on {text}"), error))
}

/// Joins the flow's group; does nothing if it is no group.
pub fn join(socket: &Socket, flow: &Flow, options: &MulticastOptions) -> Result<(), Error> {
    if !flow.is_group() {
        return Ok(());
    }
    let interface = options.receive_interface.as_deref();
    let source = match (flow.source, &options.source) {
        (Some(source), _) => Some(source),
        (None, Some(host)) => Some(crate::net::address::resolve(host, 0)?.ip()),
        (None, None) => None,
    };
    let group = flow.address.inet().map(|address| address.ip());
    let joined = match (group, source) {
        (Some(IpAddr::V4(group)), source) => {
            let interface = match interface {
                Some(text) => ipv4(text, "--mc-rx-if")?,
                None => Ipv4Addr::UNSPECIFIED,
            };
            match source {
                None => {
                    socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Address(interface))
                }
                Some(IpAddr::V4(source)) => socket.join_ssm_v4(&source, &group, &interface),
                Some(IpAddr::V6(_)) => return Err(wrong_source()),
            }
        }
        (Some(IpAddr::V6(group)), None) => {
            let index = interface.map_or(Ok(0), |text| index(text, "--mc-rx-if"))?;
            socket.join_multicast_v6(&group, index)
        }
        (Some(IpAddr::V6(_)), Some(_)) => return Err(wrong_source()),
        (None, _) => return Ok(()),
    };
    joined.map_err(|error| Error::setup(format!("cannot join the group {}", flow.address), error))
}

fn wrong_source() -> Error {
    Error::Usage(
        "--mc-source-filter takes an IPv4 address, for an IPv4 group; IPv6 sources are not \
         supported"
            .to_owned(),
    )
}

fn ipv4(text: &str, option: &str) -> Result<Ipv4Addr, Error> {
    text.parse()
        .map_err(|_| Error::Usage(format!("'{option}' Invalid address '{text}': not IPv4")))
}

fn index(text: &str, option: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| {
        Error::Usage(format!(
            "'{option}' Invalid address '{text}': not the index of an interface"
        ))
    })
}
