/* seccomp <ip> <port> <before|after> <errno> <call>...: receives in every way, with system calls denied by a filter that
 * comes before the first socket or after it is in use. Says each stage when it is ready for it, and what it receives.
 * With "kill" for the error number, the arguments behind it are the numbers of all calls that do not end the process. */
#include "case.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif

static unsigned deny_errno;
static bool deny_bpf, deny_ppoll, deny_xdp;

/* For every thread of the process, the library's included. */
static void put_in_force(struct sock_filter *filter, unsigned short count)
{
    struct sock_fprog program = { .len = count, .filter = filter };
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

static void install_killing(char **numbers)
{
    struct sock_filter filter[400];
    unsigned short count = 0;
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; *numbers && count < 390; numbers++) {
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(*numbers), 0, 1);
        filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    put_in_force(filter, count);
}

/* Says which call it was. */
static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    char text[] = "killed by system call 000\n";
    for (int i = 0, number = info->si_syscall; i < 3; i++, number /= 10)
        text[sizeof text - 3 - (size_t)i] = (char)('0' + number % 10);
    ssize_t written = write(1, text, sizeof text - 1);
    _exit(written > 0 ? 99 : 98);
}

static void install(void)
{
    struct sock_filter filter[16];
    unsigned short count = 0;
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_filter deny = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | deny_errno);
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    if (deny_bpf) {
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1);
        filter[count++] = deny;
    }
    if (deny_ppoll) {
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ppoll, 0, 1);
        filter[count++] = deny;
    }
    if (deny_xdp) {
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3);
        filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_XDP, 0, 1);
        filter[count++] = deny;
    }
    filter[count++] = allow;
    put_in_force(filter, count);
}

/* Says a datagram. Returns whether the stage is over. */
static bool said(const char *stage, const char *data, ssize_t len)
{
    if (len == 4 && memcmp(data, "next", 4) == 0)
        return true;
    printf("%s: %.*s\n", stage, (int)len, data);
    return false;
}

static void ready(const char *stage)
{
    printf("ready %s\n", stage);
}

static void with_recv(const char *stage, int fd)
{
    char data[200];
    ssize_t len;
    ready(stage);
    do
        MUST(len = recv(fd, data, sizeof data, 0));
    while (!said(stage, data, len));
}

static void with_poll(const char *stage, int fd, int other)
{
    char data[200];
    ready(stage);
    for (bool over = false; !over;) {
        struct pollfd fds[2] = { { .fd = fd, .events = POLLIN }, { .fd = other, .events = POLLIN } };
        int count;
        MUST(count = poll(fds, 2, 30000));
        if (count == 0) {
            printf("%s: timeout\n", stage);
            return;
        }
        for (int i = 0; i < 2; i++)
            for (ssize_t len; fds[i].revents && (len = recv(fds[i].fd, data, sizeof data, MSG_DONTWAIT)) >= 0;)
                over |= said(stage, data, len);
    }
}

static void with_epoll(const char *stage, int fd)
{
    char data[200];
    int set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };
    MUST(set);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    ready(stage);
    for (bool over = false; !over;) {
        int count;
        MUST(count = epoll_wait(set, &event, 1, 30000));
        if (count == 0) {
            printf("%s: timeout\n", stage);
            return;
        }
        for (ssize_t len; (len = recv(fd, data, sizeof data, MSG_DONTWAIT)) >= 0;)
            over |= said(stage, data, len);
    }
    close(set);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    double begun = now_sec();
    const char *ip = argv[1];
    int port = atoi(argv[2]);
    bool before = strcmp(argv[3], "before") == 0, kill = strcmp(argv[4], "kill") == 0;
    if (kill) {
        struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
        MUST(sigaction(SIGSYS, &trap, NULL));
    }
    deny_errno = (unsigned)atoi(argv[4]);
    for (int i = 5; i < argc; i++) {
        deny_bpf |= strcmp(argv[i], "bpf") == 0;
        deny_ppoll |= strcmp(argv[i], "ppoll") == 0;
        deny_xdp |= strcmp(argv[i], "xdp") == 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (before && kill)
        install_killing(argv + 5);
    else if (before)
        install();
    int first = bound_to(ip, port);
    with_recv("first", first);
    if (!before && kill)
        install_killing(argv + 5);
    else if (!before)
        install();
    with_recv("again", first);
    int second = bound_to(ip, port + 1);
    with_poll("two", first, second);
    with_epoll("set", second);
    /* Takes a flow away: what comes to the port is the kernel's, or another socket's. */
    MUST(close(first));
    int third = bound_to(ip, port);
    with_recv("third", third);
    int copy = fcntl(third, F_DUPFD, 100);
    MUST(copy);
    MUST(close(third));
    int reuse = 1;
    MUST(setsockopt(second, SOL_SOCKET, SO_BROADCAST, &reuse, sizeof reuse));
    with_epoll("copy", copy);
    with_poll("both", copy, second);
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    if ((double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9 > (now_sec() - begun) / 2)
        printf("spins\n");
    printf("done\n");
    return 0;
}
