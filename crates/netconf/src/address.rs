//! Addresses of this host.

use std::net::IpAddr;

use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};

/// An address of one of this host's interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    /// The interface it belongs to.
    pub link_index: u32,
    /// The address itself (not the peer's, on a point-to-point link).
    pub address: IpAddr,
    /// How many leading bits name the subnet.
    pub prefix_len: u8,
    /// IPv4: not the first address of its subnet on the interface. IPv6: a temporary (privacy)
    /// address.
    pub secondary: bool,
    /// IPv6: duplicate address detection has not (or not successfully) ended, the address cannot be
    /// used.
    pub tentative: bool,
    /// IPv6: good for what comes, but no longer chosen for what begins here (RFC 4862 §5.5.4).
    pub deprecated: bool,
}

impl Address {
    /// An ordinary address of a link.
    pub fn new(link_index: u32, address: IpAddr, prefix_len: u8) -> Self {
        Self {
            link_index,
            address,
            prefix_len,
            secondary: false,
            tentative: false,
            deprecated: false,
        }
    }

    /// `None` if the message carries no address.
    pub(crate) fn from_message(message: &AddressMessage) -> Option<Self> {
        let header = &message.header;
        let mut local = None;
        let mut peer_or_local = None;
        // The header has room for the first eight flags, the attribute for all.
        let mut flags = AddressFlags::from_bits_retain(u32::from(header.flags.bits()));
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(value) => local = Some(*value),
                AddressAttribute::Address(value) => peer_or_local = Some(*value),
                AddressAttribute::Flags(value) => flags = *value,
                _ => {}
            }
        }
        let waiting =
            flags.contains(AddressFlags::Tentative) && !flags.contains(AddressFlags::Optimistic);
        Some(Self {
            link_index: header.index,
            address: local.or(peer_or_local)?,
            prefix_len: header.prefix_len,
            secondary: flags.contains(AddressFlags::Secondary),
            tentative: waiting || flags.contains(AddressFlags::Dadfailed),
            deprecated: flags.contains(AddressFlags::Deprecated),
        })
    }

    /// Whether both are the same entry of the kernel's table, whatever its flags.
    pub(crate) fn is_same_entry(&self, other: &Self) -> bool {
        self.link_index == other.link_index
            && self.address == other.address
            && self.prefix_len == other.prefix_len
    }
}
