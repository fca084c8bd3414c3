/* What peers of streams do seldom: urgent data, options in IP headers, silence. */
#include "obeying_peer.h"
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/select.h>

static const unsigned char nothings[4] = {1, 1, 1, 0};
static const unsigned char record_route[12] = {1, 7, 11, 4};

/* Packets have options from here on: such as do nothing, or the record of a route. */
static void set_options(int fd, int what)
{
    static const unsigned char padding[8] = {0, 0, 1, 4};
    if (over_real_ipv6())
        MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_DSTOPTS, padding, what == 'n' ? 0 : sizeof padding));
    else if (what == 'r')
        MUST(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, record_route, sizeof record_route));
    else
        MUST(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nothings, what == 'n' ? 0 : sizeof nothings));
}

static void prepare(int fd, char how, int is_connected)
{
    if (how != '-' && !is_connected)
        set_options(fd, how);
}

static int obey(int fd, char order)
{
    char octet;
    switch (order) {
    case 'u':
        put(fd, "ab", 0);
        put(fd, "c", MSG_OOB);
        put(fd, "de", 0);
        break;
    case 'U':
        put(fd, "U", MSG_OOB);
        break;
    case 't':
        put(fd, "text", 0);
        break;
    case 'g':
        /* What is urgent comes back as it is. */
        sleep_msec(50);
        put(fd, recv(fd, &octet, 1, MSG_OOB) == 1 ? (char[]){octet, 0} : "none", 0);
        break;
    default:
        set_options(fd, order);
    }
    return 1;
}

/* ---- urgent data ---- */

static void say_mark(int fd)
{
    int at_mark = 9;
    say("SIOCATMARK", ioctl(fd, SIOCATMARK, &at_mark));
    printf("at mark %d, sockatmark %d\n", at_mark, sockatmark(fd));
}

static void say_events(int fd)
{
    struct pollfd polled = {fd, POLLIN | POLLPRI | POLLRDBAND, 0};
    struct epoll_event event = {.events = EPOLLIN | EPOLLPRI | EPOLLRDBAND};
    struct timeval no_time = {0, 0};
    int set = epoll_create1(0), waiting = -1;
    fd_set in, except;
    FD_ZERO(&in);
    FD_ZERO(&except);
    FD_SET(fd, &in);
    FD_SET(fd, &except);
    say("poll", poll(&polled, 1, 0));
    printf("events %x\n", polled.revents);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    if (say("epoll", epoll_wait(set, &event, 1, 0)) == 1)
        printf("events %x\n", event.events);
    MUST(close(set));
    say("select", select(fd + 1, &in, NULL, &except, &no_time));
    printf("in %d, except %d\n", FD_ISSET(fd, &in) != 0, FD_ISSET(fd, &except) != 0);
    MUST(ioctl(fd, FIONREAD, &waiting));
    printf("FIONREAD %d\n", waiting);
}

static void await_urgent(int fd)
{
    struct pollfd polled = {fd, POLLPRI, 0};
    say("urgent", poll(&polled, 1, 3000));
    printf("events %x\n", polled.revents);
}

static void urgent_of(int fd)
{
    int on = 1, off = 0;
    say_mark(fd);
    say_recv("nothing is urgent", fd, 1, MSG_OOB);
    put(fd, "u", 0);
    await_urgent(fd);
    sleep_msec(50);
    say_events(fd);
    say_mark(fd);
    say_recv("look at it", fd, 1, MSG_OOB | MSG_PEEK);
    say_recv("before it", fd, 9, 0);
    say_mark(fd);
    say_events(fd);
    say_recv("it", fd, 1, MSG_OOB);
    say_recv("it again", fd, 1, MSG_OOB);
    say_events(fd);
    say_mark(fd);
    say_recv("behind it", fd, 9, 0);
    say_mark(fd);
    say_recv("no more", fd, 1, MSG_OOB | MSG_DONTWAIT);
    MUST(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on));
    put(fd, "u", 0);
    await_urgent(fd);
    sleep_msec(50);
    say_events(fd);
    say_recv("inline", fd, 1, MSG_OOB);
    say_recv("inline, before", fd, 9, 0);
    say_mark(fd);
    say_recv("inline, from it on", fd, 9, 0);
    say_mark(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &off, sizeof off));
    put(fd, "g", 0);
    say("send", send(fd, "12", 2, 0));
    say("send urgent", send(fd, "345", 3, MSG_OOB));
    say_recv("what was urgent there", fd, 9, 0);
}

static void urgent(void)
{
    int fd = connected();
    urgent_of(fd);
    MUST(close(fd));
    fd = accepted('-');
    MUST(fd);
    urgent_of(fd);
    MUST(close(fd));
}

/* What is urgent and was not read passed to a child, which is the first to use the connection after the fork. */
static void urgent_for_child(int fd, int is_inline, int is_read, int has_passed)
{
    MUST(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &is_inline, sizeof is_inline));
    put(fd, "u", 0);
    await_urgent(fd);
    sleep_msec(50);
    if (is_read)
        say_recv("parent has it", fd, 1, MSG_OOB);
    if (has_passed)
        say_recv("parent reads before it", fd, 9, 0);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        sleep_msec(20);
        say_recv("peek", fd, 1, MSG_PEEK);
        say_events(fd);
        say_mark(fd);
        say_recv("it", fd, 1, MSG_OOB);
        say_recv("it again", fd, 1, MSG_OOB);
        for (int i = 0; i < 3; i++) {
            say_recv("stream", fd, 9, MSG_DONTWAIT);
            say_mark(fd);
        }
        put(fd, "t", 0);
        say_recv("text", fd, 4, MSG_WAITALL);
        put(fd, "u", 0);
        await_urgent(fd);
        sleep_msec(50);
        say_recv("the next", fd, 1, MSG_OOB);
        say_recv("before the next", fd, 9, 0);
        say_recv("behind the next", fd, 9, 0);
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    MUST(close(fd));
}

static void urgent_passed_on(void)
{
    for (int way = 0; way < 4; way++) {
        printf("way %d\n", way);
        urgent_for_child(way == 1 || way == 2 ? accepted('-') : connected(), 0, way & 1, way >> 1);
    }
    printf("inline\n");
    urgent_for_child(connected(), 1, 0, 0);
}

/* ---- signals ---- */

/* Whether the signal comes of what is urgent. */
static void say_signal(int fd)
{
    sigset_t set;
    siginfo_t told = {0};
    struct timespec soon = {3, 0}, now = {0, 30000000};
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    put(fd, "U", 0);
    await_urgent(fd);
    int taken = sigtimedwait(&set, &told, fcntl(fd, F_GETOWN) ? &soon : &now);
    if (say("signal", taken) > 0)
        printf("code %d\n", told.si_code);
    say("owner", fcntl(fd, F_GETOWN) != 0);
    say_recv("urgent", fd, 1, MSG_OOB);
    put(fd, "t", 0);
    say_recv("text", fd, 4, MSG_WAITALL);
}

static int set_owner(int fd, int how, int pid)
{
    struct f_owner_ex owner = {pid ? F_OWNER_TID : F_OWNER_PID, pid ? gettid() : 0};
    switch (how) {
    case 0: return fcntl(fd, F_SETOWN, pid);
    case 1: return fcntl(fd, F_SETOWN_EX, &owner);
    case 2: return ioctl(fd, FIOSETOWN, &pid);
    case 3: return ioctl(fd, SIOCSPGRP, &pid);
    default: return fcntl(fd, F_SETOWN, -getpgrp());
    }
}

static void block_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    MUST(setpgid(0, 0));
}

static void signals(void)
{
    block_signal();
    for (int how = 0; how < 5; how++) {
        int fd = how == 4 ? accepted('-') : connected();
        printf("way %d\n", how);
        say_signal(fd);
        say("own", set_owner(fd, how, getpid()));
        say_signal(fd);
        say("disown", set_owner(fd, how & 3, 0));
        say_signal(fd);
        MUST(close(fd));
    }
}

/* Before there is a connection; what is of a listener is not inherited. */
static void signals_from_the_beginning(void)
{
    block_signal();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    say("own", fcntl(fd, F_SETOWN, getpid()));
    connected_to(fd, "0 -\n");
    say_signal(fd);
    MUST(close(fd));
    int listener = listening();
    say("own", fcntl(listener, F_SETOWN, getpid()));
    have_connection(listener, '-');
    fd = accept(listener, NULL, NULL);
    MUST(fd);
    set_timeout(fd, 3000);
    say_signal(fd);
    MUST(close(fd));
    MUST(close(listener));
}

/* ---- options in IP headers ---- */

/* Text comes with options, and without again. */
static void options_of(int fd, char what)
{
    char orders[] = {what, 't', 0};
    put(fd, orders, 0);
    say_recv("with options", fd, 4, MSG_WAITALL);
    put(fd, "tt", 0);
    say_recv("more", fd, 8, MSG_WAITALL);
    put(fd, "nt", 0);
    say_recv("without", fd, 4, MSG_WAITALL);
    MUST(shutdown(fd, SHUT_WR));
    say_recv("the end", fd, 4, 0);
}

static void options_later(void)
{
    for (int i = 0; i < 2; i++) {
        int fd = connected();
        options_of(fd, "or"[i]);
        MUST(close(fd));
        fd = accepted('-');
        MUST(fd);
        options_of(fd, "or"[i]);
        MUST(close(fd));
    }
}

static void options_first(void)
{
    for (int i = 0; i < 2; i++) {
        unsigned char options[40];
        socklen_t len = sizeof options;
        int fd = accepted("or"[i]);
        if (say("accept", fd < 0 ? -1 : 0) < 0)
            continue;
        if (!over_real_ipv6()) {
            say("IP_OPTIONS", getsockopt(fd, IPPROTO_IP, IP_OPTIONS, options, &len));
            printf("%u octets, %d\n", len, len ? options[0] : 0);
        }
        options_of(fd, "or"[i]);
        MUST(close(fd));
    }
}

/* Who has not been accepted yet. */
static void options_while_waiting(void)
{
    int listener = listening();
    have_connection(listener, '-');
    have_connection(listener, 'o');
    for (int i = 0; i < 2; i++) {
        int fd = accept(listener, NULL, NULL);
        if (say("accept", fd < 0 ? -1 : 0) < 0)
            continue;
        set_timeout(fd, 3000);
        options_of(fd, 'o');
        MUST(close(fd));
    }
    MUST(close(listener));
}

/* ---- peers that vanish ---- */

/* What a connection says in the end, and whether it takes as long as it should. */
static void say_end(int fd, const char *what, double begun, int msec)
{
    struct pollfd polled = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    char octet;
    printf("%s\n", what);
    say("recv", recv(fd, &octet, 1, 0));
    double passed = (now_sec() - begun) * 1000;
    printf("%s\n", passed < msec ? "too early" : passed < 3 * msec ? "in time" : "too late");
    fprintf(stderr, "%s: %.0f ms\n", what, passed);
    say("poll", poll(&polled, 1, 0));
    printf("events %x\n", polled.revents);
    say("recv", recv(fd, &octet, 1, 0));
    say("send", send(fd, "x", 1, MSG_NOSIGNAL));
    MUST(close(fd));
}

static void set_tcp(int fd, int name, int value)
{
    MUST(setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value));
}

/* The peer's address goes away when this says so. */
static void vanished(void)
{
    int fds[6], on = 1;
    double begun[6];
    for (int i = 0; i < 6; i++) {
        fds[i] = i & 1 ? accepted('-') : connected();
        MUST(fds[i]);
        set_timeout(fds[i], 0);
        put(fds[i], "t", 0);
        say_recv("text", fds[i], 4, MSG_WAITALL);
    }
    for (int i = 0; i < 2; i++) {
        set_tcp(fds[i], TCP_USER_TIMEOUT, 900);
        MUST(setsockopt(fds[2 + i], SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
        set_tcp(fds[2 + i], TCP_KEEPIDLE, 1);
        set_tcp(fds[2 + i], TCP_KEEPINTVL, 1);
        set_tcp(fds[2 + i], TCP_KEEPCNT, 1);
    }
    printf("vanish\n");
    fflush(stdout);
    must(fgetc(stdin) == '\n', "vanished", __LINE__);
    for (int i = 0; i < 6; i++) {
        begun[i] = now_sec();
        if (i < 2 || i > 3)
            put(fds[i], "t", 0);
    }
    /* net.ipv4.tcp_retries2 is 1: 600 ms, behind the first timeout. */
    say_end(fds[0], "user timeout", begun[0], 900);
    say_end(fds[1], "user timeout, accepted", begun[1], 900);
    say_end(fds[4], "retransmissions", begun[4], 800);
    say_end(fds[5], "retransmissions, accepted", begun[5], 800);
    say_end(fds[2], "keep-alive", begun[2], 1000);
    say_end(fds[3], "keep-alive, accepted", begun[3], 1000);
}

CASES_AND_PEER({"urgent", urgent}, {"urgent_passed_on", urgent_passed_on}, {"signals", signals},
               {"signals_from_the_beginning", signals_from_the_beginning}, {"options_later", options_later},
               {"options_first", options_first}, {"options_while_waiting", options_while_waiting}, {"vanished", vanished})
