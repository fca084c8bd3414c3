/* A server with several listeners: `any_address ADDRESS PORT...`, the first two of all addresses at the first port, and so on; "*" is any of both
 * versions. With SHARED=1 they have SO_REUSEPORT. A connection is told by which of them it came, and where it is, and gets back what it sends. */
#include "case.h"

#define LISTENERS_MAX 8
#define CONNECTIONS_MAX 64

static int listening(const char *host, int port, int is_shared)
{
    int is_any = strcmp(host, "*") == 0, off = 0, on = 1;
    int is_six = is_any || strchr(host, ':') != NULL;
    int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    if (is_six)
        MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, is_any ? &off : &on, sizeof on));
    if (!is_any)
        must(inet_pton(is_six ? AF_INET6 : AF_INET, host, is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr) == 1, host, __LINE__);
    if (is_shared)
        MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on));
    MUST(bind(fd, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four, is_six ? sizeof six : sizeof four));
    MUST(listen(fd, 16));
    return fd;
}

/* "0 10.77.0.2\n" */
static void greet(int fd, int listener)
{
    struct sockaddr_storage self;
    socklen_t len = sizeof self;
    char host[INET6_ADDRSTRLEN] = "", line[INET6_ADDRSTRLEN + 8];
    MUST(getsockname(fd, (struct sockaddr *)&self, &len));
    if (self.ss_family == AF_INET6) {
        struct in6_addr *six = &((struct sockaddr_in6 *)&self)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six))
            inet_ntop(AF_INET, six->s6_addr + 12, host, sizeof host);
        else
            inet_ntop(AF_INET6, six, host, sizeof host);
    } else {
        inet_ntop(AF_INET, &((struct sockaddr_in *)&self)->sin_addr, host, sizeof host);
    }
    int size = snprintf(line, sizeof line, "%d %s\n", listener, host);
    must(write(fd, line, (size_t)size) == size, "greeting", __LINE__);
}

int main(int argc, char **argv)
{
    struct pollfd fds[LISTENERS_MAX + CONNECTIONS_MAX];
    int listeners = 0, count;
    int is_shared = getenv("SHARED") != NULL;
    for (int i = 1; i + 1 < argc && listeners < LISTENERS_MAX; i += 2)
        fds[listeners++] = (struct pollfd){.fd = listening(argv[i], atoi(argv[i + 1]), is_shared), .events = POLLIN};
    count = listeners;
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        MUST(poll(fds, (nfds_t)count, -1));
        for (int i = count - 1; i >= 0; i--) {
            char octets[100];
            if (!fds[i].revents)
                continue;
            if (i < listeners) {
                must(count < LISTENERS_MAX + CONNECTIONS_MAX, "room", __LINE__);
                int fd = accept(fds[i].fd, NULL, NULL);
                MUST(fd);
                greet(fd, i);
                fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
                continue;
            }
            ssize_t len = read(fds[i].fd, octets, sizeof octets);
            if (len > 0 && write(fds[i].fd, octets, (size_t)len) == len)
                continue;
            close(fds[i].fd);
            fds[i] = fds[--count];
        }
    }
}
