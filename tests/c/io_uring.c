/* io_uring without liburing: by the C library's syscall(2), as libuv and runtimes in Rust do, or by instructions of the program's own, as
 * liburing does. Also `io_uring sockets <address> <port>`: a ring that the library cannot have seen, then sockets, which stay open until the
 * standard input ends. */
#include "case.h"
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1U << 16)
#endif

#define ENTRIES 64

enum how { LIBC, INLINE };

static long inline_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static long call(enum how how, long number, long a, long b, long c, long d)
{
    if (how == INLINE)
        return inline_call(number, a, b, c, d, 0, 0);
    return syscall(number, a, b, c, d, NULL, 0UL);
}

struct ring {
    int fd;
    enum how how;
    unsigned *head, *tail, *mask, *array, *completed_head, *completed_tail, *completed_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completed;
    unsigned waiting, flags;
};

static struct ring ring_with(enum how how, unsigned flags)
{
    struct io_uring_params parameters = {.flags = flags};
    struct ring ring = {.how = how, .flags = flags};
    ring.fd = (int)call(how, SYS_io_uring_setup, ENTRIES, (long)&parameters, 0, 0);
    if (ring.fd < 0 && errno == EINVAL && flags == IORING_SETUP_NO_SQARRAY) {
        /* Before Linux 6.6. */
        parameters = (struct io_uring_params){0};
        ring.fd = (int)call(how, SYS_io_uring_setup, ENTRIES, (long)&parameters, 0, 0);
    }
    MUST(ring.fd);
    size_t len = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
    size_t completed_len = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    len = len > completed_len ? len : completed_len;
    char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
    must(at != MAP_FAILED, "mmap", __LINE__);
    ring.entries = mmap(NULL, parameters.sq_entries * sizeof *ring.entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
                        IORING_OFF_SQES);
    must(ring.entries != MAP_FAILED, "mmap", __LINE__);
    ring.head = (unsigned *)(at + parameters.sq_off.head);
    ring.tail = (unsigned *)(at + parameters.sq_off.tail);
    ring.mask = (unsigned *)(at + parameters.sq_off.ring_mask);
    ring.array = parameters.flags & IORING_SETUP_NO_SQARRAY ? NULL : (unsigned *)(at + parameters.sq_off.array);
    ring.completed_head = (unsigned *)(at + parameters.cq_off.head);
    ring.completed_tail = (unsigned *)(at + parameters.cq_off.tail);
    ring.completed_mask = (unsigned *)(at + parameters.cq_off.ring_mask);
    ring.completed = (struct io_uring_cqe *)(at + parameters.cq_off.cqes);
    return ring;
}

static struct io_uring_sqe *next_entry(struct ring *ring, int code, int fd, const void *at, unsigned len, uint64_t mark)
{
    unsigned tail = *ring->tail, place = tail & *ring->mask;
    struct io_uring_sqe *entry = &ring->entries[place];
    *entry = (struct io_uring_sqe){.opcode = (uint8_t)code, .fd = fd, .addr = (uintptr_t)at, .len = len, .user_data = mark};
    if (ring->array)
        ring->array[place] = place;
    atomic_store_explicit((_Atomic unsigned *)ring->tail, tail + 1, memory_order_release);
    ring->waiting++;
    return entry;
}

static void submit(struct ring *ring)
{
    int wake = ring->flags & IORING_SETUP_SQPOLL ? IORING_ENTER_SQ_WAKEUP : 0;
    long count = call(ring->how, SYS_io_uring_enter, ring->fd, ring->waiting, 0, wake);
    must(count == ring->waiting, "io_uring_enter", __LINE__);
    ring->waiting = 0;
}

/* Says the next result; -1: none within ten seconds. */
static int await_result(struct ring *ring, const char *what)
{
    if (ring->waiting)
        submit(ring);
    unsigned head = *ring->completed_head;
    for (int waited = 0; head == atomic_load_explicit((_Atomic unsigned *)ring->completed_tail, memory_order_acquire); waited++) {
        if (waited == 10000) {
            printf("%s: nothing comes\n", what);
            exit(1);
        }
        sleep_msec(1);
        /* For completions that wait for the task. */
        call(ring->how, SYS_io_uring_enter, ring->fd, 0, 0, IORING_ENTER_GETEVENTS);
    }
    struct io_uring_cqe result = ring->completed[head & *ring->completed_mask];
    atomic_store_explicit((_Atomic unsigned *)ring->completed_head, head + 1, memory_order_release);
    if (result.res < 0)
        printf("%s: %s\n", what, strerrorname_np(-result.res));
    else
        printf("%s: %d\n", what, strcmp(what, "accept") == 0 || strcmp(what, "socket") == 0 ? 0 : result.res);
    return result.res;
}

static void control(struct ring *ring, int set, int operation, int fd, struct epoll_event *event)
{
    next_entry(ring, IORING_OP_EPOLL_CTL, set, event, (unsigned)operation, (uint64_t)fd)->off = (unsigned)fd;
}

static int say_wait(const char *what, int set, int msec)
{
    struct epoll_event events[8];
    int count = (int)say(what, epoll_wait(set, events, 8, msec));
    for (uint32_t mark = 0; mark < 100; mark++)
        for (int i = 0; i < count; i++)
            if (events[i].data.u32 == mark)
                printf("  [%u] %x\n", mark, events[i].events);
    return count;
}

/* As libuv does it: several changes at once. */
static void sets_with(unsigned flags)
{
    struct ring ring = ring_with(LIBC, flags);
    int set = epoll_create1(0), first = bound(), second = bound(), pipes[2];
    struct epoll_event events[] = {{EPOLLIN, {.u32 = 1}}, {EPOLLIN, {.u32 = 2}}, {EPOLLIN, {.u32 = 3}}, {EPOLLOUT, {.u32 = 4}}};
    MUST(set);
    MUST(pipe(pipes));
    control(&ring, set, EPOLL_CTL_ADD, first, &events[0]);
    control(&ring, set, EPOLL_CTL_ADD, pipes[0], &events[2]);
    control(&ring, set, EPOLL_CTL_ADD, second, &events[1]);
    for (int i = 0; i < 3; i++)
        await_result(&ring, "add");
    ask_for(first, 1, 10, 100, 0, 0);
    say_wait("the first", set, 5000);
    say_recv("recv", first, 64, 0);
    ask_for(second, 1, 10, 100, 0, 0);
    say_wait("the second", set, 5000);
    control(&ring, set, EPOLL_CTL_ADD, second, &events[1]);
    await_result(&ring, "add again");
    control(&ring, set, EPOLL_CTL_MOD, second, &events[3]);
    await_result(&ring, "change");
    say_wait("changed", set, 5000);
    control(&ring, set, EPOLL_CTL_DEL, second, NULL);
    await_result(&ring, "delete");
    control(&ring, set, EPOLL_CTL_DEL, second, NULL);
    await_result(&ring, "delete again");
    control(&ring, set, EPOLL_CTL_MOD, second, &events[1]);
    await_result(&ring, "change what is gone");
    control(&ring, set, 77, second, &events[1]);
    await_result(&ring, "odd operation");
    control(&ring, set, EPOLL_CTL_ADD, 900, &events[1]);
    await_result(&ring, "closed");
    control(&ring, first, EPOLL_CTL_ADD, second, &events[1]);
    await_result(&ring, "no set");
    control(&ring, set, EPOLL_CTL_ADD, set, &events[1]);
    await_result(&ring, "itself");
    say_wait("nothing", set, 100);
    control(&ring, set, EPOLL_CTL_ADD, second, &events[1]);
    await_result(&ring, "add");
    say_wait("still there", set, 5000);
    say_recv("recv", second, 64, 0);
    MUST(write(pipes[1], "x", 1));
    say_wait("the pipe", set, 5000);
}

static void sets(void)
{
    sets_with(0);
}

static void sets_without_array(void)
{
    sets_with(IORING_SETUP_NO_SQARRAY);
}

static int listening(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in self = address(SELF, port);
    MUST(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 5));
    return fd;
}

static void ask_for_connection(int asker, int port, int delay_msec)
{
    char script[40];
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    int len = snprintf(script, sizeof script, "C %d %d", port, delay_msec);
    MUST(sendto(asker, script, (size_t)len, 0, generic(&peer), sizeof peer));
}

/* A connection whose readiness a set tells, which is changed by a ring. */
static void streams_in_sets(void)
{
    struct ring ring = ring_with(LIBC, IORING_SETUP_NO_SQARRAY);
    int set = epoll_create1(0), asker = bound(), fd = listening(7401);
    struct epoll_event event = {EPOLLIN, {.u32 = 1}}, other = {EPOLLIN, {.u32 = 2}};
    char buffer[64];
    control(&ring, set, EPOLL_CTL_ADD, fd, &event);
    await_result(&ring, "add");
    ask_for_connection(asker, 7401, 100);
    say_wait("a connection", set, 5000);
    int connection = accept(fd, NULL, NULL);
    MUST(connection);
    control(&ring, set, EPOLL_CTL_ADD, connection, &other);
    await_result(&ring, "add");
    say_wait("its first octet", set, 5000);
    say("read", read(connection, buffer, sizeof buffer));
    for (int round = 0; round < 3; round++) {
        control(&ring, set, EPOLL_CTL_DEL, connection, NULL);
        await_result(&ring, "delete");
        control(&ring, set, EPOLL_CTL_DEL, connection, NULL);
        await_result(&ring, "delete again");
        control(&ring, set, EPOLL_CTL_ADD, connection, &other);
        await_result(&ring, "add");
        control(&ring, set, EPOLL_CTL_ADD, connection, &other);
        await_result(&ring, "add again");
        MUST(write(connection, "xyz", 3));
        say_wait("an echo", set, 5000);
        say("read", read(connection, buffer, sizeof buffer));
    }
    /* Deleted, and changed then: to the kernel it is not there. */
    control(&ring, set, EPOLL_CTL_DEL, connection, NULL);
    control(&ring, set, EPOLL_CTL_MOD, connection, &other);
    await_result(&ring, "delete");
    await_result(&ring, "change");
}

static void receive(struct ring *ring, int fd)
{
    char buffer[64] = "";
    next_entry(ring, IORING_OP_RECV, fd, buffer, sizeof buffer, 1);
    submit(ring);
    ask_for(fd, 1, 10, 100, 0, 0);
    await_result(ring, "receive");
    printf("  %.10s\n", buffer);
    next_entry(ring, IORING_OP_POLL_ADD, fd, NULL, 0, 2)->poll32_events = POLLIN;
    submit(ring);
    ask_for(fd, 1, 20, 100, 0, 0);
    await_result(ring, "poll");
    say_recv("recv", fd, 64, 0);
    ask_for(fd, 1, 30, 0, 0, 0);
    await_data(fd);
    next_entry(ring, IORING_OP_READ, fd, buffer, sizeof buffer, 3);
    await_result(ring, "read");
}

static void talk(struct ring *ring, int connection)
{
    char buffer[64] = "";
    next_entry(ring, IORING_OP_RECV, connection, buffer, sizeof buffer, 1);
    await_result(ring, "receive");
    for (int round = 0; round < 3; round++) {
        next_entry(ring, IORING_OP_SEND, connection, "hello", 5, 2);
        await_result(ring, "send");
        next_entry(ring, IORING_OP_RECV, connection, buffer, sizeof buffer, 3);
        await_result(ring, "receive");
        printf("  %.5s\n", buffer);
    }
}

static void accept_and_talk(struct ring *ring, int asker, int fd, int port)
{
    next_entry(ring, IORING_OP_ACCEPT, fd, NULL, 0, 1);
    submit(ring);
    ask_for_connection(asker, port, 100);
    int connection = await_result(ring, "accept");
    talk(ring, connection);
    next_entry(ring, IORING_OP_CLOSE, connection, NULL, 0, 1);
    await_result(ring, "close");
}

/* Sockets are used by a ring that the library sees. */
static void receiving(void)
{
    struct ring ring = ring_with(LIBC, 0);
    int fd = bound(), other = bound();
    receive(&ring, fd);
    ask(other, 1, 10);
    say_recv("another", other, 64, 0);
}

static void accepting(void)
{
    struct ring ring = ring_with(LIBC, IORING_SETUP_NO_SQARRAY);
    int asker = bound(), fd = listening(7402);
    accept_and_talk(&ring, asker, fd, 7402);
    /* A connection that was past the kernel. */
    fd = listening(7403);
    ask_for_connection(asker, 7403, 0);
    int connection = accept(fd, NULL, NULL);
    MUST(connection);
    talk(&ring, connection);
    next_entry(&ring, IORING_OP_CLOSE, fd, NULL, 0, 1);
    await_result(&ring, "close");
    say("closed", listen(fd, 5));
    int next = listening(7403);
    say("the same number", next == fd);
    accept_and_talk(&ring, asker, next, 7403);
}

/* What a thread of the kernel's takes from the queue nobody sees. */
static void polled_queue(void)
{
    int earlier = bound();
    ask(earlier, 1, 10);
    say_recv("recv", earlier, 64, 0);
    struct ring ring = ring_with(LIBC, IORING_SETUP_SQPOLL);
    int fd = bound();
    receive(&ring, earlier);
    receive(&ring, fd);
}

static void table(void)
{
    int fd = bound();
    char buffer[64] = "";
    struct ring ring = ring_with(LIBC, 0);
    ask(fd, 1, 10);
    say_recv("recv", fd, 64, 0);
    MUST(call(LIBC, SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, (long)&fd, 1));
    next_entry(&ring, IORING_OP_RECV, 0, buffer, sizeof buffer, 1)->flags = IOSQE_FIXED_FILE;
    submit(&ring);
    ask_for(fd, 1, 10, 100, 0, 0);
    await_result(&ring, "receive");
    printf("  %.10s\n", buffer);
}

/* Many rings, one after the other, in the same number and under a copy of it. */
static void many_rings(void)
{
    int set = epoll_create1(0), fd = bound();
    struct epoll_event event = {EPOLLIN, {.u32 = 1}};
    for (int round = 0; round < 20; round++) {
        struct ring ring = ring_with(LIBC, round % 2 ? IORING_SETUP_NO_SQARRAY : 0);
        if (round % 3 == 2)
            ring.fd = dup(ring.fd);
        control(&ring, set, round ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
        await_result(&ring, "control");
        ask_for(fd, 1, 10, 0, 0, 0);
        say_wait("wait", set, 5000);
        say_recv("recv", fd, 64, 0);
        close(ring.fd);
    }
}

/* The library learns of these within half a second. */
static void unseen_ring_later(void)
{
    int fd = bound(), asker = bound(), listener = listening(7404);
    ask(fd, 1, 10);
    say_recv("recv", fd, 64, 0);
    struct ring ring = ring_with(INLINE, 0);
    receive(&ring, fd);
    accept_and_talk(&ring, asker, listener, 7404);
    fd = bound();
    receive(&ring, fd);
}

static void unseen_ring_in_a_child(void)
{
    int fd = bound(), status;
    ask(fd, 1, 10);
    say_recv("recv", fd, 64, 0);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        struct ring ring = ring_with(INLINE, 0);
        int own = bound();
        receive(&ring, own);
        exit(0);
    }
    MUST(waitpid(child, &status, 0));
    say("status", status);
    ask(fd, 1, 10);
    say_recv("recv", fd, 64, 0);
}

static int sockets(const char *ip, int port)
{
    ring_with(INLINE, 0);
    int fd = bound_to(ip, port), listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in self = address(ip, port);
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 5));
    printf("ready\n");
    fflush(stdout);
    return fd < 0 || getchar() != EOF;
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"sets", sets}, {"sets_without_array", sets_without_array}, {"streams_in_sets", streams_in_sets}, {"receiving", receiving},
        {"accepting", accepting}, {"polled_queue", polled_queue}, {"table", table}, {"many_rings", many_rings},
        {"unseen_ring_later", unseen_ring_later}, {"unseen_ring_in_a_child", unseen_ring_in_a_child}};
    if (argc == 4 && strcmp(argv[1], "sockets") == 0)
        return sockets(argv[2], atoi(argv[3]));
    return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
