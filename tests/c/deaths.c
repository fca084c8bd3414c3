// A program with connections that a signal ends.
//
//   deaths <way> <address> <port>           opens two connections, writes as much as there is room for on the first, and dies
//   deaths dispositions <address> <port>    what it sees of its signals' actions when it has connections

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "family.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct sockaddr_in peer;

static void check(int ok, const char *what) {
    if (!ok) {
        printf("%s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static int connected(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    return fd;
}

static void *raises_in_thread(void *signal) {
    raise(*(int *)signal);
    return NULL;
}

static void by_thread(int signal) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + 16384);
    pthread_create(&thread, &attributes, raises_in_thread, &signal);
    pthread_join(thread, NULL);
}

static void in_a_moment(int timer) {
    struct itimerval soon = {{0, 0}, {0, 100000}};
    check(setitimer(timer, &soon, NULL) == 0, "setitimer");
}

static volatile int zero;

static void cleans_up(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

static void nothing(int number) { (void)number; }

static char *volatile nowhere = (char *)8;

// Ends the process; `idle` is a connection on which nothing comes.
static void die(const char *way, int idle) {
    char byte;
    int number = atoi(way);
    if (number > 0) raise(number);
    if (strcmp(way, "rtmax") == 0) raise(SIGRTMAX);
    if (strcmp(way, "thread") == 0) by_thread(SIGTERM);
    if (strcmp(way, "kill") == 0) kill(getpid(), SIGTERM);
    if (strcmp(way, "queued") == 0) sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 7});
    if (strcmp(way, "abort") == 0) abort();
    if (strcmp(way, "segv") == 0) *nowhere = 1;
    if (strcmp(way, "bus") == 0) {
        int file = memfd_create("bus", 0);
        volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        *page = 1;
    }
#if defined(__x86_64__)
    if (strcmp(way, "fpe") == 0) zero = 1 / zero;
    if (strcmp(way, "trap") == 0) __asm__ volatile("int3");
#endif
    if (strcmp(way, "ill") == 0) __builtin_trap();
    if (strcmp(way, "inside") == 0) in_a_moment(ITIMER_REAL), recv(idle, &byte, 1, 0);
    if (strcmp(way, "polling") == 0) {
        struct pollfd polled = {idle, POLLIN, 0};
        in_a_moment(ITIMER_REAL);
        poll(&polled, 1, -1);
    }
    if (strcmp(way, "waiting") == 0) {
        int set = epoll_create1(0);
        struct epoll_event event = {EPOLLIN, {0}};
        epoll_ctl(set, EPOLL_CTL_ADD, idle, &event);
        in_a_moment(ITIMER_REAL);
        epoll_wait(set, &event, 1, -1);
    }
    if (strcmp(way, "busy") == 0) {
        in_a_moment(ITIMER_PROF);
        for (;;) recv(idle, &byte, 1, MSG_DONTWAIT);
    }
    if (strcmp(way, "cpu") == 0) {
        struct rlimit limit = {1, 5};
        setrlimit(RLIMIT_CPU, &limit);
        for (;;) zero++;
    }
    if (strcmp(way, "pipe") == 0) {
        int pipes[2];
        check(pipe(pipes) == 0 && close(pipes[0]) == 0, "pipe");
        check(write(pipes[1], "x", 1), "write");
    }
    if (strcmp(way, "stream_pipe") == 0) {
        shutdown(idle, SHUT_WR);
        send(idle, "x", 1, 0);
    }
    if (strcmp(way, "blocked") == 0) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGTERM);
        usleep(100000);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    if (strcmp(way, "handled") == 0) {
        signal(SIGTERM, cleans_up);
        raise(SIGTERM);
    }
    if (strcmp(way, "once") == 0) {
        struct sigaction action = {.sa_handler = nothing, .sa_flags = (int)SA_RESETHAND};
        sigaction(SIGINT, &action, NULL);
        raise(SIGINT);
        raise(SIGINT);
    }
    if (strcmp(way, "twice") == 0) {
        raise(SIGCHLD), raise(SIGURG), raise(SIGWINCH), raise(SIGCONT);
        signal(SIGTERM, SIG_IGN), raise(SIGTERM), signal(SIGTERM, SIG_DFL), raise(SIGTERM);
    }
    if (strcmp(way, "children") == 0) {
        // Those of others harm nobody.
        for (int i = 0; i < 2; i++) {
            int status;
            pid_t child = i ? vfork() : fork();
            if (child == 0) kill(getpid(), SIGTERM), _exit(3);
            check(waitpid(child, &status, 0) == child, "waitpid");
            check(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "the child's end");
        }
        check(send(idle, "alive", 5, 0) == 5, "send");
        raise(SIGTERM);
    }
    if (strcmp(way, "executed") == 0) {
        // The actions are the kernel's own there.
        fcntl(idle, F_SETFD, FD_CLOEXEC);
        execl("/bin/sh", "sh", "-c", "kill -s TERM $$; sleep 5", NULL);
    }
    printf("%s: still alive\n", way);
}

static void show(int number) {
    struct sigaction action;
    memset(&action, 0x55, sizeof action);
    if (sigaction(number, NULL, &action) != 0) {
        printf("%d: errno %d\n", number, errno);
        return;
    }
    unsigned mask = 0;
    for (int i = 1; i < 32; i++) mask = mask * 3 + (unsigned)sigismember(&action.sa_mask, i);
    const char *kind = action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "a handler";
    printf("%d: %s, flags %x, mask %x\n", number, kind, (unsigned)action.sa_flags, mask);
}

static void dispositions(void) {
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, nothing);
    struct sigaction with = {.sa_handler = SIG_DFL, .sa_flags = SA_RESTART | SA_NODEFER}, once = {.sa_handler = nothing, .sa_flags = (int)SA_RESETHAND};
    sigaddset(&with.sa_mask, SIGUSR1);
    sigaction(SIGUSR2, &with, NULL);
    connected();
    for (int number = 1; number <= SIGRTMAX; number++) show(number);
    sigaction(SIGTERM, &with, NULL), show(SIGTERM);
    sigaction(SIGINT, &once, NULL), show(SIGINT), raise(SIGINT), show(SIGINT);
    printf("%d\n", signal(SIGTERM, SIG_IGN) == SIG_DFL), show(SIGTERM);
    printf("%d\n", signal(SIGTERM, nothing) == SIG_IGN), show(SIGTERM);
    printf("%d\n", signal(SIGTERM, SIG_DFL) == nothing), show(SIGTERM);
    printf("%d\n", sysv_signal(SIGQUIT, SIG_DFL) == SIG_DFL), show(SIGQUIT);
    printf("%d\n", sigset(SIGALRM, SIG_DFL) == SIG_DFL), show(SIGALRM);
    // One that is waited for is not delivered.
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set), sigaddset(&set, SIGTERM), sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTERM), sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 9});
    int number = sigwaitinfo(&set, &info);
    printf("%d %d\n", number, info.si_code);
    number = sigwaitinfo(&set, &info);
    printf("%d %d\n", number - SIGRTMIN, info.si_value.sival_int);
    puts("done");
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[3]))};
    check(inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1, "an address");
    if (strcmp(argv[1], "dispositions") == 0) {
        dispositions();
        return 0;
    }
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = core.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
    static char octets[50000];
    int fd = connected(), idle = connected(), unread = connected();
    // The peer answers with something that nobody reads.
    check(send(unread, "?", 1, 0) == 1, "send");
    struct pollfd polled = {unread, POLLIN, 0};
    check(poll(&polled, 1, 5000) == 1, "poll");
    size_t taken = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t sent; taken < 3000000 && (sent = write(fd, octets, sizeof octets)) > 0;) taken += (size_t)sent;
    printf("%zu\n", taken);
    fflush(stdout);
    die(argv[1], idle);
    return 3;
}
