/* With CASE_WITHIN_HOST in the environment the peer is a process of the same host, and the streams get to know each other before a case
   begins: so they go through memory that both share, if the library has that. */
#ifndef WITHIN_HOST_H
#define WITHIN_HOST_H

#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define WARMING_ROUNDS 30

static inline int is_within_host(void)
{
    return getenv("CASE_WITHIN_HOST") != NULL;
}

/* The peer sends back what comes. */
static inline void warm(int fd)
{
    struct timespec pause = {0, 1500000};
    char octet;
    for (int i = 0; is_within_host() && i < WARMING_ROUNDS; i++) {
        if (send(fd, "w", 1, MSG_NOSIGNAL) != 1 || recv(fd, &octet, 1, MSG_WAITALL) != 1)
            return;
        nanosleep(&pause, NULL);
    }
}

/* The other end. */
static inline void be_warmed(int fd)
{
    char octet;
    for (int i = 0; is_within_host() && i < WARMING_ROUNDS; i++)
        if (recv(fd, &octet, 1, 0) != 1 || send(fd, &octet, 1, MSG_NOSIGNAL) != 1)
            return;
}

#endif
