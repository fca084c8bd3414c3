/* Sends datagrams whose headers the test looks at on the wire. */
#include "case.h"

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
