/* Datagrams through each of the calls that receive them, timed.
 *
 *   calls echo|ping|sink|send ADDRESS PORT CALL BYTES MSEC PAUSE_USEC [spin]
 *
 *   echo   answers whatever comes, until killed
 *   ping   asks an echo, and says p50 and p99 of half the round trips, in nanoseconds
 *   sink   receives until the sender ends; says how many came, p50 and p99 from send to receive call, and the CPU time of all
 *   send   sends for MSEC, with as long between two datagrams; CALL is sendto or sendmmsg. Says how many a second.
 *
 * CALL: recvfrom, recvmmsg (64 at a time), or select, poll, epoll before a recvfrom. "spin": calls that do not wait, again and again. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "times.h"

#define BATCH 64
#define BYTES_MAX 2048
#define TIMES_MAX (1u << 22)
/* Round trips before those that count. */
#define WARM_UP 2000

static uint64_t times[TIMES_MAX];
static char buffers[BATCH][BYTES_MAX];
static struct sockaddr_in peers[BATCH];
static struct mmsghdr messages[BATCH];
static struct iovec parts[BATCH];

static int fd, set = -1, spins;
static const char *call;

static void say_percentiles(uint64_t count)
{
    uint64_t kept = count < TIMES_MAX ? count : TIMES_MAX;
    qsort(times, kept, sizeof *times, by_size);
    printf("p50 %lu p99 %lu\n", kept ? times[kept / 2] : 0, kept ? times[kept * 99 / 100] : 0);
}

/* Until there is something to read. */
static void wait_readable(void)
{
    int ready;
    do {
        if (*call == 's') {
            struct timeval none = {0, 0};
            fd_set readable;
            FD_ZERO(&readable);
            FD_SET(fd, &readable);
            ready = select(fd + 1, &readable, NULL, NULL, spins ? &none : NULL);
        } else if (*call == 'p') {
            struct pollfd polled = {fd, POLLIN, 0};
            ready = poll(&polled, 1, spins ? 0 : -1);
        } else {
            struct epoll_event event;
            ready = epoll_wait(set, &event, 1, spins ? 0 : -1);
        }
        check(ready >= 0, call);
    } while (ready == 0);
}

/* Waits, and returns how many datagrams lie in the buffers. */
static int receive(void)
{
    int flags = spins ? MSG_DONTWAIT : 0;
    if (strcmp(call, "recvmmsg") == 0) {
        for (;;) {
            int count = recvmmsg(fd, messages, BATCH, flags | MSG_WAITFORONE, NULL);
            if (count > 0)
                return count;
            check(errno == EAGAIN, call);
        }
    }
    if (*call != 'r')
        wait_readable();
    for (;;) {
        socklen_t len = sizeof *peers;
        ssize_t got = recvfrom(fd, buffers[0], BYTES_MAX, flags, (struct sockaddr *)peers, &len);
        if (got >= 0) {
            messages[0].msg_len = (unsigned)got;
            return 1;
        }
        check(errno == EAGAIN, call);
    }
}

static void answer(void)
{
    for (;;) {
        receive();
        sendto(fd, buffers[0], messages[0].msg_len, 0, (struct sockaddr *)peers, sizeof *peers);
    }
}

static void ask(struct sockaddr_in *to, size_t bytes, uint64_t msec)
{
    static char question[BYTES_MAX];
    uint64_t count = 0, until = now() + msec * 1000000;
    for (uint64_t warm = 0;; warm++) {
        uint64_t asked = now();
        if (asked > until)
            break;
        sendto(fd, question, bytes, 0, (struct sockaddr *)to, sizeof *to);
        receive();
        if (warm >= WARM_UP)
            times[count++ % TIMES_MAX] = (now() - asked) / 2;
    }
    say_percentiles(count);
}

static void take(void)
{
    uint64_t received = 0, cpu = cpu_nsec(), stamp = 1;
    while (stamp != 0) {
        int count = receive();
        uint64_t time = now();
        for (int index = 0; index < count; index++) {
            memcpy(&stamp, buffers[index], sizeof stamp);
            if (stamp == 0)
                break;
            times[received++ % TIMES_MAX] = time - stamp;
        }
    }
    printf("received %lu cpu %lu ", received, cpu_nsec() - cpu);
    say_percentiles(received);
}

static void flood(struct sockaddr_in *to, size_t bytes, uint64_t msec, uint64_t pause_nsec)
{
    int batch = strcmp(call, "sendmmsg") == 0 ? BATCH : 1;
    for (int index = 0; index < batch; index++) {
        parts[index].iov_len = bytes;
        messages[index].msg_hdr.msg_name = to;
    }
    uint64_t begin = now(), end = begin + msec * 1000000, time = begin, sent = 0;
    while (time < end) {
        /* The clock is not looked at for each where many go. */
        if (pause_nsec > 0 || sent % BATCH == 0)
            time = now();
        for (int index = 0; index < batch; index++)
            memcpy(buffers[index], &time, sizeof time);
        if (batch > 1) {
            int count = sendmmsg(fd, messages, BATCH, 0);
            check(count > 0 || errno == ENOBUFS || errno == EAGAIN, call);
            sent += count > 0 ? BATCH : 0;
        } else {
            ssize_t len = sendto(fd, buffers[0], bytes, 0, (struct sockaddr *)to, sizeof *to);
            check(len >= 0 || errno == ENOBUFS || errno == EAGAIN, call);
            sent++;
        }
        for (uint64_t due = time + pause_nsec; pause_nsec > 0 && (uint64_t)now() < due;)
            ;
    }
    printf("rate %lu msec %lu\n", sent * 1000000000 / (time - begin), (time - begin) / 1000000);
    memset(buffers[0], 0, sizeof time);
    for (int tries = 0; tries < 5; tries++) {
        usleep(20000);
        sendto(fd, buffers[0], bytes, 0, (struct sockaddr *)to, sizeof *to);
    }
}

int main(int count, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (count < 8 || inet_pton(AF_INET, arguments[2], &address.sin_addr) != 1)
        return 2;
    address.sin_port = htons((uint16_t)atoi(arguments[3]));
    call = arguments[4];
    size_t bytes = strtoul(arguments[5], NULL, 10);
    uint64_t msec = strtoul(arguments[6], NULL, 10), pause_usec = strtoul(arguments[7], NULL, 10);
    spins = count > 8;
    check(bytes >= sizeof(uint64_t) && bytes <= BYTES_MAX, "bytes");
    for (int index = 0; index < BATCH; index++) {
        parts[index] = (struct iovec){buffers[index], BYTES_MAX};
        messages[index].msg_hdr = (struct msghdr){.msg_name = &peers[index],
                                                  .msg_namelen = sizeof *peers,
                                                  .msg_iov = &parts[index],
                                                  .msg_iovlen = 1};
    }
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    check(fd >= 0, "socket");
    const char *role = arguments[1];
    int serves = strcmp(role, "echo") == 0 || strcmp(role, "sink") == 0;
    struct sockaddr_in any = {.sin_family = AF_INET};
    check(bind(fd, (struct sockaddr *)(serves ? &address : &any), sizeof any) == 0, "bind");
    if (strcmp(call, "epoll") == 0) {
        struct epoll_event event = {.events = EPOLLIN};
        set = epoll_create1(0);
        check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    }
    puts("ready");
    fflush(stdout);
    if (strcmp(role, "echo") == 0)
        answer();
    else if (strcmp(role, "ping") == 0)
        ask(&address, bytes, msec);
    else if (strcmp(role, "sink") == 0)
        take();
    else
        flood(&address, bytes, msec, pause_usec * 1000);
    return 0;
}
