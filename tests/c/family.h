/* Sockets of either family for one program: with CASE_OVER_IPV6 in the environment those that it makes of AF_INET are of AF_INET6, and
 * its IPv4 addresses are mapped where such a socket takes no others. If the value is "real", its addresses are IPv6 ones: fd77::x for
 * 10.77.0.x, ::1 for loopback, others on no link for others; broadcasts and groups stay what they are. What it is told of addresses is longer than it expects then: the
 * family and the port are in the same places. */
#ifndef FAMILY_H
#define FAMILY_H

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Read before main(): threads of the program may change the environment. */
static int is_over_ipv6, is_over_real_ipv6;

__attribute__((constructor)) static void read_family(void)
{
    const char *value = getenv("CASE_OVER_IPV6");
    is_over_ipv6 = value != NULL;
    is_over_real_ipv6 = value && strcmp(value, "real") == 0;
}

static inline int over_ipv6(void)
{
    return is_over_ipv6;
}

static inline int over_real_ipv6(void)
{
    return is_over_real_ipv6;
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
    unsigned char *to = mapped->sin6_addr.s6_addr;
    memcpy(to + 12, &four.sin_addr, 4);
    if (!over_real_ipv6() || to[12] >= 224) {
        memset(to + 10, 0xff, 2);
    } else if (to[12] == 10 && to[13] == 77 && to[14] == 0 && to[15] != 255) {
        memset(to + 12, 0, 3);
        memcpy(to, (unsigned char[]){0xfd, 0x77}, 2);
    } else if (to[12] == 127) {
        mapped->sin6_addr = in6addr_loopback;
    } else if (four.sin_addr.s_addr != INADDR_ANY) {
        memcpy(to, (unsigned char[]){0x20, 0x01, 0x0d, 0xb8}, 4);
    }
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
static inline int takes_mapped_only(int fd)
{
    return over_real_ipv6() || (over_ipv6() && option_is(fd, SO_TYPE, SOCK_STREAM));
}

static inline int family_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in6 mapped;
    if (!takes_mapped_only(fd) || !is_mapped(fd, address, len, &mapped))
        return connect(fd, address, len);
    return connect(fd, (const struct sockaddr *)&mapped, sizeof mapped);
}

static inline ssize_t family_sendto(int fd, const void *data, size_t count, int flags, const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in6 mapped;
    if (!over_real_ipv6() || !is_mapped(fd, address, len, &mapped))
        return sendto(fd, data, count, flags, address, len);
    return sendto(fd, data, count, flags, (const struct sockaddr *)&mapped, sizeof mapped);
}

static inline ssize_t family_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct sockaddr_in6 mapped;
    if (!over_real_ipv6() || (unsigned long)message < 65536 || !is_mapped(fd, message->msg_name, message->msg_namelen, &mapped))
        return sendmsg(fd, message, flags);
    struct msghdr copy = *message;
    copy.msg_name = &mapped;
    copy.msg_namelen = sizeof mapped;
    return sendmsg(fd, &copy, flags);
}

/* Of few messages: others stay as they are. */
static inline int family_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    enum { most = 8 };
    struct mmsghdr copies[most];
    struct sockaddr_in6 mapped[most];
    if (!over_real_ipv6() || (unsigned long)messages < 65536 || count > most)
        return sendmmsg(fd, messages, count, flags);
    for (unsigned i = 0; i < count; i++) {
        struct msghdr *message = &copies[i].msg_hdr;
        copies[i] = messages[i];
        if (is_mapped(fd, message->msg_name, message->msg_namelen, &mapped[i])) {
            message->msg_name = &mapped[i];
            message->msg_namelen = sizeof mapped[i];
        }
    }
    int sent = sendmmsg(fd, copies, count, flags);
    for (int i = 0; i < sent; i++)
        messages[i].msg_len = copies[i].msg_len;
    return sent;
}

#define sendto family_sendto
#define sendmmsg family_sendmmsg
#define sendmsg family_sendmsg
#define socket family_socket
#define bind family_bind
#define connect family_connect

#endif
