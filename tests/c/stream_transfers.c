/* Files and pipes that are sent into a stream, and a stream that goes into a pipe, without a buffer of the program's. The peer does what
   the first line says that it is sent (stream_transfers.rs). */
#include "case.h"
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#define PORT 7102
#define MANY 3000000

static unsigned char octet(size_t i)
{
    return (unsigned char)(i * 131 + (i >> 8) * 7 + (i >> 16));
}

static int connected(const char *order)
{
    struct sockaddr_in peer = address(PEER, PORT);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(connect(fd, generic(&peer), sizeof peer));
    set_timeout(fd, 20000);
    must(send(fd, order, strlen(order), 0) == (ssize_t)strlen(order), "the order", __LINE__);
    return fd;
}

static int file_of(size_t len)
{
    int file = memfd_create("octets", 0);
    unsigned char *all = malloc(len + 1);
    MUST(file);
    for (size_t i = 0; i < len; i++)
        all[i] = octet(i);
    must(write(file, all, len) == (ssize_t)len, "write", __LINE__);
    MUST(lseek(file, 0, SEEK_SET));
    free(all);
    return file;
}

static void say_position(int file)
{
    printf("  position %ld\n", (long)lseek(file, 0, SEEK_CUR));
}

/* What the peer has received, when all is said. */
static void say_report(int fd)
{
    char report[100] = "";
    size_t len = 0;
    say("shutdown", shutdown(fd, SHUT_WR));
    while (len < sizeof report - 1) {
        struct pollfd answer = { fd, POLLIN, 0 };
        MUST(poll(&answer, 1, 20000));
        long count = recv(fd, report + len, sizeof report - 1 - len, 0);
        if (count <= 0)
            break;
        len += (size_t)count;
    }
    printf("  %s\n", report);
    MUST(close(fd));
}

static void file_position(void)
{
    int fd = connected("sink\n"), file = file_of(100000);
    say("a part", sendfile(fd, file, NULL, 1000));
    say_position(file);
    say("the next", sendfile(fd, file, NULL, 70000));
    say_position(file);
    say("more than there is", sendfile(fd, file, NULL, 70000));
    say_position(file);
    say("at the end", sendfile(fd, file, NULL, 70000));
    say_position(file);
    MUST(lseek(file, 200000, SEEK_SET));
    say("behind the end", sendfile(fd, file, NULL, 1));
    say_position(file);
    say("nothing", sendfile(fd, file, NULL, 0));
    MUST(lseek(file, 99999, SEEK_SET));
    say("more than can be", sendfile(fd, file, NULL, 0x7fffffff));
    say_position(file);
    say_report(fd);
}

static void offset(void)
{
    int fd = connected("sink\n"), file = file_of(100000);
    off_t at = 10;
    MUST(lseek(file, 5, SEEK_SET));
    for (int i = 0; i < 4; i++) {
        say("from an offset", sendfile(fd, file, &at, 40000));
        printf("  offset %ld\n", (long)at);
        say_position(file);
    }
    off64_t at64 = 99990;
    say("sendfile64", sendfile64(fd, file, &at64, 20));
    printf("  offset %ld\n", (long)at64);
    say_report(fd);
}

/* Blocks until all is taken. */
static void blocking(void)
{
    int fd = connected("slow 300\n"), file = file_of(MANY);
    double begun = now_sec();
    say("all", sendfile(fd, file, NULL, MANY));
    printf("  waited %d\n", now_sec() - begun > 0.2);
    say_position(file);
    say_report(fd);
}

static void nonblocking(void)
{
    int fd = connected("slow 300\n"), file = file_of(MANY), refused = 0, wrong = 0;
    off_t at = 0;
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    while (at < MANY) {
        off_t before = at;
        long sent = sendfile(fd, file, &at, (size_t)(MANY - at));
        wrong += at != before + (sent > 0 ? sent : 0);
        if (sent < 0) {
            must(errno == EAGAIN, "sendfile", __LINE__);
            refused++;
            struct pollfd polled = {fd, POLLOUT, 0};
            must(poll(&polled, 1, 10000) == 1, "poll", __LINE__);
        }
    }
    printf("refused %d wrong %d\n", refused > 0, wrong);
    /* Nothing is to be sent, so nothing is refused. */
    say("at the end", sendfile(fd, file, &at, 10));
    say_report(fd);
}

static void edge(void)
{
    int fd = connected("slow 300\n"), file = file_of(MANY), set = epoll_create1(0), waits = 0;
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (size_t left = MANY; left > 0;) {
        long sent = sendfile(fd, file, NULL, left);
        if (sent > 0) {
            left -= (size_t)sent;
            continue;
        }
        must(sent < 0 && errno == EAGAIN, "sendfile", __LINE__);
        must(epoll_wait(set, &event, 1, 10000) == 1, "epoll_wait", __LINE__);
        waits++;
    }
    printf("waited %d\n", waits > 0);
    say_position(file);
    say_report(fd);
}

static void timed(void)
{
    int fd = connected("slow 1500\n"), file = file_of(MANY), small = 20000;
    struct timeval timeout = {0, 200000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small));
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout));
    long sent = sendfile(fd, file, NULL, 10 * MANY);
    printf("a part: %d\n", sent > 0 && sent < MANY);
    printf("  position %d\n", lseek(file, 0, SEEK_CUR) == sent);
    long refused = sendfile(fd, file, NULL, MANY);
    /* The peer's window may have let a little more in. */
    while (refused > 0) {
        sent += refused;
        refused = sendfile(fd, file, NULL, MANY);
    }
    say("in time", refused);
    printf("  position %d\n", lseek(file, 0, SEEK_CUR) == sent);
    timeout.tv_sec = 20;
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout));
    printf("the rest: %d\n", sendfile(fd, file, NULL, MANY) == MANY - sent);
    say_report(fd);
}

static volatile int signals;

static void handler(int signal)
{
    (void)signal;
    signals++;
}

static void interrupted(void)
{
    int fd = connected("slow 1500\n"), file = file_of(MANY), small = 20000;
    struct sigaction action = {.sa_handler = handler};
    struct itimerval once = {{0, 0}, {0, 200000}};
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small));
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &once, NULL));
    long sent = sendfile(fd, file, NULL, MANY);
    printf("a part: %d, signals %d\n", sent > 0 && sent < MANY, signals);
    printf("  position %d\n", lseek(file, 0, SEEK_CUR) == sent);
    MUST(setitimer(ITIMER_REAL, &once, NULL));
    long more = sendfile(fd, file, NULL, MANY);
    if (more > 0)
        sent += more;
    printf("interrupted: %d, signals %d\n", more > 0 || errno == EINTR, signals);
    printf("the rest: %d\n", sendfile(fd, file, NULL, MANY) == MANY - sent);
    say_report(fd);
}

/* What is no file, or not so. */
static void refused(void)
{
    int fd = connected("sink\n"), file = file_of(10000), pipes[2], pair[2];
    off_t at = 0;
    char name[] = "/tmp/stream-transfers-XXXXXX";
    int path = mkstemp(name), write_only = open(name, O_WRONLY), appending = open(name, O_RDWR | O_APPEND), place = open(name, O_PATH);
    MUST(pipe(pipes));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(write(path, "in a file", 9));
    MUST(write(pipes[1], "in a pipe", 9));
    MUST(write(pair[1], "in a pair", 9));
    say("closed", sendfile(fd, 999, NULL, 10));
    say("negative", sendfile(fd, -1, NULL, 10));
    say("to a closed one", sendfile(999, file, NULL, 10));
    say("write only", sendfile(fd, write_only, NULL, 10));
    say("a place", sendfile(fd, place, NULL, 10));
    say("for appending", sendfile(fd, appending, NULL, 10));
    int directory = open("/proc", O_RDONLY);
    say("a directory", sendfile(fd, directory, NULL, 10));
    at = 0;
    say("a directory from an offset", sendfile(fd, directory, &at, 10));
    say("a pipe", sendfile(fd, pipes[0], NULL, 10));
    say("a pipe from an offset", sendfile(fd, pipes[0], &at, 10));
    say("a socket", sendfile(fd, pair[0], NULL, 10));
    say("a socket from an offset", sendfile(fd, pair[0], &at, 10));
    say("an event", sendfile(fd, eventfd(1, 0), NULL, 10));
    at = -1;
    say("from before the beginning", sendfile(fd, file, &at, 10));
    at = 0x7ffffffffffffff0;
    say("from far behind the end", sendfile(fd, file, &at, 10));
    say("to behind what can be", sendfile(fd, file, &at, 100));
    say("a negative count", sendfile(fd, file, NULL, (size_t)-1));
    say("a bad offset", sendfile(fd, file, (off_t *)8, 10));
    off_t *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("an offset that cannot be written", sendfile(fd, file, read_only, 10));
    say_position(file);
    at = 0;
    say("still", sendfile(fd, file, &at, 100));
    say_report(fd);
    MUST(unlink(name));
}

/* Files that only the kernel reads as the kernel does, or that do not say how long they are. */
static void special(void)
{
    int fd = connected("sink\n"), comm = open("/proc/self/comm", O_RDONLY), zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_RDONLY);
    say("of the process", sendfile(fd, comm, NULL, 100));
    say("the rest", sendfile(fd, comm, NULL, 100));
    say("zeros", sendfile(fd, zero, NULL, 1000));
    say("nothing", sendfile(fd, null, NULL, 1000));
    say("an empty one", sendfile(fd, memfd_create("empty", 0), NULL, 1000));
    say_report(fd);
}

static void append(void)
{
    int fd = connected("sink\n"), file = file_of(1000), pipes[2];
    MUST(pipe(pipes));
    MUST(write(pipes[1], "in a pipe", 9));
    MUST(fcntl(fd, F_SETFL, O_APPEND));
    say("for appending", sendfile(fd, file, NULL, 100));
    say("of nothing", sendfile(fd, file, NULL, 0));
    say("at a bad place", sendfile(fd, file, (off_t *)8, 100));
    say("by splice", splice(pipes[0], NULL, fd, NULL, 9, 0));
    say("send", send(fd, "more", 4, 0));
    MUST(fcntl(fd, F_SETFL, 0));
    say("not any more", sendfile(fd, file, NULL, 100));
    say("by splice", splice(pipes[0], NULL, fd, NULL, 9, 0));
    say_report(fd);
}

static void broken(void)
{
    int fd = connected("sink\n"), file = file_of(1000), end = file_of(0);
    struct sigaction action = {.sa_handler = handler};
    MUST(sigaction(SIGPIPE, &action, NULL));
    say("sendfile", sendfile(fd, file, NULL, 100));
    say("shutdown", shutdown(fd, SHUT_WR));
    say("behind the end", sendfile(fd, file, NULL, 100));
    printf("  signals %d\n", signals);
    say_position(file);
    say("nothing", sendfile(fd, end, NULL, 100));
    printf("  signals %d\n", signals);
    MUST(close(fd));
    fd = connected("reset\n");
    struct pollfd polled = {fd, 0, 0};
    must(poll(&polled, 1, 10000) == 1, "poll", __LINE__);
    say("after a reset", sendfile(fd, file, NULL, 100));
    say("again", sendfile(fd, file, NULL, 100));
    printf("  signals %d\n", signals);
    say_position(file);
    MUST(close(fd));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    say("not connected", sendfile(fd, file, NULL, 100));
    printf("  signals %d\n", signals);
    say("nothing", sendfile(fd, end, NULL, 100));
}

/* One segment, whatever it is made of. */
static void coalesced(void)
{
    int on = 1, off = 0, file = file_of(1000);
    off_t at = 0;
    int fd = connected("first\n");
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on));
    say("a head", send(fd, "a head", 6, 0));
    say("a body", sendfile(fd, file, &at, 1000));
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off));
    say_report(fd);
    fd = connected("first\n");
    at = 0;
    say("a head", send(fd, "a head", 6, MSG_MORE));
    say("a body", sendfile(fd, file, &at, 1000));
    say_report(fd);
    /* The end of the file comes before what was asked for: nothing is held back. */
    fd = connected("first\n");
    at = 0;
    say("all", sendfile(fd, file, &at, 100000));
    char byte;
    sleep_msec(50);
    say("told", recv(fd, &byte, 1, MSG_PEEK));
    say_report(fd);
}

static int changing;

static void *changes(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        MUST(ftruncate(changing, i % 2 ? 1000000 : 1000));
        sleep_msec(1);
    }
    return NULL;
}

/* A file that shrinks and grows meanwhile. */
static void truncated(void)
{
    int fd = connected("sink\n"), file = file_of(1000000), wrong = 0;
    long total = 0;
    pthread_t thread;
    changing = file;
    must(pthread_create(&thread, NULL, changes, NULL) == 0, "pthread_create", __LINE__);
    for (int i = 0; i < 300; i++) {
        off_t at = 0;
        long sent = sendfile(fd, file, &at, 1000000);
        wrong += sent < 1000 || sent > 1000000 || at != sent;
        total += sent;
    }
    must(pthread_join(thread, NULL) == 0, "pthread_join", __LINE__);
    printf("wrong %d, sent %d\n", wrong, total > 0);
    char report[100] = "", expected[100];
    MUST(shutdown(fd, SHUT_WR));
    recv(fd, report, sizeof report - 1, MSG_WAITALL);
    snprintf(expected, sizeof expected, "got %ld ", total);
    printf("all of it %d\n", strncmp(report, expected, strlen(expected)) == 0);
    MUST(close(fd));
}

static int shared_fd;

static void *sends(void *arg)
{
    long total = 0;
    int file = *(int *)arg;
    for (off_t at = 0; at < MANY / 4;) {
        long sent = sendfile(shared_fd, file, &at, 50000);
        must(sent > 0, "sendfile", __LINE__);
        total += sent;
    }
    return (void *)total;
}

/* Several threads send into one stream: each octet once. */
static void threads(void)
{
    pthread_t thread[4];
    int file = file_of(MANY);
    long total = 0;
    void *sent;
    shared_fd = connected("count\n");
    for (int i = 0; i < 4; i++)
        must(pthread_create(&thread[i], NULL, sends, &file) == 0, "pthread_create", __LINE__);
    for (int i = 0; i < 4; i++) {
        must(pthread_join(thread[i], &sent) == 0, "pthread_join", __LINE__);
        total += (long)sent;
    }
    printf("sent %ld\n", total);
    say_report(shared_fd);
}

static void say_waiting(const char *what, int pipe)
{
    int count = -1;
    MUST(ioctl(pipe, FIONREAD, &count));
    printf("  %s: %d\n", what, count);
}

static void pipe_to_stream(void)
{
    int fd = connected("sink\n"), pipes[2], others[2], file = file_of(1000);
    MUST(pipe(pipes));
    say("empty, at once", splice(pipes[0], NULL, fd, NULL, 64, SPLICE_F_NONBLOCK));
    MUST(write(pipes[1], "twelve bytes", 12));
    /* The library does not see into a pipe that the kernel has spliced. */
    MUST(pipe(others));
    say("nothing", splice(others[0], NULL, fd, NULL, 0, 0));
    say("unknown flags", splice(others[0], NULL, fd, NULL, 64, 1 << 20));
    say("the wrong end", splice(others[1], NULL, fd, NULL, 64, 0));
    say("a part", splice(pipes[0], NULL, fd, NULL, 5, 0));
    say("the rest", splice(pipes[0], NULL, fd, NULL, 64, SPLICE_F_MOVE | SPLICE_F_MORE));
    say("no pipe", splice(file, NULL, fd, NULL, 64, 0));
    say("closed", splice(999, NULL, fd, NULL, 64, 0));
    say("to itself", splice(fd, NULL, fd, NULL, 64, 0));
    MUST(fcntl(pipes[0], F_SETFL, O_NONBLOCK));
    say("empty", splice(pipes[0], NULL, fd, NULL, 64, 0));
    MUST(fcntl(pipes[0], F_SETFL, 0));
    MUST(write(pipes[1], "last", 4));
    MUST(close(pipes[1]));
    say("the last", splice(pipes[0], NULL, fd, NULL, 64, 0));
    say("the end", splice(pipes[0], NULL, fd, NULL, 64, 0));
    say_report(fd);
}

static int feeding;

static void *feeds(void *arg)
{
    size_t count = *(size_t *)arg;
    unsigned char buffer[30000];
    sleep_msec(100);
    for (size_t done = 0; done < count;) {
        size_t len = count - done < sizeof buffer ? count - done : sizeof buffer;
        for (size_t i = 0; i < len; i++)
            buffer[i] = octet(done + i);
        must(write(feeding, buffer, len) == (ssize_t)len, "write", __LINE__);
        done += len;
    }
    MUST(close(feeding));
    return NULL;
}

static void feed(pthread_t *thread, int pipes[2], size_t *count)
{
    MUST(pipe(pipes));
    feeding = pipes[1];
    must(pthread_create(thread, NULL, feeds, count) == 0, "pthread_create", __LINE__);
}

/* Waits for the pipe, and for the peer. */
static void pipe_waits(void)
{
    int fd = connected("slow 300\n"), pipes[2];
    size_t count = MANY, total = 0;
    pthread_t thread;
    long moved;
    feed(&thread, pipes, &count);
    while ((moved = splice(pipes[0], NULL, fd, NULL, 1 << 20, 0)) > 0)
        total += (size_t)moved;
    say("the end", moved);
    printf("moved %zu\n", total);
    must(pthread_join(thread, NULL) == 0, "pthread_join", __LINE__);
    say_report(fd);
}

/* What the stream does not take stays in the pipe. */
static void pipe_nonblocking(void)
{
    int fd = connected("slow 300\n"), pipes[2], refused = 0;
    size_t count = MANY, total = 0;
    pthread_t thread;
    long moved;
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    feed(&thread, pipes, &count);
    while ((moved = splice(pipes[0], NULL, fd, NULL, 1 << 20, 0)) != 0) {
        if (moved > 0) {
            total += (size_t)moved;
            continue;
        }
        must(errno == EAGAIN, "splice", __LINE__);
        refused++;
        struct pollfd polled = {fd, POLLOUT, 0};
        must(poll(&polled, 1, 10000) == 1, "poll", __LINE__);
    }
    printf("moved %zu, refused %d\n", total, refused > 0);
    must(pthread_join(thread, NULL) == 0, "pthread_join", __LINE__);
    say_report(fd);
}

static void pipe_broken(void)
{
    int fd = connected("sink\n"), pipes[2], empty[2];
    struct sigaction action = {.sa_handler = handler};
    MUST(sigaction(SIGPIPE, &action, NULL));
    MUST(pipe(pipes));
    MUST(pipe(empty));
    MUST(write(pipes[1], "twelve bytes", 12));
    MUST(shutdown(fd, SHUT_WR));
    say("behind the end", splice(pipes[0], NULL, fd, NULL, 64, 0));
    printf("  signals %d\n", signals);
    say_waiting("in the pipe", pipes[0]);
    say("empty", splice(empty[0], NULL, fd, NULL, 64, SPLICE_F_NONBLOCK));
    MUST(close(empty[1]));
    say("at its end", splice(empty[0], NULL, fd, NULL, 64, 0));
    MUST(close(fd));
    fd = connected("reset\n");
    struct pollfd polled = {fd, 0, 0};
    must(poll(&polled, 1, 10000) == 1, "poll", __LINE__);
    say("after a reset", splice(pipes[0], NULL, fd, NULL, 64, 0));
    say("again", splice(pipes[0], NULL, fd, NULL, 64, 0));
    printf("  signals %d\n", signals);
    say_waiting("in the pipe", pipes[0]);
    MUST(close(fd));
}

static void say_piped(int pipe, size_t room)
{
    unsigned char buffer[4096];
    unsigned sum = 0;
    long count = read(pipe, buffer, room < sizeof buffer ? room : sizeof buffer);
    for (long i = 0; i < count; i++)
        sum = sum * 31 + buffer[i];
    printf("  from the pipe %ld %x\n", count, sum);
}

static void stream_to_pipe(void)
{
    int fd = connected("say 100 100 0\n"), pipes[2], others[2], file = file_of(10);
    char letter = 'x';
    MUST(pipe(pipes));
    await_octets(fd, 100);
    MUST(pipe(others));
    say("nothing", splice(fd, NULL, others[1], NULL, 0, 0));
    say("unknown flags", splice(fd, NULL, others[1], NULL, 64, 1 << 20));
    say("the wrong end", splice(fd, NULL, others[0], NULL, 64, 0));
    say("a part", splice(fd, NULL, pipes[1], NULL, 30, 0));
    say_piped(pipes[0], 100);
    say("no pipe", splice(fd, NULL, file, NULL, 64, 0));
    /* No room in the pipe. */
    int size = fcntl(pipes[1], F_GETPIPE_SZ);
    MUST(fcntl(pipes[1], F_SETFL, O_NONBLOCK));
    while (write(pipes[1], &letter, 1) == 1) {
    }
    say("full, at once", splice(fd, NULL, pipes[1], NULL, 64, SPLICE_F_NONBLOCK));
    say("full", splice(fd, NULL, pipes[1], NULL, 64, 0));
    for (char buffer[4096]; size > 0; size -= (int)sizeof buffer)
        MUST(read(pipes[0], buffer, sizeof buffer));
    MUST(fcntl(pipes[1], F_SETFL, 0));
    say("the rest", splice(fd, NULL, pipes[1], NULL, 1000, 0));
    say_piped(pipes[0], 100);
    say("the end", splice(fd, NULL, pipes[1], NULL, 1000, 0));
    MUST(close(fd));
    fd = connected("sink\n");
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    say("empty", splice(fd, NULL, pipes[1], NULL, 64, 0));
    MUST(fcntl(fd, F_SETFL, 0));
    set_timeout(fd, 200);
    double begun = now_sec();
    say("in time", splice(fd, NULL, pipes[1], NULL, 64, 0));
    say_waited("in time", begun, 200);
    struct iovec part = {&letter, 1};
    say("tee from", tee(fd, pipes[1], 10, 0));
    say("tee to", tee(pipes[0], fd, 10, 0));
    say("vmsplice", vmsplice(fd, &part, 1, 0));
    say("copy_file_range", copy_file_range(file, NULL, fd, NULL, 10, 0));
    say("copy_file_range from", copy_file_range(fd, NULL, file, NULL, 10, 0));
    MUST(close(fd));
}

static void stream_into_nothing(void)
{
    int fd = connected("say 100 100 0\n"), pipes[2];
    struct sigaction action = {.sa_handler = handler};
    MUST(sigaction(SIGPIPE, &action, NULL));
    MUST(pipe(pipes));
    await_octets(fd, 100);
    MUST(close(pipes[0]));
    say("nobody reads", splice(fd, NULL, pipes[1], NULL, 64, 0));
    printf("  signals %d\n", signals);
    say("still", recv(fd, (char[200]){0}, 200, 0));
    MUST(close(fd));
}

/* From one connection into another. */
static void forwarded(void)
{
    int from = connected("say 3000000 70000 0\n"), to = connected("sink\n"), pipes[2];
    size_t total = 0;
    MUST(pipe(pipes));
    for (;;) {
        long in = splice(from, NULL, pipes[1], NULL, 1 << 20, SPLICE_F_MOVE | SPLICE_F_MORE);
        if (in == 0)
            break;
        must(in > 0, "splice", __LINE__);
        for (long left = in; left > 0;) {
            long out = splice(pipes[0], NULL, to, NULL, (size_t)left, SPLICE_F_MOVE | SPLICE_F_MORE);
            must(out > 0, "splice", __LINE__);
            left -= out;
            total += (size_t)out;
        }
    }
    printf("forwarded %zu\n", total);
    MUST(close(from));
    say_report(to);
}

struct spliced {
    int from, to;
};

static void *splices(void *arg)
{
    const struct spliced *spliced = arg;
    splice(spliced->from, NULL, spliced->to, NULL, 100, 0);
    return NULL;
}

static void say_cancelled(const char *what, int from, int to)
{
    struct spliced spliced = {from, to};
    pthread_t thread;
    void *result = NULL;
    must(pthread_create(&thread, NULL, splices, &spliced) == 0, "pthread_create", __LINE__);
    sleep_msec(100);
    must(pthread_cancel(thread) == 0, "pthread_cancel", __LINE__);
    must(pthread_join(thread, &result) == 0, "pthread_join", __LINE__);
    printf("%s: cancelled %d\n", what, result == PTHREAD_CANCELED);
}

static void cancelled(void)
{
    int fd = connected("sink\n"), pipes[2];
    MUST(pipe(pipes));
    say_cancelled("an empty pipe", pipes[0], fd);
    say_cancelled("an empty stream", fd, pipes[1]);
    MUST(write(pipes[1], "twelve bytes", 12));
    say("splice", splice(pipes[0], NULL, fd, NULL, 64, 0));
    say_report(fd);
}

/* A file's pages in a pipe. */
static void file_by_pipe(void)
{
    int fd = connected("sink\n"), pipes[2], file = file_of(100000);
    loff_t at = 0;
    MUST(pipe(pipes));
    for (long left = 100000; left > 0;) {
        long in = splice(file, NULL, pipes[1], NULL, 50000, 0);
        must(in > 0, "splice", __LINE__);
        left -= in;
        while (in > 0) {
            long out = splice(pipes[0], NULL, fd, NULL, (size_t)in, SPLICE_F_MORE);
            must(out > 0, "splice", __LINE__);
            in -= out;
        }
    }
    say("from an offset", splice(pipes[0], &at, fd, NULL, 64, 0));
    say("to an offset", splice(pipes[0], NULL, fd, &at, 64, 0));
    say_report(fd);
}

static void *marks(void *arg)
{
    int mark = 0, fd = *(int *)arg;
    sleep_msec(1 + fd % 7);
    MUST(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark));
    return NULL;
}

/* Only the kernel can have the stream from somewhere in the middle on. */
static void handed_over(void)
{
    for (int round = 0; round < 8; round++) {
        int from = connected("say 1000000 100000 1\n"), to = connected("sink\n"), direct = connected("sink\n"), pipes[2];
        int fds[] = {from, to, direct}, file = file_of(MANY);
        pthread_t thread[3];
        MUST(pipe(pipes));
        for (int i = 0; i < 3; i++)
            must(pthread_create(&thread[i], NULL, marks, &fds[i]) == 0, "pthread_create", __LINE__);
        size_t total = 0;
        for (off_t at = 0; at < MANY;)
            must(sendfile(direct, file, &at, 300000) > 0, "sendfile", __LINE__);
        for (long in; (in = splice(from, NULL, pipes[1], NULL, 1 << 20, 0)) != 0; total += (size_t)in) {
            must(in > 0, "splice", __LINE__);
            for (long left = in, out; left > 0; left -= out) {
                out = splice(pipes[0], NULL, to, NULL, (size_t)left, 0);
                must(out > 0, "splice", __LINE__);
            }
        }
        for (int i = 0; i < 3; i++)
            must(pthread_join(thread[i], NULL) == 0, "pthread_join", __LINE__);
        printf("forwarded %zu\n", total);
        say_report(direct);
        say_report(to);
        MUST(close(from));
        MUST(close(file));
        MUST(close(pipes[0]));
        MUST(close(pipes[1]));
    }
}

CASES({"file_position", file_position}, {"offset", offset}, {"blocking", blocking}, {"nonblocking", nonblocking}, {"edge", edge},
      {"timed", timed}, {"interrupted", interrupted}, {"refused", refused}, {"special", special}, {"append", append}, {"broken", broken},
      {"coalesced", coalesced}, {"truncated", truncated}, {"threads", threads}, {"pipe_to_stream", pipe_to_stream}, {"pipe_waits", pipe_waits}, {"pipe_nonblocking", pipe_nonblocking},
      {"pipe_broken", pipe_broken}, {"stream_to_pipe", stream_to_pipe}, {"stream_into_nothing", stream_into_nothing},
      {"forwarded", forwarded}, {"cancelled", cancelled},
      {"file_by_pipe", file_by_pipe}, {"handed_over", handed_over})
