/* The extra API, as a program that was compiled against its header uses it. */
#include "extra_case.h"

#define AT(type, member, offset) _Static_assert(offsetof(struct type, member) == offset, #type "." #member)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == size, #type)

/* The reference: VMA 9.8 on LP64. */
SIZE(vma_api_t, 168);
AT(vma_api_t, recvfrom_zcopy, 8);
AT(vma_api_t, free_packets, 16);
AT(vma_api_t, add_conf_rule, 24);
AT(vma_api_t, thread_offload, 32);
AT(vma_api_t, socketxtreme_poll, 40);
AT(vma_api_t, get_socket_rings_num, 48);
AT(vma_api_t, get_socket_rings_fds, 56);
AT(vma_api_t, get_socket_tx_ring_fd, 64);
AT(vma_api_t, socketxtreme_free_vma_packets, 72);
AT(vma_api_t, socketxtreme_ref_vma_buff, 80);
AT(vma_api_t, socketxtreme_free_vma_buff, 88);
AT(vma_api_t, dump_fd_stats, 96);
AT(vma_api_t, vma_add_ring_profile, 104);
AT(vma_api_t, get_socket_network_header, 112);
AT(vma_api_t, get_ring_direct_descriptors, 120);
AT(vma_api_t, register_memory_on_ring, 128);
AT(vma_api_t, deregister_memory_on_ring, 136);
AT(vma_api_t, vma_modify_ring, 144);
AT(vma_api_t, vma_extra_supported_mask, 152);
AT(vma_api_t, ioctl, 160);
SIZE(vma_cmsg_ioctl_user_alloc_t, 17);
SIZE(vma_buff_t, 24);
SIZE(vma_packet_desc_t, 40);
AT(vma_packet_desc_t, hw_timestamp, 24);
SIZE(vma_completion_t, 80);
AT(vma_completion_t, events, 40);
AT(vma_completion_t, src, 56);
AT(vma_completion_t, listen_fd, 72);
SIZE(vma_packet_t, 16);
SIZE(vma_packets_t, 8);
SIZE(vma_info_t, 80);
AT(vma_info_t, hw_timestamp, 48);
SIZE(vma_rate_limit_t, 12);
SIZE(vma_ring_alloc_logic_attr, 20);
SIZE(vma_modify_ring_attr, 16);
SIZE(vma_ring_type_attr, 12);
SIZE(dev_data, 12);
SIZE(vma_mlx_hw_device_data, 200);
AT(vma_mlx_hw_device_data, sq_data, 16);
_Static_assert(RING_LOGIC_LAST == 32 && VMA_EXTRA_API_IOCTL == 0x200000, "constants");

static char buffer[4096];

static long receive(const char *what, int fd, size_t room, int flags)
{
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    int told = flags;
    long result = api->recvfrom_zcopy(fd, buffer, room, &told, (struct sockaddr *)&from, &len);
    say(what, result);
    if (result >= 0)
        printf("  flags %#x, from port %s, %u\n", told, from.sin_port ? "known" : "unknown", len);
    return told & MSG_VMA_ZCOPY ? result : -1;
}

static long receive_quietly(int fd)
{
    int flags = 0;
    long result = api->recvfrom_zcopy(fd, buffer, sizeof buffer, &flags, NULL, NULL);
    return flags & MSG_VMA_ZCOPY ? result : -1;
}

static struct vma_packets_t *packets(void)
{
    return (struct vma_packets_t *)buffer;
}

static void show(void)
{
    struct vma_packet_t *packet = packets()->pkts;
    printf("  %zu packets, the first of %zu parts, %zu octets: %.8s\n", packets()->n_packet_num, packet->sz_iov, packet->iov[0].iov_len,
           (char *)packet->iov[0].iov_base);
}

/* Where a table may be asked for, and where not. */
static void table(void)
{
    look_for_it();
    printf("mask %#lx\n", (unsigned long)api->vma_extra_supported_mask);
    void *found = NULL;
    socklen_t len = sizeof found;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    say("of a socket", getsockopt(fd, SOL_SOCKET, SO_VMA_GET_API, &found, &len));
    printf("the same %d\n", found == api);
    len = 4;
    say("no room", getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &found, &len));
    say("no length", getsockopt(-1, SOL_SOCKET, SO_VMA_GET_API, &found, NULL));
    say("not supported", api->get_ring_direct_descriptors(0, NULL));
}

static void datagrams(void)
{
    look_for_it();
    int fd = bound(), other = bound();
    set_timeout(fd, 5000);
    have(fd, 3, 20);
    say("no room", receive("small", fd, 39, 0));
    receive("first", fd, sizeof buffer, 0);
    show();
    struct vma_packet_t first = packets()->pkts[0];
    say("of another", api->free_packets(other, &first, 1));
    say("free", api->free_packets(fd, &first, 1));
    say("twice", api->free_packets(fd, &first, 1));
    struct vma_packet_t wrong = {.packet_id = (void *)0x12345678};
    say("none", api->free_packets(fd, &wrong, 1));
    say("of none", api->free_packets(fd, NULL, 1));
    say("no socket", api->free_packets(0, &first, 1));
    say_recv("recv", fd, 64, 0);
    receive("peek", fd, sizeof buffer, MSG_PEEK);
    receive("forced", fd, 40, MSG_VMA_ZCOPY_FORCE);
    show();
    struct vma_packet_t last = packets()->pkts[0];
    receive("nothing", fd, sizeof buffer, MSG_DONTWAIT);
    int local = bound_to("127.0.0.1", 0);
    receive("of the kernel's, nothing", local, sizeof buffer, MSG_DONTWAIT);
    close(fd);
    say("past close", api->free_packets(fd, &last, 1));
}

/* More than the pool has. */
static void hoarded(void)
{
    look_for_it();
    enum { COUNT = 12000 };
    static struct vma_packet_t held[COUNT];
    int fd = bound();
    set_timeout(fd, 5000);
    for (int i = 0; i < COUNT; i++) {
        ask(fd, 1, 20 + i % 100);
        if (receive_quietly(fd) != 20 + i % 100)
            printf("%d is wrong\n", i);
        held[i] = packets()->pkts[0];
    }
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += api->free_packets(fd, &held[i], 1) != 0;
    printf("held %d, wrong %d\n", COUNT, wrong);
}

/* Receives what comes within `msec`, and keeps it. */
static size_t keep(int fd, int msec, struct vma_packet_t *held, int *count, int most)
{
    static char data[1000];
    size_t total = 0;
    struct pollfd polled = {fd, POLLIN, 0};
    for (;;) {
        while (send(fd, data, sizeof data, MSG_DONTWAIT) > 0)
            ;
        if (poll(&polled, 1, msec) != 1)
            return total;
        long received = receive_quietly(fd);
        if (received <= 0)
            return total;
        total += (size_t)received;
        struct vma_packet_t *packet = packets()->pkts;
        for (size_t i = 0; i < packets()->n_packet_num && *count < most; i++) {
            held[(*count)++] = *packet;
            packet = (struct vma_packet_t *)((char *)packet + sizeof *packet + packet->sz_iov * sizeof(struct iovec));
        }
    }
}

static void streams(void)
{
    look_for_it();
    int fd = connected();
    have_octets(fd, "question");
    receive("first", fd, sizeof buffer, 0);
    show();
    struct vma_packet_t first = packets()->pkts[0];
    receive("nothing", fd, sizeof buffer, MSG_DONTWAIT);
    have_octets(fd, "again");
    say("free", api->free_packets(fd, &first, 1));
    say("twice", api->free_packets(fd, &first, 1));
    say_recv("recv", fd, 64, 0);
    MUST(shutdown(fd, SHUT_WR));
    receive("the end", fd, sizeof buffer, 0);
}

/* What the program holds is charged to the connection: the peer waits. */
static void window(void)
{
    look_for_it();
    enum { MOST = 4000 };
    static struct vma_packet_t held[MOST];
    int fd = connected(), size = 40000, count = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    size_t before = keep(fd, 500, held, &count, MOST);
    printf("as much as the buffer has room for %d\n", before > 10000 && before < 200000);
    if (before <= 10000 || before >= 200000)
        printf("%zu octets\n", before);
    say("free", api->free_packets(fd, held, (size_t)count));
    count = 0;
    printf("the window is open again %d\n", keep(fd, 500, held, &count, MOST) > 10000);
}

/* How a new socket of the calling thread receives. */
static void try_one(const char *what, int port)
{
    int fd = bound_to(SELF, port);
    set_timeout(fd, 5000);
    have(fd, 1, 20);
    receive(what, fd, sizeof buffer, 0);
    struct vma_packet_t none = {0};
    say("  free", api->free_packets(fd, &none, 1));
    close(fd);
}

static void *elsewhere(void *argument)
{
    (void)argument;
    try_one("of another thread", 0);
    return NULL;
}

static void settings(void)
{
    look_for_it();
    pthread_t other;
    say("no rule", api->add_conf_rule("use os udp_listener"));
    say("nothing", api->add_conf_rule(NULL));
    try_one("by default", 9000);
    say("a rule", api->add_conf_rule("use os udp_receiver 10.77.0.2:9000"));
    try_one("by the rule", 9000);
    say("thread_offload", api->thread_offload(0, pthread_self()));
    try_one("not offloaded", 0);
    must(pthread_create(&other, NULL, elsewhere, NULL) == 0, "a thread", __LINE__);
    pthread_join(other, NULL);
    say("thread_offload", api->thread_offload(1, pthread_self()));
    try_one("offloaded", 0);
    int fd = bound();
    say("dump", api->dump_fd_stats(fd, 3));
    say("all", api->dump_fd_stats(0, 3));
    say("none", api->dump_fd_stats(fd + 1, 3));
}

/* Kinds of rings, and a socket that asks for one of its own. */
static void profiles(void)
{
    look_for_it();
    int fd = bound(), key = -1, other = -2;
    struct vma_ring_type_attr packets = {.ring_type = VMA_RING_PACKET}, external = {.ring_type = VMA_RING_EXTERNAL_MEM};
    say("packets", api->vma_add_ring_profile(&packets, &key));
    say("again", api->vma_add_ring_profile(&packets, &other));
    printf("the same %d, a key %d\n", key == other, key > 0);
    say("memory of the program's", api->vma_add_ring_profile(&external, &other));
    say("no key", api->vma_add_ring_profile(&packets, NULL));
    say("no profile", api->vma_add_ring_profile(NULL, &key));
    struct vma_ring_alloc_logic_attr wish = {.ring_alloc_logic = RING_LOGIC_PER_SOCKET, .ring_profile_key = (uint32_t)key, .ingress = 1, .engress = 1};
    wish.comp_mask = VMA_RING_ALLOC_MASK_RING_PROFILE_KEY | VMA_RING_ALLOC_MASK_RING_INGRESS | VMA_RING_ALLOC_MASK_RING_ENGRESS;
    say("a ring of its own", setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &wish, sizeof wish));
    wish.ring_profile_key = (uint32_t)key + 1;
    say("of no profile", setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &wish, sizeof wish));
    ask(fd, 1, 20);
    say_recv("received", fd, 64, 0);
}

/* The headers of what a socket sends, and how long they are. */
static void headers(void)
{
    unsigned char header[64];
    uint16_t len = 0;
    look_for_it();
    struct sockaddr_in peer = address(PEER, PEER_PORT), self;
    socklen_t self_len = sizeof self;
    int fd = bound();
    set_timeout(fd, 5000);
    say("no peer", api->get_socket_network_header(fd, NULL, &len));
    MUST(connect(fd, generic(&peer), sizeof peer));
    /* Until the neighbour is known. */
    for (int i = 0; i < 200 && api->get_socket_network_header(fd, NULL, &len) < 0; i++) {
        char room[64];
        ask(fd, 1, 20);
        recv(fd, room, sizeof room, 0);
        sleep_msec(10);
    }
    say("length", api->get_socket_network_header(fd, NULL, &len));
    printf("%u octets\n", len);
    len = 41;
    say("no room", api->get_socket_network_header(fd, header, &len));
    len = sizeof header;
    say("headers", api->get_socket_network_header(fd, header, &len));
    MUST(getsockname(fd, (struct sockaddr *)&self, &self_len));
    printf("%u octets, of IPv4 %d, of UDP %d, from self %d, to the peer %d\n", len, header[12] == 8 && header[14] == 0x45, header[23] == 17,
           memcmp(header + 26, &self.sin_addr, 4) == 0 && memcmp(header + 34, &self.sin_port, 2) == 0,
           memcmp(header + 30, &peer.sin_addr, 4) == 0 && memcmp(header + 36, &peer.sin_port, 2) == 0);
    say("no length", api->get_socket_network_header(fd, header, NULL));
    say("no socket", api->get_socket_network_header(0, header, &len));
    fd = connected();
    len = sizeof header;
    say("of a stream", api->get_socket_network_header(fd, header, &len));
    printf("%u octets, of TCP %d\n", len, header[23] == 6);
}

CASES({"table", table}, {"headers", headers}, {"profiles", profiles}, {"settings", settings}, {"streams", streams}, {"window", window}, {"datagrams", datagrams}, {"hoarded", hoarded})
