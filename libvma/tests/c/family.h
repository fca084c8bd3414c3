/* Sockets of either family for one program: with CASE_OVER_IPV6 in the environment those that it makes of AF_INET are of AF_INET6, and
 * its IPv4 addresses are mapped where such a socket takes no others. What it is told of addresses is longer than it expects then: the
 * family and the port are in the same places. */
#ifndef FAMILY_H
#define FAMILY_H

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static inline int over_ipv6(void)
{
    /* Read once: threads of the program may change the environment. */
    static int known;
    if (!known)
        known = getenv("CASE_OVER_IPV6") ? 2 : 1;
    return known == 2;
}

static inline int family_socket(int domain, int type, int protocol)
{
    int kind = type & 0xf, off = 0;
    int is_ours = domain == AF_INET && ((kind == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP)) ||
                                        (kind == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)));
    if (!is_ours || !over_ipv6())
        return socket(domain, type, protocol);
    int fd = socket(AF_INET6, type, protocol);
    /* As programs do that do not rely on net.ipv6.bindv6only. */
    if (fd >= 0 && kind == SOCK_STREAM)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return fd;
}

static inline int option_is(int fd, int name, int wanted)
{
    int value;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && value == wanted;
}

/* The address in the form of a socket's family, if it is an IPv4 one and the socket takes it in that form only. */
static inline int is_mapped(int fd, const struct sockaddr *address, socklen_t len, struct sockaddr_in6 *mapped)
{
    struct sockaddr_in four;
    if (!over_ipv6() || !address || len < sizeof four || !option_is(fd, SO_DOMAIN, AF_INET6))
        return 0;
    memcpy(&four, address, sizeof four);
    if (four.sin_family != AF_INET)
        return 0;
    *mapped = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = four.sin_port};
    memset(&mapped->sin6_addr.s6_addr[10], 0xff, 2);
    memcpy(&mapped->sin6_addr.s6_addr[12], &four.sin_addr, 4);
    return 1;
}

static inline int family_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in6 mapped;
    if (!is_mapped(fd, address, len, &mapped))
        return bind(fd, address, len);
    static const unsigned char any[4];
    if (memcmp(&mapped.sin6_addr.s6_addr[12], any, sizeof any) == 0)
        mapped.sin6_addr = in6addr_any;
    return bind(fd, (const struct sockaddr *)&mapped, sizeof mapped);
}

/* A datagram socket takes either form. */
static inline int family_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in6 mapped;
    if (!over_ipv6() || !option_is(fd, SO_TYPE, SOCK_STREAM) || !is_mapped(fd, address, len, &mapped))
        return connect(fd, address, len);
    return connect(fd, (const struct sockaddr *)&mapped, sizeof mapped);
}

#define socket family_socket
#define bind family_bind
#define connect family_connect

#endif
