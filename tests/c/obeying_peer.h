/* A peer of streams that obeys, and how its other end comes to a stream. The program says what the orders are:

   <program> peer <address>     the peer: each octet that it receives is an order
   <program> <case>             */
#ifndef OBEYING_PEER_H
#define OBEYING_PEER_H

#include "listening.h"
#include "within_host.h"

#define PORT 7105

/* The program's: what the peer does about an order. 0: it closes. */
static int obey(int fd, char order);

/* The program's: what the peer does to a socket before and after it connects, when it was asked to in such a way. */
static void prepare(int fd, char how, int is_connected);

UNUSED static void put(int fd, const char *octets, int flags)
{
    must(send(fd, octets, strlen(octets), flags | MSG_NOSIGNAL) == (ssize_t)strlen(octets), "send", __LINE__);
}

/* A first line asks for another connection: to a port, in what way. */
static void serve(int fd)
{
    char line[16] = {0}, order;
    int port = 0, called = fd;
    for (size_t len = 0; len + 1 < sizeof line && recv(fd, line + len, 1, 0) == 1 && line[len] != '\n'; len++) {
    }
    char how = '-';
    sscanf(line, "%d %c", &port, &how);
    if (port) {
        struct sockaddr_in to = address("10.77.0.2", port);
        called = socket(AF_INET, SOCK_STREAM, 0);
        MUST(called);
        prepare(called, how, 0);
        if (connect(called, generic(&to), sizeof to) < 0)
            return;
        prepare(called, how, 1);
        close(fd);
    } else {
        be_warmed(called);
    }
    while (recv(called, &order, 1, 0) == 1 && obey(called, order)) {
    }
    close(called);
}

static void *serve_in_a_thread(void *fd)
{
    serve((int)(long)fd);
    return NULL;
}

__attribute__((noreturn)) static void peer(const char *ip)
{
    struct sockaddr_in self = address(ip, PORT);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    MUST(fd);
    signal(SIGCHLD, SIG_IGN);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 64));
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int accepted = accept(fd, NULL, NULL);
        MUST(accepted);
        /* What a child uses is the kernel's. */
        pthread_t thread;
        if (is_within_host()) {
            pthread_create(&thread, NULL, serve_in_a_thread, (void *)(long)accepted);
            pthread_detach(thread);
            continue;
        }
        if (fork() == 0) {
            /* It may outlive the peer, whose port is another's then. */
            close(fd);
            serve(accepted);
            _exit(0);
        }
        close(accepted);
    }
}

static int connected_to(int fd, const char *line)
{
    struct sockaddr_in to = address("10.77.0.1", PORT);
    MUST(connect(fd, generic(&to), sizeof to));
    put(fd, line, 0);
    set_timeout(fd, 3000);
    return fd;
}

UNUSED static int connected(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    connected_to(fd, "0 -\n");
    warm(fd);
    return fd;
}

/* The peer connects, in such a way. */
static void have_connection(int listener, char how)
{
    char line[16];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    snprintf(line, sizeof line, "%d %c\n", port_of(listener), how);
    connected_to(fd, line);
    /* It closes that when it has connected, or cannot. */
    recv(fd, line, 1, 0);
    MUST(close(fd));
}

UNUSED static int accepted(char how)
{
    int listener = listening();
    set_timeout(listener, 3000);
    have_connection(listener, how);
    int fd = accept(listener, NULL, NULL);
    if (fd >= 0)
        set_timeout(fd, 3000);
    MUST(close(listener));
    return fd;
}

#define CASES_AND_PEER(...)                                                                                            \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        static const struct test_case cases[] = {__VA_ARGS__};                                                         \
        if (argc == 3 && strcmp(argv[1], "peer") == 0)                                                                 \
            peer(argv[2]);                                                                                             \
        return run_case(argc, argv, cases, sizeof cases / sizeof *cases);                                              \
    }

#endif
