/* VMA_HANDLE_SIGSEGV and VMA_HANDLE_SIGINTR: what the library's handlers do, and that the program does not see them. */
#include "case.h"
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <setjmp.h>

static volatile sig_atomic_t handled;

__attribute__((noinline)) static void crash_here(volatile int *where)
{
    *where = 1;
}

static void allow_core(void)
{
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_CORE, &limit));
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_CORE, &limit));
}

static void crash(void)
{
    allow_core();
    crash_here((int *)0x10);
}

static void crash_with_socket(void)
{
    udp();
    crash();
}

static void *crash_in_thread(void *unused)
{
    crash_here((int *)0x10);
    return unused;
}

static void crash_of_thread(void)
{
    pthread_t thread;
    udp();
    pthread_create(&thread, NULL, crash_in_thread, NULL);
    pthread_join(thread, NULL);
}

static void sent(void)
{
    allow_core();
    udp();
    kill(getpid(), SIGSEGV);
    pause();
}

/* Without room on the stack there is no handler; the kernel ends the process. */
__attribute__((noinline)) static int overflow(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    return depth < 0 ? 0 : overflow(depth + 1) + room[0];
}

static void stack_overflow(void)
{
    udp();
    overflow(1);
}

static sigjmp_buf back;

static void jump(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    handled++;
    siglongjmp(back, info->si_addr == (void *)0x10 ? 1 : 2);
}

/* Programs that live on faults: the JVM, garbage collectors. */
static void own_handler(void)
{
    struct sigaction action = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
    MUST(sigaction(SIGSEGV, NULL, &old));
    printf("at first: %s\n", old.sa_handler == SIG_DFL ? "SIG_DFL" : "a handler");
    MUST(sigaction(SIGSEGV, &action, &old));
    printf("replaced: %s, flags %x\n", old.sa_handler == SIG_DFL ? "SIG_DFL" : "a handler", old.sa_flags);
    for (int i = 0; i < 3; i++) {
        int code = sigsetjmp(back, 1);
        if (code == 0)
            crash_here((int *)0x10);
        printf("fault %d: %d\n", i, code);
        if (i == 0)
            udp();
    }
    MUST(sigaction(SIGSEGV, NULL, &old));
    printf("then: %s\n", old.sa_sigaction == jump ? "ours" : "another");
    printf("signal: %s\n", (void *)signal(SIGSEGV, SIG_DFL) == (void *)jump ? "ours" : "another");
    printf("signal: %s\n", signal(SIGSEGV, SIG_IGN) == SIG_DFL ? "SIG_DFL" : "another");
}

static void say_and_restore(int signal_number)
{
    printf("own handler\n");
    signal(signal_number, SIG_DFL);
}

/* What crash reporters do. */
static void own_handler_gives_up(void)
{
    udp();
    signal(SIGSEGV, say_and_restore);
    crash_here((int *)0x10);
}

static void count(int signal_number)
{
    (void)signal_number;
    handled++;
}

/* A shell lets programs that it runs in the background ignore the signal. */
static void do_not_ignore_interrupts(void)
{
    MUST(signal(SIGINT, SIG_DFL) == SIG_ERR ? -1 : 0);
}

static void interrupt_default(void)
{
    do_not_ignore_interrupts();
    int fd = bound();
    struct sigaction old;
    MUST(sigaction(SIGINT, NULL, &old));
    printf("SIGINT: %s\n", old.sa_handler == SIG_DFL ? "SIG_DFL" : "a handler");
    MUST(kill(getpid(), SIGINT));
    recv(fd, &old, 1, 0);
    printf("not reached\n");
}

/* Ctrl-C comes while the only thread is inside the library most of the time, and has sockets that a child may have. */
static void interrupt_busy(void)
{
    do_not_ignore_interrupts();
    udp();
    fflush(stdout);
    pid_t parent = getpid();
    if (fork() == 0) {
        sleep_msec(20 + parent % 16);
        kill(parent, SIGINT);
        _exit(0);
    }
    for (;;) {
        int fd = bound();
        struct sockaddr_in peer = address(PEER, 7999);
        sendto(fd, "x", 1, 0, generic(&peer), sizeof peer);
        MUST(close(fd));
    }
}

static char *truncated_mapping(void)
{
    int file = memfd_create("file", 0);
    MUST(file);
    MUST(ftruncate(file, 4096));
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(memory == MAP_FAILED ? -1 : 0);
    MUST(ftruncate(file, 0));
    return memory;
}

static void truncate_statistics(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/vmastat.%d", getenv("VMA_STATS_SHMEM_DIR"), (int)getpid());
    MUST(truncate(path, 0));
}

static void jump_out(int signal_number)
{
    (void)signal_number;
    siglongjmp(back, 1);
}

/* Somebody truncates the statistics file. What else raises SIGBUS is the program's. */
static void truncated_statistics(void)
{
    int fd = bound();
    have(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
    truncate_statistics();
    have(fd, 1, 21);
    say_recv("recv", fd, 64, 0);
    /* Long enough for the internal thread's gauges. */
    sleep_msec(700);
    printf("SIGBUS: %s\n", signal(SIGBUS, jump_out) == SIG_DFL ? "SIG_DFL" : "a handler");
    if (sigsetjmp(back, 1) == 0)
        *truncated_mapping() = 1;
    else
        printf("handler\n");
    have(fd, 1, 22);
    say_recv("recv", fd, 64, 0);
    printf("SIGBUS: %s\n", signal(SIGBUS, SIG_DFL) == jump_out ? "the handler" : "another");
    fflush(stdout);
    *truncated_mapping() = 1;
}

/* The same under a handler of the program's own. */
static void truncated_statistics_and_handler(void)
{
    MUST(signal(SIGBUS, jump_out) == SIG_ERR ? -1 : 0);
    int fd = bound();
    if (sigsetjmp(back, 1) != 0) {
        printf("the handler was called\n");
        return;
    }
    have(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
    truncate_statistics();
    have(fd, 1, 21);
    say_recv("recv", fd, 64, 0);
}

static int accelerated;

static void *in_recv(void *unused)
{
    char byte;
    int fd = bound_to(SELF, 7201);
    say("recv", recv(fd, &byte, 1, 0));
    return unused;
}

static void *in_poll(void *unused)
{
    struct pollfd polled = {accelerated, POLLIN, 0};
    say("poll", poll(&polled, 1, -1));
    return unused;
}

static void *in_select(void *unused)
{
    fd_set in;
    FD_ZERO(&in);
    FD_SET(accelerated, &in);
    struct timeval timeout = {9, 0};
    say("select", select(accelerated + 1, &in, NULL, NULL, &timeout));
    return unused;
}

static void *in_epoll(void *unused)
{
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, accelerated, &event));
    say("epoll_wait", epoll_wait(set, &event, 1, -1));
    return unused;
}

/* Threads wait in every way; one of them gets the signal, whose handler would restart system calls. */
static void interrupt_threads(void)
{
    void *(*const ways[])(void *) = {in_recv, in_poll, in_select, in_epoll};
    pthread_t threads[4];
    sigset_t interrupt;
    accelerated = bound();
    MUST(signal(SIGINT, count) == SIG_ERR ? -1 : 0);
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    MUST(sigprocmask(SIG_BLOCK, &interrupt, NULL));
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, ways[i], NULL) == 0, "pthread_create", __LINE__);
    sleep_msec(300);
    printf("signal\n");
    MUST(kill(getpid(), SIGINT));
    MUST(sigprocmask(SIG_UNBLOCK, &interrupt, NULL));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("handled %d\n", handled);
    say_recv("recv that would wait", accelerated, 64, 0);
    say_recv("recv that does not", accelerated, 64, MSG_DONTWAIT);
    ask_for(accelerated, 1, 20, 0, 0, 0);
    sleep_msec(200);
    say_recv("recv of what is there", accelerated, 64, 0);
    struct pollfd polled = {accelerated, POLLIN, 0};
    say("poll without waiting", poll(&polled, 1, 0));
}

CASES({"crash", crash}, {"crash_with_socket", crash_with_socket}, {"crash_of_thread", crash_of_thread},
      {"sent", sent}, {"stack_overflow", stack_overflow}, {"own_handler", own_handler},
      {"own_handler_gives_up", own_handler_gives_up}, {"interrupt_default", interrupt_default},
      {"interrupt_busy", interrupt_busy},
      {"truncated_statistics", truncated_statistics},
      {"truncated_statistics_and_handler", truncated_statistics_and_handler},
      {"interrupt_threads", interrupt_threads})
