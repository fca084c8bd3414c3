/* bind, connect, and who gets a packet. */
#include "case.h"

static void say_self(const char *what, int fd)
{
    struct sockaddr_in self;
    socklen_t len = sizeof self;
    if (getsockname(fd, (struct sockaddr *)&self, &len) < 0)
        say(what, -1);
    else
        say_address(what, &self, len);
}

static void say_peer(const char *what, int fd)
{
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
        say(what, -1);
    else
        say_address(what, &peer, len);
}

static void binding(void)
{
    int fd = udp(), other = udp();
    say_self("fresh", fd);
    struct sockaddr_in self = address(SELF, 0), taken, foreign = address("192.0.2.1", 0), fixed = address(SELF, 7123);
    MUST(bind(fd, generic(&self), sizeof self));
    say_self("bound", fd);
    say("again", bind(fd, generic(&self), sizeof self));
    taken = address(SELF, port_of(fd));
    say("taken", bind(other, generic(&taken), sizeof taken));
    say("not ours", bind(other, generic(&foreign), sizeof foreign));
    say("short", bind(other, generic(&fixed), 4));
    say("fixed", bind(other, generic(&fixed), sizeof fixed));
    say_self("fixed", other);
    say("closed", bind(999, generic(&self), sizeof self));
    MUST(close(other));
    other = udp();
    say("fixed again", bind(other, generic(&fixed), sizeof fixed));
    ask(other, 1, 10);
    set_timeout(other, 2000);
    say_recv("recv", other, 64, 0);
    ask_for(other, 1, 12, 0, 0, port_of(fd));
    set_timeout(fd, 2000);
    say_recv("recv on the first", fd, 64, 0);
}

static void connecting(void)
{
    int fd = udp();
    struct sockaddr_in peer = address(PEER, PEER_PORT), other = address(PEER, PEER_PORT + 1), none = {.sin_family = AF_UNSPEC};
    say_peer("fresh", fd);
    say("connect", connect(fd, generic(&peer), sizeof peer));
    say_self("self", fd);
    say_peer("peer", fd);
    set_timeout(fd, 200);
    ask_for(fd, 1, 10, 0, 1, 0);
    say_recv("from a third", fd, 64, 0);
    ask_for(fd, 1, 11, 0, 0, 0);
    say_recv("from the peer", fd, 64, 0);
    say("connect to the other", connect(fd, generic(&other), sizeof other));
    say_peer("peer", fd);
    ask_for(fd, 1, 12, 0, 0, 0);
    say_recv("from the first", fd, 64, 0);
    ask_for(fd, 1, 13, 0, 1, 0);
    say_recv("from the other", fd, 64, 0);
    say("disconnect", connect(fd, generic(&none), sizeof none));
    say_peer("peer", fd);
    say_self("self", fd);
    ask_for(fd, 1, 14, 0, 0, 0);
    say_recv("from the first", fd, 64, 0);
    say_self("self", fd);
}

static void bound_and_connected(void)
{
    int fd = bound();
    struct sockaddr_in peer = address(PEER, PEER_PORT), none = {.sin_family = AF_UNSPEC};
    set_timeout(fd, 300);
    /* What came before connect is still there after it. */
    ask_for(fd, 1, 10, 0, 1, 0);
    await_data(fd);
    say("connect", connect(fd, generic(&peer), sizeof peer));
    say_recv("from before", fd, 64, 0);
    ask_for(fd, 1, 11, 0, 1, 0);
    say_recv("from a third", fd, 64, 0);
    ask_for(fd, 1, 12, 0, 0, 0);
    say_recv("from the peer", fd, 64, 0);
    say("disconnect", connect(fd, generic(&none), sizeof none));
    say_self("self", fd);
    ask_for(fd, 1, 13, 0, 1, 0);
    say_recv("from a third", fd, 64, 0);
}

static void connect_errors(void)
{
    int fd = bound();
    struct sockaddr_in nowhere = address("192.0.2.1", 7), zero = address(PEER, 0), wide = address("10.77.0.255", 7), peer = address(PEER, PEER_PORT);
    say("no route", connect(fd, generic(&nowhere), sizeof nowhere));
    say_peer("peer", fd);
    say("broadcast", connect(fd, generic(&wide), sizeof wide));
    say("short", connect(fd, generic(&peer), 8));
    say("closed", connect(999, generic(&peer), sizeof peer));
    say("port 0", connect(fd, generic(&zero), sizeof zero));
    ask(fd, 1, 10);
    set_timeout(fd, 2000);
    say_recv("recv", fd, 64, 0);
    say("listen", listen(fd, 5));
    say("accept", accept(fd, NULL, NULL));
}

static void any_address(void)
{
    int fd = bound_to("0.0.0.0", 7124), local = bound_to("127.0.0.1", 0);
    struct sockaddr_in here = address("127.0.0.1", 7124), own = address(SELF, 7124);
    set_timeout(fd, 2000);
    say_self("self", fd);
    ask(fd, 1, 20);
    say_recv("from the wire", fd, 64, 0);
    say("from loopback", sendto(local, "inside", 6, 0, generic(&here), sizeof here));
    say_recv("from loopback", fd, 64, 0);
    int other = bound();
    say("from ourselves", sendto(other, "ourselves", 9, 0, generic(&own), sizeof own));
    say_recv("from ourselves", fd, 64, 0);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    say("connect", connect(fd, generic(&peer), sizeof peer));
    say_self("connected", fd);
    ask(fd, 1, 21);
    say_recv("from the wire", fd, 64, 0);
}

static void shared_port(void)
{
    int first = udp(), second = udp(), on = 1;
    struct sockaddr_in self = address(SELF, 7125), peer = address(PEER, PEER_PORT);
    MUST(setsockopt(first, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(first, generic(&self), sizeof self));
    set_timeout(first, 300);
    set_timeout(second, 300);
    ask(first, 1, 20);
    say_recv("first, alone", first, 64, 0);
    say("without the option", bind(second, generic(&self), sizeof self));
    MUST(setsockopt(second, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    say("with the option", bind(second, generic(&self), sizeof self));
    ask(first, 1, 21);
    say_recv("first", first, 64, 0);
    say_recv("second", second, 64, 0);
    /* The connected one gets its peer's packets, the other one the rest. */
    MUST(connect(second, generic(&peer), sizeof peer));
    ask_for(first, 1, 22, 0, 0, 0);
    say_recv("first", first, 64, 0);
    say_recv("second", second, 64, 0);
    ask_for(first, 1, 23, 0, 1, 0);
    say_recv("first", first, 64, 0);
    say_recv("second", second, 64, 0);
    MUST(close(second));
    ask_for(first, 1, 24, 0, 0, 0);
    say_recv("first, alone again", first, 64, 0);
}

static void wildcard_and_exact(void)
{
    int any = udp(), exact = udp(), on = 1;
    struct sockaddr_in wide = address("0.0.0.0", 7126), self = address(SELF, 7126);
    MUST(setsockopt(any, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(setsockopt(exact, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(any, generic(&wide), sizeof wide));
    set_timeout(any, 300);
    set_timeout(exact, 300);
    ask(any, 1, 20);
    say_recv("any, alone", any, 64, 0);
    MUST(bind(exact, generic(&self), sizeof self));
    ask(any, 1, 21);
    say_recv("any", any, 64, 0);
    say_recv("exact", exact, 64, 0);
    MUST(close(exact));
    ask(any, 1, 22);
    say_recv("any, alone again", any, 64, 0);
}

static void reuse_port(void)
{
    int on = 1, received = 0;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = udp();
        MUST(setsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &on, sizeof on));
        struct sockaddr_in self = address(SELF, 7127);
        MUST(bind(fds[i], generic(&self), sizeof self));
    }
    int helper = bound();
    /* An accelerated socket among them does not change their lot. */
    ask_for(helper, 10, 20, 0, 0, 7127);
    ask_for(helper, 1, 20, 0, 0, 0);
    set_timeout(helper, 2000);
    say_recv("helper", helper, 64, 0);
    sleep_msec(200);
    for (int i = 0; i < 3; i++) {
        char buffer[64];
        while (recv(fds[i], buffer, sizeof buffer, MSG_DONTWAIT) > 0)
            received++;
    }
    printf("received %d\n", received);
}

CASES({"binding", binding}, {"connecting", connecting}, {"bound_and_connected", bound_and_connected},
      {"connect_errors", connect_errors}, {"any_address", any_address}, {"shared_port", shared_port},
      {"wildcard_and_exact", wildcard_and_exact}, {"reuse_port", reuse_port})
