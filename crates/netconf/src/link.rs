//! Network interfaces.

use netlink_packet_route::link::{
    BondMode, BondPortState, InfoBond, InfoBondPort, InfoData, InfoPortData, InfoVlan,
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, VlanProtocol,
};

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent properties, as the kernel has them"
)]
pub struct Link {
    /// The number by which the kernel's interfaces refer to it.
    pub index: u32,
    /// The name, such as "eth0".
    pub name: String,
    /// Switched on by the administrator (IFF_UP).
    pub up: bool,
    /// Able to carry traffic: up, with a carrier, not dormant (IFF_RUNNING).
    pub running: bool,
    /// The loopback interface (IFF_LOOPBACK).
    pub loopback: bool,
    /// The largest packet above the link-layer header, in bytes.
    pub mtu: u32,
    /// The hardware address if it has six bytes; all zeroes for the loopback interface.
    pub mac: Option<[u8; 6]>,
    /// What kind of virtual interface it is ("veth", "bridge", "bond", "vlan", ...); `None` for
    /// hardware.
    pub kind: Option<String>,
    /// The index of the bridge, bond or VRF that it is a part of.
    pub master: Option<u32>,
    /// The index of the interface that it lies on: a VLAN's lower device, but also the peer of a
    /// veth.
    pub lower: Option<u32>,
    /// Frames are Ethernet frames (ARPHRD_ETHER).
    pub ethernet: bool,
    /// How many receive queues were allocated (IFLA_NUM_RX_QUEUES); not all need be in use.
    pub rx_queues: u32,
    /// Its segments of IPv6 may be longer than 64 KiB (BIG TCP: IFLA_GSO_MAX_SIZE,
    /// IFLA_GRO_MAX_SIZE).
    pub big_tcp: bool,
    /// The number in the tags of its packets (802.1Q), if it is a VLAN of a device of this
    /// namespace.
    pub vlan_id: Option<u16>,
    /// It is a bond whose flows have one part each: active-backup, balance-xor or 802.3ad.
    pub bonds_by_flow: bool,
    /// It is a part of a bond that does not use it now.
    pub backup: bool,
}

impl Link {
    /// `None` if the message does not describe the whole link, as those about wireless events.
    pub(crate) fn from_message(message: &LinkMessage) -> Option<Self> {
        let header = &message.header;
        let flag = |flag| header.flags.contains(flag);
        let mut name = None;
        let mut mtu = None;
        let mut link = Self {
            index: header.index,
            name: String::new(),
            up: flag(LinkFlags::Up),
            running: flag(LinkFlags::Running),
            loopback: flag(LinkFlags::Loopback),
            mtu: 0,
            mac: None,
            kind: None,
            master: None,
            lower: None,
            ethernet: header.link_layer_type == LinkLayerType::Ether,
            rx_queues: 1,
            big_tcp: false,
            vlan_id: None,
            bonds_by_flow: false,
            backup: false,
        };
        let mut is_above_another_namespace = false;
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(value) => name = Some(value.clone()),
                LinkAttribute::Mtu(value) => mtu = Some(*value),
                LinkAttribute::Address(value) => link.mac = value.as_slice().try_into().ok(),
                LinkAttribute::Controller(value) => {
                    link.master = Some(*value).filter(|&it| it != 0)
                }
                LinkAttribute::Link(value) => link.lower = Some(*value).filter(|&it| it != 0),
                LinkAttribute::NumRxQueues(value) => link.rx_queues = *value,
                LinkAttribute::GsoMaxSize(bytes) | LinkAttribute::GroMaxSize(bytes) => {
                    link.big_tcp |= *bytes > 65_536;
                }
                LinkAttribute::LinkNetNsId(_) => is_above_another_namespace = true,
                LinkAttribute::LinkInfo(values) => {
                    link.kind = kind(values);
                    link.read_details(values);
                }
                _ => {}
            }
        }
        if is_above_another_namespace {
            link.vlan_id = None;
        }
        Some(Self {
            name: name?,
            mtu: mtu?,
            ..link
        })
    }

    /// What is told of VLANs, bonds and parts of bonds.
    fn read_details(&mut self, values: &[LinkInfo]) {
        for value in values {
            match value {
                LinkInfo::Data(InfoData::Vlan(values)) => self.vlan_id = vlan_id(values),
                LinkInfo::Data(InfoData::Bond(values)) => {
                    let has_one_part = |value: &InfoBond| {
                        use BondMode::{ActiveBackup, BalanceXor, Ieee8023Ad};
                        matches!(
                            value,
                            InfoBond::Mode(ActiveBackup | BalanceXor | Ieee8023Ad)
                        )
                    };
                    self.bonds_by_flow = values.iter().any(has_one_part);
                }
                LinkInfo::PortData(InfoPortData::BondPort(values)) => {
                    let backup = InfoBondPort::BondPortState(BondPortState::Backup);
                    self.backup = values.contains(&backup);
                }
                _ => {}
            }
        }
    }
}

/// The number of the XDP program that a message about a link names: the driver's, the generic one,
/// or whichever it is.
pub(crate) fn xdp_program(message: &LinkMessage) -> Option<u32> {
    let values = message.attributes.iter().find_map(|it| match it {
        LinkAttribute::Xdp(values) => Some(values),
        _ => None,
    });
    values?.iter().find_map(|it| match it {
        LinkXdp::ProgId(id)
        | LinkXdp::DrvProgId(id)
        | LinkXdp::SkbProgId(id)
        | LinkXdp::HwProgId(id) => Some(*id).filter(|id| *id != 0),
        _ => None,
    })
}

fn vlan_id(values: &[InfoVlan]) -> Option<u16> {
    let is_other = |value: &InfoVlan| matches!(value, InfoVlan::Protocol(protocol) if *protocol != VlanProtocol::Ieee8021Q);
    if values.iter().any(is_other) {
        return None;
    }
    values.iter().find_map(|value| match value {
        InfoVlan::Id(id) => Some(*id),
        _ => None,
    })
}

fn kind(values: &[LinkInfo]) -> Option<String> {
    values.iter().find_map(|value| match value {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    })
}
