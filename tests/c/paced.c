/* Datagrams that leave at a rate (SO_MAX_PACING_RATE) or at times (SO_TXTIME): a sender, and a receiver that looks when they have come.
 *
 *   paced receive <port>                              their times of arrival and lengths, in bytes of frames, until one is empty
 *   paced send <port> <kbps> <burst> <msec> <how>     how: blocking, poll, epoll; burst 0: the kernel's option; prints how many
 *   paced times <port>                                four datagrams at times of their own, in another order
 *   paced leave <port> <how>                          fifty at 10 Mbit/s, then an empty one, and ends: exit, close or exec
 *   paced says                                        what calls say of options, and of a send buffer that is full */
#include "case.h"
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <mellanox/vma_extra.h>
#include <sys/epoll.h>

enum { LEN = 1472, FRAME = LEN + 42, MOST = 200000 };

static char data[LEN];

static long long nsec_of(int clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void receive(int port)
{
    static long long times[MOST];
    int fd = bound_to(PEER, port), room = 200 << 20, one = 1, count = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room));
    MUST(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one));
    printf("ready\n");
    for (;;) {
        char control[64];
        struct iovec part = {data, sizeof data};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        long len = recvmsg(fd, &message, 0);
        MUST(len);
        if (len == 0)
            break;
        if (len == 1)
            continue;
        struct timespec time;
        memcpy(&time, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof time);
        if (count < MOST)
            times[count++] = time.tv_sec * 1000000000LL + time.tv_nsec;
        if (len < LEN)
            printf("%c", data[0]);
    }
    printf("\n");
    for (int i = 0; i < count; i++)
        printf("%lld\n", times[i]);
    printf("received\n");
}

/* A connected socket that has sent one already: of the first one the next hop may be unknown. */
static int sender(int port)
{
    int fd = bound();
    struct sockaddr_in peer = address(PEER, port);
    MUST(connect(fd, generic(&peer), sizeof peer));
    for (int i = 0; i < 3; i++) {
        MUST(send(fd, data, 1, 0));
        sleep_msec(50);
    }
    return fd;
}

static void pace(int fd, unsigned kbps, unsigned burst)
{
    if (burst) {
        struct vma_rate_limit_t limit = {kbps, burst, LEN};
        MUST(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, sizeof limit));
    } else {
        unsigned rate = kbps * 125;
        MUST(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
    }
}

static void end(int port)
{
    int fd = sender(port);
    MUST(send(fd, data, 0, 0));
}

static void send_paced(int port, unsigned kbps, unsigned burst, int msec, const char *how)
{
    int fd = sender(port), set = epoll_create1(0), blocks = strcmp(how, "blocking") == 0, polls = strcmp(how, "poll") == 0;
    struct epoll_event event = {EPOLLOUT, {0}};
    pace(fd, kbps, burst);
    if (!blocks)
        MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    long count = 0, waits = 0;
    for (double until = now_sec() + msec / 1000.0; now_sec() < until;) {
        long sent = send(fd, data, LEN, 0);
        if (sent == LEN) {
            count++;
            continue;
        }
        must(!blocks && errno == EAGAIN, "send", __LINE__);
        waits++;
        struct pollfd polled = {fd, POLLOUT, 0};
        MUST(polls ? poll(&polled, 1, 1000) : epoll_wait(set, &event, 1, 1000));
    }
    close(fd);
    printf("sent %ld, waited %ld\n", count, waits);
    sleep_msec(1000);
    end(port);
}

static void leave(int port, const char *how)
{
    int fd = sender(port);
    pace(fd, 10000, 0);
    for (int i = 0; i < 50; i++)
        must(send(fd, data, LEN, MSG_DONTWAIT) == LEN, "send", __LINE__);
    MUST(send(fd, data, 0, MSG_DONTWAIT));
    if (strcmp(how, "close") == 0) {
        close(fd);
        sleep_msec(500);
    } else if (strcmp(how, "exec") == 0) {
        execl("/bin/true", "true", NULL);
    }
}

static long send_at(int fd, char what, unsigned long long at)
{
    char control[CMSG_SPACE(sizeof at)] = {0};
    struct iovec part = {(char[]){what, what}, 2};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_TXTIME;
    item->cmsg_len = CMSG_LEN(sizeof at);
    memcpy(CMSG_DATA(item), &at, sizeof at);
    return sendmsg(fd, &message, 0);
}

static void times(int port)
{
    int fd = sender(port);
    printf("%lld\n", nsec_of(CLOCK_REALTIME));
    say("without a clock", send_at(fd, '-', 1));
    struct sock_txtime clock = {CLOCK_MONOTONIC, 0};
    say("a clock", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, sizeof clock));
    unsigned long long now = (unsigned long long)nsec_of(CLOCK_MONOTONIC);
    say("third", send_at(fd, 'c', now + 60000000));
    say("first", send_at(fd, 'a', 1));
    say("second", send_at(fd, 'b', now + 30000000));
    clock.clockid = CLOCK_TAI;
    say("another clock", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, sizeof clock));
    say("fourth", send_at(fd, 'd', (unsigned long long)nsec_of(CLOCK_TAI) + 90000000));
    say("too far ahead", send_at(fd, '-', (unsigned long long)nsec_of(CLOCK_TAI) + 20000000000ULL));
    struct sockaddr_in other = address(PEER, port);
    say("as soon as possible", sendto(fd, "a ", 2, 0, generic(&other), sizeof other));
    close(fd);
    sleep_msec(300);
    end(port);
}

static void on_signal(int number)
{
    (void)number;
}

/* Sends until there is no room. */
static int fill(int fd)
{
    int count = 0;
    while (send(fd, data, LEN, MSG_DONTWAIT) == LEN)
        count++;
    must(errno == EAGAIN, "EAGAIN", __LINE__);
    return count;
}

static void says(void)
{
    int fd = sender(PEER_PORT + 90), small = 20000;
    unsigned rate = 1000000;
    unsigned long long wide = 0;
    socklen_t len = sizeof rate;
    say("set", setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
    rate = 0;
    say("get", getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len));
    printf("  %u in %u\n", rate, len);
    len = sizeof wide;
    say("get", getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &wide, &len));
    printf("  %llu in %u\n", wide, len);
    wide = 8000000000ULL;
    say("set", setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &wide, sizeof wide));
    wide = 0;
    say("get", getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &wide, &len));
    printf("  %llu in %u\n", wide, len);
    say("too short", setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, 3));
    struct sock_txtime clock = {CLOCK_MONOTONIC, 0};
    say("a bad flag", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &(struct sock_txtime){CLOCK_MONOTONIC, 4}, sizeof clock));
    say("a bad clock", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &(struct sock_txtime){77, 0}, sizeof clock));
    say("too short", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, 4));
    say("a time without a clock", send_at(fd, '-', 1));
    say("a clock", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &clock, sizeof clock));
    say("a time", send_at(fd, '-', 1));
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small));
    rate = ~0U;
    say("no rate", setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
    for (int i = 0; i < 3; i++)
        say("send", send(fd, data, LEN, MSG_DONTWAIT));
    close(fd);
}

static void full(void)
{
    int fd = sender(PEER_PORT + 90), size = 23040, set = epoll_create1(0);
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    struct vma_rate_limit_t limit = {2000, LEN, LEN}, told = {0};
    socklen_t len = sizeof told;
    say("set", setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, sizeof limit));
    say("get", getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &told, &len));
    printf("  %u %u %u in %u\n", told.rate, told.max_burst_sz, told.typical_pkt_sz, len);
    unsigned rate;
    len = sizeof rate;
    say("get", getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len));
    printf("  %u in %u\n", rate, len);
    struct epoll_event event = {EPOLLOUT, {0}};
    struct pollfd polled = {fd, POLLOUT, 0};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    say("poll", poll(&polled, 1, 0));
    say("epoll", epoll_wait(set, &event, 1, 0));
    /* Twenty of 2304 bytes of the kernel's, and one that leaves at once. */
    printf("sent %d\n", fill(fd));
    say("poll", poll(&polled, 1, 0));
    say("epoll", epoll_wait(set, &event, 1, 0));
    fd_set writable;
    FD_ZERO(&writable);
    FD_SET(fd, &writable);
    say("select", select(fd + 1, NULL, &writable, NULL, &(struct timeval){0, 0}));
    double begun = now_sec();
    /* Half of them: ten of 6.056 ms. */
    say("poll", poll(&polled, 1, 5000));
    say_waited("poll", begun, 54);
    fill(fd);
    begun = now_sec();
    say("epoll", epoll_wait(set, &event, 1, 5000));
    say_waited("epoll", begun, 54);
    fill(fd);
    begun = now_sec();
    say("send", send(fd, data, LEN, 0));
    say_waited("send", begun, 0);
    printf("soon %d\n", now_sec() - begun < 1);
    struct timeval timeout = {0, 50000};
    limit.rate = 8;
    MUST(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, sizeof limit));
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout));
    fill(fd);
    begun = now_sec();
    say("send", send(fd, data, LEN, 0));
    say_waited("send", begun, 50);
    struct sigaction action = {.sa_handler = on_signal};
    MUST(sigaction(SIGALRM, &action, NULL));
    timeout = (struct timeval){0, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout));
    struct itimerval soon = {{0, 0}, {0, 50000}};
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    say("send", send(fd, data, LEN, 0));
    /* As much as nobody limits leaves at once. */
    rate = ~0U;
    say("no rate", setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
    say("poll", poll(&polled, 1, 5000));
    say("send", send(fd, data, LEN, 0));
}

int main(int argc, char **argv)
{
    int port = argc > 2 ? atoi(argv[2]) : 0;
    alarm(CASE_SEC);
    setvbuf(stdout, NULL, argc > 1 && strcmp(argv[1], "receive") == 0 ? _IOFBF : _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "receive") == 0)
        setvbuf(stdout, NULL, _IOLBF, 0), receive(port);
    else if (argc == 7 && strcmp(argv[1], "send") == 0)
        send_paced(port, (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]), atoi(argv[5]), argv[6]);
    else if (argc == 4 && strcmp(argv[1], "leave") == 0)
        leave(port, argv[3]);
    else if (argc == 3 && strcmp(argv[1], "times") == 0)
        times(port);
    else if (argc == 2 && strcmp(argv[1], "says") == 0)
        says();
    else if (argc == 2 && strcmp(argv[1], "full") == 0)
        full();
    else
        return 2;
    return 0;
}
