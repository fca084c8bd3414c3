/* What calls say of a stream in each of its states: half closed by either end, closed, reset, full, never connected. */
#include "obeying_peer.h"
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/select.h>

static void reset_at_close(int fd)
{
    struct linger linger = {1, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

static void prepare(int fd, char how, int is_connected)
{
    if (how != 'r' || !is_connected)
        return;
    /* Says something and is gone before it is accepted. */
    put(fd, "gone", 0);
    sleep_msec(30);
    reset_at_close(fd);
    MUST(close(fd));
}

/* Receives to the end of the stream, or to an octet. */
static void drain(int fd, char until)
{
    static char octets[65536];
    ssize_t len;
    do
        len = recv(fd, octets, sizeof octets, 0);
    while (len > 0 && octets[len - 1] != until);
}

static int obey(int fd, char order)
{
    char octet;
    switch (order) {
    case 't':
        put(fd, "text", 0);
        return 1;
    case 'd':
        sleep_msec(100);
        return 1;
    case 'f':
        MUST(shutdown(fd, SHUT_WR));
        return 1;
    case 'l':
        /* Says something when the other end has ended. */
        drain(fd, 0);
        sleep_msec(50);
        send(fd, "late", 4, MSG_NOSIGNAL);
        sleep_msec(100);
        return 0;
    case 'e':
        while (recv(fd, &octet, 1, 0) == 1)
            put(fd, (char[]){octet, 0}, 0);
        return 0;
    case 'r':
        reset_at_close(fd);
        return 0;
    case 'c':
        return 0;
    default:
        return 1;
    }
}

enum { ALL_EVENTS = POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM };

static unsigned polled(int fd, int events, int msec)
{
    struct pollfd asked = {fd, (short)events, 0};
    MUST(poll(&asked, 1, msec));
    return (unsigned short)asked.revents;
}

/* Waits for such an event, and for what comes right behind it. */
static void await_event(int fd, int events)
{
    must(polled(fd, events, 5000) != 0, "an event", __LINE__);
    sleep_msec(40);
}

static void say_state(const char *what, int fd)
{
    struct epoll_event event = {.events = ALL_EVENTS}, told = {0};
    struct timeval no_time = {0, 0};
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    int set = epoll_create1(0), waiting = -1;
    char octets[100];
    fd_set in, out, except;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    out = except = in;
    MUST(set);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    MUST(epoll_wait(set, &told, 1, 0));
    MUST(close(set));
    MUST(select(fd + 1, &in, &out, &except, &no_time));
    int amount = ioctl(fd, FIONREAD, &waiting) < 0 ? errno : 0;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
    printf("%s: poll %#x, epoll %#x, select %d %d %d, FIONREAD %d %d, state %u\n", what, polled(fd, ALL_EVENTS, 0), told.events,
           FD_ISSET(fd, &in) != 0, FD_ISSET(fd, &out) != 0, FD_ISSET(fd, &except) != 0, amount, waiting, info.tcpi_state);
    say("  looks", recv(fd, octets, sizeof octets, MSG_PEEK | MSG_DONTWAIT));
}

static void say_send(const char *what, int fd) { say(what, send(fd, "-", 1, MSG_NOSIGNAL)); }

static void say_error(int fd)
{
    int error = -1;
    socklen_t len = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    printf("SO_ERROR %s\n", error ? strerrorname_np(error) : "none");
}

static void say_peer(int fd)
{
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    say("getpeername", getpeername(fd, (struct sockaddr *)&name, &len));
}

/* Of a client and of an accepted stream. */
static void of_both(void (*of)(int))
{
    for (int i = 0; i < 2; i++) {
        int fd = i ? accepted('-') : connected();
        printf("%s\n", i ? "accepted" : "connected");
        of(fd);
        MUST(close(fd));
    }
}

static void peer_closes_of(int fd)
{
    say_state("idle", fd);
    put(fd, "c", 0);
    await_event(fd, POLLRDHUP);
    say_state("closed there", fd);
    say_recv("recv", fd, 9, 0);
    say_recv("again", fd, 9, 0);
    say_send("send", fd);
    await_event(fd, POLLHUP);
    say_state("refused", fd);
    say_send("send", fd);
    say_error(fd);
    say_state("in the end", fd);
    say_recv("recv", fd, 9, 0);
    say_peer(fd);
    say("shutdown", shutdown(fd, SHUT_RDWR));
}

static void peer_ends_of(int fd)
{
    put(fd, "tf", 0);
    await_event(fd, POLLRDHUP);
    say_state("text and end", fd);
    say_recv("some", fd, 3, 0);
    say_state("some was read", fd);
    say_recv("the rest", fd, 9, 0);
    say_state("all was read", fd);
    say_recv("the end", fd, 9, 0);
    say_send("send", fd);
    say("shutdown", shutdown(fd, SHUT_WR));
    await_event(fd, POLLHUP);
    say_state("both have ended", fd);
    say_recv("the end", fd, 9, 0);
    say_send("send", fd);
    say_peer(fd);
    say("shutdown", shutdown(fd, SHUT_RDWR));
}

static void we_end_of(int fd)
{
    put(fd, "l", 0);
    say("shutdown", shutdown(fd, SHUT_WR));
    say_send("send", fd);
    await_event(fd, POLLIN);
    say_state("the peer goes on", fd);
    say_recv("late", fd, 9, 0);
    say("shutdown again", shutdown(fd, SHUT_WR));
    await_event(fd, POLLRDHUP);
    say_state("the peer has ended, too", fd);
    say_recv("the end", fd, 9, 0);
    say_send("send", fd);
    say_peer(fd);
    say("shutdown", shutdown(fd, SHUT_RDWR));
    say_error(fd);
}

static void we_read_no_more_of(int fd)
{
    put(fd, "t", 0);
    await_event(fd, POLLIN);
    say("shutdown", shutdown(fd, SHUT_RD));
    say_state("no more is to be read", fd);
    say_recv("some", fd, 3, 0);
    put(fd, "t", 0);
    sleep_msec(100);
    say_state("more has come", fd);
    say_recv("it", fd, 9, 0);
    say_recv("the end", fd, 9, 0);
    say_send("send", fd);
    put(fd, "c", 0);
    sleep_msec(100);
    say_state("closed there", fd);
}

static void we_end_both_of(int fd)
{
    put(fd, "l", 0);
    say("shutdown", shutdown(fd, SHUT_RDWR));
    say_state("ended", fd);
    sleep_msec(300);
    say_state("the peer has said something", fd);
    say_recv("recv", fd, 9, 0);
    say_send("send", fd);
    say_error(fd);
    say("shutdown", shutdown(fd, SHUT_RDWR));
}

static void peer_closes(void) { of_both(peer_closes_of); }
static void peer_ends(void) { of_both(peer_ends_of); }
static void we_end(void) { of_both(we_end_of); }
static void we_read_no_more(void) { of_both(we_read_no_more_of); }
static void we_end_both(void) { of_both(we_end_both_of); }

/* Which call is the first to hear of it, and what others say then. */
static void reset_of(int fd, int first)
{
    switch (first) {
    case 0:
        say_recv("recv", fd, 9, 0);
        break;
    case 1:
        say_send("send", fd);
        break;
    case 2:
        say_error(fd);
        break;
    case 3:
        say_peer(fd);
        say("shutdown", shutdown(fd, SHUT_WR));
        break;
    default:
        say_state("first", fd);
    }
    say_error(fd);
    say_state("then", fd);
    say_recv("recv", fd, 9, 0);
    say_send("send", fd);
    say_recv("recv", fd, 9, 0);
    say_peer(fd);
}

/* The peer resets: an idle stream, one with octets that were not read, one that it has ended before, one that we have. */
static void resets(const char *orders, int do_we_end)
{
    for (int first = 0; first < 5; first++) {
        for (int i = 0; i < 2; i++) {
            int fd = i ? accepted('-') : connected();
            printf("first %d, %s\n", first, i ? "accepted" : "connected");
            put(fd, orders, 0);
            if (do_we_end)
                MUST(shutdown(fd, SHUT_WR));
            await_event(fd, do_we_end ? POLLHUP : POLLHUP | POLLERR);
            reset_of(fd, first);
            MUST(close(fd));
        }
    }
}

static void reset_idle(void) { resets("r", 0); }
static void reset_unread(void) { resets("tdr", 0); }
static void reset_ended(void) { resets("fdr", 0); }
static void reset_by_us_ended(void) { resets("dr", 1); }

/* The connection is gone before it is accepted. */
static void reset_waiting(void)
{
    int listener = listening();
    have_connection(listener, 'r');
    sleep_msec(60);
    say("listener", polled(listener, POLLIN, 3000));
    int fd = accept(listener, NULL, NULL);
    if (say("accept", fd < 0 ? -1 : 0) == 0) {
        set_timeout(fd, 3000);
        say_recv("what it has said", fd, 9, 0);
        say_state("gone", fd);
        say_peer(fd);
        MUST(close(fd));
    }
    have_connection(listener, '-');
    fd = accept(listener, NULL, NULL);
    MUST(fd);
    set_timeout(fd, 3000);
    put(fd, "t", 0);
    say_recv("the next", fd, 4, MSG_WAITALL);
    MUST(close(fd));
    MUST(close(listener));
}

static int dissolve(int fd)
{
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    return connect(fd, &nothing, sizeof nothing);
}

/* Without a connection: fresh, bound, refused, dissolved. */
static void unconnected(void)
{
    struct sockaddr_in self = address(SELF, 0), nobody = address(PEER, 9);
    int fd = socket(AF_INET, SOCK_STREAM, 0), error;
    MUST(fd);
    say_state("fresh", fd);
    say_peer(fd);
    say_send("send", fd);
    say_recv("recv", fd, 9, 0);
    say("shutdown", shutdown(fd, SHUT_WR));
    MUST(bind(fd, generic(&self), sizeof self));
    say_state("bound", fd);
    say("accept", accept(fd, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        say("connect", connect(fd, generic(&nobody), sizeof nobody));
        say_state("refused", fd);
        say_error(fd);
    }
    connected_to(fd, "0 -\n");
    say("connect again", connect(fd, generic(&nobody), sizeof nobody));
    say("bind", bind(fd, generic(&self), sizeof self));
    say("listen", listen(fd, 1));
    say("accept", accept(fd, NULL, NULL));
    say("dissolve", dissolve(fd));
    /* The kernel's has ECONNRESET (docs/differences.md). */
    socklen_t len = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    say_state("dissolved", fd);
    say_peer(fd);
    say_send("send", fd);
    say_recv("recv", fd, 9, MSG_DONTWAIT);
    connected_to(fd, "0 -\n");
    put(fd, "t", 0);
    say_recv("once more", fd, 4, MSG_WAITALL);
    MUST(close(fd));
}

/* A connect(2) that does not wait is refused. */
static void refused_later(void)
{
    struct sockaddr_in nobody = address(PEER, 9);
    MUST(close(connected()));
    for (int first = 0; first < 4; first++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        MUST(fd);
        connect(fd, generic(&nobody), sizeof nobody);
        await_event(fd, POLLHUP | POLLERR);
        printf("first %d\n", first);
        switch (first) {
        case 0:
            say("connect", connect(fd, generic(&nobody), sizeof nobody));
            await_event(fd, POLLHUP | POLLERR);
            break;
        case 1:
            say_send("send", fd);
            break;
        case 2:
            say_recv("recv", fd, 9, 0);
            break;
        default:
            say_state("refused", fd);
        }
        say_error(fd);
        say_error(fd);
        say_recv("recv", fd, 9, 0);
        say_send("send", fd);
        MUST(close(fd));
    }
}

static void say_edge(const char *what, int set, int msec)
{
    struct epoll_event told = {0};
    int count = epoll_wait(set, &told, 1, msec);
    printf("%s: %d %#x\n", what, count, told.events);
}

static void change(int set, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};
    if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) < 0)
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void edges_of(int fd)
{
    const uint32_t all = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    int set = epoll_create1(0);
    MUST(set);
    change(set, fd, all);
    say_edge("room", set, 3000);
    say_edge("nothing new", set, 20);
    put(fd, "t", 0);
    say_edge("text", set, 3000);
    say_edge("nothing new", set, 20);
    say_recv("some", fd, 2, 0);
    say_edge("nothing new", set, 20);
    put(fd, "t", 0);
    say_edge("more", set, 3000);
    say_recv("all", fd, 9, 0);
    say_edge("nothing new", set, 20);
    change(set, fd, all);
    say_edge("changed", set, 20);
    say_edge("nothing new", set, 20);
    change(set, fd, EPOLLIN | EPOLLET);
    say_edge("nothing is there", set, 20);
    put(fd, "t", 0);
    await_data(fd);
    change(set, fd, EPOLLIN | EPOLLET);
    say_edge("it is there", set, 20);
    change(set, fd, EPOLLIN | EPOLLRDHUP | EPOLLET);
    say_edge("it is still there", set, 20);
    put(fd, "f", 0);
    say_edge("the end", set, 3000);
    say_edge("nothing new", set, 20);
    say_recv("all", fd, 9, 0);
    say_edge("nothing new", set, 20);
    MUST(shutdown(fd, SHUT_WR));
    await_event(fd, POLLHUP);
    say_edge("both ends", set, 3000);
    say_edge("nothing new", set, 20);
    MUST(close(set));
}

static void once_of(int fd)
{
    int set = epoll_create1(0);
    MUST(set);
    change(set, fd, EPOLLIN | EPOLLONESHOT);
    put(fd, "t", 0);
    say_edge("text", set, 3000);
    say_edge("once", set, 20);
    put(fd, "t", 0);
    sleep_msec(50);
    say_edge("not again", set, 20);
    change(set, fd, EPOLLIN | EPOLLONESHOT);
    say_edge("armed", set, 3000);
    say_edge("once", set, 20);
    say_recv("all", fd, 9, MSG_WAITALL | MSG_DONTWAIT);
    change(set, fd, EPOLLIN | EPOLLOUT | EPOLLONESHOT);
    say_edge("room", set, 3000);
    say_edge("once", set, 20);
    change(set, fd, EPOLLIN | EPOLLONESHOT | EPOLLET);
    say_edge("nothing", set, 20);
    put(fd, "r", 0);
    say_edge("reset", set, 3000);
    say_edge("once", set, 20);
    MUST(close(set));
}

static void edges(void) { of_both(edges_of); }
static void once(void) { of_both(once_of); }

/* Connections that come to a listener in a set. */
static void edges_of_listener(void)
{
    int listener = listening(), set = epoll_create1(0), fds[4], count = 0;
    MUST(set);
    MUST(fcntl(listener, F_SETFL, O_NONBLOCK));
    change(set, listener, EPOLLIN | EPOLLET);
    say_edge("nothing", set, 20);
    for (int i = 0; i < 2; i++) {
        have_connection(listener, '-');
        say_edge("one more", set, 3000);
        say_edge("nothing new", set, 20);
    }
    MUST(fds[count++] = accept(listener, NULL, NULL));
    say_edge("one was accepted", set, 20);
    change(set, listener, EPOLLIN | EPOLLET);
    say_edge("one is there", set, 3000);
    say_edge("nothing new", set, 20);
    MUST(fds[count++] = accept(listener, NULL, NULL));
    say("accept", accept(listener, NULL, NULL));
    change(set, listener, EPOLLIN | EPOLLONESHOT);
    have_connection(listener, '-');
    say_edge("once", set, 3000);
    have_connection(listener, '-');
    say_edge("not again", set, 20);
    change(set, listener, EPOLLIN | EPOLLONESHOT);
    say_edge("armed", set, 3000);
    change(set, listener, EPOLLOUT);
    say_edge("no room", set, 20);
    MUST(fds[count++] = accept(listener, NULL, NULL));
    MUST(fds[count++] = accept(listener, NULL, NULL));
    say("accept", accept(listener, NULL, NULL));
    while (count > 0)
        MUST(close(fds[--count]));
    MUST(close(set));
    MUST(close(listener));
}

/* What is held back: MSG_MORE for 200 ms, TCP_CORK until it is pulled or the stream ends. */
static void held_back_of(int fd)
{
    int on = 1, off = 0;
    put(fd, "e", 0);
    put(fd, "a", MSG_MORE);
    set_timeout(fd, 60);
    say_recv("held back", fd, 9, 0);
    set_timeout(fd, 3000);
    say_recv("in the end", fd, 9, 0);
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on));
    put(fd, "b", 0);
    set_timeout(fd, 60);
    say_recv("corked", fd, 9, 0);
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off));
    set_timeout(fd, 3000);
    say_recv("uncorked", fd, 9, 0);
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on));
    put(fd, "c", 0);
    MUST(shutdown(fd, SHUT_WR));
    say_recv("ended", fd, 9, 0);
    say_recv("the end", fd, 9, 0);
}

static void held_back(void) { of_both(held_back_of); }

static int waited_for, waited_errno;
static long waited_result;

static void *receives(void *unused)
{
    char octet;
    (void)unused;
    waited_result = recv(waited_for, &octet, 1, 0);
    waited_errno = errno;
    return NULL;
}

static void *polls(void *unused)
{
    (void)unused;
    waited_result = polled(waited_for, POLLIN, 5000);
    return NULL;
}

static void *sends(void *unused)
{
    static char octets[32 << 20];
    (void)unused;
    ssize_t sent = send(waited_for, octets, sizeof octets, MSG_NOSIGNAL);
    waited_result = sent > 0 && sent < (ssize_t)sizeof octets;
    return NULL;
}

/* What ends calls in another thread. */
static void ends_of_waits_of(int fd, int way)
{
    static void *(*const waits[])(void *) = {receives, receives, polls, polls, sends};
    pthread_t thread;
    waited_for = fd;
    set_timeout(fd, 0);
    if (way == 4)
        put(fd, "dddr", 0);
    must(pthread_create(&thread, NULL, waits[way], NULL) == 0, "pthread_create", __LINE__);
    sleep_msec(80);
    switch (way) {
    case 0:
    case 2:
        say("shutdown", shutdown(fd, way ? SHUT_RD : SHUT_RDWR));
        break;
    case 1:
    case 3:
        put(fd, way == 1 ? "r" : "f", 0);
        break;
    }
    must(pthread_join(thread, NULL) == 0, "pthread_join", __LINE__);
    errno = waited_errno;
    say("elsewhere", waited_result);
}

static void ends_of_waits(void)
{
    for (int way = 0; way < 5; way++) {
        for (int i = 0; i < 2; i++) {
            int fd = i ? accepted('-') : connected();
            printf("way %d, %s\n", way, i ? "accepted" : "connected");
            ends_of_waits_of(fd, way);
            MUST(close(fd));
        }
    }
}

/* Names, parts and flags of messages on a stream. */
static void messages_of(int fd)
{
    char octets[20];
    struct sockaddr_storage name;
    struct sockaddr_in nobody = address(PEER, 9);
    socklen_t len = sizeof name;
    struct iovec in[2] = {{octets, 3}, {octets + 3, 4}}, out[3] = {{"tt", 1}, {"", 0}, {"--", 2}};
    struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = in, .msg_iovlen = 2};
    put(fd, "ttt", 0);
    await_octets(fd, 12);
    say("recvmsg", recvmsg(fd, &message, 0));
    printf("name %u, flags %#x, %.7s\n", message.msg_namelen, message.msg_flags, octets);
    say("recvfrom", recvfrom(fd, octets, 2, 0, (struct sockaddr *)&name, &len));
    printf("name %u\n", len);
    say("no part", recvmsg(fd, &(struct msghdr){0}, MSG_DONTWAIT));
    say("no octet", recv(fd, octets, 0, 0));
    say_recv("the rest", fd, 9, 0);
    say("no octet of none", recv(fd, octets, 0, MSG_DONTWAIT));
    say("error queue", recv(fd, octets, 9, MSG_ERRQUEUE));
    message = (struct msghdr){.msg_iov = out, .msg_iovlen = 3};
    say("sendmsg", sendmsg(fd, &message, 0));
    say_recv("text", fd, 4, MSG_WAITALL);
    say("no octet", send(fd, "", 0, 0));
    say("sendto elsewhere", sendto(fd, "t", 1, 0, generic(&nobody), sizeof nobody));
    say_recv("text", fd, 4, MSG_WAITALL);
    say("read of nothing", read(fd, octets, 0));
    say("readv of nothing", readv(fd, &(struct iovec){octets, 0}, 1));
    set_timeout(fd, 60);
    say("no octet, which waits", recv(fd, octets, 0, 0));
    put(fd, "tdf", 0);
    set_timeout(fd, 3000);
    say("no octet of some", recv(fd, octets, 0, MSG_WAITALL));
    say("a look at none", recv(fd, octets, 0, MSG_PEEK));
    say_recv("text", fd, 4, MSG_WAITALL);
    say("no octet of the end", recv(fd, octets, 0, 0));
}

static void messages(void) { of_both(messages_of); }

/* A call that has done a part when the connection ends leaves the error to the next one. */
static void in_part(void)
{
    static char octets[32 << 20];
    for (int way = 0; way < 8; way++) {
        int fd = way & 1 ? accepted('-') : connected();
        struct iovec part = {octets, 100};
        printf("way %d\n", way);
        put(fd, way < 6 ? "tddr" : "dddr", 0);
        switch (way / 2) {
        case 0:
            say("recv", recv(fd, octets, 100, MSG_WAITALL));
            break;
        case 1:
            say("recvmsg", recvmsg(fd, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, MSG_WAITALL));
            break;
        case 2:
            say("recv, thrown away", recv(fd, octets, 100, MSG_WAITALL | MSG_TRUNC));
            break;
        default:
            printf("a part was sent: %d\n", send(fd, octets, sizeof octets, MSG_NOSIGNAL) < (ssize_t)sizeof octets);
        }
        if (way < 4)
            say_state("after it", fd);
        say_recv("recv", fd, 9, 0);
        say_send("send", fd);
        say_error(fd);
        MUST(close(fd));
    }
}

CASES_AND_PEER({"peer_closes", peer_closes}, {"peer_ends", peer_ends}, {"we_end", we_end}, {"we_read_no_more", we_read_no_more},
               {"we_end_both", we_end_both}, {"reset_idle", reset_idle}, {"reset_unread", reset_unread},
               {"reset_ended", reset_ended}, {"reset_by_us_ended", reset_by_us_ended}, {"reset_waiting", reset_waiting},
               {"unconnected", unconnected}, {"refused_later", refused_later}, {"edges", edges}, {"once", once},
               {"edges_of_listener", edges_of_listener}, {"held_back", held_back},
               {"ends_of_waits", ends_of_waits}, {"messages", messages},
               {"in_part", in_part})
