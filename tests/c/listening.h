/* A listener, and a peer that connects to it when it is told to (testkit's call_back_streams). */
#ifndef LISTENING_H
#define LISTENING_H

#include "case.h"

UNUSED static int listening(void)
{
    struct sockaddr_in self = address(SELF, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 16));
    return fd;
}

/* By a connection to the peer, which this closes. */
UNUSED static void is_called(int listener, int peer)
{
    char order[32], answer = 0;
    int len = snprintf(order, sizeof order, "%d x\n", port_of(listener));
    must(send(peer, order, (size_t)len, 0) == len, "send", __LINE__);
    must(recv(peer, &answer, 1, 0) == 1, "recv", __LINE__);
    MUST(close(peer));
}

#endif
