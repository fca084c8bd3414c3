//! The table.

use vma_api::abi::{Table, supported};

use super::callback::register_recv_callback;
use super::modify_ring::vma_modify_ring;
use super::network_header::get_socket_network_header;
use super::packets::{free_packets, recvfrom_zcopy};
use super::profiles::vma_add_ring_profile;
use super::program_memory::ioctl;
use super::thread_offload::thread_offload;
use super::xtreme::{
    get_socket_rings_fds, get_socket_rings_num, get_socket_tx_ring_fd, socketxtreme_free_vma_buff,
    socketxtreme_free_vma_packets, socketxtreme_poll, socketxtreme_ref_vma_buff,
};
use super::{add_conf_rule, dump_fd_stats, unsupported};

/// What programs get the address of.
pub(super) static TABLE: Table = Table {
    register_recv_callback,
    recvfrom_zcopy,
    free_packets,
    add_conf_rule,
    thread_offload,
    socketxtreme_poll,
    get_socket_rings_num,
    get_socket_rings_fds,
    get_socket_tx_ring_fd,
    socketxtreme_free_vma_packets,
    socketxtreme_ref_vma_buff,
    socketxtreme_free_vma_buff,
    dump_fd_stats,
    vma_add_ring_profile,
    get_socket_network_header,
    get_ring_direct_descriptors: unsupported::get_ring_direct_descriptors,
    register_memory_on_ring: unsupported::register_memory_on_ring,
    deregister_memory_on_ring: unsupported::deregister_memory_on_ring,
    vma_modify_ring,
    vma_extra_supported_mask: supported::REGISTER_RECV_CALLBACK
        | supported::RECVFROM_ZCOPY
        | supported::FREE_PACKETS
        | supported::ADD_CONF_RULE
        | supported::THREAD_OFFLOAD
        | supported::DUMP_FD_STATS
        | supported::SOCKETXTREME_POLL
        | supported::SOCKETXTREME_FREE_VMA_PACKETS
        | supported::SOCKETXTREME_REF_VMA_BUFF
        | supported::SOCKETXTREME_FREE_VMA_BUFF
        | supported::GET_SOCKET_RINGS_NUM
        | supported::GET_SOCKET_RINGS_FDS
        | supported::GET_SOCKET_TX_RING_FD
        | supported::GET_SOCKET_NETWORK_HEADER
        | supported::ADD_RING_PROFILE
        | supported::MODIFY_RING
        | supported::IOCTL,
    ioctl,
};
