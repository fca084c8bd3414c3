/* What many sockets cost: `many COUNT KIND`. Says microseconds of CPU time to open them, per second while nothing happens, and to close
 * them. Kinds: `plain` on ports of their own, `reuse` the same with SO_REUSEADDR; `groups`: so many multicast groups at one port, 20 on a
 * socket, `feeds`: one on each, `all`: the same, and each gets what is for any of them (IP_MULTICAST_ALL); `brief`: bound to any address and
 * port, one datagram sent, and closed, one after the other; `listeners`: listening at any address and port, and closed, one after the other;
 * `threads`: each in a recv on a socket of its own, until it is cancelled. */
#include "case.h"
#include <pthread.h>

#define GROUPS_OF_ONE 20
#define GROUP_PORT 6000
/* Of what is done every half second or less often, one time more falls into some of them. */
#define IDLE_SECONDS 4

static double cpu_usec(void)
{
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void bind_to(int fd, const char *host, int port, int reuse)
{
    struct sockaddr_in self = address(host, port);
    if (reuse)
        MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse));
    MUST(bind(fd, generic(&self), sizeof self));
}

static int feed(int all)
{
    int fd = udp();
    MUST(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &all, sizeof all));
    bind_to(fd, "0.0.0.0", GROUP_PORT, 1);
    return fd;
}

static void join(int fd, int number)
{
    struct ip_mreqn group = {.imr_multiaddr.s_addr = htonl(0xef010000 + (unsigned)number), .imr_address.s_addr = inet_addr(SELF)};
    MUST(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
}

static int brief(void)
{
    int fd = udp();
    bind_to(fd, "0.0.0.0", 0, 0);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(sendto(fd, "x", 1, 0, generic(&peer), sizeof peer));
    return fd;
}

static int listening(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    bind_to(fd, "0.0.0.0", 0, 0);
    MUST(listen(fd, 16));
    return fd;
}

static void *receives(void *fd)
{
    char octet;
    recv(*(int *)fd, &octet, 1, 0);
    return NULL;
}

static pthread_t start_receiving(int *fd)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    if (pthread_create(&thread, &attributes, receives, fd) != 0)
        exit(1);
    pthread_attr_destroy(&attributes);
    return thread;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0, sockets = 0;
    const char *kind = argc > 2 ? argv[2] : "";
    struct rlimit limit = {(rlim_t)count + 2000, (rlim_t)count + 2000};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int *fds = calloc((size_t)count, sizeof *fds), threads = strcmp(kind, "threads") == 0;
    pthread_t *receivers = calloc((size_t)count, sizeof *receivers);
    /* What opening the interface costs is not looked at. */
    int listens = strcmp(kind, "listeners") == 0, first = listens ? listening() : brief();
    sleep_msec(500);
    double begun = cpu_usec();
    for (int i = 0; i < count; i++) {
        if (strcmp(kind, "groups") == 0 || strcmp(kind, "feeds") == 0 || strcmp(kind, "all") == 0) {
            if (kind[0] != 'g' || i % GROUPS_OF_ONE == 0)
                fds[sockets++] = feed(kind[0] == 'a');
            join(fds[sockets - 1], i);
        } else if (strcmp(kind, "brief") == 0) {
            close(brief());
        } else if (listens) {
            close(listening());
        } else {
            fds[sockets] = udp();
            bind_to(fds[sockets++], SELF, 10000 + i, strcmp(kind, "reuse") == 0);
            if (threads)
                receivers[i] = start_receiving(&fds[i]);
        }
    }
    double opened = cpu_usec();
    sleep_msec(1000);
    double settled = cpu_usec();
    sleep_msec(1000 * IDLE_SECONDS);
    double idle = (cpu_usec() - settled) / IDLE_SECONDS, closing = cpu_usec();
    for (int i = 0; threads && i < count; i++) {
        pthread_cancel(receivers[i]);
        pthread_join(receivers[i], NULL);
    }
    while (sockets > 0)
        close(fds[--sockets]);
    printf("%.0f %.0f %.0f\n", opened - begun, idle, cpu_usec() - closing);
    free(fds);
    free(receivers);
    return close(first);
}
