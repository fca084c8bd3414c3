/* returned <address> <port>: a server of connections that it serves past the kernel until the peer says how they are to become the
 * kernel's. What ends with '?' is answered with '!'. After 'h' the C library may read the connection's data (fdopen(3)), which is
 * answered with 'k'; after 'f' a child serves it, which sends 'c'; 'q' has the server close it, 'l' the listener. At its end the peer gets
 * the number of octets that came. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int must(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}
#define MUST(expression) must(expression, #expression)

enum { CONNECTIONS_MAX = 1100 };

struct connection {
    int fd;
    unsigned long count;
};

static struct pollfd polled[CONNECTIONS_MAX];
static struct connection connections[CONNECTIONS_MAX];
static int count;

/* Serves what has come. Returns what the peer has said, or 0 at its end. */
static char serve(struct connection *it)
{
    static char buffer[1 << 16];
    ssize_t len = recv(it->fd, buffer, sizeof buffer, 0);
    if (len <= 0) {
        char text[32];
        int digits = snprintf(text, sizeof text, "%lu", it->count);
        send(it->fd, text, (size_t)digits, MSG_NOSIGNAL);
        return 0;
    }
    it->count += (unsigned long)len;
    char last = buffer[len - 1];
    if (last == '?')
        send(it->fd, "!", 1, MSG_NOSIGNAL);
    return last;
}

static void serve_in_child(int listener, struct connection *it)
{
    pid_t child = fork();
    MUST(child);
    if (child != 0)
        return;
    close(listener);
    for (int other = 0; other < count; other++)
        if (connections[other].fd != it->fd)
            close(connections[other].fd);
    send(it->fd, "c", 1, MSG_NOSIGNAL);
    for (;;) {
        char said = serve(it);
        if (said == 0 || said == 'q')
            _exit(0);
    }
}

static void drop(int at)
{
    close(connections[at].fd);
    connections[at] = connections[--count];
}

/* At an IPv4 address, an IPv6 address, or, for "*", at all addresses of both. */
static int listening(const char *address, in_port_t port)
{
    int on = 1, off = 0;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int is_four = inet_pton(AF_INET, address, &four.sin_addr) == 1;
    inet_pton(AF_INET6, address, &six.sin6_addr);
    int fd = MUST(socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM, 0));
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    if (is_four) {
        MUST(bind(fd, (struct sockaddr *)&four, sizeof four));
    } else {
        MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off));
        MUST(bind(fd, (struct sockaddr *)&six, sizeof six));
    }
    MUST(listen(fd, 1024));
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    signal(SIGCHLD, SIG_IGN);
    int listener = listening(argv[1], (in_port_t)atoi(argv[2]));
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        for (int at = 0; at < count; at++)
            polled[at] = (struct pollfd){.fd = connections[at].fd, .events = POLLIN};
        polled[count] = (struct pollfd){.fd = listener, .events = POLLIN};
        MUST(poll(polled, (nfds_t)count + 1, -1));
        short new = polled[count].revents;
        for (int at = count - 1; at >= 0; at--) {
            if (polled[at].revents == 0)
                continue;
            struct connection *it = &connections[at];
            switch (serve(it)) {
            case 'h':
                /* The stream is never closed, and nobody reads it. */
                if (fdopen(it->fd, "r+") == NULL)
                    return 3;
                send(it->fd, "k", 1, MSG_NOSIGNAL);
                break;
            case 'f':
                serve_in_child(listener, it);
                drop(at);
                break;
            case 'l':
                close(listener);
                listener = -1;
                send(it->fd, "k", 1, MSG_NOSIGNAL);
                break;
            case 'q':
            case 0:
                drop(at);
            }
        }
        if (new != 0 && count < CONNECTIONS_MAX - 1) {
            int fd = accept(listener, NULL, NULL);
            if (fd >= 0)
                connections[count++] = (struct connection){.fd = fd};
        }
    }
}
