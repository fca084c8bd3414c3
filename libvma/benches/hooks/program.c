/* Calls on a descriptor that is not the library's, through the hook and without it. The library runs, and has a socket. Prints the
 * difference of the two, the median over rounds, one line of JSON a call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 31, CALLS = 20000, MANY = 16 };

static int other, set_of_others;
static char buffer[64];
static struct iovec parts[2] = {{buffer, 32}, {buffer + 32, 32}};
static struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
static struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 2}}};
static struct sockaddr_storage address;
static socklen_t address_len = sizeof address;
static struct pollfd polled[MANY];
static struct epoll_event events[MANY];
static fd_set readable, writable;
static struct timeval no_time;
static struct timespec now;
static int value, pipes[2];
static socklen_t value_len = sizeof value;
static struct sockaddr *const self = (struct sockaddr *)&address;

#define CALL(id, name, ...)                                                                                            \
    static void id(void *function)                                                                                     \
    {                                                                                                                  \
        __typeof__(name) *call = (__typeof__(name) *)function;                                                         \
        for (int i = 0; i < CALLS; i++)                                                                                \
            call(__VA_ARGS__);                                                                                         \
    }

CALL(run_read, read, other, buffer, sizeof buffer)
CALL(run_readv, readv, other, parts, 2)
CALL(run_recv, recv, other, buffer, sizeof buffer, 0)
CALL(run_recvfrom, recvfrom, other, buffer, sizeof buffer, 0, self, &address_len)
CALL(run_recvmsg, recvmsg, other, &message, 0)
CALL(run_recvmmsg, recvmmsg, other, messages, 2, 0, NULL)
CALL(run_preadv2, preadv2, other, parts, 2, -1, 0)
CALL(run_write, write, other, buffer, sizeof buffer)
CALL(run_writev, writev, other, parts, 2)
CALL(run_send, send, other, buffer, sizeof buffer, 0)
CALL(run_sendto, sendto, other, buffer, sizeof buffer, 0, self, sizeof address)
CALL(run_sendmsg, sendmsg, other, &message, 0)
CALL(run_sendmmsg, sendmmsg, other, messages, 2, 0)
CALL(run_splice, splice, other, NULL, other, NULL, 64, 0)
CALL(run_poll, poll, polled, 1, 0)
CALL(run_poll_16, poll, polled, MANY, 0)
CALL(run_ppoll, ppoll, polled, 1, &now, NULL)
CALL(run_select, select, other + 1, &readable, NULL, NULL, &no_time)
CALL(run_select_1024, select, 1024, &readable, &writable, NULL, &no_time)
CALL(run_pselect, pselect, other + 1, &readable, NULL, NULL, &now, NULL)
CALL(run_epoll_ctl, epoll_ctl, set_of_others, EPOLL_CTL_MOD, other, events)
CALL(run_epoll_wait_now, epoll_wait, set_of_others, events, MANY, 0)
CALL(run_epoll_wait, epoll_wait, set_of_others, events, MANY, -1)
CALL(run_epoll_pwait, epoll_pwait, set_of_others, events, MANY, 1000, NULL)
CALL(run_close, close, other)
CALL(run_dup, dup, other)
CALL(run_dup2, dup2, other, other + 1)
CALL(run_eventfd, eventfd, 0, 0)
CALL(run_pipe, pipe, pipes)
CALL(run_accept, accept, other, NULL, NULL)
CALL(run_open, open, "/", O_RDONLY, 0)
CALL(run_fcntl, fcntl, other, F_GETFL, 0)
CALL(run_bind, bind, other, self, address_len)
CALL(run_connect, connect, other, self, address_len)
CALL(run_setsockopt, setsockopt, other, SOL_SOCKET, SO_RCVBUF, &value, sizeof value)
CALL(run_getsockopt, getsockopt, other, SOL_SOCKET, SO_RCVBUF, &value, &value_len)
CALL(run_getsockname, getsockname, other, self, &address_len)
CALL(run_shutdown, shutdown, other, SHUT_WR)
CALL(run_ioctl, ioctl, other, FIONREAD, &value)

/* `label` begins with the call's family; `share` is how many descriptors share what a call costs. */
static const struct {
    const char *label, *function;
    void (*run)(void *);
    int share;
} calls[] = {
    {"receive: read", "read", run_read, 1},
    {"receive: readv", "readv", run_readv, 1},
    {"receive: recv", "recv", run_recv, 1},
    {"receive: recvfrom", "recvfrom", run_recvfrom, 1},
    {"receive: recvmsg", "recvmsg", run_recvmsg, 1},
    {"receive: recvmmsg", "recvmmsg", run_recvmmsg, 1},
    {"receive: preadv2", "preadv2", run_preadv2, 1},
    {"send: write", "write", run_write, 1},
    {"send: writev", "writev", run_writev, 1},
    {"send: send", "send", run_send, 1},
    {"send: sendto", "sendto", run_sendto, 1},
    {"send: sendmsg", "sendmsg", run_sendmsg, 1},
    {"send: sendmmsg", "sendmmsg", run_sendmmsg, 1},
    {"send: splice", "splice", run_splice, 1},
    {"poll: poll", "poll", run_poll, 1},
    {"poll: ppoll", "ppoll", run_ppoll, 1},
    {"poll: select", "select", run_select, 1},
    {"poll: pselect", "pselect", run_pselect, 1},
    {"poll: poll of 16, each", "poll", run_poll_16, MANY},
    {"poll: select of 16, each", "select", run_select_1024, MANY},
    {"epoll: epoll_ctl", "epoll_ctl", run_epoll_ctl, 1},
    {"epoll: epoll_wait without waiting", "epoll_wait", run_epoll_wait_now, 1},
    {"epoll: epoll_wait", "epoll_wait", run_epoll_wait, 1},
    {"epoll: epoll_pwait", "epoll_pwait", run_epoll_pwait, 1},
    {"descriptor: close", "close", run_close, 1},
    {"descriptor: dup", "dup", run_dup, 1},
    {"descriptor: dup2", "dup2", run_dup2, 1},
    {"descriptor: eventfd", "eventfd", run_eventfd, 1},
    {"descriptor: pipe", "pipe", run_pipe, 1},
    {"descriptor: accept", "accept", run_accept, 1},
    {"descriptor: open", "open", run_open, 1},
    {"descriptor: fcntl", "fcntl", run_fcntl, 1},
    {"setup: bind", "bind", run_bind, 1},
    {"setup: connect", "connect", run_connect, 1},
    {"setup: setsockopt", "setsockopt", run_setsockopt, 1},
    {"setup: getsockopt", "getsockopt", run_getsockopt, 1},
    {"setup: getsockname", "getsockname", run_getsockname, 1},
    {"setup: shutdown", "shutdown", run_shutdown, 1},
    {"setup: ioctl", "ioctl", run_ioctl, 1},
};

static double nsec_per_call(void (*run)(void *), void *function)
{
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    run(function);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return ((double)(ended.tv_sec - begun.tv_sec) * 1e9 + (double)(ended.tv_nsec - begun.tv_nsec)) / CALLS;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *must(void *found, const char *what)
{
    if (!found) {
        fprintf(stderr, "%s: %s\n", what, dlerror());
        exit(1);
    }
    return found;
}

/* argv[1]: the library of null calls. */
int main(int argc, char **argv)
{
    void *library = argc == 2 ? must(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD), argv[1]) : NULL;
    /* A high number, as a program has that has many: there is more to look through. */
    if (!library || fcntl(socket(AF_INET, SOCK_DGRAM, 0), F_DUPFD, 950) < 0 || pipe(pipes) != 0) {
        fprintf(stderr, "usage: %s <library of null calls>, preloaded\n", argv[0]);
        return 2;
    }
    int *on = must(dlsym(library, "null_calls_on"), "null_calls_on");
    set_of_others = epoll_create1(0);
    /* Spread over the words of a set. */
    for (int i = 0; i < MANY; i++) {
        other = fcntl(pipes[0], F_DUPFD, 20 + i * 60);
        polled[i] = (struct pollfd){other, POLLIN, 0};
        FD_SET(other, i % 2 ? &writable : &readable);
    }
    other = polled[0].fd;
    for (size_t call = 0; call < sizeof calls / sizeof *calls; call++) {
        void *hook = must(dlsym(RTLD_DEFAULT, calls[call].function), calls[call].function);
        void *null = must(dlsym(library, calls[call].function), calls[call].function);
        double difference[ROUNDS];
        if (hook == null) {
            fprintf(stderr, "%s has no hook\n", calls[call].function);
            return 1;
        }
        *on = 1;
        for (int round = -1; round < ROUNDS; round++) {
            fd_set all[2] = {readable, writable};
            double with = nsec_per_call(calls[call].run, hook), without = nsec_per_call(calls[call].run, null);
            readable = all[0], writable = all[1];
            if (round >= 0)
                difference[round] = with - without;
        }
        *on = 0;
        qsort(difference, ROUNDS, sizeof *difference, by_size);
        printf("{\"name\":\"%s\",\"nsec\":%.1f}\n", calls[call].label, difference[ROUNDS / 2] / calls[call].share);
    }
    return 0;
}
