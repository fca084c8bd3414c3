/* Random programs of waiting: sockets, pipes and eventfds in epoll sets that change under traffic, waited for in every way. Says a number for
 * each program, which stands for everything that its calls returned; with a fifth argument, what they returned.
 *
 * random_waits NAMESPACE FIRST COUNT PAUSE [LOUD]: the peer's network namespace (a file), the first program's seed, how many there are, and
 * how many microseconds to wait after traffic: it comes at once, unless the CPU has too much to do. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SELF "10.77.0.2"
#define PEER "10.77.0.1"
#define LOOPBACK "127.0.0.1"
#define PORT 7300
#define STREAMS_PORT 7299
#define CALLS 40

enum kind { UDP, UDP_TOO, LOCAL, PIPE, EVENT, STREAM, OBJECTS };
enum { SETS = 3, DOUBLES = 2 };

static int sender, local_sender, listener, own_namespace, peer_namespace, pause_usec, is_loud;
static uint64_t state, said;

/* What a program has. -1: not, or not any more. */
static int fds[OBJECTS], doubles[DOUBLES], sets[SETS], writer, peer;
/* What there is to choose from: sets too, if they are waited for like other descriptors. Then their sockets come to be the kernel's, which
 * reports an edge once more, and a one-shot registration that is spent if its connection is over; and forgets why that is. */
static uint32_t choices;

#define MUST(call) must((call), #call)

static int must(int result, const char *call)
{
    if (result < 0) {
        perror(call);
        exit(1);
    }
    return result;
}

/* splitmix64 */
static uint32_t below(uint32_t limit)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (const char *at = line; *at; at++)
        said = (said ^ (unsigned char)*at) * 0x100000001b3; /* FNV-1a */
    if (is_loud)
        printf("  %s\n", line);
}

static int answer(long result)
{
    return result < 0 ? -errno : (int)result;
}

static struct sockaddr_in address(const char *ip, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    return address;
}

static int bound(int type, const char *ip, int port)
{
    int fd = MUST(socket(AF_INET, type | SOCK_NONBLOCK, 0)), on = 1;
    struct sockaddr_in at = address(ip, port);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(fd, (void *)&at, sizeof at));
    return fd;
}

static void lose(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void open_object(int kind)
{
    if (fds[kind] >= 0)
        return;
    int ends[2], on = 1;
    struct sockaddr_in at = address(PEER, STREAMS_PORT);
    switch (kind) {
    case UDP:
    case UDP_TOO:
        fds[kind] = bound(SOCK_DGRAM, SELF, PORT + kind);
        break;
    case LOCAL:
        fds[kind] = bound(SOCK_DGRAM, LOOPBACK, PORT + kind);
        break;
    case PIPE:
        MUST(pipe2(ends, O_NONBLOCK));
        fds[kind] = ends[0];
        writer = ends[1];
        break;
    case EVENT:
        fds[kind] = MUST(eventfd(0, EFD_NONBLOCK));
        break;
    case STREAM:
        fds[kind] = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(fds[kind], (void *)&at, sizeof at));
        MUST(fcntl(fds[kind], F_SETFL, O_NONBLOCK));
        peer = MUST(accept(listener, NULL, NULL));
        MUST(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
        break;
    }
}

static void close_object(int kind)
{
    lose(&fds[kind]);
    if (kind == PIPE)
        lose(&writer);
    if (kind == STREAM)
        lose(&peer);
}

static void let_it_come(void)
{
    if (pause_usec > 0)
        usleep((useconds_t)pause_usec);
}

/* Traffic for an object. */
static void traffic(int kind)
{
    uint64_t one = 1;
    char octets[3] = "abc";
    say("traffic %d", kind);
    struct sockaddr_in to = address(kind == LOCAL ? LOOPBACK : SELF, PORT + kind);
    switch (kind) {
    case UDP:
    case UDP_TOO:
    case LOCAL:
        for (uint32_t left = 1 + below(3); left > 0; left--)
            sendto(kind == LOCAL ? local_sender : sender, octets, left, 0, (void *)&to, sizeof to);
        break;
    case PIPE:
        if (writer >= 0)
            write(writer, octets, 1 + below(3));
        break;
    case EVENT:
        if (fds[EVENT] >= 0)
            write(fds[EVENT], &one, sizeof one);
        break;
    case STREAM:
        if (peer >= 0)
            send(peer, octets, 1 + below(3), MSG_NOSIGNAL);
        break;
    }
    let_it_come();
}

/* One end of a stream or pipe has nothing more to say. */
static void end_traffic(void)
{
    uint32_t how = below(4);
    say("end %u", how);
    switch (how) {
    case 0:
        lose(&writer);
        break;
    case 1:
        if (peer >= 0)
            shutdown(peer, SHUT_WR);
        break;
    case 2:
        lose(&peer);
        break;
    case 3:
        if (fds[STREAM] >= 0)
            say("shutdown %d", answer(shutdown(fds[STREAM], choices > OBJECTS + DOUBLES ? SHUT_WR : (int)below(3))));
        break;
    }
    let_it_come();
}

static void take(int kind)
{
    char buffer[16];
    long result;
    switch (kind) {
    case PIPE:
    case EVENT:
        result = read(fds[kind], buffer, sizeof buffer);
        break;
    case STREAM: /* A call may return less than there is. */
        result = recv(fds[kind], buffer, 1, below(4) == 0 ? MSG_PEEK : 0);
        break;
    default:
        result = recv(fds[kind], buffer, 1 + below(8), below(4) == 0 ? MSG_PEEK : 0);
    }
    say("take %d: %d", kind, answer(result));
}

/* What a call names: an object, a second descriptor of one, or a set. Never again a number that is closed: it may be anything. */
static int named(uint32_t choice)
{
    if (choice < OBJECTS)
        return fds[choice];
    choice -= OBJECTS;
    return choice < DOUBLES ? doubles[choice] : sets[choice - DOUBLES];
}

static void control(void)
{
    static const uint32_t kinds[] = {EPOLLIN, EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLOUT, EPOLLRDHUP, EPOLLPRI, 0, EPOLLIN | EPOLLRDHUP};
    static const uint32_t ways[] = {0, 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT};
    static const int operations[] = {EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
    uint32_t set = below(SETS);
    uint32_t choice = below(choices);
    int operation = operations[below(4)];
    struct epoll_event event = {.events = kinds[below(8)] | ways[below(5)], .data.u32 = choice};
    if (below(16) == 0)
        event.events |= EPOLLEXCLUSIVE;
    if (choices > OBJECTS + DOUBLES)
        event.events &= ~(uint32_t)(EPOLLET | EPOLLONESHOT);
    /* A datagram that is read before the set is waited for is an edge to the kernel, of which EPOLLOUT is left then. */
    if (choice != STREAM && event.events & EPOLLET && event.events & EPOLLIN)
        event.events &= ~(uint32_t)EPOLLOUT;
    if (named(choice) < 0)
        return;
    int result = answer(epoll_ctl(sets[set], operation, named(choice), &event));
    say("ctl %u %d %u %x: %d", set, operation, choice, event.events, result);
}

static int by_data(const void *left, const void *right)
{
    const struct epoll_event *a = left, *b = right;
    return (a->data.u32 > b->data.u32) - (a->data.u32 < b->data.u32);
}

static void wait_for_set(void)
{
    struct epoll_event events[16];
    struct timespec soon = {.tv_nsec = below(8) == 0 ? 200000 : 0};
    uint32_t set = below(SETS);
    int count;
    if (below(3) == 0)
        count = epoll_pwait2(sets[set], events, 16, &soon, NULL);
    else
        count = epoll_wait(sets[set], events, 16, below(32) == 0);
    say("wait %u: %d", set, answer(count));
    if (count > 0)
        qsort(events, (size_t)count, sizeof *events, by_data);
    for (int i = 0; i < count; i++)
        say(" %u %x", events[i].data.u32, events[i].events);
}

static void wait_for_some(void)
{
    struct pollfd polled[OBJECTS + DOUBLES + SETS];
    uint32_t chosen[OBJECTS + DOUBLES + SETS];
    fd_set read_set, write_set;
    struct timeval now = {0};
    nfds_t count = 0;
    int highest = -1;
    FD_ZERO(&read_set);
    FD_ZERO(&write_set);
    for (uint32_t choice = 0; choice < choices; choice++) {
        int fd = named(choice);
        if (fd < 0 || below(2) == 0)
            continue;
        static const short wanted[] = {POLLIN, POLLIN | POLLOUT, POLLOUT, POLLRDHUP | POLLPRI, 0};
        chosen[count] = choice;
        polled[count++] = (struct pollfd){.fd = fd, .events = wanted[below(5)]};
        if (below(2) == 0)
            FD_SET(fd, &read_set);
        else
            FD_SET(fd, &write_set);
        highest = fd > highest ? fd : highest;
    }
    if (below(2) == 0) {
        say("poll %d", answer(poll(polled, count, 0)));
        for (nfds_t i = 0; i < count; i++)
            say(" %u: %x of %x", chosen[i], (unsigned)polled[i].revents, (unsigned)polled[i].events);
    } else {
        say("select %d", answer(select(highest + 1, &read_set, &write_set, NULL, &now)));
        for (nfds_t i = 0; i < count; i++)
            say(" %u: %d%d", chosen[i], FD_ISSET(polled[i].fd, &read_set) != 0, FD_ISSET(polled[i].fd, &write_set) != 0);
    }
}

static void change_descriptors(void)
{
    uint32_t kind = below(OBJECTS), twin = below(DOUBLES), how = below(4);
    say("change %u of %u, %u", how, kind, twin);
    switch (how) {
    case 0:
        close_object((int)kind);
        break;
    case 1:
        open_object((int)kind);
        break;
    case 2:
        if (fds[kind] >= 0 && doubles[twin] < 0)
            doubles[twin] = MUST(dup(fds[kind]));
        break;
    case 3:
        lose(&doubles[twin]);
        break;
    }
}

static uint64_t run(uint64_t seed)
{
    state = seed * 0x2545f4914f6cdd1d + 1;
    said = 0xcbf29ce484222325;
    memset(fds, -1, sizeof fds);
    memset(doubles, -1, sizeof doubles);
    writer = peer = -1;
    for (int set = 0; set < SETS; set++)
        sets[set] = MUST(epoll_create1(0));
    choices = OBJECTS + DOUBLES;
    if (below(4) == 0)
        choices += SETS;
    for (int kind = 0; kind < OBJECTS; kind++)
        if (kind != STREAM || below(3) == 0)
            open_object(kind);
    for (int call = 0; call < CALLS; call++) {
        uint32_t kind = below(OBJECTS), choice = below(32);
        if (choice < 10)
            control();
        else if (choice < 17)
            traffic((int)kind);
        else if (choice < 20 && fds[kind] >= 0)
            take((int)kind);
        else if (choice < 28)
            wait_for_set();
        else if (choice < 30)
            wait_for_some();
        else if (choice == 30)
            change_descriptors();
        else if (below(3) == 0)
            end_traffic();
    }
    for (int kind = 0; kind < OBJECTS; kind++)
        close_object(kind);
    for (int twin = 0; twin < DOUBLES; twin++)
        lose(&doubles[twin]);
    for (int set = 0; set < SETS; set++)
        lose(&sets[set]);
    return said;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    uint64_t first = strtoull(argv[2], NULL, 10), count = strtoull(argv[3], NULL, 10);
    pause_usec = atoi(argv[4]);
    is_loud = argc > 5;
    local_sender = bound(SOCK_DGRAM, LOOPBACK, PORT - 2);
    own_namespace = MUST(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    peer_namespace = MUST(open(argv[1], O_RDONLY | O_CLOEXEC));
    MUST(setns(peer_namespace, CLONE_NEWNET));
    sender = bound(SOCK_DGRAM, PEER, PORT - 2);
    listener = bound(SOCK_STREAM, PEER, STREAMS_PORT);
    MUST(fcntl(listener, F_SETFL, 0));
    MUST(listen(listener, 16));
    MUST(setns(own_namespace, CLONE_NEWNET));
    for (uint64_t seed = first; seed < first + count; seed++) {
        uint64_t result = run(seed);
        printf("%llu %016llx\n", (unsigned long long)seed, (unsigned long long)result);
    }
    return 0;
}
