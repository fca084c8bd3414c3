/* abuse <ip> <seconds>: threads that use descriptors which other threads close, copy and replace at the same time. Nothing
 * is promised about what a call returns then; the process lives, no call hangs, and what it does afterwards works. */
#include "case.h"
#include <sys/epoll.h>

#define THREADS 4
#define SLOTS 8
#define FIRST 100

static const char *ip;
static double until_sec;

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void *abuse(void *seed)
{
    unsigned state = (unsigned)(long)seed * 7919u;
    char buffer[2048];
    while (now_sec() < until_sec) {
        int fd = FIRST + (int)(next_random(&state) % SLOTS), other = FIRST + (int)(next_random(&state) % SLOTS);
        struct sockaddr_in self = address(ip, 7400 + (int)(next_random(&state) % 32)), peer = address(PEER, PEER_PORT), none = {.sin_family = AF_UNSPEC};
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd}, events[4];
        struct pollfd polled[2] = {{fd, POLLIN, 0}, {other, POLLIN | POLLOUT, 0}};
        int fresh, on = 1;
        switch (next_random(&state) % 16) {
        case 0:
        case 1:
            fresh = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
            dup2(fresh, fd);
            close(fresh);
            break;
        case 2:
            fresh = epoll_create1(0);
            dup2(fresh, fd);
            close(fresh);
            break;
        case 3:
            close(fd);
            break;
        case 4:
            dup2(other, fd);
            break;
        case 5:
        case 6:
            bind(fd, generic(&self), sizeof self);
            break;
        case 7:
            connect(fd, generic(next_random(&state) % 2 ? &peer : &none), sizeof peer);
            break;
        case 8:
        case 9:
            recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
            break;
        case 10:
            sendto(fd, buffer, next_random(&state) % 100, MSG_DONTWAIT, generic(&peer), sizeof peer);
            break;
        case 11:
            poll(polled, 2, 1);
            break;
        case 12:
            epoll_ctl(fd, 1 + (int)(next_random(&state) % 3), other, &event);
            break;
        case 13:
            epoll_wait(fd, events, 4, 1);
            break;
        case 14:
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
            break;
        case 15:
            shutdown(fd, SHUT_RDWR);
            break;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    if (argc != 3)
        return 2;
    ip = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    until_sec = now_sec() + atoi(argv[2]);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, abuse, (void *)(i + 1)) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int fd = FIRST; fd < FIRST + SLOTS; fd++)
        close(fd);
    int fd = bound_to(ip, 7450);
    set_timeout(fd, 2000);
    printf("survived\n");
    /* The peer sends to this port, too. */
    say_recv("recv", fd, 64, 0);
    getchar();
    return 0;
}
