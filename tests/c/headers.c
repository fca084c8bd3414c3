/* Sends datagrams whose headers the test looks at on the wire. */
#include "case.h"
#include <net/if.h>
#include <netinet/udp.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* Sends `len` bytes with a control message. */
static void send_with(int fd, size_t len, int level, int kind, const void *data, size_t data_len)
{
    static char payload[8000];
    _Alignas(struct cmsghdr) unsigned char control[128] = {0};
    memset(payload, 'p', sizeof payload);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    struct iovec part = {payload, len};
    struct msghdr message = {.msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = CMSG_SPACE(data_len)};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = level;
    item->cmsg_type = kind;
    item->cmsg_len = CMSG_LEN(data_len);
    memcpy(CMSG_DATA(item), data, data_len);
    say("sendmsg", sendmsg(fd, &message, 0));
    sleep_msec(20);
}

/* Headers that a message asks for. */
static void said(int fd)
{
    uint16_t segments[] = {600, 1472, 100};
    struct in_pktinfo info = {.ipi_ifindex = (int)if_nametoindex("vb")};
    inet_pton(AF_INET, SELF, &info.ipi_spec_dst);
    for (int value = 1; value < 256; value += 127) {
        send_with(fd, 20, IPPROTO_IP, IP_TTL, &value, sizeof value);
        send_with(fd, 21, IPPROTO_IP, IP_TOS, &value, sizeof value);
    }
    send_with(fd, 22, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    info.ipi_spec_dst.s_addr = 0;
    send_with(fd, 23, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    for (int discover = IP_PMTUDISC_DONT; discover <= IP_PMTUDISC_OMIT; discover++) {
        MUST(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof discover));
        for (int i = 0; i < 3; i++)
            send_with(fd, i == 2 ? 350 : 3100, IPPROTO_UDP, UDP_SEGMENT, &segments[i], sizeof *segments);
    }
}

static void send_to_peer(int fd, const char *text)
{
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(sendto(fd, text, strlen(text), 0, generic(&peer), sizeof peer));
    /* In order on the wire, whichever way each goes. */
    sleep_msec(20);
}

static void set(int fd, int name, int value)
{
    MUST(setsockopt(fd, IPPROTO_IP, name, &value, sizeof value));
}

int main(void)
{
    int fd = bound_to(SELF, 7900), connected = bound_to("0.0.0.0", 7901);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    send_to_peer(fd, "asks for the neighbour");
    sleep_msec(200);
    send_to_peer(fd, "");
    send_to_peer(fd, "x");
    send_to_peer(fd, "odd");
    send_to_peer(fd, "a datagram longer than the smallest Ethernet frame, without padding");
    for (int ttl = 1; ttl <= 255; ttl += 127) {
        set(fd, IP_TTL, ttl);
        send_to_peer(fd, "time to live");
    }
    set(fd, IP_TTL, -1);
    send_to_peer(fd, "time to live, by default");
    for (int tos = 0; tos <= 0xe0; tos += 0x1c) {
        set(fd, IP_TOS, tos);
        send_to_peer(fd, "service class");
    }
    set(fd, IP_TOS, 0);
    said(fd);
    for (int discover = IP_PMTUDISC_DONT; discover <= IP_PMTUDISC_OMIT; discover++) {
        char large[2001];
        memset(large, 'l', sizeof large - 1);
        large[sizeof large - 1] = 0;
        set(fd, IP_MTU_DISCOVER, discover);
        send_to_peer(fd, "path MTU discovery");
        printf("%d: %zd\n", discover, sendto(fd, large, 2000, MSG_DONTWAIT, generic(&peer), sizeof peer));
        sleep_msec(20);
    }
    MUST(connect(connected, generic(&peer), sizeof peer));
    MUST(send(connected, "connected", 9, 0));
    sleep_msec(20);
    set(connected, IP_TTL, 9);
    MUST(send(connected, "connected, nine hops", 20, 0));
    sleep_msec(20);
    int off = 1;
    MUST(setsockopt(connected, SOL_SOCKET, SO_NO_CHECK, &off, sizeof off));
    MUST(send(connected, "no checksum", 11, 0));
    sleep_msec(20);
    printf("sent\n");
    return 0;
}
