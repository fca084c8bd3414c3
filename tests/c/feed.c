/* A market data feed: many multicast groups, one process that receives them all.
 *
 *   feed receive ADDRESS GROUPS PORT [spin]   a socket for each group, all in one epoll set, until the sender ends
 *   feed send ADDRESS GROUPS PORT RATE MSEC   RATE datagrams a second in turn to the groups
 *
 * The receiver says in the end: datagrams received and sent, p50 and p99 of their times from send to receive call, CPU time of
 * the process since the first, in nanoseconds, and the time between the first and the last. The sender: datagrams a second. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "times.h"

struct datagram {
    uint64_t sent_nsec; /* 0: the last one, with the number of all */
    uint64_t number;
    char filler[48];
};

#define TIMES_MAX (1u << 22)
static uint64_t times[TIMES_MAX];

static struct sockaddr_in group_of(int index, int port)
{
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons(port)};
    group.sin_addr.s_addr = htonl(0xef030000 + (uint32_t)index);
    return group;
}

static void receive(struct in_addr interface, int groups, int port, int timeout)
{
    int set = epoll_create1(0);
    for (int index = 0; index < groups; index++) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        struct sockaddr_in group = group_of(index, port);
        struct ip_mreq request = {group.sin_addr, interface};
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        check(fd >= 0 && bind(fd, (struct sockaddr *)&group, sizeof group) == 0, "bind");
        check(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request) == 0, "join");
        check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    }
    puts("ready");
    fflush(stdout);
    uint64_t received = 0, sent = 0, first = 0, last = 0, cpu = 0;
    while (sent == 0) {
        struct epoll_event events[64];
        int count = epoll_wait(set, events, 64, timeout);
        check(count >= 0 || errno == EINTR, "epoll_wait");
        for (int index = 0; index < count; index++) {
            struct datagram datagram;
            while (recv(events[index].data.fd, &datagram, sizeof datagram, 0) == sizeof datagram) {
                if (datagram.sent_nsec == 0) {
                    sent = datagram.number;
                    continue;
                }
                last = now();
                if (received == 0) {
                    first = last;
                    cpu = cpu_nsec();
                }
                times[received++ % TIMES_MAX] = last - datagram.sent_nsec;
            }
        }
    }
    cpu = cpu_nsec() - cpu;
    uint64_t kept = received < TIMES_MAX ? received : TIMES_MAX;
    qsort(times, kept, sizeof *times, by_size);
    printf("received %lu sent %lu p50 %lu p99 %lu cpu %lu wall %lu\n", received, sent, times[kept / 2],
           times[kept * 99 / 100], cpu, last - first);
}

static void send_all(struct in_addr interface, int groups, int port, uint64_t rate, uint64_t msec)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), off = 0;
    check(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface) == 0, "interface");
    check(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off) == 0, "loop");
    uint64_t begin = now(), count = rate * msec / 1000;
    struct datagram datagram = {0};
    for (uint64_t number = 0; number < count; number++) {
        uint64_t due = begin + number * 1000000000 / rate;
        while ((datagram.sent_nsec = now()) < due)
            ;
        struct sockaddr_in group = group_of((int)(number % (uint64_t)groups), port);
        datagram.number = number;
        ssize_t len = sendto(fd, &datagram, sizeof datagram, 0, (struct sockaddr *)&group, sizeof group);
        check(len == sizeof datagram, "sendto");
    }
    uint64_t end = now();
    usleep(200000);
    datagram.sent_nsec = 0;
    datagram.number = count;
    struct sockaddr_in group = group_of(0, port);
    sendto(fd, &datagram, sizeof datagram, 0, (struct sockaddr *)&group, sizeof group);
    printf("rate %lu\n", count * 1000000000 / (end - begin));
}

int main(int count, char **arguments)
{
    struct in_addr interface;
    if (count < 5 || inet_pton(AF_INET, arguments[2], &interface) != 1)
        return 2;
    int groups = atoi(arguments[3]), port = atoi(arguments[4]);
    if (strcmp(arguments[1], "receive") == 0)
        receive(interface, groups, port, count > 5 ? 0 : -1);
    else if (count > 6)
        send_all(interface, groups, port, strtoul(arguments[5], NULL, 10), strtoul(arguments[6], NULL, 10));
    return 0;
}
