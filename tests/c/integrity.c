/* Datagrams of random sizes in both directions, each checked byte by byte.
 *
 *   integrity reflect <ip>                 answers every request with the reply of its number
 *   integrity drive <ip> <peer> <count>    sends numbered requests, at most WINDOW without a reply
 *
 * Size and bytes of a datagram follow from its direction and its number. Those with room for it begin with the number;
 * shorter ones are found among those that may be on their way. */
#include "case.h"
#include <stdint.h>

#define PORT 7200
#define WINDOW 64
#define RING 1024
#define MAX_LEN 65507
#define MTU_LEN 1472
#define NUMBER_LEN 12
/* Every so many datagrams is a large one, alone on its way so that no receive buffer overflows. */
#define LARGE_EVERY 1000

enum direction { REQUEST, REPLY };

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int is_large(uint64_t number)
{
    return number % (LARGE_EVERY / 2) == 0;
}

static size_t length_of(enum direction direction, uint64_t number)
{
    uint64_t random = mix(number * 2 + direction + 77);
    if (is_large(number) && number % LARGE_EVERY == (direction == REQUEST ? 0 : LARGE_EVERY / 2))
        return MTU_LEN + 1 + random % (MAX_LEN - MTU_LEN);
    /* One in eight is short, one in sixteen at the edge. */
    if (random % 8 == 0)
        return (random >> 8) % 24;
    if (random % 16 == 1)
        return MTU_LEN - (random >> 8) % 4;
    return (random >> 8) % (MTU_LEN + 1);
}

static size_t fill(unsigned char *data, enum direction direction, uint64_t number)
{
    size_t len = length_of(direction, number);
    uint64_t state = mix(number * 2 + direction);
    for (size_t i = 0; i < len; i += 8) {
        state = mix(state);
        memcpy(data + i, &state, len - i < 8 ? len - i : 8);
    }
    if (len >= NUMBER_LEN) {
        uint32_t mark = 0x1d1d1d1d;
        memcpy(data, &mark, 4);
        memcpy(data + 4, &number, 8);
    }
    return len;
}

static int matches(const unsigned char *data, size_t len, enum direction direction, uint64_t number)
{
    static unsigned char expected[MAX_LEN + 8];
    return len == length_of(direction, number) && fill(expected, direction, number) == len && memcmp(data, expected, len) == 0;
}

/* The lowest number not seen so far, and which of the following are. */
static uint64_t base;
static unsigned char seen[RING];

static void fail(const char *what, const unsigned char *data, size_t len)
{
    printf("FAILED %s: length %zu, lowest open number %lu, bytes", what, len, (unsigned long)base);
    for (size_t i = 0; i < len && i < 32; i++)
        printf(" %02x", data[i]);
    printf("\n");
    exit(1);
}

/* Finds the number of a datagram, and notes it. */
static uint64_t identify(const unsigned char *data, size_t len, enum direction direction)
{
    uint64_t number = UINT64_MAX;
    if (len >= NUMBER_LEN) {
        memcpy(&number, data + 4, 8);
        if (number < base)
            fail("a duplicate", data, len);
        if (number >= base + 2 * WINDOW)
            fail("a number that was not sent", data, len);
        if (!matches(data, len, direction, number))
            fail("other bytes than were sent", data, len);
    } else {
        for (uint64_t open = base; open < base + 2 * WINDOW && number == UINT64_MAX; open++)
            if (!seen[open % RING] && matches(data, len, direction, open))
                number = open;
        if (number == UINT64_MAX)
            fail("short, and none that was sent", data, len);
    }
    if (seen[number % RING])
        fail("a duplicate", data, len);
    seen[number % RING] = 1;
    while (seen[base % RING]) {
        seen[base % RING] = 0;
        base++;
    }
    return number;
}

static unsigned char outgoing[MAX_LEN + 8];
static unsigned char incoming[70000];

/* Sends in one of several ways; large datagrams and full buffers are no excuse for an error. */
static void send_number(int fd, enum direction direction, uint64_t number, struct sockaddr_in *to)
{
    size_t len = fill(outgoing, direction, number);
    ssize_t sent = 0;
    struct iovec parts[3] = {{outgoing, len / 3}, {outgoing + len / 3, len / 2}, {NULL, 0}};
    parts[2] = (struct iovec){outgoing + len / 3 + len / 2, len - len / 3 - len / 2};
    struct mmsghdr message = {.msg_hdr = {.msg_name = to, .msg_namelen = sizeof *to, .msg_iov = parts, .msg_iovlen = 3}};
    switch (number % 3) {
    case 0:
        sent = sendto(fd, outgoing, len, 0, generic(to), sizeof *to);
        break;
    case 1:
        sent = sendmsg(fd, &message.msg_hdr, 0);
        break;
    case 2:
        sent = sendmmsg(fd, &message, 1, 0) == 1 ? (ssize_t)message.msg_len : -1;
        break;
    }
    if (sent != (ssize_t)len) {
        printf("FAILED send of number %lu: %zd of %zu: %s\n", (unsigned long)number, sent, len, strerrorname_np(errno));
        exit(1);
    }
}

/* Receives in one of several ways. */
static ssize_t receive(int fd, int flags, struct sockaddr_in *from)
{
    static unsigned turn;
    socklen_t from_len = sizeof *from;
    struct iovec parts[3] = {{incoming, 100}, {incoming + 100, 900}, {incoming + 1000, sizeof incoming - 1000}};
    struct mmsghdr message = {.msg_hdr = {.msg_name = from, .msg_namelen = sizeof *from, .msg_iov = parts, .msg_iovlen = 3}};
    switch (turn++ % 3) {
    case 0:
        return recvfrom(fd, incoming, sizeof incoming, flags, (struct sockaddr *)from, &from_len);
    case 1:
        return recvmsg(fd, &message.msg_hdr, flags);
    default:
        return recvmmsg(fd, &message, 1, flags, NULL) == 1 ? (ssize_t)message.msg_len : -1;
    }
}

static int open_socket(const char *ip, int port)
{
    int fd = bound_to(ip, port), size = 212992;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    return fd;
}

static void reflect(const char *ip)
{
    int fd = open_socket(ip, PORT);
    struct sockaddr_in from;
    printf("ready\n");
    for (;;) {
        ssize_t len = receive(fd, 0, &from);
        MUST(len);
        send_number(fd, REPLY, identify(incoming, (size_t)len, REQUEST), &from);
    }
}

static void drive(const char *ip, const char *peer, uint64_t count)
{
    int fd = open_socket(ip, 0);
    struct sockaddr_in to = address(peer, PORT), from;
    uint64_t next = 0, received = 0;
    set_timeout(fd, 5000);
    while (received < count) {
        while (next < count && next < base + WINDOW) {
            /* A large one waits until the window is empty, and the next one for it. */
            if (next > base && (is_large(next) || is_large(next - 1)))
                break;
            send_number(fd, REQUEST, next++, &to);
        }
        ssize_t len = receive(fd, 0, &from);
        if (len < 0) {
            printf("FAILED: %lu of %lu requests without a reply: %s; lowest %lu, lengths %zu and %zu\n", (unsigned long)(next - received),
                   (unsigned long)next, strerrorname_np(errno), (unsigned long)base, length_of(REQUEST, base), length_of(REPLY, base));
            exit(1);
        }
        while (len >= 0) {
            if (from.sin_addr.s_addr != to.sin_addr.s_addr || from.sin_port != to.sin_port)
                fail("another sender's", incoming, (size_t)len);
            uint64_t number = identify(incoming, (size_t)len, REPLY);
            if (number >= next)
                fail("the reply to what was not asked", incoming, (size_t)len);
            received++;
            len = receive(fd, MSG_DONTWAIT, &from);
        }
    }
    printf("received %lu\n", (unsigned long)received);
    /* The test reads the statistics before it closes our standard input. */
    getchar();
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "reflect") == 0)
        reflect(argv[2]);
    else if (argc == 5 && strcmp(argv[1], "drive") == 0)
        drive(argv[2], argv[3], strtoull(argv[4], NULL, 10));
    else
        return 2;
    return 0;
}
