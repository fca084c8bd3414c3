// A server that gives up its rights while it has sockets of every kind.
//
//   privileges <how> <address> <port>
//
// Says "ready" when it listens. Its first four connections each send ASKED octets and are sent GIVEN before the rights go "how" says,
// with traffic in both directions under way; a fifth waits to be accepted then. Afterwards each of the four ends in another way, and
// three more are served, one of them new, one by a forked child. A datagram is answered before and after.
#include "case.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOBODY 65534
#define ASKED 3000
#define FIRST 1000
#define GIVEN 150000
#define HELD 4

static int listener, datagrams, held[HELD];

static unsigned char octet(size_t i) { return (unsigned char)(i * 131 + (i >> 8) * 7 + (i >> 16)); }

static void receive(int fd, size_t from, size_t until)
{
    unsigned char buffer[ASKED];
    while (from < until) {
        ssize_t count = recv(fd, buffer, until - from, 0);
        if (count <= 0) {
            say("recv", count);
            return;
        }
        for (ssize_t i = 0; i < count; i++, from++)
            if (buffer[i] != octet(from)) {
                printf("octet %zu is wrong\n", from);
                exit(1);
            }
    }
}

static void give(int fd, size_t from, size_t until)
{
    unsigned char buffer[10000];
    while (from < until) {
        size_t len = until - from < sizeof buffer ? until - from : sizeof buffer;
        for (size_t i = 0; i < len; i++)
            buffer[i] = octet(from + i);
        ssize_t count = send(fd, buffer, len, MSG_NOSIGNAL);
        if (count <= 0) {
            say("send", count);
            return;
        }
        from += (size_t)count;
    }
}

static int accepted(void)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        say("accept", fd);
    return fd;
}

static void answer_datagram(void)
{
    char data[100];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    ssize_t count = recvfrom(datagrams, data, sizeof data, 0, (struct sockaddr *)&from, &len);
    say("recvfrom", count);
    if (count > 0)
        say("sendto", sendto(datagrams, data, (size_t)count, 0, (struct sockaddr *)&from, len));
}

static struct __user_cap_data_struct sets[2];

static int set_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return (int)syscall(SYS_capset, &header, sets);
}

static void get_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    MUST(syscall(SYS_capget, &header, sets));
}

extern int capset(struct __user_cap_header_struct *header, struct __user_cap_data_struct *data);

static int without_net_admin(int by_libc)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    get_capabilities();
    sets[0].effective &= ~(1u << CAP_NET_ADMIN);
    sets[0].permitted &= ~(1u << CAP_NET_ADMIN);
    return by_libc ? capset(&header, sets) : (int)syscall(SYS_capset, &header, sets);
}

// Past every hook.
static long straight(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}

static void *thread_drops(void *unused)
{
    (void)unused;
    say("thread", syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY));
    return NULL;
}

static void *thread_receives(void *fd)
{
    receive(*(int *)fd, FIRST, ASKED);
    return NULL;
}

// Every other call is allowed.
static int forbid(int number, unsigned action)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

// A set of sockets of every kind, one of them taken out again, for which a thread waits.
static int set;

static void *thread_waits(void *events)
{
    *(long *)events = epoll_wait(set, (struct epoll_event[4]){0}, 4, 400);
    return NULL;
}

static void watch(int operation, int fd, unsigned events, int name)
{
    struct epoll_event event = {.events = events, .data.u64 = (unsigned)name};
    say("epoll_ctl", epoll_ctl(set, operation, fd, &event));
}

static void make_set(void)
{
    set = epoll_create1(0);
    MUST(set);
    watch(EPOLL_CTL_ADD, datagrams, EPOLLIN | EPOLLET, 1);
    watch(EPOLL_CTL_ADD, held[0], EPOLLPRI, 2);
    watch(EPOLL_CTL_ADD, held[1], EPOLLIN, 3);
    watch(EPOLL_CTL_DEL, held[1], 0, 0);
    watch(EPOLL_CTL_ADD, held[2], EPOLLIN | EPOLLONESHOT, 4);
}

static void use_set(void)
{
    watch(EPOLL_CTL_ADD, listener, EPOLLIN, 5);
    watch(EPOLL_CTL_ADD, held[1], EPOLLOUT, 6);
    watch(EPOLL_CTL_MOD, held[0], EPOLLIN, 7);
    unsigned seen = 0;
    for (int i = 0; i < 20 && seen != (1 << 4 | 1 << 5 | 1 << 6 | 1 << 7); i++) {
        struct epoll_event events[4];
        int count = epoll_wait(set, events, 4, 100);
        for (int j = 0; j < count; j++) {
            if (events[j].data.u64 > 7)
                printf("a stranger\n");
            seen |= 1u << (events[j].data.u64 & 31);
        }
    }
    printf("seen %x\n", seen & ~2u);
    watch(EPOLL_CTL_DEL, held[1], 0, 0);
    watch(EPOLL_CTL_DEL, held[1], 0, 0);
}

static void drop(const char *how)
{
    int is_raw = strncmp(how, "raw_", 4) == 0;
    const char *call = is_raw ? how + 4 : how;
    if (strcmp(call, "setuid") == 0) {
        MUST(setgid(NOBODY));
        say(how, is_raw ? syscall(SYS_setuid, NOBODY) : setuid(NOBODY));
    } else if (strcmp(call, "setreuid") == 0)
        say(how, is_raw ? syscall(SYS_setreuid, NOBODY, NOBODY) : setreuid(NOBODY, NOBODY));
    else if (strcmp(call, "setresuid") == 0)
        say(how, is_raw ? syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) : setresuid(NOBODY, NOBODY, NOBODY));
    else if (strcmp(call, "capset") == 0)
        say(how, without_net_admin(!is_raw));
    else if (strcmp(call, "keepcaps") == 0) {
        MUST(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
        say(how, setresuid(NOBODY, NOBODY, NOBODY));
        memset(sets, 0, sizeof sets);
        sets[0].effective = sets[0].permitted = 1u << CAP_NET_ADMIN;
        say("capset", set_capabilities());
    } else if (strcmp(call, "lowered") == 0) {
        say(how, seteuid(NOBODY));
    } else if (strcmp(call, "back") == 0) {
        say(how, seteuid(NOBODY));
        say(how, seteuid(0));
    } else if (strcmp(call, "refused") == 0) {
        MUST(seteuid(NOBODY));
        say(how, setuid(1234));
        MUST(seteuid(0));
    } else if (strcmp(call, "unseen") == 0)
        say(how, straight(SYS_setresuid, NOBODY, NOBODY, NOBODY));
    else if (strcmp(call, "thread") == 0) {
        pthread_t thread;
        MUST(-pthread_create(&thread, NULL, thread_drops, NULL));
        pthread_join(thread, NULL);
    } else if (strcmp(call, "asleep") == 0) {
        pthread_t thread;
        MUST(-pthread_create(&thread, NULL, thread_receives, &held[0]));
        sleep_msec(200);
        say(how, setuid(NOBODY));
        pthread_join(thread, NULL);
    } else if (strcmp(call, "filter_kills") == 0)
        say(how, forbid(SYS_bpf, SECCOMP_RET_KILL_PROCESS));
    else if (strcmp(call, "filter_epoll") == 0) {
        make_set();
        pthread_t thread;
        long events;
        MUST(-pthread_create(&thread, NULL, thread_waits, &events));
        sleep_msec(100);
        say(how, forbid(SYS_bpf, SECCOMP_RET_KILL_PROCESS));
        pthread_join(thread, NULL);
        printf("the thread is told of %s\n", events > 0 ? "something" : "nothing");
        use_set();
    } else if (strcmp(call, "filter_refuses") == 0)
        say(how, forbid(SYS_bpf, SECCOMP_RET_ERRNO | EPERM));
    else if (strcmp(call, "filter_allows") == 0)
        say(how, forbid(SYS_getrusage, SECCOMP_RET_KILL_PROCESS));
    else if (strcmp(call, "unshare") == 0)
        say(how, unshare(CLONE_NEWUSER));
    else
        exit(3);
    uid_t users[3];
    MUST(getresuid(&users[0], &users[1], &users[2]));
    printf("users %u %u %u\n", users[0], users[1], users[2]);
}

static void serve(int fd)
{
    receive(fd, 0, ASKED);
    give(fd, 0, GIVEN);
    say("close", close(fd));
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    alarm(40);
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *how = argv[1];
    struct sockaddr_in self = address(argv[2], atoi(argv[3]));
    int on = 1;
    datagrams = bound_to(argv[2], atoi(argv[3]));
    listener = socket(AF_INET, SOCK_STREAM, 0);
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 16));
    char file[] = "/tmp/vma-privileges-XXXXXX";
    int letters = mkstemp(file);
    MUST(letters);
    MUST(unlink(file));
    for (size_t i = 0; i < 5000; i++) {
        unsigned char letter = octet(GIVEN + i);
        MUST(write(letters, &letter, 1));
    }
    printf("ready\n");
    answer_datagram();
    for (int i = 0; i < HELD; i++) {
        held[i] = accepted();
        receive(held[i], 0, FIRST);
    }
    struct pollfd waiting = {listener, POLLIN, 0};
    say("waiting", poll(&waiting, 1, 10000));
    for (int i = 0; i < HELD; i++)
        give(held[i], 0, GIVEN);

    drop(how);
    // The first call that takes the right finds that it is gone.
    int is_unseen = strcmp(how, "unseen") == 0;
    if (is_unseen)
        serve(accepted());

    if (strcmp(how, "asleep") != 0)
        receive(held[0], FIRST, ASKED);
    give(held[0], GIVEN, GIVEN + 5000);
    say("close", close(held[0]));

    receive(held[1], FIRST, ASKED);
    // No hook sees what stdio writes.
    char text[5000];
    MUST(pread(letters, text, sizeof text, 0));
    FILE *stream = fdopen(held[1], "w");
    say("fwrite", stream ? (long)fwrite(text, 1, sizeof text, stream) : -1);
    say("fclose", stream ? fclose(stream) : -1);

    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        receive(held[2], FIRST, ASKED);
        give(held[2], GIVEN, GIVEN + 5000);
        _exit(0);
    }
    MUST(close(held[2]));
    int status;
    MUST(waitpid(child, &status, 0));
    printf("child %d\n", status);

    answer_datagram();
    if (!is_unseen)
        serve(accepted());
    serve(accepted());
    fflush(stdout);
    child = fork();
    MUST(child);
    if (child == 0) {
        serve(accepted());
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    printf("child %d\n", status);

    // The end of the process is this connection's.
    receive(held[3], FIRST, ASKED);
    give(held[3], GIVEN, GIVEN + 5000);
    printf("end\n");
    return 0;
}
