//! Which packets the network card or the XDP program steers to the library.

use super::Parameter;
use super::build::{NEEDS_RDMA, flag};

pub(super) const PARAMETERS: [Parameter; 4] = [
    flag("VMA_TCP_3T_RULES", "TCP 3T rules", false).no_meaning("connections are steered one by one, and listeners by destination").about(
        "Steer TCP by destination only.",
        "One rule for a listening socket instead of one for each of its connections.",
    ),
    flag("VMA_UDP_3T_RULES", "UDP 3T rules", true).no_meaning("there is room for a rule for every connected socket").about(
        "Steer connected UDP sockets by destination only.",
        "Saves rules. When off, a connected socket has a rule with the peer's address and port.",
    ),
    flag("VMA_ETH_MC_L2_ONLY_RULES", "ETH MC L2 only rules", false).no_effect(NEEDS_RDMA).about(
        "Steer multicast by the Ethernet address only.",
        "Everything sent to the group's Ethernet address then bypasses the kernel.",
    ),
    flag("VMA_MC_FORCE_FLOWTAG", "Force Flowtag for MC", false).no_effect(NEEDS_RDMA).about(
        "Let the card mark multicast packets with their socket.",
        "Valid only while each group is received by one socket.",
    ),
];
