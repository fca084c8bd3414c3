/* Echoes over UDP and TCP on hosts with several addresses, of either family.
 *   anywhere serve <ip or any> <port>   sends back what comes, and ends with its standard input
 *   anywhere ask <ip> <port>            says "all" if all of it came back
 * A link-local address has its interface: fe80::1%veth. */
#include "case.h"
#include <netdb.h>
#undef socket

#define DATAGRAMS 200
#define OCTETS 1000000

static struct sockaddr_storage end;
static socklen_t end_len;

static void find(const char *ip, const char *port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
    must(getaddrinfo(ip, port, &hints, &found) == 0, "getaddrinfo", __LINE__);
    memcpy(&end, found->ai_addr, found->ai_addrlen);
    end_len = found->ai_addrlen;
    freeaddrinfo(found);
}

static int made(int type)
{
    int fd = socket(end.ss_family, type, 0), on = 1;
    MUST(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    return fd;
}

/* Says an address with its scope, as name resolution prints it. */
static void say_end(const char *what, int (*call)(int, struct sockaddr *, socklen_t *), int fd)
{
    struct sockaddr_storage seen;
    socklen_t len = sizeof seen;
    char text[200];
    MUST(call(fd, (struct sockaddr *)&seen, &len));
    must(getnameinfo((struct sockaddr *)&seen, len, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0, "getnameinfo", __LINE__);
    printf("%s %s\n", what, text);
}

static void *serve_datagrams(void *unused UNUSED)
{
    static char buffer[2000];
    int fd = made(SOCK_DGRAM);
    MUST(bind(fd, (struct sockaddr *)&end, end_len));
    for (;;) {
        struct sockaddr_storage from;
        socklen_t from_len = sizeof from;
        ssize_t len = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_len);
        if (len >= 0 && sendto(fd, buffer, (size_t)len, 0, (struct sockaddr *)&from, from_len) < 0)
            fprintf(stderr, "sendto: %s\n", strerrorname_np(errno));
    }
    return NULL;
}

static void *serve_stream(void *argument)
{
    char buffer[65536];
    int fd = (int)(long)argument;
    for (ssize_t len; (len = recv(fd, buffer, sizeof buffer, 0)) > 0;)
        for (ssize_t done = 0, part; done < len; done += part)
            if ((part = send(fd, buffer + done, (size_t)(len - done), MSG_NOSIGNAL)) < 0)
                len = 0, part = 0;
    close(fd);
    return NULL;
}

static void *serve_streams(void *argument)
{
    int listener = (int)(long)argument;
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        say_end("accepted at", getsockname, fd);
        say_end("of", getpeername, fd);
        MUST(-pthread_create(&thread, NULL, serve_stream, (void *)(long)fd));
    }
    return NULL;
}

static int serve(void)
{
    pthread_t threads[2];
    int listener = made(SOCK_STREAM);
    MUST(bind(listener, (struct sockaddr *)&end, end_len));
    MUST(listen(listener, 100));
    MUST(-pthread_create(&threads[0], NULL, serve_datagrams, NULL));
    MUST(-pthread_create(&threads[1], NULL, serve_streams, (void *)(long)listener));
    usleep(100000);
    printf("ready\n");
    while (getchar() != EOF) {
    }
    return 0;
}

static void ask_datagrams(void)
{
    struct timeval most = {5, 0};
    int fd = made(SOCK_DGRAM);
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most));
    for (int i = 0; i < DATAGRAMS; i++) {
        int back = -1;
        struct sockaddr_storage from;
        socklen_t from_len = sizeof from;
        MUST(sendto(fd, &i, sizeof i, 0, (struct sockaddr *)&end, end_len));
        MUST(recvfrom(fd, &back, sizeof back, 0, (struct sockaddr *)&from, &from_len));
        must(back == i, "a datagram", __LINE__);
        /* On a host with several addresses the answer may come from another one. */
        must(from_len == end_len, "its source", __LINE__);
    }
    close(fd);
}

static void ask_stream(void)
{
    static char sent[20000], back[65536];
    int fd = made(SOCK_STREAM);
    MUST(connect(fd, (struct sockaddr *)&end, end_len));
    say_end("from", getsockname, fd);
    say_end("to", getpeername, fd);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 7);
    size_t out = 0, in = 0;
    while (in < OCTETS) {
        struct pollfd polled = {fd, (short)(POLLIN | (out < OCTETS ? POLLOUT : 0)), 0};
        must(poll(&polled, 1, 20000) == 1, "poll", __LINE__);
        if (polled.revents & POLLOUT) {
            size_t at = out % sizeof sent;
            ssize_t len = send(fd, sent + at, sizeof sent - at, MSG_DONTWAIT | MSG_NOSIGNAL);
            must(len > 0 || errno == EAGAIN, "send", __LINE__);
            out += len > 0 ? (size_t)len : 0;
        }
        if (polled.revents & (POLLIN | POLLERR | POLLHUP)) {
            ssize_t len = recv(fd, back, sizeof back, MSG_DONTWAIT);
            must(len > 0 || (len < 0 && errno == EAGAIN), "recv", __LINE__);
            for (ssize_t i = 0; i < len; i++, in++)
                must(back[i] == sent[in % sizeof sent], "an octet", __LINE__);
        }
    }
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    find(argv[2], argv[3]);
    if (strcmp(argv[1], "serve") == 0)
        return serve();
    ask_datagrams();
    ask_stream();
    printf("all\n");
    return 0;
}
