/* Preloaded before the library: what a program binds at 127.0.0.1 is at TURNED_OWN, and what it connects to there, or at that address,
   goes to TURNED_FAR, where someone sends each packet back with its addresses swapped. So both ends of a connection of one process
   pass the link. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef int call(int, const struct sockaddr *, socklen_t);

static in_addr_t address(const char *variable)
{
    const char *text = getenv(variable);
    return text ? inet_addr(text) : INADDR_NONE;
}

static int turned(const char *name, int fd, const struct sockaddr *at, socklen_t len, const char *to)
{
    call *next = (call *)dlsym(RTLD_NEXT, name);
    struct sockaddr_in in;
    if (!at || len < sizeof in || at->sa_family != AF_INET)
        return next(fd, at, len);
    in = *(const struct sockaddr_in *)at;
    if (in.sin_addr.s_addr == htonl(INADDR_LOOPBACK) || in.sin_addr.s_addr == address("TURNED_OWN"))
        in.sin_addr.s_addr = address(to);
    return next(fd, (struct sockaddr *)&in, sizeof in);
}

int bind(int fd, const struct sockaddr *at, socklen_t len)
{
    return turned("bind", fd, at, len, "TURNED_OWN");
}

int connect(int fd, const struct sockaddr *at, socklen_t len)
{
    return turned("connect", fd, at, len, "TURNED_FAR");
}
