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
    say("closed", bind(500, generic(&self), sizeof self));
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

/* `ip` may be an IPv4 address, which is mapped then. */
static struct sockaddr_in6 six(const char *ip, int port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    char text[64];
    snprintf(text, sizeof text, "%s%s", strchr(ip, ':') ? "" : "::ffff:", ip);
    MUST(inet_pton(AF_INET6, text, &address.sin6_addr) == 1 ? 0 : -1);
    return address;
}

/* As much of an address as there was room for; no ports of the kernel's choice. */
static void say_six(const char *what, const struct sockaddr_in6 *address, socklen_t room, socklen_t len)
{
    char ip[INET6_ADDRSTRLEN] = "?";
    const unsigned char *bytes = (const unsigned char *)address;
    int port = ntohs(address->sin6_port), shown = port >= 7000 && port < 8000 ? port : port && port != 0xeeee;
    inet_ntop(AF_INET6, &address->sin6_addr, ip, sizeof ip);
    printf("%s: len %u family %d port %d flow %x %s scope %x", what, len, address->sin6_family, shown, address->sin6_flowinfo, ip,
           address->sin6_scope_id);
    printf(", %s behind\n", room >= sizeof *address || bytes[room] == 0xee ? "nothing" : "more");
}

static void say_six_name(const char *what, int (*call)(int, struct sockaddr *, socklen_t *), int fd, socklen_t room)
{
    struct sockaddr_in6 name;
    socklen_t len = room;
    memset(&name, 0xee, sizeof name);
    if (call(fd, (struct sockaddr *)&name, &len) < 0)
        say(what, -1);
    else
        say_six(what, &name, room, len);
}

/* Whether there are such sockets. If not, another is accelerated in their stead. */
static int has_six(void)
{
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    if (fd < 0)
        printf("no IPv6 %d\n", close(bound()));
    else
        MUST(close(fd));
    return fd >= 0;
}

static int six_socket(int v6only)
{
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    MUST(fd);
    MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only));
    set_timeout(fd, 2000);
    return fd;
}

static long six_send(int fd, const char *text, struct sockaddr_in6 to, socklen_t len)
{
    return sendto(fd, text, strlen(text), 0, (const struct sockaddr *)&to, len);
}

static int six_bind(int fd, struct sockaddr_in6 to, socklen_t len)
{
    return bind(fd, (const struct sockaddr *)&to, len);
}

static int six_connect(int fd, struct sockaddr_in6 to, socklen_t len)
{
    return connect(fd, (const struct sockaddr *)&to, len);
}

/* A socket of AF_INET6 that carries IPv4: the forms of its addresses. */
static void six_with_four(void)
{
    if (!has_six())
        return;
    int fd = six_socket(0), other = six_socket(0), on = 1;
    struct sockaddr_in four = address(PEER, PEER_PORT), self = address(SELF, 7124);
    struct sockaddr_in6 peer = six(PEER, PEER_PORT), none = {.sin6_family = AF_UNSPEC}, odd = peer;
    odd.sin6_flowinfo = htonl(0x12345);
    odd.sin6_scope_id = 99;

    say_six_name("fresh", getsockname, fd, sizeof peer);
    say("bind short", six_bind(fd, six(SELF, 7124), 23));
    say("bind IPv4", bind(fd, generic(&self), sizeof self));
    say("bind not ours", six_bind(fd, six("192.0.2.1", 7124), sizeof peer));
    say("bind without a scope", six_bind(fd, six(SELF, 7124), 24));
    say("IPV6_V6ONLY late", setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    say("taken", six_bind(other, six("::", 7124), sizeof peer));
    say("taken by IPv4", bind(udp(), generic(&self), sizeof self));
    const socklen_t rooms[] = {sizeof peer, 27, 16, 8, 1, 0, 100};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        struct sockaddr_in6 from[4];
        socklen_t len = rooms[i];
        char text[32];
        memset(from, 0xee, sizeof from);
        ask_for(fd, 1, 10, 0, 0, 0);
        say("recvfrom", recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)from, &len));
        say_six("  from", from, rooms[i], len);
        struct iovec part = {text, 4};
        struct msghdr message = {.msg_name = from, .msg_namelen = rooms[i], .msg_iov = &part, .msg_iovlen = 1};
        memset(from, 0xee, sizeof from);
        ask_for(fd, 1, 11, 0, 1, 0);
        say("recvmsg", recvmsg(fd, &message, 0));
        say_six("  from", from, rooms[i], message.msg_namelen);
        printf("  flags %x\n", message.msg_flags);
    }
    say_six_name("bound", getsockname, fd, sizeof peer);
    say_six_name("bound, little room", getsockname, fd, 10);
    say_six_name("no peer", getpeername, fd, sizeof peer);

    const char *script = "S 1 12 0 0 0";
    say("sendto IPv4", sendto(fd, script, strlen(script), 0, generic(&four), sizeof four));
    say_recv("answer", fd, 64, 0);
    say("sendto mapped", six_send(fd, script, peer, sizeof peer));
    say_recv("answer", fd, 64, 0);
    say("sendto without a scope", six_send(fd, script, peer, 24));
    say_recv("answer", fd, 64, 0);
    say("sendto with flow and scope", six_send(fd, script, odd, sizeof odd));
    say_recv("answer", fd, 64, 0);
    say("sendto short", six_send(fd, script, peer, 23));
    say("sendto very short", six_send(fd, script, peer, 15));
    say("sendto nowhere", six_send(fd, script, none, sizeof none));
    say("sendto IPv6", six_send(fd, script, six("2001:db8::1", 9), sizeof peer));
    say("sendto any", six_send(fd, script, six("::", 9), sizeof peer));
    say("sendto port 0", six_send(fd, script, six(PEER, 0), sizeof peer));

    say("connect short", six_connect(fd, peer, 23));
    say("connect IPv6", six_connect(fd, six("2001:db8::1", 9), sizeof peer));
    say("connect IPv4", connect(fd, generic(&four), sizeof four));
    say_six_name("peer", getpeername, fd, sizeof peer);
    say("disconnect", six_connect(fd, none, sizeof none));
    say_six_name("self", getsockname, fd, sizeof peer);
    say("connect mapped", six_connect(fd, peer, sizeof peer));
    say_six_name("peer", getpeername, fd, sizeof peer);
    say("send", send(fd, script, strlen(script), 0));
    say_recv("answer", fd, 64, 0);
    say("sendto another", six_send(fd, script, six(PEER, PEER_PORT + 1), sizeof peer));
    say_recv("answer", fd, 64, 0);
    MUST(close(fd));

    MUST(six_bind(other, six("::", 0), sizeof peer));
    say_six_name("any", getsockname, other, sizeof peer);
    say("sendto mapped", six_send(other, script, peer, sizeof peer));
    say_recv("answer", other, 64, 0);
    say("connect", six_connect(other, peer, sizeof peer));
    say_six_name("self", getsockname, other, sizeof peer);
    int four_now = AF_INET;
    say("IPV6_ADDRFORM", setsockopt(other, IPPROTO_IPV6, IPV6_ADDRFORM, &four_now, sizeof four_now));
    say_six_name("IPv4 now", getsockname, other, 16);
    struct sockaddr_in6 from;
    socklen_t len = sizeof from;
    char text[32];
    memset(&from, 0xee, sizeof from);
    MUST(send(other, script, strlen(script), 0));
    say("recvfrom", recvfrom(other, text, sizeof text, 0, (struct sockaddr *)&from, &len));
    printf("  len %u family %d\n", len, from.sin6_family);
    MUST(close(other));

    fd = six_socket(1);
    say("only IPv6: bind", six_bind(fd, six(SELF, 0), sizeof peer));
    say("only IPv6: connect", six_connect(fd, peer, sizeof peer));
    say("only IPv6: connect IPv4", connect(fd, generic(&four), sizeof four));
    say("only IPv6: sendto", six_send(fd, script, peer, sizeof peer));
    say("only IPv6: sendto IPv4", sendto(fd, script, strlen(script), 0, generic(&four), sizeof four));
    say_six_name("only IPv6", getsockname, fd, sizeof peer);
}

/* What options say of IPv6 packets does not touch those of IPv4. */
static void six_with_options(void)
{
    const int options[][3] = {
        {IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9}, {IPPROTO_IPV6, IPV6_TCLASS, 8},      {IPPROTO_IPV6, IPV6_MTU_DISCOVER, 0},
        {IPPROTO_IPV6, IPV6_RECVERR, 1},      {IPPROTO_IPV6, IPV6_RECVTCLASS, 1},  {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
        {IPPROTO_IPV6, IPV6_DONTFRAG, 1},     {IPPROTO_IPV6, 60, 1},               {IPPROTO_IPV6, 11, 1},
        {IPPROTO_IPV6, 29, 0},                {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 3}, {IPPROTO_IP, IP_TTL, 33},
        {IPPROTO_IP, IP_TOS, 16},             {IPPROTO_IP, IP_MTU_DISCOVER, 2},
    };
    if (!has_six())
        return;
    int fd = six_socket(0), now;
    MUST(six_bind(fd, six("::", 0), sizeof(struct sockaddr_in6)));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char control[256];
        struct iovec part = {control, 8};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        printf("level %d option %d\n", options[i][0], options[i][1]);
        say("  set", setsockopt(fd, options[i][0], options[i][1], &options[i][2], sizeof(int)));
        ask(fd, 1, 10);
        say("  recvmsg", recvmsg(fd, &message, 0));
        printf("  control %zu, flags %x\n", message.msg_controllen, message.msg_flags);
        socklen_t len = sizeof now;
        MUST(getsockopt(fd, options[i][0], options[i][1], &now, &len));
        printf("  get %d\n", now);
    }
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
    say("closed", connect(500, generic(&peer), sizeof peer));
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
      {"wildcard_and_exact", wildcard_and_exact}, {"reuse_port", reuse_port}, {"six_with_four", six_with_four},
      {"six_with_options", six_with_options})
