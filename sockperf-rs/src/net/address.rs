//! Where messages go to and come from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::net;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::error::Error;

/// An address of one of the families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4 or IPv6.
    Inet(SocketAddr),
    /// A socket of the Unix domain.
    Unix(PathBuf),
}

/// One address to listen on or send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// TCP or a stream socket of the Unix domain.
    pub stream: bool,
    /// The address.
    pub address: Address,
    /// Only messages of this sender, for a group.
    pub source: Option<IpAddr>,
}

/// Who sent a message, and where its answer goes.
#[derive(Clone, Debug)]
pub enum Peer {
    /// The other end of a connection.
    Connected,
    /// IPv4 or IPv6.
    Inet(SocketAddr),
    /// A socket of the Unix domain.
    Unix(net::SocketAddr),
}

impl Flow {
    /// Whether the address is that of a group.
    pub fn is_group(&self) -> bool {
        self.address.inet().is_some_and(|it| it.ip().is_multicast())
    }

    /// The line of the report, `[ 0] IP = 127.0.0.1       PORT = 11111 # UDP`.
    pub fn line(&self, index: usize) -> String {
        let protocol = if self.stream { "TCP" } else { "UDP" };
        match &self.address {
            Address::Inet(address) => {
                let (ip, port) = (address.ip().to_string(), address.port());
                format!("[{index:>2}] IP = {ip:<15} PORT = {port:>5} # {protocol}\n")
            }
            Address::Unix(path) => {
                format!("[{index:>2}] ADDR = {} # {protocol}\n", path.display())
            }
        }
    }
}

impl Address {
    /// A path, a literal, or the address of a name: IPv4 before IPv6.
    pub fn resolve(host: &str, port: u16) -> Result<Self, Error> {
        if host.starts_with('/') {
            return Ok(Self::Unix(PathBuf::from(host)));
        }
        resolve(host, port).map(Self::Inet)
    }

    /// The address unless it is a path.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(formatter),
            Self::Unix(path) => path.display().fmt(formatter),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => formatter.write_str("the peer"),
            Self::Inet(address) => address.fmt(formatter),
            Self::Unix(address) => match address.as_pathname() {
                Some(path) => path.display().fmt(formatter),
                None => formatter.write_str("(unnamed)"),
            },
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The address of a host name or literal, IPv4 before IPv6.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let addresses: Vec<SocketAddr> = (literal, port)
        .to_socket_addrs()
        .map_err(|error| Error::setup(format!("invalid address '{host}'"), error))?
        .collect();
    let address = addresses
        .iter()
        .find(|address| address.is_ipv4())
        .or_else(|| addresses.first())
        .copied()
        .ok_or_else(|| Error::Usage(format!("the name '{host}' has no address")))?;
    if address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(Error::Usage(format!(
            "broadcast is not supported: {host}; use a group (224.0.0.0/4)"
        )));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_resolve_to_themselves() {
        for (host, address) in [
            ("127.0.0.1", "127.0.0.1:5"),
            ("::1", "[::1]:5"),
            ("[::1]", "[::1]:5"),
            ("224.1.2.3", "224.1.2.3:5"),
        ] {
            assert_eq!(resolve(host, 5).unwrap(), address.parse().unwrap());
        }
        assert_eq!(
            Address::resolve("/tmp/x", 5).unwrap(),
            Address::Unix("/tmp/x".into())
        );
    }

    #[test]
    fn what_is_no_address_is_named() {
        let error = resolve("300.1.1.1", 5).unwrap_err().to_string();
        assert!(error.contains("300.1.1.1"), "{error}");
        let error = resolve("255.255.255.255", 5).unwrap_err().to_string();
        assert!(error.starts_with("broadcast is not supported"), "{error}");
    }

    #[test]
    fn lines_are_those_of_the_original() {
        let flow = |stream, host| Flow {
            stream,
            address: Address::resolve(host, 21_111).unwrap(),
            source: None,
        };
        let line = flow(false, "127.0.0.1").line(0);
        assert_eq!(line, "[ 0] IP = 127.0.0.1       PORT = 21111 # UDP\n");
        assert_eq!(flow(true, "/x").line(12), "[12] ADDR = /x # TCP\n");
    }
}
