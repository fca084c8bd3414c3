/* Options and messages of streams and listeners that leave them where they are, and what becomes of the options elsewhere. */
#include "stream_case.h"
#include <net/if.h>

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

#define DEVICE (reason_is("loopback") ? "lo" : "vb")

static int bind_to(int fd, const char *device, int by_index)
{
    int index = *device ? (int)if_nametoindex(device) : 0;
    if (by_index)
        return setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof index);
    return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device) + 1);
}

static void say_device(const char *what, int fd)
{
    char name[IF_NAMESIZE] = "";
    int index = -1;
    socklen_t name_len = sizeof name, len = sizeof index;
    int by_name = getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &name_len);
    int by_index = getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, &len);
    printf("%s: %d '%s' %u, %d %s\n", what, by_name, name, name_len, by_index,
           index == (int)if_nametoindex(DEVICE) ? "that" : index == 0 ? "none" : "another");
}

static void exchange(const char *what, int fd)
{
    char octets[8] = "";
    long sent = send(fd, "12345", 5, MSG_NOSIGNAL), received = sent < 0 ? -1 : recv(fd, octets, 5, MSG_WAITALL);
    printf("%s: %ld %ld %s\n", what, sent, received, octets);
}

static int new_stream(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    return fd;
}

static void connect_to_peer(const char *what, int fd)
{
    struct sockaddr_in peer = address(PEER, PORT);
    say(what, connect(fd, generic(&peer), sizeof peer));
    set_timeouts(fd, 20000);
}

/* A client that is bound to the interface by which it would go anyway. */
static void device_of_client(void)
{
    for (int how = 0; how < 4; how++) {
        struct sockaddr_in self = address(SELF, 0), nobody = {.sin_family = AF_UNSPEC};
        int fd = new_stream(), is_late = how & 2;
        if (!is_late)
            say("bound to it", bind_to(fd, DEVICE, how & 1));
        if (how & 1)
            MUST(bind(fd, generic(&self), sizeof self));
        connect_to_peer("connect", fd);
        if (is_late)
            say("bound to it late", bind_to(fd, DEVICE, how & 1));
        say_device("device", fd);
        exchange("exchange", fd);
        say("once more", bind_to(fd, DEVICE, !(how & 1)));
        exchange("exchange", fd);
        say("dissolved", connect(fd, generic(&nobody), sizeof nobody));
        say_device("device", fd);
        connect_to_peer("connect again", fd);
        exchange("exchange", fd);
        MUST(shutdown(fd, SHUT_WR));
        say_recv("the end", fd, 5, 0);
        MUST(close(fd));
    }
}

/* A listener, whose connections are bound, too. */
static void device_of_listener(void)
{
    for (int how = 0; how < 4; how++) {
        struct sockaddr_in self = address(how & 2 ? SELF : "0.0.0.0", 0), nobody = {.sin_family = AF_UNSPEC};
        int listener = new_stream();
        say("bound to it", bind_to(listener, DEVICE, how & 1));
        MUST(bind(listener, generic(&self), sizeof self));
        MUST(listen(listener, 5));
        int first = accepted(listener), second = accepted(listener);
        say_device("first", first);
        exchange("exchange", first);
        say("the same again", bind_to(first, DEVICE, 0));
        say("and the listener", bind_to(listener, DEVICE, 1));
        exchange("exchange", second);
        say("dissolved", connect(second, generic(&nobody), sizeof nobody));
        say_device("second", second);
        connect_to_peer("connect", second);
        exchange("exchange", second);
        /* This side ends first, and waits (TIME-WAIT). */
        MUST(shutdown(first, SHUT_WR));
        say_recv("the end", first, 5, 0);
        MUST(close(first));
        MUST(close(second));
        int third = accepted(listener);
        say_device("third", third);
        exchange("exchange", third);
        MUST(close(third));
        MUST(close(listener));
    }
}

/* Connections and a listener go to the kernel, with what waits. */
static void device_handed_over(void)
{
    struct sockaddr_in self = address(SELF, 0);
    int client = new_stream(), listener = new_stream(), mark = 0;
    MUST(bind_to(client, DEVICE, 0));
    connect_to_peer("connect", client);
    MUST(bind_to(listener, DEVICE, 0));
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 5));
    int stream = accepted(listener);
    int ended = accepted(listener);
    have_octets(ended, "678");
    MUST(shutdown(ended, SHUT_WR));
    await_octets(ended, 3);
    sleep_msec(50);
    exchange("the client", client);
    have_octets(client, "abc");
    have_octets(stream, "def");
    give_to_kernel(client);
    give_to_kernel(stream);
    give_to_kernel(ended);
    say_recv("the client's", client, 10, 0);
    say_recv("the accepted one's", stream, 10, 0);
    say_recv("that of one that has ended", ended, 10, 0);
    say_recv("and its end", ended, 10, 0);
    say_device("the client", client);
    say_device("the accepted one", stream);
    exchange("the client", client);
    exchange("the accepted one", stream);
    /* One waits to be accepted. */
    have_connection(listener);
    sleep_msec(50);
    say("SO_MARK", setsockopt(listener, SOL_SOCKET, SO_MARK, &mark, sizeof mark));
    say_device("the listener", listener);
    int waited = accept(listener, NULL, NULL);
    MUST(waited);
    set_timeouts(waited, 20000);
    say_device("the one that waited", waited);
    say_recv("its octet", waited, 1, 0);
    exchange("the one that waited", waited);
    int last = accepted(listener);
    say_device("the last", last);
    exchange("the last", last);
}

/* Another interface than that of the connection. */
static void device_is_another(void)
{
    const char *other = reason_is("loopback") ? "vb" : "lo";
    struct sockaddr_in self = address(SELF, 0), peer = address(PEER, PORT);
    int fd = new_stream(), lone = new_stream(), listener = new_stream();
    say("no such", bind_to(fd, "none-such", 0));
    connect_to_peer("connect", fd);
    exchange("before", fd);
    say("to another", bind_to(fd, other, 0));
    say("and back", bind_to(fd, DEVICE, 1));
    say_device("device", fd);
    exchange("after", fd);
    say("to none", bind_to(fd, "", 0));
    exchange("after", fd);
    MUST(close(fd));

    MUST(bind_to(lone, other, 1));
    MUST(fcntl(lone, F_SETFL, O_NONBLOCK));
    long begun = connect(lone, generic(&peer), sizeof peer);
    printf("a lone one: %ld %d\n", begun, begun < 0 && errno != 0);
    MUST(close(lone));

    /* Nobody comes by that one. */
    MUST(bind_to(listener, other, 0));
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 5));
    MUST(fcntl(listener, F_SETFL, O_NONBLOCK));
    have_one_asked_for(listener);
    sleep_msec(200);
    say("accept", accept(listener, NULL, NULL));
    MUST(close(listener));

    listener = listening();
    fd = accepted(listener);
    say("the listener to it", bind_to(listener, DEVICE, 0));
    int bound = accepted(listener);
    say_device("the one before", fd);
    say_device("the one after", bound);
    exchange("the one before", fd);
    exchange("the one after", bound);
}

/* Two listeners at one port, for an interface each. */
static void device_of_each(void)
{
    for (int how = 0; how < 3; how++) {
        const char *other = reason_is("loopback") ? "vb" : "lo";
        struct sockaddr_in self = address("0.0.0.0", 0);
        int fds[2] = {new_stream(), new_stream()}, on = 1;
        for (int i = 0; i < 2; i++) {
            const char *device = i == 0 ? DEVICE : how == 2 ? "" : other;
            if (how >= 1)
                MUST(setsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &on, sizeof on));
            MUST(bind_to(fds[i], device, 0));
            MUST(bind(fds[i], generic(&self), sizeof self));
            self.sin_port = htons((uint16_t)port_of(fds[0]));
        }
        for (int i = 0; i < 2; i++)
            say("listen", listen(fds[i], 5));
        for (int i = 0; i < 3; i++) {
            char first;
            struct pollfd polled[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
            have_one_asked_for(fds[0]);
            must(poll(polled, 2, 20000) == 1, "poll", __LINE__);
            int which = polled[1].revents != 0, fd = accept(fds[which], NULL, NULL);
            MUST(fd);
            set_timeouts(fd, 20000);
            must(read(fd, &first, 1) == 1 && first == 'c', "the first octet", __LINE__);
            printf("listener %d\n", which);
            say_device("accepted", fd);
            exchange("exchange", fd);
            MUST(close(fd));
        }
        MUST(close(fds[0]));
        MUST(close(fds[1]));
    }
}

static void say_many(const char *what, int fd, unsigned count, int flags, struct timespec *timeout)
{
    char octets[8][5];
    struct iovec parts[8];
    struct sockaddr_storage from[8];
    struct mmsghdr messages[8];
    memset(messages, 0, sizeof messages);
    memset(octets, 0, sizeof octets);
    for (int i = 0; i < 8; i++) {
        parts[i] = (struct iovec){octets[i], 4};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = parts + i, .msg_iovlen = 1, .msg_name = from + i, .msg_namelen = sizeof *from};
        messages[i].msg_len = 77;
    }
    long result = say(what, recvmmsg(fd, messages, count, flags, timeout));
    for (long i = 0; i <= result && i < 8; i++)
        printf("  %u '%s' %#x %u\n", messages[i].msg_len, octets[i], messages[i].msg_hdr.msg_flags, messages[i].msg_hdr.msg_namelen);
}

/* Several messages at once, of a stream. */
static void many_messages(void)
{
    int listener = listening(), fds[] = {connected(), accepted(listener)};
    for (int i = 0; i < 2; i++) {
        int fd = fds[i];
        char sent[2][7] = {"abcdef", "ghijkl"};
        struct iovec parts[] = {{sent[0], 6}, {sent[1], 6}};
        struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
        struct timespec timeout = {5, 0}, none = {0, 0}, bad = {0, -1};
        say_many("nothing there", fd, 8, MSG_DONTWAIT, NULL);
        say("sendmmsg", sendmmsg(fd, messages, 2, 0));
        printf("  %u %u\n", messages[0].msg_len, messages[1].msg_len);
        await_octets(fd, 12);
        say_many("a look", fd, 2, MSG_PEEK, NULL);
        say_many("as many as there are", fd, 8, MSG_WAITFORONE, NULL);
        have_octets(fd, "1234567890");
        say_many("none asked for", fd, 0, 0, NULL);
        say_many("not a time", fd, 2, 0, &bad);
        say_many("no time", fd, 8, 0, &none);
        say_many("without waiting", fd, 8, MSG_DONTWAIT, &timeout);
        printf("  time is left %d\n", timeout.tv_sec == 4);
        set_timeouts(fd, 50);
        have_octets(fd, "12345");
        say_many("until SO_RCVTIMEO", fd, 8, 0, NULL);
        say_many("nothing until SO_RCVTIMEO", fd, 8, 0, NULL);
        set_timeouts(fd, 20000);
        have_octets(fd, "12345678");
        say_many("all of each", fd, 2, MSG_WAITALL, NULL);
        say("no list", recvmmsg(fd, NULL, 2, MSG_DONTWAIT, NULL));
        say_many("errors", fd, 2, MSG_ERRQUEUE, NULL);
        have_octets(fd, "123456");
        MUST(shutdown(fd, SHUT_WR));
        sleep_msec(30);
        say_many("to the end", fd, 4, 0, NULL);
        say_many("of a listener", listener, 2, 0, NULL);
        MUST(close(fd));
    }
    /* A failure comes first, and once. */
    struct sockaddr_in nobody = address(PEER, 7099);
    int fd = new_stream();
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    say("connect", connect(fd, generic(&nobody), sizeof nobody));
    struct pollfd polled = {fd, POLLOUT, 0};
    must(poll(&polled, 1, 20000) == 1, "poll", __LINE__);
    say_many("refused", fd, 2, 0, NULL);
    say_many("and then", fd, 2, 0, NULL);
    MUST(close(fd));
    MUST(close(listener));
}

/* Options about what comes with datagrams: connections have them of their listener, and the kernel's sockets. */
static void of_datagrams(void)
{
    static const int names[] = {IP_PKTINFO, IP_RECVTTL, IP_RECVTOS, IP_RECVOPTS, IP_RETOPTS, IP_RECVORIGDSTADDR, IP_MULTICAST_LOOP, IP_MULTICAST_ALL};
    int listener = listening(), early = accepted(listener), on = 1, off = 0;
    for (size_t i = 0; i < COUNT(names); i++)
        say("setsockopt", setsockopt(listener, IPPROTO_IP, names[i], i < 6 ? &on : &off, sizeof on));
    int fds[] = {early, accepted(listener)};
    for (int kernels = 0; kernels < 2; kernels++) {
        for (int which = 0; which < 2; which++) {
            if (kernels)
                give_to_kernel(fds[which]);
            for (size_t i = 0; i < COUNT(names); i++) {
                int value = -1;
                socklen_t len = sizeof value;
                say("getsockopt", getsockopt(fds[which], IPPROTO_IP, names[i], &value, &len));
                printf("  %d %d\n", names[i], value);
            }
            char octets[8], control[256];
            struct iovec part = {octets, sizeof octets};
            struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
            have_octets(fds[which], "abc");
            say("recvmsg", recvmsg(fds[which], &message, 0));
            printf("  control %zu flags %#x\n", (size_t)message.msg_controllen, message.msg_flags);
        }
    }
}

#ifndef TCP_INQ
#define TCP_INQ 36
#endif

static void say_unread(const char *what, int fd, size_t len, int flags, size_t room)
{
    char octets[64] = "";
    union {
        char bytes[64];
        struct cmsghdr align;
    } control;
    struct iovec part = {octets, len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = room};
    memset(&control, 0, sizeof control);
    say(what, recvmsg(fd, &message, flags));
    printf("  '%s' flags %#x control %zu", octets, message.msg_flags, (size_t)message.msg_controllen);
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    if (item) {
        int unread;
        memcpy(&unread, CMSG_DATA(item), sizeof unread);
        printf(", item %zu %d %d says %d", (size_t)item->cmsg_len, item->cmsg_level, item->cmsg_type, unread);
    }
    printf("\n");
}

static void set_option(const char *what, int fd, int level, int name, int value)
{
    say(what, setsockopt(fd, level, name, &value, sizeof value));
}

/* Each receive says how much is left. */
/* Which times come with octets, and whether each lies between the moment in which they were sent and the present. */
static void say_times(const char *what, int fd, size_t len, int flags, double since)
{
    char octets[64] = "", control[256];
    struct iovec part = {octets, len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (say(what, recvmsg(fd, &message, flags)) < 0)
        return;
    printf("  '%s'", octets);
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
        long long time[6] = {0};
        struct timespec now;
        memcpy(time, CMSG_DATA(item), item->cmsg_len - CMSG_LEN(0));
        if (item->cmsg_type == TCP_CM_INQ && item->cmsg_level == IPPROTO_TCP) {
            printf(" %d left", (int)time[0]);
            continue;
        }
        clock_gettime(CLOCK_REALTIME, &now);
        int is_usec = item->cmsg_type == SO_TIMESTAMP || item->cmsg_type == 63;
        double at = (double)time[0] + (double)time[1] / (is_usec ? 1e6 : 1e9), present = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
        printf(" item %d of %zu %s hw %d", item->cmsg_type, (size_t)item->cmsg_len, at < since - 0.001 ? "too early" : at > present + 0.001 ? "too late" : "right",
               time[4] != 0);
    }
    printf("\n");
}

static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void times(void)
{
    static const struct {
        const char *text;
        int name, value;
    } options[] = {
        {"SO_TIMESTAMP", SO_TIMESTAMP, 1}, {"SO_TIMESTAMPNS", SO_TIMESTAMPNS, 1}, {"SO_TIMESTAMP_NEW", 63, 1}, {"SO_TIMESTAMPNS_NEW", 64, 1},
        {"SO_TIMESTAMPNS_NEW", 64, 0}, {"SO_TIMESTAMPING", SO_TIMESTAMPING, 1 << 3 | 1 << 4}, {"SO_TIMESTAMPING_NEW", 65, 1 << 3 | 1 << 4},
        {"SO_TIMESTAMPNS", SO_TIMESTAMPNS, 1},
    };
    int listener = listening();
    set_option("SO_TIMESTAMPNS", listener, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    int fds[] = {connected(), accepted(listener), new_stream()};
    set_option("SO_TIMESTAMP", fds[2], SOL_SOCKET, SO_TIMESTAMP, 1);
    connect_to_peer("connect", fds[2]);
    for (size_t i = 0; i < COUNT(fds); i++) {
        int fd = fds[i];
        double since = wall_clock();
        have_octets(fd, "first");
        say_times("as it is", fd, 20, 0, since);
        for (size_t j = 0; j < COUNT(options); j++) {
            set_option(options[j].text, fd, SOL_SOCKET, options[j].name, options[j].value);
            since = wall_clock();
            have_octets(fd, "abcdef");
            say_times("a look", fd, 2, MSG_PEEK, since);
            say_times("some", fd, 2, 0, since);
            sleep_msec(30);
            double later = wall_clock();
            have_octets(fd, "gh");
            say_times("the rest of the first", fd, 4, 0, since);
            say_times("the second", fd, 4, 0, later);
        }
        set_option("TCP_INQ", fd, IPPROTO_TCP, TCP_INQ, 1);
        since = wall_clock();
        have_octets(fd, "abcdef");
        say_times("with what is left", fd, 2, 0, since);
        say_times("the rest", fd, 20, MSG_DONTWAIT, since);
        say_times("nothing there", fd, 2, MSG_DONTWAIT, since);
        close(fd);
    }
}

static void unread(void)
{
    int listener = listening();
    set_option("TCP_INQ", listener, IPPROTO_TCP, TCP_INQ, 2);
    set_option("TCP_INQ", listener, IPPROTO_TCP, TCP_INQ, 1);
    int fds[] = {connected(), accepted(listener), new_stream()};
    set_option("TCP_INQ", fds[0], IPPROTO_TCP, TCP_INQ, 1);
    set_option("TCP_INQ", fds[2], IPPROTO_TCP, TCP_INQ, 1);
    connect_to_peer("connect", fds[2]);
    for (size_t i = 0; i < COUNT(fds); i++) {
        int fd = fds[i], value = -1;
        socklen_t len = sizeof value;
        char octets[8];
        MUST(getsockopt(fd, IPPROTO_TCP, TCP_INQ, &value, &len));
        printf("TCP_INQ %d\n", value);
        say_unread("nothing there", fd, 4, MSG_DONTWAIT, 64);
        have_octets(fd, "abcdefghijklmnopqrst");
        say_unread("some", fd, 4, 0, 64);
        say_unread("a look", fd, 4, MSG_PEEK, 64);
        say_unread("thrown away", fd, 2, MSG_TRUNC, 64);
        say_unread("none asked for", fd, 0, 0, 64);
        say_unread("little room", fd, 1, 0, 18);
        say_unread("less room", fd, 1, 0, 8);
        say_unread("no room", fd, 1, 0, 0);
        say("recv", recv(fd, octets, 1, 0));
        struct iovec part = {octets, 2};
        char control[64];
        struct mmsghdr messages[2] = {
            {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 32}},
            {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control + 32, .msg_controllen = 32}},
        };
        say("recvmmsg", recvmmsg(fd, messages, 2, 0, NULL));
        for (int j = 0; j < 2; j++) {
            memcpy(&value, CMSG_DATA(CMSG_FIRSTHDR(&messages[j].msg_hdr)), sizeof value);
            printf("  %zu says %d\n", (size_t)messages[j].msg_hdr.msg_controllen, value);
        }
        say_unread("the rest", fd, 30, 0, 64);
        set_timeouts(fd, 50);
        have_octets(fd, "xyz");
        say_unread("not all", fd, 5, MSG_WAITALL, 64);
        set_timeouts(fd, 20000);
        have_octets(fd, "12");
        MUST(shutdown(fd, SHUT_WR));
        struct pollfd polled = {fd, POLLRDHUP, 0};
        must(poll(&polled, 1, 20000) == 1, "poll", __LINE__);
        if (i == 1)
            say_unread("before the last", fd, 1, 0, 64);
        say_unread("the last", fd, 4, 0, 64);
        say_unread("the end", fd, 4, 0, 64);
        if (i == 0)
            give_to_kernel(fd);
        say_unread("the end again", fd, 4, 0, 64);
        MUST(close(fd));
    }
    MUST(close(listener));
}

static void set_hops(const char *what, int fd, int hops)
{
    if (over_real_ipv6())
        set_option(what, fd, IPPROTO_IPV6, 73, hops);
    else
        set_option(what, fd, IPPROTO_IP, IP_MINTTL, hops);
}

/* The peer's packets have 64 hops left. */
static void from_afar(void)
{
    struct sockaddr_in peer = address(PEER, PORT);
    int listener = listening(), early = accepted(listener), fd = new_stream();
    set_hops("too many", fd, 256);
    set_hops("as many as there are", fd, 64);
    connect_to_peer("connect", fd);
    exchange("near", fd);
    set_hops("more", fd, 65);
    set_timeouts(fd, 100);
    exchange("far", fd);
    set_hops("as many again", fd, 64);
    set_timeouts(fd, 20000);
    char octets[8] = "";
    say("recv", recv(fd, octets, 5, MSG_WAITALL));
    printf("%s\n", octets);
    MUST(close(fd));

    /* It answers, and is not heard. */
    fd = new_stream();
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    set_hops("more", fd, 65);
    say("connect", connect(fd, generic(&peer), sizeof peer));
    struct pollfd polled = {fd, POLLOUT, 0};
    say("poll", poll(&polled, 1, 100));
    MUST(close(fd));

    set_hops("the listener", listener, 65);
    exchange("one that was there before", early);
    have_one_asked_for(listener);
    polled = (struct pollfd){listener, POLLIN, 0};
    say("poll", poll(&polled, 1, 100));
    set_hops("the listener", listener, 64);
    have_one_asked_for(listener);
    say("poll", poll(&polled, 1, 20000));
    fd = accept(listener, NULL, NULL);
    MUST(fd);
    set_timeouts(fd, 20000);
    char first = 0;
    say("read", read(fd, &first, 1));
    exchange("one that came then", fd);
    set_hops("its own", fd, 65);
    give_to_kernel(fd);
    set_timeouts(fd, 100);
    exchange("the kernel's", fd);
    MUST(close(early));
    MUST(close(listener));
}

/* What two SYNs of one peer have in common: neither numbers nor what depends on them. */
static void say_syn(const char *what, int fd, socklen_t room)
{
    unsigned char octets[200] = "";
    socklen_t len = room;
    say(what, getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, octets, &len));
    printf("  %u octets", len);
    size_t at = 0;
    if (len > 14 && octets[12] == (over_real_ipv6() ? 0x86 : 0x08)) {
        printf(", of the link %02x%02x", octets[12], octets[13]);
        at = 14;
    }
    if (octets[at] >> 4 == 6)
        printf(", IPv6 %u %u", octets[at + 6], octets[at + 7]), at += 40;
    else if (octets[at] >> 4 == 4)
        printf(", IPv4 %u %u", octets[at + 8], octets[at + 9]), at += 20;
    else
        len = 0;
    if (len)
        printf(", flags %#x window %u options %u %u, ends %d", octets[at + 13], octets[at + 14] << 8 | octets[at + 15], octets[at + 20],
               octets[at + 24], at + (octets[at + 12] >> 4) * 4u == len);
    printf("\n");
}

/* The headers of the segment that has opened a connection. */
static void opening_segment(void)
{
    int listener = listening(), early = accepted(listener), bad = 3;
    say("no such", setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &bad, sizeof bad));
    for (int how = 1; how <= 3; how++) {
        set_option("TCP_SAVE_SYN", listener, IPPROTO_TCP, TCP_SAVE_SYN, how % 3);
        int fds[] = {accepted(listener), accepted(listener)};
        for (int i = 0; i < 2; i++) {
            int value = -1;
            socklen_t len = sizeof value;
            MUST(getsockopt(fds[i], IPPROTO_TCP, TCP_SAVE_SYN, &value, &len));
            printf("TCP_SAVE_SYN %d\n", value);
            say_syn("little room", fds[i], 20);
            if (i == 1)
                give_to_kernel(fds[i]);
            say_syn("once", fds[i], 200);
            say_syn("once more", fds[i], 200);
            exchange("exchange", fds[i]);
            MUST(close(fds[i]));
        }
    }
    say_syn("of one before", early, 200);
    say_syn("of the listener", listener, 200);
    MUST(close(early));
    MUST(close(listener));
}

/* A protocol above that the kernel does not have: before it is looked for, the connection is the kernel's. */
static void upper_protocol(void)
{
    int listener = listening(), fds[] = {connected(), accepted(listener)}, lone = new_stream();
    say("of a lone one", setsockopt(lone, IPPROTO_TCP, TCP_ULP, "none-such", 9));
    for (int i = 0; i < 2; i++) {
        have_octets(fds[i], "abc");
        say("TCP_ULP", setsockopt(fds[i], IPPROTO_TCP, TCP_ULP, "none-such", 9));
        say_recv("what was there", fds[i], 3, 0);
        exchange("exchange", fds[i]);
    }
}

/* What ICMP says of a connection is told at once, and once (`IP_RECVERR`). The test changes the way when it is told to. */
static void told_by_icmp(void)
{
    char octets[8] = "";
    int fd = new_stream(), error = -1;
    socklen_t len = sizeof error;
    struct sockaddr_in peer = address("10.99.0.2", PORT);
    set_option("IP_RECVERR", fd, IPPROTO_IP, IP_RECVERR, 1);
    say("connect", connect(fd, generic(&peer), sizeof peer));
    set_timeouts(fd, 20000);
    exchange("before", fd);
    /* The router says five of these at once, and then one a second. */
    for (int how = 0; how < 3; how++) {
        struct pollfd polled = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
        printf("block %d\n", how);
        fflush(stdout);
        must(fgets(octets, sizeof octets, stdin) != NULL, "fgets", __LINE__);
        say("send", send(fd, "12345", 5, MSG_NOSIGNAL));
        for (int i = 0; i < 8000 && how > 0 && !(polled.revents & POLLERR); i++, sleep_msec(1))
            MUST(poll(&polled, 1, 0));
        printf("polled %#x\n", polled.revents);
        if (how == 0)
            say("a recv that waits", recv(fd, octets, 5, 0));
        else if (how == 1)
            say("send", send(fd, "67890", 5, MSG_NOSIGNAL));
        else {
            MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
            printf("SO_ERROR %d\n", error);
        }
        MUST(poll(&polled, 1, 0));
        printf("polled %#x\n", polled.revents);
        say("recv", recv(fd, octets, 5, MSG_DONTWAIT));
        printf("open %d\n", how);
        fflush(stdout);
        must(fgets(octets, sizeof octets, stdin) != NULL, "fgets", __LINE__);
        memset(octets, 0, sizeof octets);
        long received;
        do
            received = recv(fd, octets, 5, MSG_WAITALL);
        while (received < 0 && errno == EHOSTUNREACH); /* Of what was sent again meanwhile. */
        say("recv", received);
        printf("%s\n", octets);
    }
    MUST(close(fd));
    printf("over\n");
}

CASES({"times", times}, {"unread", unread}, {"from_afar", from_afar}, {"opening_segment", opening_segment}, {"upper_protocol", upper_protocol},
      {"told_by_icmp", told_by_icmp},
      {"of_datagrams", of_datagrams}, {"many_messages", many_messages}, {"device_of_client", device_of_client}, {"device_of_listener", device_of_listener},
      {"device_handed_over", device_handed_over}, {"device_is_another", device_is_another}, {"device_of_each", device_of_each})
