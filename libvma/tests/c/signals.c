/* Signals that come while a call waits. */
#include "case.h"
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>

/* siginterrupt(3) is deprecated, and still in use. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static volatile sig_atomic_t handled;
static volatile sig_atomic_t code;

static void count(int signal)
{
    (void)signal;
    handled++;
}

static void count_with_info(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    handled++;
    code = info->si_code == SI_TIMER && context ? 1 : 2;
}

static void handle(int signal, int flags)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = flags};
    handled = 0;
    MUST(sigaction(signal, &action, NULL));
}

/* SIGUSR1 after a while; SIGALRM is the watchdog's. */
static void signal_in(int msec)
{
    static timer_t timer;
    static int made;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    if (!made)
        MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    made = 1;
    struct itimerspec when = {.it_value = {msec / 1000, msec % 1000 * 1000000L}};
    MUST(timer_settime(timer, 0, &when, NULL));
}

static void receiving(void)
{
    int fd = bound();
    for (int restart = 0; restart < 2; restart++) {
        handle(SIGUSR1, restart ? SA_RESTART : 0);
        signal_in(100);
        ask_for(fd, 1, 20, 300, 0, 0);
        double begun = now_sec();
        say_recv(restart ? "recv with SA_RESTART" : "recv", fd, 64, 0);
        say_waited("recv", begun, restart ? 300 : 100);
        printf("handled %d\n", handled);
        if (!restart)
            say_recv("recv again", fd, 64, 0);
        /* With a time limit a call is never restarted. */
        set_timeout(fd, 1000);
        signal_in(100);
        begun = now_sec();
        say_recv("recv with SO_RCVTIMEO", fd, 64, 0);
        say_waited("recv", begun, 100);
        set_timeout(fd, 0);
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    MUST(sigaction(SIGUSR1, &ignore, NULL));
    signal_in(100);
    ask_for(fd, 1, 20, 200, 0, 0);
    say_recv("recv with the signal ignored", fd, 64, 0);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    handle(SIGUSR1, 0);
    MUST(sigprocmask(SIG_BLOCK, &mask, NULL));
    signal_in(100);
    ask_for(fd, 1, 20, 200, 0, 0);
    say_recv("recv with the signal blocked", fd, 64, 0);
    printf("handled %d\n", handled);
    MUST(sigprocmask(SIG_UNBLOCK, &mask, NULL));
    printf("handled %d\n", handled);
}

static void waiting(void)
{
    int fd = bound(), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int restart = 0; restart < 2; restart++) {
        handle(SIGUSR1, restart ? SA_RESTART : 0);
        struct pollfd polled = {fd, POLLIN, 0};
        for (int timed = 0; timed < 2; timed++) {
            double begun = now_sec();
            signal_in(100);
            say("poll", poll(&polled, 1, timed ? 3000 : -1));
            say_waited("poll", begun, 100);
            begun = now_sec();
            signal_in(100);
            say("epoll_wait", epoll_wait(set, &event, 1, timed ? 3000 : -1));
            say_waited("epoll_wait", begun, 100);
            fd_set in;
            FD_ZERO(&in);
            FD_SET(fd, &in);
            struct timeval timeout = {3, 0};
            begun = now_sec();
            signal_in(100);
            say("select", select(fd + 1, &in, NULL, NULL, timed ? &timeout : NULL));
            say_waited("select", begun, 100);
        }
        printf("handled %d\n", handled);
    }
}

static void masks(void)
{
    int fd = bound(), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd polled = {fd, POLLIN, 0};
    struct timespec timeout = {3, 0}, none = {0, 0};
    sigset_t blocked, open;
    sigemptyset(&open);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    handle(SIGUSR1, SA_RESTART);
    MUST(sigprocmask(SIG_BLOCK, &blocked, NULL));
    /* Pending before the call. */
    MUST(raise(SIGUSR1));
    say("ppoll", ppoll(&polled, 1, &timeout, &open));
    printf("handled %d\n", handled);
    MUST(raise(SIGUSR1));
    say("epoll_pwait", epoll_pwait(set, &event, 1, 3000, &open));
    MUST(raise(SIGUSR1));
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    say("pselect", pselect(fd + 1, &in, NULL, NULL, &timeout, &open));
    printf("handled %d\n", handled);
    signal_in(100);
    say("ppoll without end", ppoll(&polled, 1, NULL, &open));
    signal_in(50);
    struct timespec brief = {0, 150000000};
    say("ppoll with the signal blocked", ppoll(&polled, 1, &brief, &blocked));
    printf("handled %d\n", handled);
    /* Data that is there comes before a signal. */
    have(fd, 1, 20);
    say("ppoll with data", ppoll(&polled, 1, &none, &blocked));
    printf("handled %d\n", handled);
}

static void actions(void)
{
    struct sigaction action = {.sa_sigaction = count_with_info, .sa_flags = SA_SIGINFO}, old;
    int fd = bound();
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGUSR1, NULL, &old));
    printf("ours %d flags %x\n", old.sa_sigaction == count_with_info, old.sa_flags & ~0x04000000);
    signal_in(50);
    say_recv("recv", fd, 64, 0);
    printf("handled %d code %d\n", handled, code);
    printf("signal gave back ours %d\n", (void *)signal(SIGUSR1, count) == (void *)count_with_info);
    signal_in(50);
    ask_for(fd, 1, 20, 200, 0, 0);
    say_recv("recv under signal()", fd, 64, 0);
    MUST(siginterrupt(SIGUSR1, 1));
    signal_in(50);
    say_recv("recv after siginterrupt", fd, 64, 0);
    MUST(siginterrupt(SIGUSR1, 0));
    printf("back to count %d\n", signal(SIGUSR1, SIG_DFL) == count);
    printf("back to default %d\n", signal(SIGUSR1, SIG_IGN) == SIG_DFL);
    printf("back to ignored %d\n", signal(SIGUSR1, count) == SIG_IGN);
    handle(SIGUSR1, SA_RESETHAND);
    signal_in(50);
    say_recv("recv under SA_RESETHAND", fd, 64, 0);
    MUST(sigaction(SIGUSR1, NULL, &old));
    printf("handled %d, default again %d\n", handled, old.sa_handler == SIG_DFL);
    say("no such signal", sigaction(77, &action, NULL));
    say("SIGKILL", sigaction(SIGKILL, &action, NULL));
}

static int shared_fd;

static void use_the_socket(int signal)
{
    (void)signal;
    int saved = errno;
    char buffer[64];
    struct sockaddr_in closed = address(PEER, 7999);
    if (sendto(shared_fd, "from the handler", 16, 0, generic(&closed), sizeof closed) == 16)
        handled++;
    if (recv(shared_fd, buffer, sizeof buffer, MSG_DONTWAIT) < 0)
        handled++;
    struct pollfd polled = {shared_fd, POLLIN, 0};
    if (poll(&polled, 1, 0) == 0)
        handled++;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd >= 0 && close(fd) == 0)
        handled++;
    errno = saved;
}

static void inside_a_handler(void)
{
    struct sigaction action = {.sa_handler = use_the_socket, .sa_flags = SA_RESTART};
    shared_fd = bound();
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (int i = 0; i < 5; i++) {
        handled = 0;
        signal_in(20);
        ask_for(shared_fd, 1, 20, 100, 0, 0);
        say_recv("recv", shared_fd, 64, 0);
        printf("the handler did %d of 4\n", handled);
    }
}

static void close_the_socket(int signal)
{
    (void)signal;
    handled += close(shared_fd) == 0;
}

/* The handler closes the socket in which its thread waits. */
static void closed_by_a_handler(void)
{
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction action = {.sa_handler = close_the_socket, .sa_flags = restart ? SA_RESTART : 0};
        MUST(sigaction(SIGUSR1, &action, NULL));
        handled = 0;
        shared_fd = bound();
        signal_in(50);
        say_recv("recv", shared_fd, 64, 0);
        printf("closed %d\n", handled);
        handled = 0;
        shared_fd = bound();
        struct pollfd polled = {shared_fd, POLLIN, 0};
        signal_in(50);
        say("poll", poll(&polled, 1, 2000));
        printf("closed %d\n", handled);
    }
    int fd = bound();
    have(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
}

static void send_from_the_socket(int signal)
{
    (void)signal;
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    handled += sendto(shared_fd, "S 1 30 0 0 0", 12, 0, generic(&peer), sizeof peer) == 12;
}

/* The handler asks for what its thread waits for. */
static void answered_by_a_handler(void)
{
    struct sigaction action = {.sa_handler = send_from_the_socket, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    shared_fd = bound();
    for (int i = 0; i < 5; i++) {
        handled = 0;
        signal_in(20 + i);
        say_recv("recv", shared_fd, 64, 0);
        printf("sent %d\n", handled);
    }
}

static sigjmp_buf out;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static void long_jump(void)
{
    struct sigaction action = {.sa_handler = leave};
    int fd = bound();
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (volatile int i = 0; i < 5; i++) {
        if (sigsetjmp(out, 1) == 0) {
            signal_in(30);
            say_recv("never", fd, 64, 0);
        }
    }
    have(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
}

static void child_ends(void)
{
    int fd = bound();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        sleep_msec(50);
        _exit(0);
    }
    /* SIGCHLD is ignored by default: it interrupts nothing. */
    ask_for(fd, 1, 20, 200, 0, 0);
    say_recv("recv", fd, 64, 0);
    MUST(waitpid(child, NULL, 0));
    /* A stop and a continuation do interrupt some calls, but not these. */
    child = fork();
    if (child == 0) {
        sleep_msec(50);
        kill(getppid(), SIGSTOP);
        sleep_msec(50);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    ask_for(fd, 1, 21, 300, 0, 0);
    say_recv("recv across a stop", fd, 64, 0);
    MUST(waitpid(child, NULL, 0));
}

CASES({"receiving", receiving}, {"waiting", waiting}, {"masks", masks}, {"actions", actions},
      {"inside_a_handler", inside_a_handler}, {"closed_by_a_handler", closed_by_a_handler},
      {"answered_by_a_handler", answered_by_a_handler}, {"long_jump", long_jump}, {"child_ends", child_ends})
