//! Links over others whose packets the kernel sorts and steers: VLANs, macvlans, bonds and teams.

use crate::link::Link;

/// What a link that lies over others gets its packets by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Its receive queues (`IFLA_NUM_RX_QUEUES`). Those of a bond are numbered as its parts' are.
    pub queues: u32,
    /// The parts of a bond or team.
    pub parts: Vec<String>,
}

/// Of this kind (`IFLA_INFO_KIND`)?
pub(crate) fn is_upper(kind: &str) -> bool {
    matches!(kind, "vlan" | "macvlan" | "bond" | "team")
}

/// `None`: the link is a device, or of another kind.
pub(crate) fn upper<'a>(link: &Link, links: impl Iterator<Item = &'a Link>) -> Option<Upper> {
    link.kind.as_deref().filter(|kind| is_upper(kind))?;
    let parts = links.filter(|part| part.master == Some(link.index));
    Some(Upper {
        queues: link.rx_queues,
        parts: parts.map(|part| part.name.clone()).collect(),
    })
}
