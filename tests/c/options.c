/* Socket options, before and after packets flow. */
#include "case.h"
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netinet/udp.h>

#ifndef SO_TIMESTAMP_NEW
#define SO_TIMESTAMP_NEW 63
#define SO_TIMESTAMPNS_NEW 64
#define SO_TIMESTAMPING_NEW 65
#endif
#ifndef SO_RCVMARK
#define SO_RCVMARK 75
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

static void set_int(const char *what, int fd, int level, int name, int value)
{
    int read_back = -1;
    socklen_t len = sizeof read_back;
    say(what, setsockopt(fd, level, name, &value, sizeof value));
    if (getsockopt(fd, level, name, &read_back, &len) == 0)
        printf("  %d of %u bytes\n", read_back, len);
    else
        say("  getsockopt", -1);
}

/* Says the control messages of the next datagram, by level and type. */
static void say_control(int fd)
{
    char data[64], control[256];
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    say("recvmsg", recvmsg(fd, &message, 0));
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        printf("  control %d %d length %zu", header->cmsg_level, header->cmsg_type, (size_t)header->cmsg_len);
        if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(header), sizeof info);
            printf(" index %d to %s", info.ipi_ifindex, inet_ntoa(info.ipi_addr));
        } else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TTL) {
            int ttl;
            memcpy(&ttl, CMSG_DATA(header), sizeof ttl);
            printf(" ttl %d", ttl);
        }
        printf("\n");
    }
    printf("  flags %x\n", message.msg_flags);
}

static void control_messages(void)
{
    int fd = bound();
    set_timeout(fd, 2000);
    have(fd, 1, 20);
    say_control(fd);
    /* One waits while the option is set. */
    have(fd, 1, 21);
    set_int("IP_PKTINFO", fd, IPPROTO_IP, IP_PKTINFO, 1);
    say_recv("recv", fd, 64, 0);
    ask(fd, 1, 22);
    say_control(fd);
    set_int("IP_RECVTTL", fd, IPPROTO_IP, IP_RECVTTL, 1);
    set_int("IP_RECVTOS", fd, IPPROTO_IP, IP_RECVTOS, 1);
    set_int("SO_TIMESTAMP", fd, SOL_SOCKET, SO_TIMESTAMP, 1);
    ask(fd, 1, 23);
    say_control(fd);
    set_int("IP_PKTINFO off", fd, IPPROTO_IP, IP_PKTINFO, 0);
    set_int("SO_TIMESTAMP off", fd, SOL_SOCKET, SO_TIMESTAMP, 0);
    ask(fd, 1, 24);
    say_control(fd);
}

static void buffers(void)
{
    int fd = bound(), received = 0;
    char buffer[2048];
    set_int("SO_RCVBUF", fd, SOL_SOCKET, SO_RCVBUF, 100000);
    set_int("SO_SNDBUF", fd, SOL_SOCKET, SO_SNDBUF, 100000);
    set_int("SO_RCVBUF, tiny", fd, SOL_SOCKET, SO_RCVBUF, 1);
    set_int("SO_RCVBUF, ample", fd, SOL_SOCKET, SO_RCVBUF, 200000);
    have(fd, 20, 1000);
    while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) == 1000)
        received++;
    printf("received %d\n", received);
    set_int("SO_TYPE", fd, SOL_SOCKET, SO_TYPE, 1);
    set_int("SO_ERROR", fd, SOL_SOCKET, SO_ERROR, 1);
    set_int("SO_PROTOCOL", fd, SOL_SOCKET, SO_PROTOCOL, 1);
    set_int("no such option", fd, SOL_SOCKET, 9999, 1);
    set_int("no such level", fd, 999, 1, 1);
    char byte = 1;
    say("short value", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &byte, 1));
    say("null value", setsockopt(fd, SOL_SOCKET, SO_RCVBUF, NULL, 4));
}

/* What waits, and what was lost, in the kernel's own measure. */
static void memory(void)
{
    enum { RECEIVED = 0, LIMIT = 1, LOST = 8, WORDS = 9 };
    int fd = bound();
    char buffer[200];
    set_int("SO_RCVBUF", fd, SOL_SOCKET, SO_RCVBUF, 66000);
    for (int count = 0; count <= 200; count += 100) {
        unsigned words[WORDS];
        socklen_t len = sizeof words;
        if (count > 0)
            have(fd, count, 100);
        say("SO_MEMINFO", getsockopt(fd, SOL_SOCKET, 55, words, &len));
        printf("%u bytes, received %u of %u, lost %u\n", len, words[RECEIVED], words[LIMIT], words[LOST]);
        len = 6;
        words[RECEIVED] = words[LIMIT] = 0;
        say("a part of it", getsockopt(fd, SOL_SOCKET, 55, words, &len));
        printf("%u bytes, received %u\n", len, words[RECEIVED]);
        while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) == 100) {
        }
    }
}

static void sending(void)
{
    int fd = bound();
    char report[64] = "";
    struct sockaddr_in peer = address(PEER, PEER_PORT), wide = address("10.77.0.255", PEER_PORT);
    set_timeout(fd, 2000);
    for (int ttl = 1; ttl <= 64; ttl *= 8) {
        set_int("IP_TTL", fd, IPPROTO_IP, IP_TTL, ttl);
        say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
        say("recv", recv(fd, report, sizeof report, 0));
    }
    set_int("IP_TOS", fd, IPPROTO_IP, IP_TOS, 0x10);
    say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
    say("recv", recv(fd, report, sizeof report, 0));
    char large[3000] = "";
    set_int("IP_MTU_DISCOVER", fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    say("too large", sendto(fd, large, sizeof large, 0, generic(&peer), sizeof peer));
    set_int("IP_MTU_DISCOVER", fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    say("fragmented", sendto(fd, large, sizeof large, 0, generic(&peer), sizeof peer));
    say("recv", recv(fd, report, sizeof report, 0));
    say("broadcast", sendto(fd, "data", 4, 0, generic(&wide), sizeof wide));
    set_int("SO_BROADCAST", fd, SOL_SOCKET, SO_BROADCAST, 1);
    say("broadcast", sendto(fd, "data", 4, 0, generic(&wide), sizeof wide));
    set_int("SO_BINDTODEVICE as a number", fd, SOL_SOCKET, SO_BINDTODEVICE, 0);
    say("to lo", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    say("nowhere to go", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
    /* A peer on lo has somewhere to answer to until then. */
    sleep_msec(50);
    say("to vb", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "vb", 3));
    say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
    say("recv", recv(fd, report, sizeof report, 0));
}

static void multicast(void)
{
    int fd = bound_to("0.0.0.0", 7131), sender = bound();
    struct ip_mreqn group = {.imr_ifindex = 0};
    struct sockaddr_in to = address("239.1.2.3", 7131);
    inet_pton(AF_INET, "239.1.2.3", &group.imr_multiaddr);
    inet_pton(AF_INET, SELF, &group.imr_address);
    say("join", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
    set_timeout(fd, 2000);
    set_int("IP_MULTICAST_LOOP", sender, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
    say("set interface", setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF, &group.imr_address, sizeof group.imr_address));
    say("sendto the group", sendto(sender, "group", 5, 0, generic(&to), sizeof to));
    say_recv("recv", fd, 64, 0);
    say("leave", setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group));
    ask(fd, 1, 20);
    say_recv("unicast", fd, 64, 0);
}

/* Datagrams that came before the option was set came by no other interface than those after it. The kernel does not
 * say by which (0); a program that is told "lo" would answer there. */
static void packet_information(void)
{
    int fd = bound_to("0.0.0.0", 7132);
    have(fd, 3, 20);
    set_int("IP_PKTINFO", fd, IPPROTO_IP, IP_PKTINFO, 1);
    for (int i = 0; i < 4; i++) {
        char data[64], control[256], name[IF_NAMESIZE] = "none", ip[INET_ADDRSTRLEN] = "none";
        struct iovec part = {data, sizeof data};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        if (say("recvmsg", recvmsg(fd, &message, MSG_DONTWAIT)) < 0)
            continue;
        struct cmsghdr *item = CMSG_FIRSTHDR(&message);
        if (item && item->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(item), sizeof info);
            if_indextoname((unsigned)info.ipi_ifindex, name);
            inet_ntop(AF_INET, &info.ipi_addr, ip, sizeof ip);
        }
        printf("  %.8s on %s to %s\n", data, strcmp(name, "lo") == 0 ? "lo" : "the link", ip);
    }
    MUST(close(fd));
    fd = bound_to("0.0.0.0", 7132);
    have(fd, 3, 20);
    say("to vb", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "vb", 3));
    for (int i = 0; i < 4; i++)
        say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static double wall_clock_sec(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Whether `data` is a time between some moment and now, in nanoseconds or microseconds; or none. */
static const char *judged_time(const unsigned char *data, double since, double unit)
{
    long long time[2];
    memcpy(time, data, sizeof time);
    double seconds = (double)time[0] + (double)time[1] * unit;
    return time[0] == 0 && time[1] == 0 ? "none" : seconds >= since - 0.001 && seconds <= wall_clock_sec() + 0.001 ? "now" : "wrong";
}

/* A control message, byte for byte but for times and the number of the interface. */
static void say_item(struct cmsghdr *item, double since)
{
    unsigned char *data = CMSG_DATA(item);
    size_t len = item->cmsg_len - CMSG_LEN(0);
    printf("   %d %d of %zu:", item->cmsg_level, item->cmsg_type, (size_t)item->cmsg_len);
    int is_time = item->cmsg_level == SOL_SOCKET && item->cmsg_type != SO_RXQ_OVFL;
    double unit = item->cmsg_type == SO_TIMESTAMP || item->cmsg_type == SO_TIMESTAMP_NEW ? 1e-6 : 1e-9;
    for (size_t at = 0; is_time && at + 16 <= len; at += 16)
        printf(" %s", judged_time(data + at, since, unit));
    if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO && len >= 4) {
        int index;
        memcpy(&index, data, sizeof index);
        printf(" %s", index == 0 ? "none" : index == (int)if_nametoindex("vb") ? "vb" : "other");
        data += 4;
        len -= 4;
    }
    for (size_t at = 0; !is_time && at < len; at++)
        printf(" %02x", data[at]);
    printf("\n");
}

/* Receives with so much room for control messages, and says all of the message. */
static ssize_t say_message(int fd, int flags, size_t room, double since)
{
    char data[2048];
    _Alignas(struct cmsghdr) unsigned char control[512];
    memset(control, 0xee, sizeof control);
    struct sockaddr_in from;
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = room, .msg_flags = 0x55};
    ssize_t len = recvmsg(fd, &message, flags);
    say(" recvmsg", len);
    if (len < 0)
        return len;
    printf("  flags %x, name %u, control %zu\n", message.msg_flags, message.msg_namelen, (size_t)message.msg_controllen);
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item))
        say_item(item, since);
    /* Nothing is written behind what is told. */
    for (size_t at = message.msg_controllen; at < sizeof control; at++)
        must(control[at] == 0xee, "control data end where they say", __LINE__);
    return len;
}

struct option {
    const char *text;
    int level, name, value;
};

#define OPTION(level, name, value) {#name, level, name, value}

static const struct option tells[] = {
    OPTION(IPPROTO_IP, IP_PKTINFO, 1),
    OPTION(IPPROTO_IP, IP_RECVTTL, 1),
    OPTION(IPPROTO_IP, IP_RECVTOS, 1),
    OPTION(IPPROTO_IP, IP_RECVORIGDSTADDR, 1),
    OPTION(IPPROTO_IP, IP_RECVOPTS, 1),
    OPTION(IPPROTO_IP, IP_RETOPTS, 1),
    OPTION(SOL_SOCKET, SO_TIMESTAMP, 1),
    OPTION(SOL_SOCKET, SO_TIMESTAMPNS, 1),
    OPTION(SOL_SOCKET, SO_TIMESTAMP_NEW, 1),
    OPTION(SOL_SOCKET, SO_TIMESTAMPNS_NEW, 1),
    OPTION(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE),
    OPTION(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE),
    OPTION(SOL_SOCKET, SO_TIMESTAMPING_NEW, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE),
    OPTION(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RAW_HARDWARE),
    OPTION(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE |
                                            SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE),
    OPTION(SOL_SOCKET, SO_RXQ_OVFL, 1),
    OPTION(IPPROTO_UDP, UDP_GRO, 1),
};

/* The kernel begins to stamp a while after the first socket of the machine asks, longer if the CPUs are busy. Once it does, a datagram
 * from loopback has a stamp. The socket that asks stays open. */
static void begin_stamps(void)
{
    int fd = bound_to("127.0.0.1", 7142);
    static const int both = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    MUST(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &both, sizeof both));
    struct sockaddr_in self = address("127.0.0.1", 7142);
    struct msghdr message;
    do {
        char data[1] = "";
        _Alignas(struct cmsghdr) unsigned char control[128];
        MUST(sendto(fd, data, sizeof data, 0, generic(&self), sizeof self));
        struct iovec part = {data, sizeof data};
        message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        MUST(recvmsg(fd, &message, 0));
    } while (message.msg_controllen == 0);
}

/* Each option by itself, set while one datagram waits; then all of them. */
static void told(void)
{
    size_t count = sizeof tells / sizeof *tells;
    begin_stamps();
    int all = bound_to(SELF, 7141);
    double since = wall_clock_sec();
    for (size_t i = 0; i < count; i++) {
        int fd = bound_to(i % 2 ? SELF : "0.0.0.0", 7140);
        const struct option *option = &tells[i];
        /* As the kernel does for one without a stamp of its own. */
        int is_stamp = option->level == SOL_SOCKET;
        if (!is_stamp)
            have(fd, 1, 20);
        set_int(option->text, fd, option->level, option->name, option->value);
        ask(fd, 1, 21);
        await_data(fd);
        if (!is_stamp)
            say_message(fd, 0, 256, since);
        await_data(fd);
        say_message(fd, MSG_PEEK, 256, since);
        say_message(fd, 0, 256, since);
        set_int("off", fd, option->level, option->name, 0);
        ask(fd, 1, 22);
        await_data(fd);
        say_message(fd, 0, 256, since);
        close(fd);
        /* With UDP_GRO it differs how many datagrams a call takes: see `merged`. */
        int is_plain = option->level != IPPROTO_UDP;
        if (is_plain && option->name != SO_TIMESTAMP_NEW && option->name != SO_TIMESTAMPNS_NEW && option->name != SO_TIMESTAMPING_NEW)
            set_int(option->text, all, option->level, option->name, option->value);
    }
    ask(all, 3, 23);
    for (int i = 0; i < 3; i++) {
        await_data(all);
        say_message(all, 0, 512, since);
    }
    char data[8];
    struct iovec part = {data, sizeof data};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
    have(all, 2, 24);
    say("recvmmsg", recvmmsg(all, messages, 2, 0, NULL));
    printf("%x %x\n", messages[0].msg_hdr.msg_flags, messages[1].msg_hdr.msg_flags);
}

/* What waits while the program does something else bears the time at which it came. */
static void stamped(void)
{
    static const struct option options[] = {
        OPTION(SOL_SOCKET, SO_TIMESTAMP, 1),
        OPTION(SOL_SOCKET, SO_TIMESTAMPNS, 1),
        OPTION(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE),
    };
    begin_stamps();
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct option *option = &options[i];
        int is_set_late = i % 2, fd = is_set_late ? bound() : udp();
        set_timeout(fd, 2000);
        set_int(option->text, fd, option->level, option->name, option->value);
        if (!is_set_late) {
            struct sockaddr_in self = address(SELF, 0);
            MUST(bind(fd, generic(&self), sizeof self));
        }
        /* The way to the peer is known then, and back. */
        ask(fd, 1, 20);
        say_recv("recv", fd, 64, 0);
        double since = wall_clock_sec();
        ask(fd, 2, 20);
        sleep_msec(200);
        for (int k = 0; k < 2; k++) {
            char data[64];
            _Alignas(struct cmsghdr) unsigned char control[128];
            struct iovec part = {data, sizeof data};
            struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
            MUST(recvmsg(fd, &message, 0));
            struct cmsghdr *item = CMSG_FIRSTHDR(&message);
            must(item && item->cmsg_type == option->name, "a stamp", __LINE__);
            long long time[2];
            memcpy(time, CMSG_DATA(item), sizeof time);
            double unit = option->name == SO_TIMESTAMP ? 1e-6 : 1e-9, late = (double)time[0] + (double)time[1] * unit - since;
            printf("%s\n", late < -0.001 ? "before it was asked for" : late > 0.1 ? "late" : "when it came");
            fprintf(stderr, "after %.6f s\n", late);
        }
        close(fd);
    }
}

/* Datagrams that may be received as one: how many are is not said. What is told of them must be true. */
static void merged(void)
{
    static const struct {
        int count, len;
    } asked[] = {{20, 100}, {30, 1400}, {3, 0}};
    static unsigned char data[70000];
    /* Of packets of IPv6 none. */
    int fd = bound(), ones = 0, ttls_of_each = -1;
    socklen_t name_len = 0;
    set_timeout(fd, 2000);
    set_int("SO_RCVBUF", fd, SOL_SOCKET, SO_RCVBUF, 400000);
    set_int("UDP_GRO", fd, IPPROTO_UDP, UDP_GRO, 1);
    set_int("IP_RECVTTL", fd, IPPROTO_IP, IP_RECVTTL, 1);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        unsigned sum = 0, at = 0;
        have(fd, asked[i].count, asked[i].len);
        for (int count = 0; count < asked[i].count;) {
            _Alignas(struct cmsghdr) unsigned char control[128];
            struct sockaddr_in from;
            struct iovec part = {data, sizeof data};
            struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1,
                                     .msg_control = control, .msg_controllen = sizeof control};
            int waiting = -1, each = 0, ttls = 0;
            MUST(ioctl(fd, FIONREAD, &waiting));
            ssize_t len = recvmsg(fd, &message, 0);
            MUST(len);
            for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
                ttls += item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_TTL;
                if (item->cmsg_level == IPPROTO_UDP && item->cmsg_type == UDP_GRO && item->cmsg_len == CMSG_LEN(sizeof each))
                    memcpy(&each, CMSG_DATA(item), sizeof each);
            }
            ones += each == 0;
            if (ttls_of_each < 0) {
                ttls_of_each = ttls;
                name_len = message.msg_namelen;
                printf("%d TTLs, name %u\n", ttls, name_len);
            }
            count += each ? (int)((len + each - 1) / each) : 1;
            if (message.msg_flags || ttls != ttls_of_each || len < waiting || (each ? each : len) != asked[i].len || message.msg_namelen != name_len)
                printf("flags %x, %d TTLs, %zd bytes of %d, %d each\n", message.msg_flags, ttls, len, waiting, each);
            for (ssize_t k = 0; k < len; k++)
                sum += data[k] * ++at;
        }
        printf("%d of %d: %u bytes, sum %u\n", asked[i].count, asked[i].len, at, sum);
        say("more", recv(fd, data, sizeof data, MSG_DONTWAIT));
    }
    fprintf(stderr, "%d by themselves\n", ones);
}

/* Too little room for the control messages. */
static void cut(void)
{
    static const size_t rooms[] = {0, 8, 15, 16, 17, 20, 27, 28, 29, 32, 40, 47, 48, 52, 55, 56, 72};
    int fd = bound();
    set_int("IP_PKTINFO", fd, IPPROTO_IP, IP_PKTINFO, 1);
    set_int("IP_RECVTTL", fd, IPPROTO_IP, IP_RECVTTL, 1);
    set_int("IP_RECVTOS", fd, IPPROTO_IP, IP_RECVTOS, 1);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        char data[64];
        unsigned char control[128];
        memset(control, 0xee, sizeof control);
        struct iovec part = {data, i % 3 ? sizeof data : 5};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = i % 2 ? control + 1 : control,
                                 .msg_controllen = rooms[i]};
        ask(fd, 1, 20);
        await_data(fd);
        printf("room for %zu\n", rooms[i]);
        say(" recvmsg", recvmsg(fd, &message, 0));
        printf("  flags %x, control %zu:", message.msg_flags, (size_t)message.msg_controllen);
        /* But for the index of the interface. */
        memset((unsigned char *)message.msg_control + 16, 0, 4);
        for (size_t at = 0; at < 80; at++)
            printf(" %02x", control[at]);
        printf("\n");
    }
    struct msghdr nowhere = {.msg_control = (void *)8, .msg_controllen = 64};
    ask(fd, 2, 20);
    await_data(fd);
    say("bad pointer", recvmsg(fd, &nowhere, 0));
    printf("  flags %x, control %zu\n", nowhere.msg_flags, (size_t)nowhere.msg_controllen);
    nowhere.msg_control = NULL;
    nowhere.msg_controllen = 64;
    await_data(fd);
    say("no pointer", recvmsg(fd, &nowhere, 0));
    printf("  flags %x, control %zu\n", nowhere.msg_flags, (size_t)nowhere.msg_controllen);
}

/* Datagrams that find the receive buffer full. */
static void lost(void)
{
    int fd = bound(), kept = 0;
    char buffer[2048];
    set_int("SO_RXQ_OVFL", fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    set_int("SO_RCVBUF", fd, SOL_SOCKET, SO_RCVBUF, 60000);
    have(fd, 100, 1000);
    while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) == 1000)
        kept++;
    printf("kept %d\n", kept);
    double since = wall_clock_sec();
    ask(fd, 1, 1001);
    await_data(fd);
    say_message(fd, 0, 256, since);
}

/* Sends with one control message, and says what came of it. */
static long send_with(int fd, const char *what, const void *payload, size_t len, int level, int kind, const void *data, size_t data_len)
{
    _Alignas(struct cmsghdr) unsigned char control[128] = {0};
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    struct iovec parts[2] = {{(void *)payload, len / 3}, {(char *)payload + len / 3, len - len / 3}};
    struct msghdr message = {.msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = parts, .msg_iovlen = 2,
                             .msg_control = control, .msg_controllen = CMSG_SPACE(data_len)};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = level;
    item->cmsg_type = kind;
    item->cmsg_len = CMSG_LEN(data_len);
    memcpy(CMSG_DATA(item), data, data_len);
    return say(what, sendmsg(fd, &message, 0));
}

static void say_answer(int fd)
{
    char report[64];
    memset(report, 0, sizeof report);
    say(" answer", recv(fd, report, sizeof report - 1, 0));
    printf("  %s\n", report);
}

/* What a message says of its headers; the test of headers on the wire has more. */
static void said(void)
{
    int fd = bound_to("0.0.0.0", 7142);
    set_timeout(fd, 2000);
    say_recv("nothing yet", fd, 64, MSG_DONTWAIT);
    struct in_pktinfo info = {.ipi_ifindex = (int)if_nametoindex("vb")};
    inet_pton(AF_INET, SELF, &info.ipi_spec_dst);
    for (int i = 0; i < 3; i++) {
        send_with(fd, "IP_PKTINFO", "data", 4, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
        say_answer(fd);
        info.ipi_ifindex = 0;
        if (i == 1)
            info.ipi_spec_dst.s_addr = 0;
    }
    int value = 3;
    send_with(fd, "IP_TTL", "data", 4, IPPROTO_IP, IP_TTL, &value, sizeof value);
    say_answer(fd);
    send_with(fd, "IP_TOS", "data", 4, IPPROTO_IP, IP_TOS, &value, sizeof value);
    say_answer(fd);
    send_with(fd, "IP_TOS of a byte", "data", 4, IPPROTO_IP, IP_TOS, &value, 1);
    say_answer(fd);
}

static void said_wrong(void)
{
    int fd = bound_to("0.0.0.0", 7143), value = 0;
    struct in_pktinfo info = {.ipi_ifindex = 9999};
    send_with(fd, "no such interface", "data", 4, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    info.ipi_ifindex = 0;
    inet_pton(AF_INET, "10.99.99.99", &info.ipi_spec_dst);
    send_with(fd, "not our address", "data", 4, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    send_with(fd, "short IP_PKTINFO", "data", 4, IPPROTO_IP, IP_PKTINFO, &info, 8);
    send_with(fd, "IP_TTL 0", "data", 4, IPPROTO_IP, IP_TTL, &value, sizeof value);
    value = 256;
    send_with(fd, "IP_TTL 256", "data", 4, IPPROTO_IP, IP_TTL, &value, sizeof value);
    send_with(fd, "IP_TOS 256", "data", 4, IPPROTO_IP, IP_TOS, &value, sizeof value);
    send_with(fd, "short IP_TTL", "data", 4, IPPROTO_IP, IP_TTL, &value, 1);
    send_with(fd, "unknown", "data", 4, IPPROTO_IP, 77, &value, sizeof value);
    send_with(fd, "UDP_SEGMENT of four bytes", "data", 4, IPPROTO_UDP, UDP_SEGMENT, &value, sizeof value);
    send_with(fd, "another level", "data", 4, 77, 1, &value, sizeof value);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    struct iovec part = {"data", 4};
    size_t lens[] = {1, 12, 16};
    for (int i = 0; i < 3; i++) {
        _Alignas(struct cmsghdr) unsigned char control[16] = {0};
        control[0] = i == 2 ? 15 : 16;
        struct msghdr message = {.msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &part, .msg_iovlen = 1,
                                 .msg_control = control, .msg_controllen = lens[i]};
        say("malformed", sendmsg(fd, &message, 0));
    }
}

/* Datagrams of one length out of one message. */
static void segments(void)
{
    static const struct {
        size_t len;
        uint16_t segment;
    } sends[] = {{10, 3}, {10, 10}, {10, 11}, {10, 0}, {0, 5}, {1472, 1472}, {2944, 1472}, {3000, 1473}, {3000, 1400},
                 {64, 1}, {129, 1}, {60000, 1000}, {66000, 1200}, {65000, 40000}, {1472, 100}, {2000, 0}, {40000, 1472}};
    static char data[70000];
    int fd = bound();
    set_timeout(fd, 2000);
    set_int("SO_RCVBUF", fd, SOL_SOCKET, SO_RCVBUF, 400000);
    set_int("IP_MTU_DISCOVER", fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + i / 251);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    for (int by_option = 0; by_option < 2; by_option++) {
        for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
            size_t len = sends[i].len;
            int segment = sends[i].segment;
            printf("%zu of %d\n", len, segment);
            long sent;
            if (by_option) {
                set_int(" UDP_SEGMENT", fd, IPPROTO_UDP, UDP_SEGMENT, segment);
                sent = say(" sendto", sendto(fd, data, len, 0, generic(&peer), sizeof peer));
            } else {
                sent = send_with(fd, " sendmsg", data, len, IPPROTO_UDP, UDP_SEGMENT, &sends[i].segment, 2);
            }
            unsigned expected = sent < 0 ? 0 : segment && len ? (unsigned)((len + (size_t)segment - 1) / (size_t)segment) : 1;
            /* An answer to each datagram, in order or not; together they say what came. */
            unsigned sum = 0, count = 0;
            char report[64];
            while (count < expected) {
                struct pollfd polled = {fd, POLLIN, 0};
                if (poll(&polled, 1, 1000) != 1)
                    break;
                ssize_t got = recv(fd, report, sizeof report, MSG_DONTWAIT);
                for (ssize_t at = 0; at < got; at++)
                    sum += (unsigned)report[at] * (unsigned)(at + 1);
                count += got > 0;
            }
            printf("  %u answers, %u\n", count, sum);
        }
    }
    set_int("UDP_SEGMENT too large", fd, IPPROTO_UDP, UDP_SEGMENT, 70000);
    set_int("UDP_SEGMENT off", fd, IPPROTO_UDP, UDP_SEGMENT, 0);
}

/* What ICMP says comes to the sender: to a connected socket, and with IP_RECVERR to any. */
static void errors(void)
{
    struct sockaddr_in closed = address(PEER, 7999), peer = address(PEER, PEER_PORT);
    for (int connected = 0; connected < 2; connected++) {
        for (int asks = 0; asks < 2; asks++) {
            int fd = bound(), error = -1;
            socklen_t error_len = sizeof error;
            printf("%s, %s\n", connected ? "connected" : "unconnected", asks ? "IP_RECVERR" : "as ever");
            set_timeout(fd, 1000);
            ask(fd, 1, 20);
            say_recv(" recv", fd, 64, 0);
            if (asks)
                set_int(" IP_RECVERR", fd, IPPROTO_IP, IP_RECVERR, 1);
            if (connected)
                MUST(connect(fd, generic(&closed), sizeof closed));
            say(" sendto", sendto(fd, "data", 4, 0, generic(&closed), sizeof closed));
            sleep_msec(30);
            struct pollfd polled = {fd, POLLIN, 0};
            say(" poll", poll(&polled, 1, 0));
            printf("  %x\n", (unsigned)polled.revents);
            say_recv(" recv", fd, 64, MSG_DONTWAIT);
            char data[64], control[256];
            struct sockaddr_in to;
            struct iovec part = {data, sizeof data};
            struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1,
                                     .msg_control = control, .msg_controllen = sizeof control};
            if (say(" error queue", recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT)) >= 0) {
                struct cmsghdr *item = CMSG_FIRSTHDR(&message);
                struct sock_extended_err *said = (struct sock_extended_err *)CMSG_DATA(item);
                printf("  flags %x control %d %d: %d %d %d %d\n", message.msg_flags, item->cmsg_level, item->cmsg_type,
                       (int)said->ee_errno, said->ee_origin, said->ee_type, said->ee_code);
                say_address("  to", &to, message.msg_namelen);
            }
            say(" sendto", sendto(fd, "data", 4, 0, generic(&closed), sizeof closed));
            sleep_msec(30);
            say(" sendto, with an error", sendto(fd, "data", 4, 0, generic(&closed), sizeof closed));
            sleep_msec(30);
            say(" SO_ERROR", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len));
            printf("  %d\n", error);
            if (!connected) {
                say(" sendto a good one", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
                say_answer(fd);
            }
            close(fd);
        }
    }
}

/* Bound to an interface, before and after it has an address. */
static void device(void)
{
    struct sockaddr_in peer = address(PEER, PEER_PORT), self = address("0.0.0.0", 7144);
    for (int late = 0; late < 2; late++) {
        int fd = udp(), other = udp();
        set_timeout(fd, 2000);
        if (!late)
            say("to vb", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "vb", 3));
        MUST(bind(fd, generic(&self), sizeof self));
        if (late)
            say("to vb", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "vb", 3));
        say("another to lo", setsockopt(other, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
        say("bind", bind(other, generic(&self), sizeof self));
        char name[IF_NAMESIZE] = "";
        socklen_t len = sizeof name;
        say("getsockopt", getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len));
        printf("  %s %u\n", name, len);
        for (int i = 0; i < 3; i++) {
            say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
            say_answer(fd);
        }
        say("the other", sendto(other, "data", 4, 0, generic(&peer), sizeof peer));
        say_recv("the other", other, 64, MSG_DONTWAIT);
        say("none", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 0));
        ask(fd, 1, 20);
        say_recv("recv", fd, 64, 0);
        close(fd);
        close(other);
    }
}

/* Options whose value the kernel's socket keeps, and after each of which traffic goes on. */
static void read_back(void)
{
    static const struct option options[] = {
        OPTION(SOL_SOCKET, SO_PRIORITY, 3), OPTION(SOL_SOCKET, SO_DONTROUTE, 1), OPTION(SOL_SOCKET, SO_DONTROUTE, 0),
        OPTION(SOL_SOCKET, SO_MARK, 7), OPTION(SOL_SOCKET, SO_MARK, 0), OPTION(SOL_SOCKET, SO_NO_CHECK, 1),
        OPTION(SOL_SOCKET, SO_NO_CHECK, 0), OPTION(SOL_SOCKET, SO_MAX_PACING_RATE, 1000000), OPTION(SOL_SOCKET, SO_MAX_PACING_RATE, -1),
        OPTION(SOL_SOCKET, SO_BUSY_POLL, 50), OPTION(SOL_SOCKET, SO_RCVLOWAT, 100), OPTION(SOL_SOCKET, SO_ZEROCOPY, 1),
        OPTION(SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1), OPTION(SOL_SOCKET, SO_OOBINLINE, 1), OPTION(SOL_SOCKET, SO_KEEPALIVE, 1),
        OPTION(SOL_SOCKET, SO_LINGER, 0), OPTION(SOL_SOCKET, SO_PASSCRED, 1), OPTION(SOL_SOCKET, SO_INCOMING_CPU, 0),
        OPTION(IPPROTO_IP, IP_FREEBIND, 1), OPTION(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1), OPTION(IPPROTO_IP, IP_MINTTL, 3),
        OPTION(IPPROTO_IP, IP_RECVERR, 1), OPTION(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE), OPTION(IPPROTO_IP, 50, 0),
        OPTION(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE),
        OPTION(SOL_SOCKET, SO_TIMESTAMPING, 0), OPTION(SOL_SOCKET, SO_REUSEPORT, 1), OPTION(SOL_SOCKET, SO_REUSEADDR, 1),
        OPTION(IPPROTO_UDP, UDP_GRO, 1), OPTION(SOL_SOCKET, SO_PEEK_OFF, 0), OPTION(SOL_SOCKET, SO_RCVMARK, 1),
    };
    int fd = bound();
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    set_timeout(fd, 2000);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const struct option *option = &options[i];
        set_int(option->text, fd, option->level, option->name, option->value);
        say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
        say_answer(fd);
    }
    double since = wall_clock_sec();
    ask(fd, 1, 20);
    await_data(fd);
    say_message(fd, 0, 256, since);
    for (int i = 0; i < 4; i++) {
        unsigned char time[16] = {0};
        int stamped = bound();
        say("SIOCGSTAMP", ioctl(stamped, i % 2 ? 0x8907 : 0x8906, time));
        ask(stamped, 1, 20);
        await_data(stamped);
        say_recv("recv", stamped, 64, 0);
        say("SIOCGSTAMP", ioctl(stamped, i % 2 ? 0x8907 : 0x8906, time));
        printf("  %s\n", judged_time(time, since, i % 2 ? 1e-9 : 1e-6));
        close(stamped);
        stamped = bound();
        ask(stamped, 1, 20);
        await_data(stamped);
        say_recv("recv", stamped, 64, 0);
        say("SIOCGSTAMP, late", ioctl(stamped, i % 2 ? 0x8907 : 0x8906, time));
        printf("  %s\n", judged_time(time, since, i % 2 ? 1e-9 : 1e-6));
        close(stamped);
    }
    unsigned long long cookie = 0;
    socklen_t len = sizeof cookie;
    say("SO_COOKIE", getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len));
    printf("  %d\n", cookie != 0);
}

/* A filter that leaves so much of each datagram (BPF_RET | BPF_K). */
static void leave(int fd, unsigned len)
{
    struct sock_filter code[] = {{.code = 6, .k = len}};
    struct sock_fprog filter = {1, code};
    say("SO_ATTACH_FILTER", setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter));
}

/* Options that no other case has, each read back and with traffic after it. */
static void rarer(void)
{
    static const struct option options[] = {
        OPTION(SOL_SOCKET, SO_BROADCAST, 1), OPTION(IPPROTO_IP, IP_MULTICAST_TTL, 7), OPTION(IPPROTO_IP, IP_MULTICAST_TTL, -1),
        OPTION(IPPROTO_IP, IP_MULTICAST_LOOP, 0), OPTION(IPPROTO_IP, IP_MULTICAST_ALL, 0), OPTION(IPPROTO_IP, IP_TRANSPARENT, 1),
        OPTION(SOL_SOCKET, SO_LOCK_FILTER, 0), OPTION(SOL_SOCKET, SO_TXTIME, 0),
    };
    static const struct timeval times[] = {{2, 500000}, {0, 0}};
    static const unsigned char no_operations[] = {1, 1, 1, 0};
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        int fd = bound();
        set_timeout(fd, 5000);
        set_int(options[i].text, fd, options[i].level, options[i].name, options[i].value);
        say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
        say_answer(fd);
        MUST(close(fd));
    }
    int fd = bound(), index = (int)if_nametoindex("vb");
    set_timeout(fd, 5000);
    for (int i = 0; i < 2; i++) {
        struct timeval now = {-1, -1};
        socklen_t len = sizeof now;
        MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &times[i], sizeof times[i]));
        say("SO_SNDTIMEO", getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &now, &len));
        printf("  %ld.%06ld\n", now.tv_sec, now.tv_usec);
        say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
        say_answer(fd);
    }
    /* Of the other byte order. */
    int other = (int)htonl((uint32_t)index), now = 0;
    socklen_t len = sizeof now;
    say("IP_UNICAST_IF", setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &other, sizeof other));
    MUST(getsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &now, &len));
    printf("  as it was set: %d\n", now == other);
    say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
    say_answer(fd);
    leave(fd, 8 + 3);
    ask(fd, 1, 20);
    await_data(fd);
    say_recv("cut to three", fd, 64, 0);
    leave(fd, 0);
    ask(fd, 1, 20);
    sleep_msec(100);
    say_recv("dropped", fd, 64, MSG_DONTWAIT);
    say("SO_DETACH_FILTER", setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &now, sizeof now));
    ask(fd, 1, 20);
    await_data(fd);
    say_recv("whole", fd, 64, 0);
    unsigned char known[40];
    len = sizeof known;
    fd = bound();
    set_timeout(fd, 5000);
    say("IP_OPTIONS", setsockopt(fd, IPPROTO_IP, IP_OPTIONS, no_operations, sizeof no_operations));
    say("getsockopt", getsockopt(fd, IPPROTO_IP, IP_OPTIONS, known, &len));
    printf("  %u of them\n", len);
    say("sendto", sendto(fd, "data", 4, 0, generic(&peer), sizeof peer));
    say_answer(fd);
}

CASES({"told", told}, {"merged", merged}, {"stamped", stamped}, {"cut", cut}, {"lost", lost}, {"said", said}, {"said_wrong", said_wrong}, {"segments", segments},
      {"errors", errors}, {"device", device}, {"read_back", read_back}, {"rarer", rarer}, {"packet_information", packet_information}, {"control_messages", control_messages}, {"buffers", buffers}, {"memory", memory}, {"sending", sending}, {"multicast", multicast})
