// A program under the original library on a machine of Hyper-V, as far as the daemon sees it: has a TAP device, wants a
// flow redirected to it, and prints the destination port of every UDP packet that comes out of it.
//
//   tap <agent socket> <own socket> <device> <interface> <destination address> <port>
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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

struct flow {
    struct header header;
    uint8_t type, action;
    uint32_t interface, tap;
    uint32_t destination;
    uint16_t destination_port;
    uint32_t source;
    uint16_t source_port;
} __attribute__((packed));

static void check(int failed, const char *what)
{
    if (failed) {
        perror(what);
        exit(1);
    }
}

static int tap(const char *name)
{
    int fd = open("/dev/net/tun", O_RDWR);
    check(fd < 0, "/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    check(ioctl(fd, TUNSETIFF, &request) < 0, "TUNSETIFF");
    return fd;
}

static uint32_t number(const char *name)
{
    struct ifreq request = {0};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    check(ioctl(any, SIOCGIFINDEX, &request) < 0, name);
    return (uint32_t)request.ifr_ifindex;
}

static int named(const char *path, int connects, int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    struct sockaddr *generic = (struct sockaddr *)&address;
    check((connects ? connect(fd, generic, sizeof address) : bind(fd, generic, sizeof address)) != 0, path);
    return fd;
}

// 0: done, 1: refused.
static int ask(int agent, struct flow flow)
{
    check(send(agent, &flow, sizeof flow, 0) != sizeof flow, "send FLOW");
    struct header answer;
    check(recv(agent, &answer, sizeof answer, 0) != sizeof answer, "receive FLOW");
    if (answer.code != 0x84 || answer.pid != getpid())
        exit(2);
    return answer.status;
}

int main(int argc, char **argv)
{
    if (argc < 7)
        return 3;
    int device = tap(argv[3]);
    int agent = named(argv[1], 1, named(argv[2], 0, socket(AF_UNIX, SOCK_DGRAM, 0)));
    struct init init = {{1, 3, 0, 0, getpid()}, 0x9008060};
    check(send(agent, &init, sizeof init, 0) != sizeof init, "send INIT");
    check(recv(agent, &init, sizeof init, 0) != sizeof init, "receive INIT");
    // The status asks for an answer.
    struct flow flow = {.header = {4, 3, 1, 0, getpid()}, .action = 1, .interface = number(argv[4]), .tap = number(argv[3])};
    inet_pton(AF_INET, argv[5], &flow.destination);
    flow.destination_port = htons((uint16_t)atoi(argv[6]));
    // EGRESS, then UDP to a port.
    int egress = ask(agent, flow);
    flow.type = 2;
    printf("egress %d flow %d ready\n", egress, ask(agent, flow));
    fflush(stdout);
    for (;;) {
        uint8_t frame[2048];
        ssize_t length = read(device, frame, sizeof frame);
        if (length < 42 || frame[12] != 8 || frame[13] != 0 || frame[23] != IPPROTO_UDP)
            continue;
        printf("datagram to port %d\n", frame[36] << 8 | frame[37]);
        fflush(stdout);
        // Once back the way it came, to the one who sent it.
        uint8_t swap[4];
        memcpy(swap, frame + 26, 4);
        memcpy(frame + 26, frame + 30, 4);
        memcpy(frame + 30, swap, 4);
        memcpy(swap, frame + 34, 2);
        memcpy(frame + 34, frame + 36, 2);
        memcpy(frame + 36, swap, 2);
        uint8_t mac[6];
        memcpy(mac, frame, 6);
        memcpy(frame, frame + 6, 6);
        memcpy(frame + 6, mac, 6);
        check(write(device, frame, (size_t)length) != length, "write to the TAP device");
    }
}
