/* Socket options, before and after packets flow. */
#include "case.h"
#include <net/if.h>

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

CASES({"packet_information", packet_information}, {"control_messages", control_messages}, {"buffers", buffers}, {"sending", sending}, {"multicast", multicast})
