/* VMA_EXCEPTION_HANDLING: requests that only the kernel can fulfil. */
#include "case.h"
#include <sys/resource.h>

static void peek_offset(void)
{
    int on = 1, fd = bound();
    say("setsockopt", setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &on, sizeof on));
    on = -1;
    socklen_t len = sizeof on;
    MUST(getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &on, &len));
    printf("set: %d\n", on);
    say("once more", setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &on, sizeof on));
}

/* What the accelerated path has is no exception, nor is what the kernel refuses or already has. */
static void ordinary(void)
{
    int value = 1, fd = bound();
    say("SO_BROADCAST", setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &value, sizeof value));
    say("IP_TTL", setsockopt(fd, IPPROTO_IP, IP_TTL, &value, sizeof value));
    say("O_NONBLOCK", fcntl(fd, F_SETFL, O_NONBLOCK));
    say("FIONBIO", ioctl(fd, FIONBIO, &value));
    value = 0;
    say("FIOASYNC off", ioctl(fd, FIOASYNC, &value));
    say("FIOASYNC", ioctl(fd, FIOASYNC, NULL));
    int kernels = bound_to("127.0.0.1", 0);
    value = 1;
    say("of the kernel", setsockopt(kernels, SOL_SOCKET, SO_PEEK_OFF, &value, sizeof value));
    say("of another kind", setsockopt(socket(AF_UNIX, SOCK_DGRAM, 0), SOL_SOCKET, SO_PASSCRED, &value, sizeof value));
}

static void unknown_option(void)
{
    int on = 1, fd = bound();
    say("setsockopt", setsockopt(fd, SOL_SOCKET, 9999, &on, sizeof on));
}

static void signals_by_fcntl(void)
{
    int fd = bound();
    say("fcntl", fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK));
    printf("flags %d\n", fcntl(fd, F_GETFL) & (O_ASYNC | O_NONBLOCK));
}

static void signals_by_ioctl(void)
{
    int on = 1, fd = bound();
    say("ioctl", ioctl(fd, FIOASYNC, &on));
    printf("flags %d\n", fcntl(fd, F_GETFL) & O_ASYNC);
}

static void more_to_come(void)
{
    int fd = bound();
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(connect(fd, generic(&peer), sizeof peer));
    say("send", send(fd, "part", 4, MSG_MORE));
}

/* The program's socket gets the last descriptor that there is. */
static void no_descriptors(void)
{
    int next = dup(0);
    MUST(next);
    close(next);
    struct rlimit limit = {(rlim_t)next + 1, (rlim_t)next + 1};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    say("socket", socket(AF_INET, SOCK_DGRAM, 0) == next ? 0 : -1);
}

static void said_at_exit(void)
{
    printf("exit handler\n");
}

static void binds(void)
{
    atexit(said_at_exit);
    bound();
    printf("bound\n");
}

CASES({"peek_offset", peek_offset}, {"ordinary", ordinary}, {"unknown_option", unknown_option},
      {"signals_by_fcntl", signals_by_fcntl}, {"signals_by_ioctl", signals_by_ioctl},
      {"more_to_come", more_to_come}, {"no_descriptors", no_descriptors}, {"binds", binds})
