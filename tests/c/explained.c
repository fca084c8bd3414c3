/* explained <port of the peer>: sends and receives in all the ways in which the kernel has a part, on three sockets. */
#include "case.h"

static struct sockaddr_in peer;

static void send_bytes(int fd, size_t len, int flags)
{
    static char data[3000];
    MUST(sendto(fd, data, len, flags, generic(&peer), sizeof peer));
}

static void send_several(int fd)
{
    static char data[3000];
    struct iovec parts[4] = {{data, 8}, {data, 3000}, {data, 8}, {data, 2000}};
    struct mmsghdr messages[4] = {0};
    for (int i = 0; i < 4; i++)
        messages[i].msg_hdr = (struct msghdr){&peer, sizeof peer, &parts[i], 1, NULL, 0, 0};
    MUST(sendmmsg(fd, messages, 4, 0));
}

/* The peer sends each datagram back. */
static void receive_all(int fd, int count)
{
    static char data[2][3000];
    struct iovec parts[2] = {{data[0], 3000}, {data[1], 3000}};
    struct mmsghdr messages[2] = {{{NULL, 0, &parts[0], 1, NULL, 0, 0}, 0}, {{NULL, 0, &parts[1], 1, NULL, 0, 0}, 0}};
    set_timeout(fd, 10000);
    for (int got = 0; got < count;) {
        int more = got + 2 <= count ? recvmmsg(fd, messages, 2, MSG_WAITFORONE, NULL) : (int)(recv(fd, data, 3000, 0) >= 0);
        MUST(more - 1);
        got += more;
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    peer = address(PEER, atoi(argv[1]));
    int accelerated = udp(), own = bound(), shared = udp(), off = -1;
    for (int i = 0; i < 3; i++)
        send_bytes(accelerated, 8, 0);
    send_bytes(accelerated, 3000, 0);
    send_bytes(accelerated, 8, MSG_DONTROUTE);
    send_several(accelerated);
    receive_all(accelerated, 9);
    send_several(own);
    receive_all(own, 4);
    MUST(setsockopt(shared, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof off));
    struct sockaddr_in self = address(SELF, 7420);
    MUST(bind(shared, generic(&self), sizeof self));
    send_several(shared);
    receive_all(shared, 4);
    printf("done\n");
    while (getchar() != EOF) {
    }
    return 0;
}
