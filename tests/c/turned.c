/* Preloaded before the library: 127.0.0.1 and ::1 are on a link. What a program binds there is at TURNED_OWN (TURNED_OWN6), and what it
   connects or sends to there goes to TURNED_FAR (TURNED_FAR6), where someone sends each packet back with its addresses swapped. So both
   ends of a connection of one process pass the link. Where the program asks for addresses it is told of the loopback's. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MESSAGES_MAX 1024

/* The next function of a name. Looked up once: signal handlers and children of vfork call, too. */
#define NEXT(name)                                                                                                                         \
    static __typeof__(&name) next;                                                                                                         \
    if (!next)                                                                                                                             \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __connect(int, const struct sockaddr *, socklen_t);

enum end { OWN, FAR };

static struct in_addr v4[2];
static struct in6_addr v6[2];

__attribute__((constructor)) static void read_ends(void)
{
    static const char *const names[2][2] = {{"TURNED_OWN", "TURNED_OWN6"}, {"TURNED_FAR", "TURNED_FAR6"}};
    for (int end = OWN; end <= FAR; end++) {
        const char *four = getenv(names[end][0]), *six = getenv(names[end][1]);
        if (!four || !six || inet_pton(AF_INET, four, &v4[end]) != 1 || inet_pton(AF_INET6, six, &v6[end]) != 1)
            abort();
    }
}

/* The last four octets of an address of IPv4 inside IPv6. */
static struct in_addr mapped(const struct in6_addr *six)
{
    struct in_addr four;
    memcpy(&four, &six->s6_addr[12], sizeof four);
    return four;
}

/* An address of the program's as it is on the link; returns the address itself where that is the same. */
static const struct sockaddr *turned(const struct sockaddr *at, socklen_t len, enum end end, struct sockaddr_storage *room)
{
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    if (!at || len < sizeof(struct sockaddr_in) || len > sizeof *room)
        return at;
    memcpy(room, at, len);
    if (at->sa_family == AF_INET) {
        struct in_addr *it = &((struct sockaddr_in *)room)->sin_addr;
        if (it->s_addr != loopback.s_addr)
            return at;
        *it = v4[end];
    } else if (at->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
        struct in6_addr *it = &((struct sockaddr_in6 *)room)->sin6_addr;
        if (IN6_IS_ADDR_LOOPBACK(it))
            *it = v6[end];
        else if (IN6_IS_ADDR_V4MAPPED(it) && mapped(it).s_addr == loopback.s_addr)
            memcpy(&it->s6_addr[12], &v4[end], sizeof v4[end]);
        else
            return at;
    } else {
        return at;
    }
    return (struct sockaddr *)room;
}

static int is_end(struct in_addr four)
{
    return four.s_addr == v4[OWN].s_addr || four.s_addr == v4[FAR].s_addr;
}

/* An address of the link's as the program knows it; `room` is what the program had room for, `len` the length of the address. */
static void turn_back(struct sockaddr *at, socklen_t room, socklen_t len)
{
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    if (!at || room < len)
        return;
    if (len >= sizeof(struct sockaddr_in) && at->sa_family == AF_INET) {
        struct in_addr *it = &((struct sockaddr_in *)at)->sin_addr;
        if (is_end(*it))
            *it = loopback;
    } else if (len >= sizeof(struct sockaddr_in6) && at->sa_family == AF_INET6) {
        struct in6_addr *it = &((struct sockaddr_in6 *)at)->sin6_addr;
        if (IN6_ARE_ADDR_EQUAL(it, &v6[OWN]) || IN6_ARE_ADDR_EQUAL(it, &v6[FAR]))
            *it = in6addr_loopback;
        else if (IN6_IS_ADDR_V4MAPPED(it) && is_end(mapped(it)))
            memcpy(&it->s6_addr[12], &loopback, sizeof loopback);
    }
}

/* The same after a call, which left errno and `*len`. */
static void turn_back_of(int is_good, struct sockaddr *at, socklen_t room, const socklen_t *len)
{
    if (is_good && at && len)
        turn_back(at, room, *len);
}

int bind(int fd, const struct sockaddr *at, socklen_t len)
{
    NEXT(bind);
    struct sockaddr_storage room;
    return next(fd, turned(at, len, OWN, &room), len);
}

int connect(int fd, const struct sockaddr *at, socklen_t len)
{
    NEXT(connect);
    struct sockaddr_storage room;
    return next(fd, turned(at, len, FAR, &room), len);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t len)
{
    NEXT(sendto);
    struct sockaddr_storage room;
    return next(fd, data, size, flags, turned(to, len, FAR, &room), len);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    NEXT(sendmsg);
    struct sockaddr_storage room;
    struct msghdr copy;
    if (!message)
        return next(fd, message, flags);
    copy = *message;
    copy.msg_name = (void *)turned(copy.msg_name, copy.msg_namelen, FAR, &room);
    return next(fd, &copy, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    NEXT(sendmmsg);
    struct sockaddr_storage rooms[MESSAGES_MAX];
    struct mmsghdr copies[MESSAGES_MAX];
    if (!messages || !count)
        return next(fd, messages, count, flags);
    if (count > MESSAGES_MAX)
        count = MESSAGES_MAX;
    for (unsigned i = 0; i < count; i++) {
        struct msghdr *header = &copies[i].msg_hdr;
        copies[i] = messages[i];
        header->msg_name = (void *)turned(header->msg_name, header->msg_namelen, FAR, &rooms[i]);
    }
    int sent = next(fd, copies, count, flags);
    for (int i = 0; i < sent; i++)
        messages[i].msg_len = copies[i].msg_len;
    return sent;
}

ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *from, socklen_t *len)
{
    NEXT(recvfrom);
    socklen_t room = len ? *len : 0;
    ssize_t got = next(fd, data, size, flags, from, len);
    turn_back_of(got >= 0, from, room, len);
    return got;
}

ssize_t __recvfrom_chk(int fd, void *data, size_t size, size_t limit, int flags, struct sockaddr *from, socklen_t *len)
{
    NEXT(__recvfrom_chk);
    socklen_t room = len ? *len : 0;
    ssize_t got = next(fd, data, size, limit, flags, from, len);
    turn_back_of(got >= 0, from, room, len);
    return got;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    NEXT(recvmsg);
    socklen_t room = message ? message->msg_namelen : 0;
    ssize_t got = next(fd, message, flags);
    if (got >= 0)
        turn_back(message->msg_name, room, message->msg_namelen);
    return got;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    NEXT(recvmmsg);
    socklen_t rooms[MESSAGES_MAX];
    if (count > MESSAGES_MAX)
        count = MESSAGES_MAX;
    for (unsigned i = 0; messages && i < count; i++)
        rooms[i] = messages[i].msg_hdr.msg_namelen;
    int got = next(fd, messages, count, flags, timeout);
    for (int i = 0; i < got; i++)
        turn_back(messages[i].msg_hdr.msg_name, rooms[i], messages[i].msg_hdr.msg_namelen);
    return got;
}

int accept(int fd, struct sockaddr *from, socklen_t *len)
{
    NEXT(accept);
    socklen_t room = len ? *len : 0;
    int got = next(fd, from, len);
    turn_back_of(got >= 0, from, room, len);
    return got;
}

int accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
    NEXT(accept4);
    socklen_t room = len ? *len : 0;
    int got = next(fd, from, len, flags);
    turn_back_of(got >= 0, from, room, len);
    return got;
}

int getsockname(int fd, struct sockaddr *at, socklen_t *len)
{
    NEXT(getsockname);
    socklen_t room = len ? *len : 0;
    int done = next(fd, at, len);
    turn_back_of(done == 0, at, room, len);
    return done;
}

int getpeername(int fd, struct sockaddr *at, socklen_t *len)
{
    NEXT(getpeername);
    socklen_t room = len ? *len : 0;
    int done = next(fd, at, len);
    turn_back_of(done == 0, at, room, len);
    return done;
}
