// A program under the original library, as far as the daemon sees it: connects, tells of its connections by the agent
// protocol, and waits to be killed. Its connections are under repair, so that the kernel ends them without a word, as
// nobody ends those of user space.
//
//   client <agent socket> <own socket> <peer address> <port> <connections>      has connections and tells of them
//   client <agent socket> <own socket> forge <local:port> <peer:port> ...       tells of somebody else's
//   client <agent socket> <own socket> flood <messages>                         sends as fast as it can
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct header {
    uint8_t code, version, status, reserved;
    int32_t pid;
} __attribute__((packed));

struct init {
    struct header header;
    uint32_t library;
} __attribute__((packed));

struct state {
    struct header header;
    uint32_t descriptor;
    uint32_t local, peer;
    uint16_t local_port, peer_port;
    uint8_t type, state;
} __attribute__((packed));

static void check(int failed, const char *what)
{
    if (failed) {
        perror(what);
        exit(1);
    }
}

static struct header header(uint8_t code)
{
    struct header header = {code, 3, 0, 0, getpid()};
    return header;
}

static void bind_or_connect(int fd, const char *path, int connects)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    struct sockaddr *generic = (struct sockaddr *)&address;
    int failed = connects ? connect(fd, generic, sizeof address) : bind(fd, generic, sizeof address);
    check(failed != 0, path);
}

static int agent(const char *daemon_path, const char *own_path)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    check(fd < 0, "socket");
    unlink(own_path);
    // A daemon without the right to pass by file permissions shall be able to answer.
    umask(0);
    bind_or_connect(fd, own_path, 0);
    bind_or_connect(fd, daemon_path, 1);
    struct init init = {header(1), 0x9008060};
    check(send(fd, &init, sizeof init, 0) != sizeof init, "send INIT");
    struct init answer;
    check(recv(fd, &answer, sizeof answer, 0) != sizeof answer, "receive INIT");
    if (answer.header.code != 0x81 || answer.header.pid != getpid())
        exit(2);
    return fd;
}

static void tell(int agent, int descriptor, struct sockaddr_in local, struct sockaddr_in peer)
{
    struct state state = {header(2), (uint32_t)descriptor, local.sin_addr.s_addr, peer.sin_addr.s_addr, local.sin_port, peer.sin_port,
                          SOCK_STREAM, 4};
    check(send(agent, &state, sizeof state, 0) != sizeof state, "send STATE");
}

static struct sockaddr_in address(char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char *colon = strchr(text, ':');
    if (!colon)
        exit(3);
    *colon = 0;
    inet_pton(AF_INET, text, &address.sin_addr);
    address.sin_port = htons((uint16_t)atoi(colon + 1));
    return address;
}

static void has_connections(int agent, const char *peer_address, int port, int count)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, peer_address, &peer.sin_addr);
    for (int i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        check(fd < 0, "socket");
        check(connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0, "connect");
        struct sockaddr_in local;
        socklen_t length = sizeof local;
        check(getsockname(fd, (struct sockaddr *)&local, &length) != 0, "getsockname");
        // What was said before counts: the peer expects more than the first sequence number.
        check(write(fd, "hello", 5) != 5, "write");
        int on = 1;
        check(setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0, "TCP_REPAIR");
        if (agent >= 0)
            tell(agent, fd, local, peer);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 3;
    int fd = strcmp(argv[1], "none") == 0 ? -1 : agent(argv[1], argv[2]);
    if (strcmp(argv[3], "forge") == 0) {
        for (int i = 4; i + 1 < argc; i += 2)
            tell(fd, i, address(argv[i]), address(argv[i + 1]));
    } else if (strcmp(argv[3], "flood") == 0) {
        struct sockaddr_in none = {.sin_family = AF_INET};
        for (int i = 0; i < atoi(argv[4]); i++)
            tell(fd, i, none, none);
    } else {
        has_connections(fd, argv[3], atoi(argv[4]), atoi(argv[5]));
    }
    puts("ready");
    fflush(stdout);
    pause();
}
