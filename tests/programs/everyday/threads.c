/* threads <ip> <port>: a server that has a thread for each connection and says hello to each request. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

static void *converse(void *argument)
{
    int fd = (int)(intptr_t)argument, on = 1;
    char buffer[8192];

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* A request of the load generator comes whole. */
    while (recv(fd, buffer, sizeof buffer, 0) > 0)
        send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&to, sizeof to) < 0 || listen(listener, 1024) < 0) {
        perror("listen");
        return 1;
    }
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0 || pthread_create(&thread, &small, converse, (void *)(intptr_t)fd) != 0) {
            perror("connection");
            return 1;
        }
    }
}
