/* echo <ip> <port>: sends every datagram back to where it came from. Ends when its standard input does. */
#include "case.h"

static void *echo(void *argument)
{
    static char buffer[70000];
    int fd = *(int *)argument;
    struct sockaddr_in from;
    for (;;) {
        socklen_t from_len = sizeof from;
        ssize_t len = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_len);
        /* While the network is down an echo is lost, as on any network. */
        if (len >= 0 && sendto(fd, buffer, (size_t)len, 0, generic(&from), from_len) < 0)
            fprintf(stderr, "echo: sendto: %s\n", strerrorname_np(errno));
        if (len < 0 && errno != EINTR)
            fprintf(stderr, "echo: recvfrom: %s\n", strerrorname_np(errno));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int fd = bound_to(argv[1], atoi(argv[2]));
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pthread_create(&thread, NULL, echo, &fd) != 0)
        return 1;
    printf("ready\n");
    while (getchar() != EOF) {
    }
    return 0;
}
