/* two_echoes <ip> <port> <port>: sends every datagram back to where it came from, on both ports. Ends when its standard
 * input does. */
#include "case.h"

static void echo(int fd)
{
    static char buffer[2000];
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    ssize_t len = recvfrom(fd, buffer, sizeof buffer, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
    if (len >= 0)
        sendto(fd, buffer, (size_t)len, 0, generic(&from), from_len);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    struct pollfd polled[3] = {
        { .fd = bound_to(argv[1], atoi(argv[2])), .events = POLLIN },
        { .fd = bound_to(argv[1], atoi(argv[3])), .events = POLLIN },
        { .fd = STDIN_FILENO, .events = POLLIN },
    };
    printf("ready\n");
    fflush(stdout);
    while (polled[2].revents == 0) {
        if (poll(polled, 3, -1) < 0)
            continue;
        if (polled[0].revents != 0)
            echo(polled[0].fd);
        if (polled[1].revents != 0)
            echo(polled[1].fd);
    }
    return 0;
}
