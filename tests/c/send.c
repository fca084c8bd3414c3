/* Send calls. The peer answers every datagram with its length and a hash of its bytes. */
#include "case.h"
#include <netinet/udp.h>

static struct sockaddr_in peer(void)
{
    return address(PEER, PEER_PORT);
}

/* Says the peer's reports of the last datagrams. */
static void say_reports(int fd, int count)
{
    char buffer[64];
    set_timeout(fd, 2000);
    for (int i = 0; i < count; i++) {
        ssize_t len = recv(fd, buffer, sizeof buffer - 1, 0);
        buffer[len < 0 ? 0 : len] = 0;
        printf("  peer: %s\n", len < 0 ? strerrorname_np(errno) : buffer);
    }
}

static char *letters(size_t len)
{
    char *data = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)('A' + i % 23);
    return data;
}

static void sizes(void)
{
    static const int lens[] = {0, 1, 17, 18, 19, 64, 1000, 1471, 1472, 1473, 1500, 2000, 4000, 9000, 65000, 65507, 65508, 70000};
    int fd = bound();
    struct sockaddr_in to = peer();
    char *data = letters(70000);
    /* Twice: the first datagram finds no neighbour. */
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
            printf("%d: ", lens[i]);
            if (say("sendto", sendto(fd, data, (size_t)lens[i], 0, generic(&to), sizeof to)) >= 0)
                say_reports(fd, 1);
        }
    }
    free(data);
}

static void connected(void)
{
    int fd = udp();
    struct sockaddr_in to = peer(), other = address(PEER, PEER_PORT + 1);
    char data[] = "over the connection";
    MUST(connect(fd, generic(&to), sizeof to));
    for (int round = 0; round < 2; round++) {
        say("send", send(fd, data, 10, 0));
        say("write", write(fd, data, 11));
        struct iovec parts[2] = {{data, 5}, {data + 5, 7}};
        say("writev", writev(fd, parts, 2));
        say("sendto without address", sendto(fd, data, 13, 0, NULL, 0));
        say("sendto the peer", sendto(fd, data, 14, 0, generic(&to), sizeof to));
        say("empty send", send(fd, data, 0, 0));
        say("empty write", write(fd, data, 0));
        say("writev of nothing", writev(fd, parts, 0));
        parts[0].iov_len = parts[1].iov_len = 0;
        say("writev of nothing", writev(fd, parts, 2));
        say_reports(fd, 9);
        /* The answer comes from another port than the peer's: it is not for a connected socket. */
        say("sendto another", sendto(fd, data, 15, 0, generic(&other), sizeof other));
        set_timeout(fd, 200);
        say_recv("recv", fd, 64, 0);
    }
}

static void gather(void)
{
    int fd = bound();
    struct sockaddr_in to = peer();
    char a[] = "first", b[] = "second", c[] = "third and last";
    struct iovec parts[5] = {{a, 5}, {NULL, 0}, {b, 6}, {c, 14}, {b, 0}};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = parts, .msg_iovlen = 5};
    for (int round = 0; round < 2; round++) {
        message.msg_name = &to;
        message.msg_iovlen = 5;
        say("sendmsg", sendmsg(fd, &message, 0));
        message.msg_iovlen = 0;
        say("sendmsg of nothing", sendmsg(fd, &message, 0));
        say_reports(fd, 2);
        message.msg_iovlen = 1025;
        say("sendmsg of too many", sendmsg(fd, &message, 0));
        message.msg_iovlen = 5;
        message.msg_name = NULL;
        message.msg_namelen = 0;
        say("sendmsg to nobody", sendmsg(fd, &message, 0));
        message.msg_namelen = sizeof to;
    }
    say("sendmsg of null", sendmsg(fd, NULL, 0));
}

static void many(void)
{
    int fd = bound();
    struct sockaddr_in to = peer(), nowhere = address("240.0.0.1", 7);
    static char data[4][40];
    struct iovec parts[4];
    struct mmsghdr messages[4];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 4; i++) {
        memset(data[i], 'a' + i, sizeof data[i]);
        parts[i] = (struct iovec){data[i], (size_t)(10 + i)};
        messages[i].msg_hdr = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &parts[i], .msg_iovlen = 1};
    }
    for (int round = 0; round < 2; round++) {
        say("sendmmsg", sendmmsg(fd, messages, 4, 0));
        for (int i = 0; i < 4; i++)
            printf("  %u\n", messages[i].msg_len);
        say_reports(fd, 4);
    }
    messages[2].msg_hdr.msg_name = &nowhere;
    say("sendmmsg that fails at the third", sendmmsg(fd, messages, 4, 0));
    say_reports(fd, 2);
    messages[0].msg_hdr.msg_name = &nowhere;
    say("sendmmsg that fails at once", sendmmsg(fd, messages, 4, 0));
    say("sendmmsg of none", sendmmsg(fd, messages, 0, 0));
}

static void errors(void)
{
    int fd = bound();
    char data[10] = "data";
    struct sockaddr_in to = peer();
    for (int round = 0; round < 2; round++) {
        say("to nobody", send(fd, data, 4, 0));
        say("write to nobody", write(fd, data, 4));
        say("short address", sendto(fd, data, 4, 0, generic(&to), 8));
        say("MSG_OOB", sendto(fd, data, 4, MSG_OOB, generic(&to), sizeof to));
        struct sockaddr_in odd = to;
        odd.sin_family = AF_INET6;
        say("other family", sendto(fd, data, 4, 0, generic(&odd), sizeof odd));
        odd = address(PEER, 0);
        say("port 0", sendto(fd, data, 4, 0, generic(&odd), sizeof odd));
        odd = address("10.77.0.255", 7000);
        say("broadcast", sendto(fd, data, 4, 0, generic(&odd), sizeof odd));
        odd = address("255.255.255.255", 7000);
        say("all of the link", sendto(fd, data, 4, 0, generic(&odd), sizeof odd));
        odd = address("192.0.2.1", 7000);
        say("no route", sendto(fd, data, 4, 0, generic(&odd), sizeof odd));
        odd = address("0.0.0.0", 7000);
        say("unspecified", sendto(fd, data, 4, 0, generic(&odd), sizeof odd));
        say("null data", sendto(fd, NULL, 10, 0, generic(&to), sizeof to));
        odd = peer();
        odd.sin_family = AF_UNSPEC;
        say("unspecified family", sendto(fd, data, 4, 0, generic(&odd), sizeof odd));
        say_reports(fd, 1);
        say("to the peer", sendto(fd, data, 4, MSG_DONTWAIT | MSG_NOSIGNAL, generic(&to), sizeof to));
        say_reports(fd, 1);
    }
    say("closed", sendto(500, data, 4, 0, generic(&to), sizeof to));
}

static void refused(void)
{
    int fd = udp();
    struct sockaddr_in closed = address(PEER, 7999), to = peer();
    char data[16] = "anybody there?";
    MUST(connect(fd, generic(&closed), sizeof closed));
    set_timeout(fd, 2000);
    for (int round = 0; round < 3; round++) {
        say("send", send(fd, data, 14, 0));
        say("recv", recv(fd, data, sizeof data, 0));
        say("send", send(fd, data, 14, 0));
        sleep_msec(100);
        struct pollfd polled = {fd, POLLIN | POLLOUT, 0};
        say("poll", poll(&polled, 1, 1000));
        printf("events %x\n", polled.revents);
        int error = -1;
        socklen_t len = sizeof error;
        MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
        printf("SO_ERROR %s\n", strerrorname_np(error));
        say("recv", recv(fd, data, sizeof data, MSG_DONTWAIT));
    }
    MUST(connect(fd, generic(&to), sizeof to));
    say("send to the other", send(fd, data, 14, 0));
    char report[64] = "";
    say("recv", recv(fd, report, sizeof report, 0));
    /* Nobody tells an unconnected socket. */
    int open = bound();
    set_timeout(open, 150);
    say("sendto", sendto(open, data, 14, 0, generic(&closed), sizeof closed));
    say("recv", recv(open, data, sizeof data, 0));
}

/* The error of one send call is the result of the next. */
static void refused_send(void)
{
    int fd = udp();
    struct sockaddr_in closed = address(PEER, 7999);
    MUST(connect(fd, generic(&closed), sizeof closed));
    for (int round = 0; round < 3; round++) {
        say("send", send(fd, "anybody?", 8, 0));
        sleep_msec(100);
        say("send after the refusal", send(fd, "there?", 6, 0));
        say("send after the error", send(fd, "there?", 6, 0));
        sleep_msec(100);
        char byte;
        say("recv", recv(fd, &byte, 1, MSG_DONTWAIT));
    }
}

static void corked(void)
{
    int fd = bound(), on = 1, off = 0;
    struct sockaddr_in to = peer();
    MUST(connect(fd, generic(&to), sizeof to));
    for (int round = 0; round < 2; round++) {
        say("first part", send(fd, "one ", 4, MSG_MORE));
        say("last part", send(fd, "two", 3, 0));
        say_reports(fd, 1);
        say("whole", send(fd, "three", 5, 0));
        say_reports(fd, 1);
    }
    MUST(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &on, sizeof on));
    say("first part", send(fd, "one ", 4, 0));
    say("last part", send(fd, "two", 3, 0));
    MUST(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &off, sizeof off));
    say_reports(fd, 1);
    say("whole", send(fd, "three", 5, 0));
    say_reports(fd, 1);
}

static void to_myself(void)
{
    int fd = bound(), other = bound_to("0.0.0.0", 0);
    struct sockaddr_in self = address(SELF, port_of(fd)), local = address("127.0.0.1", port_of(other));
    set_timeout(fd, 2000);
    set_timeout(other, 2000);
    for (int round = 0; round < 2; round++) {
        say("to my own address", sendto(fd, "hello", 5, 0, generic(&self), sizeof self));
        say_recv("recv", fd, 64, 0);
        say("to the loopback address", sendto(other, "hello", 5, 0, generic(&local), sizeof local));
        say_recv("recv", other, 64, 0);
        local.sin_addr = self.sin_addr;
        say("from one to the other", sendto(fd, "hello", 5, 0, generic(&local), sizeof local));
        say_recv("recv", other, 64, 0);
        local = address("127.0.0.1", port_of(other));
        ask(other, 1, 30);
        say_recv("from outside", other, 64, 0);
    }
}

static void unbound(void)
{
    int fd = udp();
    struct sockaddr_in to = peer(), self;
    socklen_t len = sizeof self;
    char data[8] = "data";
    set_timeout(fd, 100);
    say("recv", recv(fd, data, 4, 0));
    MUST(getsockname(fd, (struct sockaddr *)&self, &len));
    say_address("before", &self, len);
    say("sendto", sendto(fd, data, 4, 0, generic(&to), sizeof to));
    say_reports(fd, 1);
    MUST(getsockname(fd, (struct sockaddr *)&self, &len));
    say_address("after", &self, len);
    say("sendto", sendto(fd, data, 4, 0, generic(&to), sizeof to));
    say_reports(fd, 1);
}

CASES({"sizes", sizes}, {"connected", connected}, {"gather", gather}, {"many", many}, {"errors", errors},
      {"refused", refused}, {"refused_send", refused_send}, {"corked", corked}, {"to_myself", to_myself}, {"unbound", unbound})
