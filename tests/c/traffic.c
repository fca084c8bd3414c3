/* Traffic with numbers, for networks that change meanwhile. Each program answers lines on its standard input, and ends with it.
 *   traffic receive <first port> <ports> <device>...   datagrams, told apart by port and device
 *   traffic burst <ip> <port>                          many datagrams at once, at each report
 *   traffic send <ip> <first port> <from>,<connected>[,<from port>]...
 *                                                      a datagram to each port each millisecond
 *   traffic streams <ip> <port> <far ip> <far port>    an echo, and a stream to another echo, a piece each millisecond
 * "report" says what was seen, "mark" forgets it, and "clock" says what time it is. All times are in microseconds. */
#include "case.h"
#include <netinet/tcp.h>

#define NUMBERS 200000
#define PORTS_MAX 8
#define DEVICES_MAX 4
#define PIECE 64
#define BURST 60

static long now_usec(void)
{
    return (long)(now_sec() * 1e6);
}

static long marked;

/* Reads lines until the end; `report` says one. */
static void answer(void (*mark)(void), void (*report)(void))
{
    char line[100];
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "mark", 4) == 0) {
            marked = now_usec();
            mark();
            printf("marked %ld\n", marked);
        } else if (strncmp(line, "clock", 5) == 0) {
            printf("clock %ld\n", now_usec());
        } else {
            report();
            printf("reported\n");
        }
    }
}


static void run(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    MUST(-pthread_create(&thread, NULL, body, argument));
}

/* Receiving datagrams */

struct row {
    long count, first, last;
    struct in_addr source;
    int ttl;
};

static struct row rows[PORTS_MAX][DEVICES_MAX];
static struct {
    unsigned char seen[NUMBERS];
    long begin, end, distinct, again, late;
} streams[PORTS_MAX];
static int first_port, ports, devices;
static char **device_names;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void arrived(int port, int device, uint32_t number, struct in_addr source, int ttl)
{
    long now = now_usec();
    struct row *row = &rows[port][device];
    row->source = source;
    row->ttl = ttl;
    if (number >= NUMBERS)
        return;
    if (row->count++ == 0)
        row->first = now;
    row->last = now;
    if (streams[port].distinct == 0)
        streams[port].begin = streams[port].end = number;
    if (streams[port].seen[number])
        streams[port].again++;
    else
        streams[port].distinct++;
    streams[port].seen[number] = 1;
    if (number + 1L > streams[port].end)
        streams[port].end = number + 1L;
    else
        streams[port].late++;
}

static int take(int fd, int port, int device)
{
    uint32_t number[400];
    char control[64];
    int ttl = -1;
    struct sockaddr_in from;
    struct iovec part = {number, sizeof number};
    struct msghdr message = {&from, sizeof from, &part, 1, control, sizeof control, 0};
    if (recvmsg(fd, &message, MSG_DONTWAIT) < 4)
        return 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_type == IP_TTL)
            memcpy(&ttl, CMSG_DATA(c), sizeof ttl);
    arrived(port, device, number[0], from.sin_addr, ttl);
    return 1;
}

static void *receive(void *unused UNUSED)
{
    struct pollfd polled[PORTS_MAX * DEVICES_MAX];
    for (int port = 0; port < ports; port++) {
        for (int device = 0; device < devices; device++) {
            int fd = udp(), on = 1, room = 4 << 20;
            struct sockaddr_in any = address("0.0.0.0", first_port + port);
            const char *name = device_names[device];
            MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
            MUST(setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
            setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
            if (strcmp(name, "any") != 0)
                MUST(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name)));
            MUST(bind(fd, generic(&any), sizeof any));
            polled[port * devices + device] = (struct pollfd){fd, POLLIN, 0};
        }
    }
    printf("ready\n");
    for (;;) {
        poll(polled, (nfds_t)(ports * devices), -1);
        for (int i = 0; i < ports * devices; i++) {
            pthread_mutex_lock(&lock);
            while (take(polled[i].fd, i / devices, i % devices)) {
            }
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}

static void mark_rows(void)
{
    pthread_mutex_lock(&lock);
    memset(rows, 0, sizeof rows);
    pthread_mutex_unlock(&lock);
}

static void report_rows(void)
{
    pthread_mutex_lock(&lock);
    for (int port = 0; port < ports; port++) {
        for (int device = 0; device < devices; device++) {
            struct row *row = &rows[port][device];
            printf("row %d %s %ld %ld %ld %s/%d\n", port, device_names[device], row->count, row->first, row->last,
                   inet_ntoa(row->source), row->ttl);
        }
        long missing = streams[port].end - streams[port].begin - streams[port].distinct;
        printf("stream %d missing %ld again %ld late %ld\n", port, missing, streams[port].again, streams[port].late);
    }
    pthread_mutex_unlock(&lock);
}

/* Sending datagrams */

static struct sender {
    struct sockaddr_in to;
    int fd, is_connected, failure;
    uint32_t number;
    long sent, failed;
} senders[PORTS_MAX];
static int senders_count;

static void send_number(struct sender *sender)
{
    static uint32_t datagram[250];
    const struct sockaddr *name = sender->is_connected ? NULL : generic(&sender->to);
    datagram[0] = sender->number;
    ssize_t len = sendto(sender->fd, datagram, sizeof datagram, 0, name, name ? sizeof sender->to : 0);
    pthread_mutex_lock(&lock);
    if (len < 0) {
        sender->failure = errno;
        sender->failed++;
    } else {
        sender->number++;
        sender->sent++;
    }
    pthread_mutex_unlock(&lock);
}

static void *send_numbers(void *unused UNUSED)
{
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        for (int i = 0; i < senders_count; i++)
            send_number(&senders[i]);
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_sec++;
            next.tv_nsec -= 1000000000;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return NULL;
}

static void mark_sent(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < senders_count; i++)
        senders[i].failed = senders[i].sent = senders[i].failure = 0;
    pthread_mutex_unlock(&lock);
}

static void report_sent(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < senders_count; i++) {
        struct sender *sender = &senders[i];
        printf("sender %d sent %ld failed %ld %s\n", ntohs(sender->to.sin_port), sender->sent, sender->failed,
               sender->failure ? strerrorname_np(sender->failure) : "none");
    }
    pthread_mutex_unlock(&lock);
}

/* Every datagram at once: the first ones before the next hop is known. */
static void burst(void)
{
    for (int i = 0; i < BURST; i++)
        send_number(&senders[0]);
    report_sent();
}

/* `what`: the address that it is bound to, whether it is connected, and its port if it is to have a certain one, as "0.0.0.0,0". */
static void add_sender(const char *ip, int port, const char *what)
{
    struct sender *sender = &senders[senders_count++];
    char from[32];
    int local_port = 0;
    if (sscanf(what, "%31[^,],%d,%d", from, &sender->is_connected, &local_port) < 2)
        exit(2);
    sender->fd = bound_to(from, local_port);
    sender->to = address(ip, port);
    if (sender->is_connected)
        MUST(connect(sender->fd, generic(&sender->to), sizeof sender->to));
}

/* Streams */

static int stream;
static struct sockaddr_in far_end;
static long echoed, wrong, gap, last_echo, broken;

static void *write_numbers(void *unused UNUSED)
{
    static uint64_t numbers[PIECE];
    uint64_t number = 0;
    for (;;) {
        for (int i = 0; i < PIECE; i++)
            numbers[i] = number++;
        const char *rest = (const char *)numbers;
        for (size_t left = sizeof numbers; left > 0;) {
            ssize_t len = send(stream, rest, left, MSG_NOSIGNAL);
            if (len < 0)
                return NULL;
            rest += len;
            left -= (size_t)len;
        }
        usleep(1000);
    }
    return NULL;
}

static void *read_numbers(void *unused UNUSED)
{
    static uint64_t numbers[4096];
    uint64_t number = 0;
    size_t have = 0;
    for (;;) {
        ssize_t len = recv(stream, (char *)numbers + have, sizeof numbers - have, 0);
        pthread_mutex_lock(&lock);
        if (len <= 0)
            broken = len < 0 ? errno : -1;
        have += len > 0 ? (size_t)len : 0;
        for (size_t i = 0; i < have / 8; i++)
            wrong += numbers[i] != number++;
        memmove(numbers, (char *)numbers + have / 8 * 8, have % 8);
        long now = now_usec();
        if (last_echo && now - last_echo > gap)
            gap = now - last_echo;
        last_echo = now;
        echoed += (long)(have / 8);
        have %= 8;
        pthread_mutex_unlock(&lock);
        if (broken)
            return NULL;
    }
}

static void mark_stream(void)
{
    pthread_mutex_lock(&lock);
    gap = echoed = 0;
    pthread_mutex_unlock(&lock);
}

static void report_stream(void)
{
    pthread_mutex_lock(&lock);
    long since = now_usec() - last_echo;
    printf("echoed %ld wrong %ld gap %ld since %ld %s\n", echoed, wrong, gap, since,
           broken == 0 ? "open" : broken < 0 ? "closed" : strerrorname_np((int)broken));
    pthread_mutex_unlock(&lock);
}

static void *echo(void *argument)
{
    int fd = (int)(long)argument;
    char buffer[65536];
    for (;;) {
        ssize_t len = recv(fd, buffer, sizeof buffer, 0), part = 0;
        for (ssize_t done = 0; done < len; done += part)
            if ((part = send(fd, buffer + done, (size_t)(len - done), MSG_NOSIGNAL)) < 0)
                return NULL;
        if (len <= 0)
            return NULL;
    }
}

static void *serve(void *argument)
{
    for (;;) {
        int fd = accept((int)(long)argument, NULL, NULL), on = 1;
        pthread_t thread;
        if (fd < 0)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        MUST(-pthread_create(&thread, NULL, echo, (void *)(long)fd));
    }
    return NULL;
}

static int tcp_of(const char *ip, int port)
{
    struct sockaddr_in self = address(ip, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    MUST(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    MUST(bind(fd, generic(&self), sizeof self));
    return fd;
}

/* The far end may not listen yet. */
static void connect_soon(const char *ip)
{
    for (int tries = 0;; tries++) {
        stream = tcp_of(ip, 0);
        if (connect(stream, generic(&far_end), sizeof far_end) == 0)
            return;
        must(tries < 1000, "connect", __LINE__);
        close(stream);
        usleep(10000);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc >= 5 && strcmp(argv[1], "receive") == 0) {
        first_port = atoi(argv[2]);
        ports = atoi(argv[3]);
        device_names = argv + 4;
        devices = argc - 4;
        if (ports > PORTS_MAX || devices > DEVICES_MAX)
            return 2;
        run(receive, NULL);
        answer(mark_rows, report_rows);
    } else if (argc >= 5 && argc - 4 <= PORTS_MAX && strcmp(argv[1], "send") == 0) {
        for (int i = 4; i < argc; i++)
            add_sender(argv[2], atoi(argv[3]) + i - 4, argv[i]);
        printf("ready\n");
        run(send_numbers, NULL);
        answer(mark_sent, report_sent);
    } else if (argc == 4 && strcmp(argv[1], "burst") == 0) {
        add_sender(argv[2], atoi(argv[3]), "0.0.0.0,0");
        printf("ready\n");
        answer(mark_sent, burst);
    } else if (argc == 6 && strcmp(argv[1], "streams") == 0) {
        int listener = tcp_of(argv[2], atoi(argv[3]));
        far_end = address(argv[4], atoi(argv[5]));
        MUST(listen(listener, 5));
        run(serve, (void *)(long)listener);
        connect_soon(argv[2]);
        run(write_numbers, NULL);
        run(read_numbers, NULL);
        printf("ready\n");
        answer(mark_stream, report_stream);
    } else {
        return 2;
    }
    return 0;
}
