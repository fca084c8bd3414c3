/* later <ip> <port> [epoll]: listens, and sends each octet of every connection back, with a thread for each. Ends when its standard input
 * does. */
#include "case.h"
#include <sys/epoll.h>

static void *serve(void *argument)
{
    int fd = (int)(long)argument;
    char buffer[4096];
    ssize_t len;
    while ((len = recv(fd, buffer, sizeof buffer, 0)) > 0)
        if (send(fd, buffer, (size_t)len, MSG_NOSIGNAL) != len)
            break;
    close(fd);
    return NULL;
}

static int listener;
static int uses_epoll;

static void *accept_all(void *argument)
{
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        pthread_t thread;
        if (uses_epoll && epoll_wait(set, &event, 1, -1) != 1)
            continue;
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            pthread_create(&thread, NULL, serve, (void *)(long)fd);
    }
    return argument;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    pthread_t thread;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (argc < 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
        return 2;
    uses_epoll = argc > 3;
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16))
        return 1;
    if (uses_epoll)
        fcntl(listener, F_SETFL, O_NONBLOCK);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pthread_create(&thread, NULL, accept_all, NULL) != 0)
        return 1;
    printf("ready\n");
    while (getchar() != EOF) {
    }
    return 0;
}
