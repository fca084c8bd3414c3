/* hand_overs <first seed> <count>: random sequences of what hands connections over to other processes or to the kernel, in the midst of
 * traffic that is checked octet by octet. The peer at port 7000 connects when it is asked to, that at 7990 accepts; both send back
 * whatever comes. A sequence that fails or hangs says its seed, and what it has done by then. */
#include "case.h"
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#define CONNECTIONS 3
#define FILE_LEN 4000000
/* As much may be on its way: the peer does not read on while nobody reads what it sends back. */
#define AHEAD_MAX 50000
#define SEQUENCE_SECONDS 25

struct connection {
    int fd;
    size_t sent, received;
};

struct shared {
    struct connection connections[CONNECTIONS];
    uint64_t random;
    char story[4000];
    size_t story_len;
};

static struct shared *all;
static unsigned long long seed;
static int listener, port, asker, pattern_file, shared_file;

static unsigned next_random(unsigned below)
{
    all->random ^= all->random << 13;
    all->random ^= all->random >> 7;
    all->random ^= all->random << 17;
    return (unsigned)(all->random >> 20) % below;
}

static unsigned char octet(size_t at)
{
    return (unsigned char)(at * 131 + (at >> 8) * 7 + (at >> 16));
}

static void story(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(all->story + all->story_len, sizeof all->story - all->story_len, format, arguments);
    va_end(arguments);
    if (len > 0 && all->story_len + (size_t)len < sizeof all->story)
        all->story_len += (size_t)len;
}

static void fails(const char *why)
{
    printf("seed %llu: %s (%s):%s\n", seed, why, strerrorname_np(errno), all->story);
    fflush(stdout);
    _exit(1);
}

static void hangs(int number)
{
    (void)number;
    static const char text[] = "hangs:";
    char digits[24];
    int at = sizeof digits;
    for (unsigned long long rest = seed; rest || at == sizeof digits; rest /= 10)
        digits[--at] = (char)('0' + rest % 10);
    if (write(1, "seed ", 5) < 0 || write(1, digits + at, sizeof digits - (size_t)at) < 0 || write(1, " ", 1) < 0 ||
        write(1, text, sizeof text - 1) < 0 || write(1, all->story, all->story_len) < 0 || write(1, "\n", 1) < 0)
        _exit(3);
    _exit(1);
}

static void sends(struct connection *it)
{
    static unsigned char buffer[AHEAD_MAX];
    size_t ahead = it->sent - it->received, most = AHEAD_MAX - ahead;
    if (ahead >= AHEAD_MAX || it->sent + AHEAD_MAX > FILE_LEN)
        return;
    size_t len = next_random(4) ? 1 + next_random((unsigned)(most < 3000 ? most : 3000)) : 1 + next_random((unsigned)most);
    ssize_t count;
    if (next_random(4) == 0) {
        off_t offset = (off_t)it->sent;
        story(" sendfile(%zu)", len);
        count = sendfile(it->fd, pattern_file, &offset, len);
    } else {
        for (size_t i = 0; i < len; i++)
            buffer[i] = octet(it->sent + i);
        int how = (int)next_random(3);
        story(" send(%zu)", len);
        count = how == 0 ? write(it->fd, buffer, len) : send(it->fd, buffer, len, how == 1 ? MSG_DONTWAIT : MSG_NOSIGNAL);
        if (count < 0 && how == 1 && errno == EAGAIN)
            return;
    }
    if (count <= 0)
        fails("sending");
    it->sent += (size_t)count;
}

static void receives(struct connection *it)
{
    static unsigned char buffer[AHEAD_MAX];
    size_t ahead = it->sent - it->received;
    if (ahead == 0)
        return;
    size_t room = 1 + next_random((unsigned)(next_random(2) ? ahead : ahead < 500 ? ahead : 500));
    struct pollfd polled = {it->fd, POLLIN, 0};
    int how = (int)next_random(4);
    story(" receive(%zu)", room);
    if (how == 0 && poll(&polled, 1, -1) != 1)
        fails("poll");
    ssize_t count = how == 1 ? read(it->fd, buffer, room) : recv(it->fd, buffer, room, how == 2 ? MSG_DONTWAIT : 0);
    if (count < 0 && how == 2 && errno == EAGAIN)
        return;
    if (count <= 0)
        fails("receiving");
    for (ssize_t i = 0; i < count; i++)
        if (buffer[i] != octet(it->received + (size_t)i))
            fails("another octet");
    it->received += (size_t)count;
}

static void some_traffic(struct connection *it)
{
    for (unsigned left = 1 + next_random(4); left > 0; left--)
        next_random(2) ? sends(it) : receives(it);
}

static void awaits(pid_t child, int signal)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        fails("waiting");
    if (signal ? !WIFSIGNALED(status) || WTERMSIG(status) != signal : status != 0)
        fails("a child's end");
}

static void forks(struct connection *it)
{
    static const int deaths[] = {0, 0, 0, SIGTERM, SIGKILL, SIGHUP};
    int signal = deaths[next_random(6)], parent_closes = next_random(3) == 0;
    story(" fork(%s)[", signal ? sigabbrev_np(signal) : parent_closes ? "and close" : "");
    pid_t child = fork();
    if (child == 0) {
        alarm(SEQUENCE_SECONDS);
        some_traffic(it);
        if (signal)
            kill(getpid(), signal);
        _exit(0);
    }
    int copy = -1;
    if (parent_closes) {
        /* It stays open in the child, and here under another number. */
        copy = dup(it->fd);
        close(it->fd);
    }
    awaits(child, signal);
    if (parent_closes)
        it->fd = copy;
    story("]");
}

static void executes(struct connection *it)
{
    char numbers[4][24];
    story(" exec[");
    snprintf(numbers[0], sizeof numbers[0], "%d", shared_file);
    snprintf(numbers[1], sizeof numbers[1], "%d", pattern_file);
    snprintf(numbers[2], sizeof numbers[2], "%d", (int)(it - all->connections));
    snprintf(numbers[3], sizeof numbers[3], "%llu", seed);
    pid_t child = fork();
    if (child == 0) {
        /* On purpose: one that is inherited by chance stays the parent's (docs/differences.md). */
        fcntl(it->fd, F_SETFD, 0);
        execl("/proc/self/exe", "hand_overs", "go-on", numbers[0], numbers[1], numbers[2], numbers[3], (char *)NULL);
        _exit(1);
    }
    awaits(child, 0);
    story("]");
}

static int go_on(char **numbers)
{
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(numbers[0]), 0);
    must(all != MAP_FAILED, "mmap", __LINE__);
    pattern_file = atoi(numbers[1]);
    seed = strtoull(numbers[3], NULL, 10);
    signal(SIGALRM, hangs);
    alarm(SEQUENCE_SECONDS);
    some_traffic(&all->connections[atoi(numbers[2])]);
    return 0;
}

static void passes(struct connection *it)
{
    int pair[2], copy;
    char octet = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&octet, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    story(" pass");
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &it->fd, sizeof it->fd);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(sendmsg(pair[0], &message, 0));
    int close_first = next_random(2) == 0;
    if (close_first)
        close(it->fd);
    MUST(recvmsg(pair[1], &message, 0));
    memcpy(&copy, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof copy);
    if (!close_first)
        close(it->fd);
    it->fd = copy;
    close(pair[0]);
    close(pair[1]);
}

static void duplicates(struct connection *it)
{
    int copy = next_random(2) ? dup(it->fd) : dup2(it->fd, 200 + (int)(it - all->connections) * 10 + (int)next_random(10));
    story(" dup");
    MUST(copy);
    if (copy != it->fd)
        close(it->fd);
    it->fd = copy;
}

static void sets_options(struct connection *it)
{
    int one = 1, off = -1;
    story(" option");
    switch (next_random(3)) {
    case 0:
        setsockopt(it->fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof off);
        break;
    case 1:
        setsockopt(it->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        break;
    default:
        /* The library has no such option: only the kernel does it. */
        setsockopt(it->fd, SOL_SOCKET, SO_MAX_PACING_RATE + 23, &one, sizeof one);
    }
}

static void begins(struct connection *it)
{
    *it = (struct connection){.fd = -1};
    if (next_random(2)) {
        struct sockaddr_in peer = address(PEER, 7990);
        story(" connect");
        it->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (it->fd < 0 || connect(it->fd, generic(&peer), sizeof peer) != 0)
            fails("connect");
        return;
    }
    char script[40], first;
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    int len = snprintf(script, sizeof script, "C %d 0", port);
    story(" accept");
    if (sendto(asker, script, (size_t)len, 0, generic(&peer), sizeof peer) != len)
        fails("asking");
    it->fd = accept(listener, NULL, NULL);
    if (it->fd < 0 || read(it->fd, &first, 1) != 1 || first != 'c')
        fails("accept");
}

/* Everything that was sent comes back, and then the end. */
static void ends(struct connection *it)
{
    char rest;
    story(" end");
    if (shutdown(it->fd, SHUT_WR) != 0)
        fails("shutdown");
    while (it->received < it->sent)
        receives(it);
    if (recv(it->fd, &rest, 1, 0) != 0)
        fails("the end");
    close(it->fd);
}

/* Anew for each sequence: what was shared with a child stays the kernel's. */
static void listens(void)
{
    asker = bound();
    listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in self = address(SELF, 0);
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 16));
    port = port_of(listener);
}

static void sequence(void)
{
    static void (*const steps[])(struct connection *) = {forks, executes, passes, duplicates, sets_options};
    all->random = (seed + 1) * 0x9e3779b97f4a7c15ULL;
    all->story_len = 0;
    listens();
    unsigned count = 1 + next_random(CONNECTIONS);
    for (unsigned i = 0; i < count; i++)
        begins(&all->connections[i]);
    for (unsigned left = 3 + next_random(8); left > 0; left--) {
        unsigned which = next_random(count);
        story(" %u:", which);
        some_traffic(&all->connections[which]);
        if (next_random(3) == 0)
            steps[next_random(sizeof steps / sizeof *steps)](&all->connections[which]);
    }
    for (unsigned i = 0; i < count; i++)
        ends(&all->connections[i]);
    close(listener);
    close(asker);
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "go-on") == 0)
        return go_on(argv + 2);
    if (argc != 3)
        return 2;
    signal(SIGALRM, hangs);
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared_file = memfd_create("shared", 0);
    pattern_file = memfd_create("pattern", 0);
    MUST(shared_file);
    MUST(pattern_file);
    MUST(ftruncate(shared_file, sizeof *all));
    MUST(ftruncate(pattern_file, FILE_LEN));
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, shared_file, 0);
    unsigned char *pattern = mmap(NULL, FILE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, pattern_file, 0);
    must(all != MAP_FAILED && pattern != MAP_FAILED, "mmap", __LINE__);
    for (size_t i = 0; i < FILE_LEN; i++)
        pattern[i] = octet(i);
    unsigned long long first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    for (seed = first; seed < first + count; seed++) {
        alarm(SEQUENCE_SECONDS);
        sequence();
    }
    printf("%llu sequences\n", count);
    return 0;
}
