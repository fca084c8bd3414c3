/* Calls on streams and listeners that wait, and what ends them. The peer at PORT sends back what comes; that at PEER_PORT connects when it is
   asked to, says 'c' first, and sends back what comes. */
#include "stream_case.h"
#include <netinet/tcp.h>
#include <sys/epoll.h>

struct later {
    int fd, msec;
    const char *octets;
};

static void *sends_later(void *argument)
{
    struct later *later = argument;
    sleep_msec(later->msec);
    MUST(send(later->fd, later->octets, strlen(later->octets), 0));
    return NULL;
}

static void *shuts_later(void *argument)
{
    struct later *later = argument;
    sleep_msec(later->msec);
    MUST(shutdown(later->fd, SHUT_WR));
    return NULL;
}

static pthread_t begun(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, body, argument) == 0, "pthread_create", __LINE__);
    return thread;
}

static void ended(pthread_t thread)
{
    must(pthread_join(thread, NULL) == 0, "pthread_join", __LINE__);
}

static void handled(int number) { (void)number; }

/* A signal comes, whose handler ends calls. */
static void have_signal(int msec)
{
    struct sigaction action = {.sa_handler = handled};
    struct itimerval timer = {.it_value = {msec / 1000, msec % 1000 * 1000}};
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

/* `begun`: before what ends the wait. */
static void say_timed_since(double begun, const char *what, int fd, size_t room, int flags, int msec)
{
    say_recv(what, fd, room, flags);
    say_waited(what, begun, msec);
}

static void say_timed(const char *what, int fd, size_t room, int flags, int msec)
{
    say_timed_since(now_sec(), what, fd, room, flags, msec);
}

static void peek_with(int fd)
{
    const int all = MSG_PEEK | MSG_WAITALL;
    have_octets(fd, "abc");
    set_timeout(fd, 150);
    say_timed("peeks until the time is over", fd, 8, all, 150);
    say_timed("does not wait", fd, 8, all | MSG_DONTWAIT, 0);
    say_timed("cuts", fd, 8, all | MSG_TRUNC, 150);
    say_timed("enough", fd, 3, all, 0);
    set_timeout(fd, 0);
    double since = now_sec();
    have_signal(150);
    say_timed_since(since, "peeks until a signal", fd, 8, all, 150);
    struct later later = {fd, 100, "defgh"};
    since = now_sec();
    pthread_t thread = begun(sends_later, &later);
    say_timed_since(since, "peeks until all is there", fd, 8, all, 100);
    ended(thread);
    later = (struct later){fd, 100, NULL};
    since = now_sec();
    thread = begun(shuts_later, &later);
    say_timed_since(since, "peeks until the end", fd, 20, all, 100);
    ended(thread);
    say_recv("takes", fd, 20, 0);
    say_timed("after the end", fd, 20, all, 0);
    MUST(close(fd));
}

static void peek_all(void)
{
    peek_with(connected());
    int listener = listening();
    peek_with(accepted(listener));
    MUST(close(listener));
}

static void say_ready(const char *what, int fd)
{
    struct pollfd polled = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    MUST(poll(&polled, 1, 0));
    printf("%s: ready for %#x\n", what, (unsigned)polled.revents);
}

static void low_water_with(int fd)
{
    int least = 10;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least));
    set_timeout(fd, 150);
    have_octets(fd, "12345");
    say_ready("too little", fd);
    say_timed("peeks without waiting", fd, 20, MSG_PEEK | MSG_DONTWAIT, 0);
    say_timed("peeks", fd, 20, MSG_PEEK, 150);
    say_timed("asks for little", fd, 2, 0, 0);
    say_timed("takes in the end", fd, 20, 0, 150);
    say_timed("finds nothing", fd, 20, 0, 150);
    have_octets(fd, "1234567890");
    say_ready("enough", fd);
    say_timed("takes", fd, 20, 0, 0);
    have_octets(fd, "abc");
    say_timed("takes without waiting", fd, 20, MSG_DONTWAIT, 0);
    set_timeout(fd, 0);
    have_octets(fd, "12345");
    double since = now_sec();
    have_signal(150);
    say_timed_since(since, "takes at a signal", fd, 20, 0, 150);
    struct later later = {fd, 100, "0123456789abcdef"};
    since = now_sec();
    pthread_t thread = begun(sends_later, &later);
    have_octets(fd, "56");
    say_timed_since(since, "takes as it comes", fd, 20, 0, 100);
    ended(thread);
    later = (struct later){fd, 100, NULL};
    since = now_sec();
    thread = begun(shuts_later, &later);
    have_octets(fd, "56");
    say_timed_since(since, "takes at the end", fd, 20, 0, 100);
    ended(thread);
    MUST(close(fd));
}

static void low_water(void)
{
    low_water_with(connected());
    int listener = listening();
    low_water_with(accepted(listener));
    MUST(close(listener));
}

static void *accepts(void *argument)
{
    const int *fd = argument;
    say("accept elsewhere", accept(*fd, NULL, NULL));
    return NULL;
}

static void *waits_by_epoll(void *argument)
{
    const int *fd = argument;
    struct epoll_event event = {.events = EPOLLIN}, told;
    int set = epoll_create1(0);
    MUST(set);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, *fd, &event));
    say("epoll_wait elsewhere", epoll_wait(set, &told, 1, 20000));
    printf("  %#x\n", told.events);
    fcntl(*fd, F_SETFL, O_NONBLOCK);
    say("then accept", accept(*fd, NULL, NULL));
    MUST(close(set));
    return NULL;
}

static void *waits_by_poll(void *argument)
{
    const int *fd = argument;
    struct pollfd polled = {*fd, POLLIN, 0};
    say("poll elsewhere", poll(&polled, 1, 20000));
    printf("  %#x\n", (unsigned)polled.revents);
    say("then accept", accept(*fd, NULL, NULL));
    return NULL;
}

static int unspecified(int fd)
{
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    return connect(fd, &nowhere, sizeof nowhere);
}

static void say_listener(const char *what, int fd)
{
    int is_listening = -1;
    socklen_t len = sizeof is_listening;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len));
    printf("%s: listens %d, has its port %d\n", what, is_listening, port_of(fd) != 0);
    say_ready(what, fd);
    say("accept", accept(fd, NULL, NULL));
}

/* How: a direction, or -1 for connect(2). */
static void shut_with(int how)
{
    void *(*const waits[])(void *) = {accepts, waits_by_epoll, waits_by_poll};
    for (int i = 0; i < 3; i++) {
        int fd = listening();
        pthread_t thread = begun(waits[i], &fd);
        sleep_msec(60);
        int result = how < 0 ? unspecified(fd) : shutdown(fd, how);
        ended(thread);
        say("ends", result);
        say_listener("ended", fd);
        char octets[] = "it goes on";
        say("listen again", listen(fd, 3));
        int stream = accepted(fd);
        must(write(stream, octets, sizeof octets) == sizeof octets, "write", __LINE__);
        say_recv("from the peer", stream, sizeof octets, MSG_WAITALL);
        say("ends again", how < 0 ? unspecified(fd) : shutdown(fd, how));
        say("and again", how < 0 ? unspecified(fd) : shutdown(fd, how));
        say_listener("ended", fd);
        MUST(close(stream));
        MUST(close(fd));
    }
}

static void shut_listener(void)
{
    int directions[] = {SHUT_RDWR, SHUT_RD, -1};
    for (int i = 0; i < 3; i++)
        shut_with(directions[i]);
}

/* What nobody has accepted ends with the listener; what was accepted does not. */
static void shut_with_connections(void)
{
    for (int how = 0; how < 3; how++) {
        int fd = listening(), stream = accepted(fd);
        char octets[] = "it goes on";
        have_connection(fd);
        say("ends", how == 2 ? unspecified(fd) : shutdown(fd, how == 0 ? SHUT_RDWR : SHUT_WR));
        fcntl(fd, F_SETFL, O_NONBLOCK);
        if (how == 1) {
            int waiting = accept(fd, NULL, NULL);
            must(waiting >= 0, "accept", __LINE__);
            MUST(close(waiting));
        }
        say_listener("ended", fd);
        must(write(stream, octets, sizeof octets) == sizeof octets, "write", __LINE__);
        say_recv("from the peer", stream, sizeof octets, MSG_WAITALL);
        MUST(close(stream));
        MUST(close(fd));
    }
}

struct option {
    const char *what;
    int level, name, value;
};

static void say_int(const char *what, int fd, int level, int name)
{
    int value = 0;
    socklen_t len = sizeof value;
    if (getsockopt(fd, level, name, &value, &len) < 0)
        say(what, -1);
    else
        printf("  %s %d\n", what, value);
}

static void set_options(int fd, const struct option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        say(options[i].what, setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int)));
}

static const struct option OPTIONS[] = {
    {"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1},
    {"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 50000},
    {"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 60000},
    {"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1},
    {"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 7},
    {"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 3},
    {"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1},
    {"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 77},
    {"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 11},
    {"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 4},
    {"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 7000},
    {"TCP_MAXSEG", IPPROTO_TCP, TCP_MAXSEG, 600},
    {"TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 5000},
    {"TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2, 9},
    {"IP_TTL", IPPROTO_IP, IP_TTL, 33},
    {"IP_TOS", IPPROTO_IP, IP_TOS, 0x10},
};

/* Set on the listener while it listens. */
static void options_of_listener(void)
{
    int fd = listening();
    char name[16] = "";
    socklen_t len = sizeof name;
    set_options(fd, OPTIONS, COUNT(OPTIONS));
    say("TCP_CONGESTION", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    int stream = accepted(fd);
    for (size_t i = 0; i < COUNT(OPTIONS); i++)
        say_int(OPTIONS[i].what, stream, OPTIONS[i].level, OPTIONS[i].name);
    MUST(getsockopt(stream, IPPROTO_TCP, TCP_CONGESTION, name, &len));
    printf("  TCP_CONGESTION %.16s\n", name);
    have_octets(stream, "123456");
    say_ready("too little", stream);
    have_octets(stream, "7");
    say_ready("enough", stream);
    int off = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof off));
    MUST(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &off, sizeof off));
    int other = accepted(fd);
    for (size_t i = 0; i < COUNT(OPTIONS); i++)
        say_int(OPTIONS[i].what, other, OPTIONS[i].level, OPTIONS[i].name);
    MUST(close(stream));
    MUST(close(other));
    MUST(close(fd));
}

/* Buffers of the listener are those of its connections. */
static void buffers(void)
{
    static const int LENS[] = {1, 4096, 50000, 1 << 20, 8 << 20};
    static const struct option NAMES[] = {
        {"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 0},
        {"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 0},
        {"SO_RCVBUFFORCE", SOL_SOCKET, SO_RCVBUFFORCE, 0},
        {"SO_SNDBUFFORCE", SOL_SOCKET, SO_SNDBUFFORCE, 0},
    };
    for (size_t i = 0; i < COUNT(LENS) * 2; i++) {
        int fd = listening(), half = (int)i % 2 * 2;
        for (int k = half; k < half + 2; k++)
            MUST(setsockopt(fd, NAMES[k].level, NAMES[k].name, &LENS[i / 2], sizeof(int)));
        int stream = accepted(fd);
        printf("%d by %s\n", LENS[i / 2], NAMES[half].what);
        say_int("SO_RCVBUF", stream, SOL_SOCKET, SO_RCVBUF);
        say_int("SO_SNDBUF", stream, SOL_SOCKET, SO_SNDBUF);
        say_int("SO_BUF_LOCK", stream, SOL_SOCKET, 72);
        MUST(close(stream));
        MUST(close(fd));
    }
}

struct part_of_stream {
    int fd, how;
    size_t len;
    ssize_t result;
    char *octets;
};

static struct iovec parts[3];

/* Three parts, the middle one of them the longest. */
static struct msghdr cut(struct part_of_stream *it)
{
    size_t first = it->len / 10, second = it->len / 2;
    parts[0] = (struct iovec){it->octets, first};
    parts[1] = (struct iovec){it->octets + first, second};
    parts[2] = (struct iovec){it->octets + first + second, it->len - first - second};
    return (struct msghdr){.msg_iov = parts, .msg_iovlen = 3};
}

static void *receives_all(void *argument)
{
    struct part_of_stream *it = argument;
    struct msghdr message = cut(it);
    it->result = it->how ? recvmsg(it->fd, &message, MSG_WAITALL) : recv(it->fd, it->octets, it->len, MSG_WAITALL);
    return NULL;
}

static void *sends_all(void *argument)
{
    struct part_of_stream *it = argument;
    struct msghdr message = cut(it);
    switch (it->how) {
    case 0:
        it->result = send(it->fd, it->octets, it->len, 0);
        break;
    case 1:
        it->result = sendmsg(it->fd, &message, 0);
        break;
    case 2:
        it->result = write(it->fd, it->octets, it->len);
        break;
    default:
        it->result = writev(it->fd, parts, 3);
    }
    return NULL;
}

static void receive_handed_over(void)
{
    char octets[100], sent[100];
    for (int how = 0; how < 4; how++) {
        int fd = connected();
        struct part_of_stream it = {.fd = fd, .how = how % 2, .len = sizeof octets, .octets = octets};
        for (size_t i = 0; i < sizeof sent; i++)
            sent[i] = (char)('a' + i % 26);
        must(send(fd, sent, 5, 0) == 5, "send", __LINE__);
        if (how >= 2)
            set_timeout(fd, 400);
        pthread_t thread = begun(receives_all, &it);
        sleep_msec(100);
        give_to_kernel(fd);
        sleep_msec(50);
        if (how < 2)
            must(send(fd, sent + 5, 95, 0) == 95, "send", __LINE__);
        ended(thread);
        printf("%d: received %zd, the same %d\n", how, it.result, it.result > 0 && memcmp(octets, sent, (size_t)it.result) == 0);
        MUST(close(fd));
    }
}

#define BIG (10 << 20)

static void send_handed_over(void)
{
    char *sent = malloc(BIG), *received = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        sent[i] = (char)(i * 131 + (i >> 8) * 7 + (i >> 16));
    for (int how = 0; how < 4; how++) {
        int fd = connected();
        struct part_of_stream it = {.fd = fd, .how = how, .len = BIG, .octets = sent};
        pthread_t thread = begun(sends_all, &it);
        sleep_msec(100);
        give_to_kernel(fd);
        ssize_t count = recv(fd, received, BIG, MSG_WAITALL);
        ended(thread);
        printf("%d: sent %zd, received %zd, the same %d\n", how, it.result, count, count == BIG && memcmp(sent, received, BIG) == 0);
        MUST(close(fd));
    }
}

struct watch {
    int fd, set, is_ready;
    uint32_t events;
    int count;
};

static void *watches(void *argument)
{
    struct watch *watch = argument;
    struct epoll_event told = {0};
    __atomic_store_n(&watch->is_ready, 1, __ATOMIC_SEQ_CST);
    watch->count = epoll_wait(watch->set, &told, 1, 10000);
    watch->events = told.events;
    return NULL;
}

/* Nothing is told of a connection that goes to the kernel but what comes for it. */
static void events_handed_over(void)
{
    static const uint32_t KINDS[] = {0, EPOLLET, EPOLLONESHOT, EPOLLEXCLUSIVE};
    for (size_t kind = 0; kind < COUNT(KINDS); kind++) {
        int others = 0;
        for (int round = 0; round < 25; round++) {
            char octet = 'x';
            int fd = connected();
            uint32_t hang_up = KINDS[kind] == EPOLLEXCLUSIVE ? 0 : EPOLLRDHUP;
            struct epoll_event event = {.events = EPOLLIN | hang_up | KINDS[kind]};
            struct watch watch = {.fd = fd, .set = epoll_create1(0)};
            MUST(watch.set);
            MUST(epoll_ctl(watch.set, EPOLL_CTL_ADD, fd, &event));
            pthread_t thread = begun(watches, &watch);
            while (!__atomic_load_n(&watch.is_ready, __ATOMIC_SEQ_CST))
                sleep_msec(1);
            sleep_msec(2);
            give_to_kernel(fd);
            must(send(fd, &octet, 1, 0) == 1, "send", __LINE__);
            ended(thread);
            others += watch.count != 1 || watch.events != EPOLLIN;
            if (watch.count != 1 || watch.events != EPOLLIN)
                fprintf(stderr, "kind %#x: %d events, %#x\n", KINDS[kind], watch.count, watch.events);
            MUST(close(watch.set));
            MUST(close(fd));
        }
        printf("kind %zu: %d other events\n", kind, others);
    }
}

/* The length of the address is negative. */
static void negative_lengths(void)
{
    int listener = listening(), fds[] = {connected(), accepted(listener)};
    char octets[10];
    for (int i = 0; i < 2; i++) {
        struct sockaddr_storage from;
        struct iovec part = {octets, sizeof octets};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = &from, .msg_namelen = (socklen_t)-1};
        socklen_t len = (socklen_t)-1;
        have_octets(fds[i], "12345");
        say("recvmsg", recvmsg(fds[i], &message, 0));
        message.msg_name = NULL;
        say("recvmsg without a name", recvmsg(fds[i], &message, MSG_PEEK));
        say("recvfrom", recvfrom(fds[i], octets, 2, 0, (struct sockaddr *)&from, &len));
        printf("  length %d\n", (int)len);
        say("recvfrom without a name", recvfrom(fds[i], octets, 1, 0, NULL, &len));
        say_recv("the rest", fds[i], sizeof octets, MSG_DONTWAIT);
        say_recv("nothing", fds[i], sizeof octets, MSG_DONTWAIT);
        say("recvfrom nothing", recvfrom(fds[i], octets, 2, MSG_DONTWAIT, (struct sockaddr *)&from, &len));
        MUST(close(fds[i]));
    }
    MUST(close(listener));
}

/* An accepted connection is dissolved: its socket is as a new one. */
static void dissolved(void)
{
    for (int how = 0; how < 3; how++) {
        int listener = listening(), fd = accepted(listener);
        struct sockaddr_in self = address(SELF, 0), peer = address(PEER, PORT);
        say("connect to nothing", unspecified(fd));
        say("again", unspecified(fd));
        if (how == 0) {
            say("bind", bind(fd, generic(&self), sizeof self));
            say("listen", listen(fd, 5));
            MUST(close(accepted(fd)));
        } else if (how == 1) {
            say("listen", listen(fd, 5));
            MUST(close(accepted(fd)));
        } else {
            say("connect", connect(fd, generic(&peer), sizeof peer));
            printf("  the listener's port %d\n", port_of(fd) == port_of(listener));
            have_octets(fd, "123");
            say_recv("comes back", fd, 10, 0);
        }
        MUST(close(accepted(listener)));
        MUST(close(fd));
        MUST(close(listener));
    }
}

CASES({"peek_all", peek_all}, {"low_water", low_water}, {"shut_listener", shut_listener},
      {"shut_with_connections", shut_with_connections}, {"options_of_listener", options_of_listener}, {"buffers", buffers},
      {"receive_handed_over", receive_handed_over}, {"send_handed_over", send_handed_over}, {"events_handed_over", events_handed_over},
      {"negative_lengths", negative_lengths},
      {"dissolved", dissolved})
