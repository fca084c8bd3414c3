/* What a socket of a connection over 127.0.0.1 sends goes to the other's queue (a sockmap), past TCP. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LOOPBACK bpf_htonl(0x7f000001)

struct ends {
    __u32 local_address, peer_address;
    __u32 local_port, peer_port;
};

struct {
    __uint(type, BPF_MAP_TYPE_SOCKHASH);
    __uint(max_entries, 4096);
    __type(key, struct ends);
    __type(value, __u64);
} sockets SEC(".maps");

SEC("sockops")
int remember(struct bpf_sock_ops *socket)
{
    struct ends ends = {
        .local_address = socket->local_ip4,
        .peer_address = socket->remote_ip4,
        .local_port = socket->local_port,
        .peer_port = bpf_ntohl(socket->remote_port),
    };
    int begins = socket->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || socket->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB;
    if (begins && socket->family == 2 && ends.local_address == LOOPBACK && ends.peer_address == LOOPBACK)
        bpf_sock_hash_update(socket, &sockets, &ends, BPF_ANY);
    return 1;
}

SEC("sk_msg")
int pass_on(struct sk_msg_md *message)
{
    struct ends other = {
        .local_address = message->remote_ip4,
        .peer_address = message->local_ip4,
        .local_port = bpf_ntohl(message->remote_port),
        .peer_port = message->local_port,
    };
    /* Without the other end it goes by TCP. */
    bpf_msg_redirect_hash(message, &sockets, &other, BPF_F_INGRESS);
    return SK_PASS;
}

char license[] SEC("license") = "GPL";
