/* stress <seconds>: 64 threads open, use and close sockets of all kinds. A thread that stands still ends the program. At the
 * end says how much was done, and waits for the end of its standard input. */
#include "case.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/un.h>

#define THREADS 64
/* Nothing that a thread does may take as long as this. */
#define STANDSTILL_SEC 15

struct worker {
    pthread_t thread;
    unsigned seed;
    unsigned long rounds;
    const char *step;
};

static struct worker workers[THREADS];
static double until_sec;
static unsigned long echoed, looped, streamed, lost;

static void count(unsigned long *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static unsigned pick(struct worker *self, unsigned below)
{
    return (unsigned)rand_r(&self->seed) % below;
}

static void fail(const char *what, int line)
{
    printf("FAILED: line %d: %s: %s\n", line, what, strerrorname_np(errno));
    fflush(stdout);
    abort();
}

#define CHECK(condition) do { if (!(condition)) fail(#condition, __LINE__); } while (0)

/* Waits for a datagram in one of the ways that there are. */
static int wait_readable(struct worker *self, int fd, int msec)
{
    switch (pick(self, 4)) {
    case 0: {
        struct pollfd polled[2] = {{fd, POLLIN, 0}, {-1, POLLIN, 0}};
        return poll(polled, 2, msec);
    }
    case 1: {
        if (fd >= FD_SETSIZE)
            return 1;
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        struct timeval timeout = {0, msec * 1000};
        return select(fd + 1, &set, NULL, NULL, &timeout);
    }
    case 2: {
        struct epoll_event event = {.events = EPOLLIN | (pick(self, 2) ? EPOLLET : 0)};
        int set = epoll_create1(EPOLL_CLOEXEC);
        CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
        int ready = epoll_wait(set, &event, 1, msec);
        if (pick(self, 2))
            CHECK(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0);
        CHECK(close(set) == 0);
        return ready;
    }
    default:
        set_timeout(fd, msec);
        return 1;
    }
}

/* Sends a number to an address and expects it back from there. */
static void exchange(struct worker *self, int fd, const struct sockaddr_in *to, unsigned long *counter)
{
    for (unsigned i = pick(self, 8); i > 0; i--) {
        unsigned number = (unsigned)rand_r(&self->seed), got[2] = {0};
        CHECK(sendto(fd, &number, sizeof number, 0, generic(to), sizeof *to) == sizeof number || errno == ENOBUFS ||
              errno == ECONNREFUSED || errno == EAGAIN);
        int ready = wait_readable(self, fd, 200);
        CHECK(ready >= 0);
        ssize_t len = recv(fd, got, sizeof got, ready ? 0 : MSG_DONTWAIT);
        if (len == sizeof number && got[0] == number)
            count(counter);
        else
            count(&lost);
        CHECK(len == sizeof number || (len < 0 && (errno == EAGAIN || errno == ECONNREFUSED)));
    }
}

static void datagrams(struct worker *self, const char *ip, const struct sockaddr_in *to, unsigned long *counter)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), copy = -1;
    CHECK(fd >= 0);
    set_timeout(fd, 200);
    struct sockaddr_in self_address = address(pick(self, 2) ? ip : "0.0.0.0", 0);
    if (pick(self, 2))
        CHECK(bind(fd, generic(&self_address), sizeof self_address) == 0);
    if (pick(self, 2))
        CHECK(connect(fd, generic(to), sizeof *to) == 0);
    if (pick(self, 3) == 0)
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 3 + (int)pick(self, 500));
    if (pick(self, 3) == 0) {
        int option = 1, none = -1;
        CHECK(setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &option, sizeof option) == 0);
        if (pick(self, 2))
            CHECK(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof none) == 0);
    }
    exchange(self, copy >= 0 && pick(self, 2) ? copy : fd, to, counter);
    if (pick(self, 2))
        CHECK(close_range((unsigned)fd, (unsigned)fd, 0) == 0);
    else
        CHECK(close(fd) == 0);
    if (copy >= 0) {
        exchange(self, copy, to, counter);
        CHECK(close(copy) == 0);
    }
}

/* A socket that echoes to itself. */
static void loop_back(struct worker *self)
{
    int fd = bound_to("127.0.0.1", 0);
    struct sockaddr_in own = address("127.0.0.1", port_of(fd));
    exchange(self, fd, &own, &looped);
    CHECK(close(fd) == 0);
}

static void stream(struct worker *self)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = address("127.0.0.1", 0);
    CHECK(bind(listener, generic(&any), sizeof any) == 0 && listen(listener, 4) == 0);
    struct sockaddr_in to = address("127.0.0.1", port_of(listener));
    CHECK(connect(client, generic(&to), sizeof to) == 0);
    int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(server >= 0 && write(client, "stream", 6) == 6);
    char buffer[8];
    CHECK(wait_readable(self, server, 2000) == 1 && read(server, buffer, sizeof buffer) == 6);
    CHECK(close(client) == 0 && read(server, buffer, sizeof buffer) == 0);
    CHECK(close(server) == 0 && close(listener) == 0);
    count(&streamed);
}

static void local(struct worker *self)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, pick(self, 2) ? SOCK_DGRAM : SOCK_STREAM, 0, pair) == 0);
    int event = eventfd(0, EFD_CLOEXEC);
    uint64_t one = 1;
    CHECK(event >= 0 && write(event, &one, sizeof one) == sizeof one && read(event, &one, sizeof one) == sizeof one);
    /* A socket takes the number of something else. */
    int fd = udp();
    CHECK(dup2(fd, event) == event && close(fd) == 0);
    struct sockaddr_in to = address(PEER, 7);
    exchange(self, event, &to, &echoed);
    CHECK(send(pair[0], "x", 1, 0) == 1 && wait_readable(self, pair[1], 2000) == 1);
    CHECK(close(event) == 0 && close(pair[0]) == 0 && close(pair[1]) == 0);
}

/* Several sockets in one set, closed while they are in it. */
static void many(void)
{
    int set = epoll_create1(0), fds[8], ready = 0;
    struct sockaddr_in to = address(PEER, 7);
    for (int i = 0; i < 8; i++) {
        fds[i] = i % 3 == 2 ? eventfd(1, 0) : udp();
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        CHECK(fds[i] >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event) == 0);
        if (i % 3 != 2)
            CHECK(sendto(fds[i], "many", 4, 0, generic(&to), sizeof to) == 4 || errno == ENOBUFS);
    }
    struct epoll_event events[8];
    for (int i = 0; i < 3; i++)
        ready = epoll_wait(set, events, 8, 50);
    CHECK(ready >= 0);
    for (int i = 0; i < 8; i++)
        CHECK(close(fds[i]) == 0);
    CHECK(epoll_wait(set, events, 8, 0) == 0);
    CHECK(close(set) == 0);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    struct sockaddr_in peer = address(PEER, 7);
    while (now_sec() < until_sec) {
        switch (pick(self, 6)) {
        case 0:
            self->step = "loop_back";
            loop_back(self);
            break;
        case 1:
            self->step = "stream";
            stream(self);
            break;
        case 2:
            self->step = "local";
            local(self);
            break;
        case 3:
            self->step = "many";
            many();
            break;
        default:
            self->step = "datagrams";
            datagrams(self, SELF, &peer, &echoed);
        }
        __atomic_fetch_add(&self->rounds, 1, __ATOMIC_RELAXED);
    }
    self->step = "the end";
    return NULL;
}

/* Ends the program if a thread does not get on. */
static void *watch(void *unused)
{
    unsigned long seen[THREADS] = {0};
    double since[THREADS];
    (void)unused;
    for (int i = 0; i < THREADS; i++)
        since[i] = now_sec();
    while (now_sec() < until_sec + STANDSTILL_SEC) {
        sleep_msec(100);
        for (int i = 0; i < THREADS; i++) {
            unsigned long rounds = __atomic_load_n(&workers[i].rounds, __ATOMIC_RELAXED);
            if (rounds != seen[i] || strcmp(workers[i].step, "the end") == 0) {
                seen[i] = rounds;
                since[i] = now_sec();
            } else if (now_sec() - since[i] > STANDSTILL_SEC) {
                printf("FAILED: a thread stands still in %s\n", workers[i].step);
                fflush(stdout);
                abort();
            }
        }
    }
    return NULL;
}

static void run(int seconds)
{
    pthread_t watcher;
    until_sec = now_sec() + seconds;
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = (unsigned)i + 1;
        workers[i].step = "the beginning";
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
    until_sec = 0;
    CHECK(pthread_join(watcher, NULL) == 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* The first round opens the device, and makes what each thread keeps. */
    run(3);
    printf("warm\n");
    char line[16];
    if (!fgets(line, sizeof line, stdin))
        return 1;
    run(atoi(argv[1]));
    unsigned long rounds = 0;
    for (int i = 0; i < THREADS; i++)
        rounds += workers[i].rounds;
    printf("done: rounds %lu echoed %lu looped %lu streamed %lu lost %lu\n", rounds, echoed, looped, streamed, lost);
    getchar();
    return 0;
}
