/* probe <ip> <port>: does on one bound socket what its standard input says, a line each, and says the result.
 *   send <ip> <port> [<len>]  sends a datagram
 *   connect <ip> <port>
 *   write <len>               sends a datagram to the peer
 *   recv                      receives a datagram that comes
 *   silence                   receives what does not come within 300 ms
 *   drain                     receives what is there or comes within 300 ms, and says nothing
 *   poll                      says what poll(2) reports within 300 ms
 *   error                     says SO_ERROR
 *   mtu                       says IP_MTU, or over IPv6 IPV6_MTU, and so on
 *   discover <n>              sets IP_MTU_DISCOVER
 *   recverr                   sets IP_RECVERR
 *   errqueue                  receives from the error queue
 *   wait <ms> */
#include "case.h"
#include <linux/errqueue.h>

static void say_option(const char *what, int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    say(what, getsockopt(fd, level, name, &value, &len));
    printf("is %d\n", value);
}

static void say_error_queue(int fd)
{
    char data[2048], control[512];
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (say("errqueue", recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT)) < 0)
        return;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        struct sock_extended_err error;
        memcpy(&error, CMSG_DATA(c), sizeof error);
        printf("level %d type %d errno %u origin %u type %u code %u info %u\n", c->cmsg_level, c->cmsg_type, error.ee_errno,
               error.ee_origin, error.ee_type, error.ee_code, error.ee_info);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int fd = bound_to(argv[1], atoi(argv[2])), port, len, number_of;
    int level = over_real_ipv6() ? IPPROTO_IPV6 : IPPROTO_IP;
    static char buffer[70000];
    char line[100], ip[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    for (int number = 1; fgets(line, sizeof line, stdin); number++) {
        printf("%d ", number);
        int fields = sscanf(line, "send %63s %d %d", ip, &port, &len);
        if (fields >= 2) {
            struct sockaddr_in to = address(ip, port);
            say("send", sendto(fd, buffer, fields == 3 ? (size_t)len : 5, 0, generic(&to), sizeof to));
        } else if (sscanf(line, "connect %63s %d", ip, &port) == 2) {
            struct sockaddr_in to = address(ip, port);
            say("connect", connect(fd, generic(&to), sizeof to));
        } else if (sscanf(line, "write %d", &len) == 1) {
            say("write", send(fd, buffer, (size_t)len, 0));
        } else if (sscanf(line, "discover %d", &number_of) == 1) {
            say("discover", setsockopt(fd, level, level == IPPROTO_IP ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &number_of, sizeof number_of));
        } else if (strncmp(line, "recverr", 7) == 0) {
            int on = 1;
            say("recverr", setsockopt(fd, level, level == IPPROTO_IP ? IP_RECVERR : IPV6_RECVERR, &on, sizeof on));
        } else if (strncmp(line, "errqueue", 8) == 0) {
            say_error_queue(fd);
        } else if (strncmp(line, "error", 5) == 0) {
            say_option("error", fd, SOL_SOCKET, SO_ERROR);
        } else if (strncmp(line, "mtu", 3) == 0) {
            say_option("mtu", fd, level, level == IPPROTO_IP ? IP_MTU : IPV6_MTU);
        } else if (strncmp(line, "poll", 4) == 0) {
            struct pollfd polled = {fd, POLLIN, 0};
            say("poll", poll(&polled, 1, 300));
            printf("revents %#x\n", (unsigned)polled.revents);
        } else if (sscanf(line, "wait %d", &number_of) == 1) {
            sleep_msec(number_of);
            printf("waited\n");
        } else if (strncmp(line, "drain", 5) == 0) {
            set_timeout(fd, 300);
            while (recv(fd, buffer, sizeof buffer, 0) >= 0 || errno == ECONNREFUSED) {
            }
            printf("drained\n");
        } else {
            set_timeout(fd, strncmp(line, "recv", 4) == 0 ? 20000 : 300);
            say("recv", recv(fd, buffer, sizeof buffer, 0));
        }
        printf("%d done\n", number);
    }
    return 0;
}
