//! What the socket engine must know of the kernel's network configuration: links, addresses and
//! neighbours as a snapshot kept current by notifications, and routes as the kernel itself decides
//! them.
//!
//! ```no_run
//! use netconf::{Netconf, RouteQuery};
//!
//! let mut netconf = Netconf::open()?;
//! let route = netconf.route(&RouteQuery::to("192.0.2.1".parse()?))?;
//! let next_hop = route.gateway.unwrap_or("192.0.2.1".parse()?);
//! let usable = netconf
//!     .neighbour(route.output_interface, next_hop)
//!     .is_some_and(netconf::Neighbour::usable);
//! if !usable {
//!     netconf.probe_neighbour(route.output_interface, next_hop)?;
//! }
//! // Whenever `netconf.events_descriptor()` is readable:
//! let changes = netconf.process_events()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! There is no copy of the routing tables. Policy rules, multipath choice and metrics are the
//! kernel's own: [`Netconf::route`] asks it for each destination, and the answer stays valid until
//! [`Netconf::generation`] changes.
//!
//! A [`Netconf`] belongs to the network namespace of the thread that opened it and to the process
//! that opened it: a child made by fork shares the sockets, and each would take the other's
//! messages, so the child opens its own. Its two descriptors are close-on-exec and have high
//! numbers, out of the way of the program around it.
//!
//! System calls are made directly (rustix), not through libc, whose socket functions are replaced
//! in the programs this runs in; the exception is `close`, when a `Netconf` is opened or dropped.
//!
//! References: rtnetlink(7), netlink(7), RFC 4861 section 7.3 (neighbour states).
//!
#![forbid(unsafe_code)]

mod address;
mod changes;
mod connection;
mod device_times;
mod error;
mod framing;
mod inet_diag;
mod ipsec;
mod link;
mod memberships;
mod neighbour;
mod netconf;
mod obstacle;
mod packet_filters;
mod redirection;
mod route;
mod rule;
mod snapshot;
mod socket;
mod tcp_ends;
mod tcp_sockets;
mod udp_sockets;
mod upper;

pub use address::Address;
pub use changes::Changes;
pub use device_times::shows_device_times;
pub use error::{Error, RouteError};
pub use ipsec::IpsecPolicies;
pub use link::Link;
pub use memberships::{GroupChanges, Memberships};
pub use neighbour::{Neighbour, NeighbourState};
pub use netconf::Netconf;
pub use packet_filters::{IpVersion, has_iptables_tables, has_nftables_rules};
pub use redirection::{FilterPlace, Redirections, Selection};
pub use route::{Route, RouteKind, RouteQuery, TransportFlow};
pub use tcp_ends::TcpEnds;
pub use tcp_sockets::{TcpConnectionInfo, TcpListenerInfo, TcpSocketInfo, TcpSockets};
pub use udp_sockets::{UdpSocketInfo, udp_sockets};
