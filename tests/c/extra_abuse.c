/* Threads that use the extra API as it must not be used: packets that others have given back, of other sockets, of none; pointers to nothing, descriptors
 * that others close meanwhile. Nothing is promised about what a call returns then; the process lives, no call hangs, and what it does afterwards works. */
#include "extra_case.h"
#include <signal.h>
#include <sys/wait.h>

enum { THREADS = 3, SOCKETS = 6, KEPT = 64 };

/* As everybody last saw them, without a lock: they may be anybody's, and torn. */
static int fds[SOCKETS], ring = -1;
static void *ids[KEPT];
static struct vma_completion_t kept[KEPT];
static double until_sec;
static const uintptr_t nowhere[] = {0, 1, 64, 4096, 0x7fffffffffffu, 0xffff800000000000u, ~(uintptr_t)7};

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void question(int fd)
{
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    sendto(fd, "S 4 20 0 0 0", 12, MSG_DONTWAIT, generic(&peer), sizeof peer);
}

static int fresh_socket(unsigned kind)
{
    struct sockaddr_in self = address(SELF, 0), peer = address(PEER, PORT);
    int fd = socket(AF_INET, (kind ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK, 0);
    bind(fd, generic(&self), sizeof self);
    if (!kind)
        connect(fd, generic(&peer), sizeof peer);
    return fd;
}

static vma_recv_callback_retval_t look(int fd, size_t count, struct iovec iov[], struct vma_info_t *info, void *context)
{
    static _Thread_local unsigned state = 77;
    struct vma_packet_t packet = {.packet_id = info->packet_id};
    (void)count;
    (void)iov;
    (void)context;
    ids[next_random(&state) % KEPT] = info->packet_id;
    switch (next_random(&state) % 16) {
    case 0:
        api->free_packets(fd, &packet, 1);
        break;
    case 1:
        api->register_recv_callback(fd, NULL, NULL);
        break;
    case 2:
        close(fd);
        break;
    default:
        break;
    }
    return next_random(&state) % 5;
}

/* Somewhere in the program's memory, or nowhere. */
static void *place(unsigned *state, char *room, size_t len)
{
    unsigned chance = next_random(state) % 8;
    return chance < COUNT(nowhere) && next_random(state) % 4 == 0 ? (void *)nowhere[chance] : room + next_random(state) % (len / 2);
}

static void receive(unsigned *state, int fd)
{
    char room[512];
    size_t len = next_random(state) % 300;
    int flags = next_random(state) % 4 ? 0 : (int)next_random(state) << 8;
    struct sockaddr_in from;
    socklen_t from_len = next_random(state) % 20;
    int *flags_at = next_random(state) % 16 ? &flags : (int *)nowhere[next_random(state) % COUNT(nowhere)];
    flags |= MSG_DONTWAIT;
    int got = api->recvfrom_zcopy(fd, next_random(state) % 16 ? room : (char *)4096, len, flags_at, (struct sockaddr *)&from, &from_len);
    if (got > 0 && flags_at == &flags && flags & MSG_VMA_ZCOPY) {
        struct vma_packets_t *packets = (struct vma_packets_t *)room;
        ids[next_random(state) % KEPT] = packets->pkts[0].packet_id;
        if (next_random(state) % 2)
            api->free_packets(fd, packets->pkts, packets->n_packet_num);
    }
}

static void give_back(unsigned *state, int fd)
{
    struct vma_packet_t some[4] = {{0}};
    for (int i = 0; i < 4; i++)
        some[i].packet_id = next_random(state) % 8 ? ids[next_random(state) % KEPT] : (void *)(uintptr_t)(next_random(state) << 16 | next_random(state));
    unsigned count = next_random(state) % 8;
    void *bad = (void *)nowhere[next_random(state) % COUNT(nowhere)];
    api->free_packets(fd, count == 7 ? bad : some, count == 7 ? ~(size_t)0 >> 1 : count % 5);
}

static void use_ring(unsigned *state, int fd)
{
    struct vma_completion_t some[8];
    int own = -1, found = api->socketxtreme_poll(next_random(state) % 8 ? ring : fd, some, next_random(state) % 8, 0);
    for (int i = 0; i < found; i++)
        kept[next_random(state) % KEPT] = some[i];
    struct vma_completion_t it = kept[next_random(state) % KEPT];
    switch (next_random(state) % 6) {
    case 0:
        api->socketxtreme_free_vma_packets(&it.packet, 1);
        break;
    case 1:
        api->socketxtreme_free_vma_buff(it.packet.buff_lst);
        break;
    case 2:
        api->socketxtreme_ref_vma_buff((struct vma_buff_t *)((char *)it.packet.buff_lst + next_random(state) % 128));
        break;
    case 3:
        api->socketxtreme_free_vma_packets((struct vma_packet_desc_t *)nowhere[next_random(state) % COUNT(nowhere)], 3);
        break;
    default:
        if (api->get_socket_rings_fds(fd, &own, 1) == 1 && own >= 0)
            ring = own;
        api->get_socket_tx_ring_fd(fd, NULL, 0);
    }
}

static void set(unsigned *state, int fd, char *room, size_t len)
{
    static const int names[] = {SO_VMA_USER_DATA, SO_VMA_FLOW_TAG, SO_VMA_RING_ALLOC_LOGIC, SO_VMA_RING_USER_MEMORY, SO_MAX_PACING_RATE, SO_VMA_GET_API};
    int name = names[next_random(state) % COUNT(names)];
    socklen_t value_len = next_random(state) % 32;
    setsockopt(fd, SOL_SOCKET, name, place(state, room, len), value_len);
    getsockopt(fd, SOL_SOCKET, name, place(state, room, len), next_random(state) % 8 ? &value_len : (socklen_t *)64);
    if (next_random(state) % 64 == 0)
        setsockopt(fd, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0);
}

static void *abuse(void *seed)
{
    unsigned state = (unsigned)(long)seed * 7919u;
    char room[128] = {0};
    while (now_sec() < until_sec) {
        unsigned slot = next_random(&state) % SOCKETS;
        int fd = next_random(&state) % 32 ? fds[slot] : (int)next_random(&state) - 100;
        struct vma_modify_ring_attr change = {.comp_bit_mask = next_random(&state) % 4, .ring_fd = next_random(&state) % 2 ? ring : fd};
        uint16_t header_len = next_random(&state) % 64;
        for (size_t i = 0; i < sizeof room; i++)
            room[i] = (char)next_random(&state);
        switch (next_random(&state) % 16) {
        case 0:
            /* Each number once: by then another may be the library's, and of a build with assertions it ends the program. */
            close(__atomic_exchange_n(&fds[slot], -1, __ATOMIC_SEQ_CST));
            __atomic_store_n(&fds[slot], fresh_socket(next_random(&state) % 3), __ATOMIC_SEQ_CST);
            break;
        case 1:
            api->register_recv_callback(fd, next_random(&state) % 4 ? look : NULL, room);
            break;
        case 2:
        case 3:
            use_ring(&state, fd);
            break;
        case 4:
            set(&state, fd, room, sizeof room);
            break;
        case 5:
            api->get_socket_network_header(fd, place(&state, room, sizeof room), next_random(&state) % 8 ? &header_len : NULL);
            api->vma_modify_ring(next_random(&state) % 8 ? &change : (struct vma_modify_ring_attr *)64);
            break;
        case 6:
            api->ioctl(place(&state, room, sizeof room), next_random(&state) % 64);
            api->thread_offload(1, pthread_self());
            break;
        case 7:
            api->dump_fd_stats(fd, -1);
            send(fd, room, 20, VMA_SND_FLAGS_DUMMY | MSG_DONTWAIT);
            send(fd, room, 20, MSG_DONTWAIT | MSG_NOSIGNAL);
            break;
        case 8:
        case 9:
            give_back(&state, fd);
            break;
        case 10:
            poll(&(struct pollfd){fd, POLLIN, 0}, 1, 0);
            recv(fd, room, 64, MSG_DONTWAIT);
            break;
        case 11:
            question(fd);
            break;
        default:
            receive(&state, fd);
        }
    }
    return NULL;
}

static void hostile(void)
{
    pthread_t all[THREADS];
    look_for_it();
    for (int i = 0; i < SOCKETS; i++)
        fds[i] = fresh_socket((unsigned)i % 3);
    signal(SIGPIPE, SIG_IGN);
    until_sec = now_sec() + 4;
    for (long i = 0; i < THREADS; i++)
        must(pthread_create(&all[i], NULL, abuse, (void *)(i + 1)) == 0, "a thread", __LINE__);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    for (int i = 0; i < SOCKETS; i++)
        close(fds[i]);
    int fd = bound();
    set_timeout(fd, 5000);
    ask(fd, 1, 20);
    say_recv("afterwards", fd, 64, 0);
}

enum { HELD = 8, CHILDREN = 12 };

/* A child does the same with what it has inherited, and gives back what its parent holds. */
static void in_child(int own, struct vma_packets_t *held[], long seed)
{
    until_sec = now_sec() + 0.1;
    for (int i = 0; i < HELD; i += 2)
        api->free_packets(own, held[i]->pkts, 1);
    abuse((void *)seed);
    for (int i = 0; i < HELD; i++)
        api->free_packets(own, held[i]->pkts, 1);
    _exit(0);
}

/* The parent holds packets of a socket of which its threads know nothing. */
static void forking(void)
{
    static char rooms[HELD][64];
    struct vma_packets_t *held[HELD];
    pthread_t all[THREADS];
    int own, children = 0, changed = 0, kept_back = 0, twice = 0;
    look_for_it();
    signal(SIGPIPE, SIG_IGN);
    own = bound();
    set_timeout(own, 5000);
    ask(own, HELD, 20);
    for (int i = 0; i < HELD; i++) {
        int flags = 0;
        held[i] = (struct vma_packets_t *)rooms[i];
        MUST(api->recvfrom_zcopy(own, rooms[i], sizeof rooms[i], &flags, NULL, NULL));
        must(flags & MSG_VMA_ZCOPY, "a packet in place", __LINE__);
    }
    for (int i = 0; i < SOCKETS; i++)
        fds[i] = fresh_socket((unsigned)i % 3);
    until_sec = now_sec() + 3;
    for (long i = 0; i < THREADS; i++)
        must(pthread_create(&all[i], NULL, abuse, (void *)(i + 1)) == 0, "a thread", __LINE__);
    for (long i = 0; i < CHILDREN; i++) {
        int status = 0;
        pid_t child = fork();
        MUST(child);
        if (child == 0)
            in_child(own, held, i + 100);
        MUST(waitpid(child, &status, 0));
        children += status != 0;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    for (int i = 0; i < HELD; i++) {
        struct vma_packet_t *packet = held[i]->pkts;
        changed += packet->iov[0].iov_len != 20 || *(char *)packet->iov[0].iov_base != 'a' + i;
        kept_back += api->free_packets(own, packet, 1) != 0;
        twice += api->free_packets(own, packet, 1) == 0;
    }
    printf("children: %d wrong\n", children);
    printf("held: %d changed, %d kept back, %d twice\n", changed, kept_back, twice);
}

CASES({"hostile", hostile}, {"forking", forking})
