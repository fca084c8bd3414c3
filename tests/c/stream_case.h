/* What programs about streams share. The peer at PORT sends back what comes; that at PEER_PORT connects when it is asked to, says 'c' first,
 * and sends back what comes. */
#ifndef STREAM_CASE_H
#define STREAM_CASE_H

#include "listening.h"
#include "within_host.h"
#include <netinet/tcp.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define PORT 7103

UNUSED static int asker = -1;

/* Has the peer connect. */
UNUSED static void have_one_asked_for(int listener)
{
    char script[40];
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    int len = snprintf(script, sizeof script, "C %d 0", port_of(listener));
    if (asker < 0)
        asker = bound();
    must(sendto(asker, script, (size_t)len, 0, generic(&peer), sizeof peer) == len, "asking", __LINE__);
}

/* The same, and waits until it has. */
UNUSED static void have_connection(int listener)
{
    have_one_asked_for(listener);
    await_data(listener);
}

UNUSED static void set_timeouts(int fd, int msec)
{
    struct timeval timeout = {msec / 1000, msec % 1000 * 1000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout));
}

UNUSED static int accepted(int listener)
{
    char first;
    have_connection(listener);
    int fd = accept(listener, NULL, NULL);
    MUST(fd);
    set_timeouts(fd, 20000);
    await_octets(fd, 1);
    must(read(fd, &first, 1) == 1 && first == 'c', "the first octet", __LINE__);
    warm(fd);
    return fd;
}

UNUSED static int connected(void)
{
    struct sockaddr_in peer = address(PEER, PORT);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(connect(fd, generic(&peer), sizeof peer));
    set_timeouts(fd, 20000);
    warm(fd);
    return fd;
}

/* Has octets come. */
UNUSED static void have_octets(int fd, const char *octets)
{
    int before;
    size_t len = strlen(octets);
    MUST(ioctl(fd, FIONREAD, &before));
    must(send(fd, octets, len, 0) == (ssize_t)len, "send", __LINE__);
    await_octets(fd, before + (int)len);
}

/* Only the kernel can have the stream from here on. */
UNUSED static void give_to_kernel(int fd)
{
    must(fdopen(fd, "r+") != NULL, "fdopen", __LINE__);
}

#endif
