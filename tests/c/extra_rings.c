/* What the extra API has to say of rings, their memory, and of sockets at them. */
#include "extra_case.h"
#include <sys/mman.h>

static void options(void)
{
    uint32_t tag = 77, other = 0;
    uint64_t data = 0;
    socklen_t len = sizeof other;
    struct iovec memory = {&tag, sizeof tag};
    look_for_it();
    int fd = bound(), kernels = socket(AF_UNIX, SOCK_DGRAM, 0);
    say("no tag yet", getsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &other, &len));
    printf("%u of %u\n", other, len);
    say("tag", setsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, sizeof tag));
    say("told", getsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &other, &len));
    printf("%u of %u\n", other, len);
    other = 0;
    say("no tag", setsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &other, sizeof other));
    other = (1 << 20) - 1;
    say("nor this", setsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &other, sizeof other));
    say("short", setsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, 2));
    say("no value", setsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, NULL, sizeof tag));
    say("unreadable", setsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, (void *)64, sizeof tag));
    len = 2;
    say("no room", getsockopt(fd, SOL_SOCKET, SO_VMA_FLOW_TAG, &other, &len));
    say("of the kernel's", setsockopt(kernels, SOL_SOCKET, SO_VMA_FLOW_TAG, &tag, sizeof tag));
    len = sizeof data;
    say("data", getsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &data, &len));
    printf("the descriptor %d\n", data == (uint64_t)fd);
    say("memory for a ring", setsockopt(fd, SOL_SOCKET, SO_VMA_RING_USER_MEMORY, &memory, sizeof memory));
    /* What waits stays to be read, what comes is the kernel's. */
    set_timeout(fd, 5000);
    ask(fd, 1, 20);
    await_data(fd);
    say("no more", setsockopt(fd, SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0));
    say_recv("recv", fd, 64, 0);
    ask(fd, 1, 12);
    say_recv("recv", fd, 64, 0);
    say("by the kernel", api->register_recv_callback(fd, NULL, NULL));
}

static void rings(void)
{
    int ring = -1;
    uint32_t key;
    struct vma_modify_ring_attr change = {.comp_bit_mask = VMA_MODIFY_RING_CQ_MODERATION};
    look_for_it();
    int fd = bound();
    printf("rings %d, given %d\n", api->get_socket_rings_num(fd), api->get_socket_rings_fds(fd, &ring, 1));
    change.ring_fd = ring;
    change.cq_moderation.cq_moderation_count = 8;
    change.cq_moderation.cq_moderation_period_usec = 100;
    say("moderation", api->vma_modify_ring(&change));
    change.ring_fd = fd;
    say("no ring", api->vma_modify_ring(&change));
    change.comp_bit_mask = VMA_MODIFY_RING_CQ_ARM;
    say("arming", api->vma_modify_ring(&change));
    change.comp_bit_mask = 0;
    say("nothing", api->vma_modify_ring(&change));
    say("no change", api->vma_modify_ring(NULL));
    say("register", api->register_memory_on_ring(ring, &key, sizeof key, &key));
    say("deregister", api->deregister_memory_on_ring(ring, &key, sizeof key));
    say("queues", api->get_ring_direct_descriptors(ring, NULL));
    /* The ring says when there is something, and its sockets work as ever. */
    struct pollfd polled = {ring, POLLIN, 0};
    set_timeout(fd, 5000);
    ask(fd, 1, 20);
    say("the ring", poll(&polled, 1, 5000));
    say_recv("recv", fd, 64, 0);
}

/* Frames in memory of the program's. */
static char *arena;
static size_t arena_bytes;

static void *allocate(size_t bytes)
{
    arena_bytes = bytes;
    arena = malloc(bytes);
    return arena;
}

static int ask_for_memory(uint8_t flags, void *(*of)(size_t), void (*back)(void *))
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(struct vma_cmsg_ioctl_user_alloc_t))] = {0};
    struct vma_cmsg_ioctl_user_alloc_t said = {.flags = flags, .memalloc = of, .memfree = back};
    struct cmsghdr *message = (struct cmsghdr *)room;
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = CMSG_VMA_IOCTL_USER_ALLOC;
    message->cmsg_len = CMSG_LEN(sizeof said);
    memcpy(CMSG_DATA(message), &said, sizeof said);
    return api->ioctl(room, sizeof room);
}

static void memory(void)
{
    char buffer[256];
    int flags = 0;
    look_for_it();
    say("no direction", ask_for_memory(0, allocate, free));
    say("no function", ask_for_memory(VMA_IOCTL_USER_ALLOC_FLAG_RX, NULL, free));
    say("nothing", api->ioctl(NULL, 0));
    say("a short one", api->ioctl(buffer, 4));
    say("memory", ask_for_memory(VMA_IOCTL_USER_ALLOC_FLAG_RX | VMA_IOCTL_USER_ALLOC_FLAG_TX, allocate, free));
    int fd = bound();
    set_timeout(fd, 5000);
    ask(fd, 3, 20);
    await_data(fd);
    int len = api->recvfrom_zcopy(fd, buffer, sizeof buffer, &flags, NULL, NULL);
    struct vma_packets_t *packets = (struct vma_packets_t *)buffer;
    char *data = packets->pkts[0].iov[0].iov_base;
    printf("%d octets, without a copy %d, there %d: %.8s\n", len, (flags & MSG_VMA_ZCOPY) != 0, data > arena && data < arena + arena_bytes, data);
    say("free", api->free_packets(fd, packets->pkts, 1));
    say_recv("recv", fd, 64, 0);
    say("too late", ask_for_memory(VMA_IOCTL_USER_ALLOC_FLAG_RX, allocate, free));
    fflush(stdout);
    int status;
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        int own = bound();
        set_timeout(own, 5000);
        ask(own, 1, 20);
        say_recv("child", own, 64, 0);
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    printf("child %d\n", status);
    say_recv("recv", fd, 64, 0);
}

static void *none(size_t bytes)
{
    (void)bytes;
    return NULL;
}

static void no_memory(void)
{
    look_for_it();
    say("memory", ask_for_memory(VMA_IOCTL_USER_ALLOC_FLAG_RX, none, free));
    int fd = bound();
    set_timeout(fd, 5000);
    ask(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
}

CASES({"options", options}, {"rings", rings}, {"memory", memory}, {"no_memory", no_memory})
