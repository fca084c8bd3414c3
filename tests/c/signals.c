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

/* Every way to install a handler but sigaction(2). */
sighandler_t bsd_signal(int, sighandler_t);
sighandler_t sysv_signal(int, sighandler_t);
sighandler_t __sysv_signal(int, sighandler_t);
int __sigaction(int, const struct sigaction *, struct sigaction *);

static sighandler_t by_internal_name(int signal, sighandler_t handler)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NODEFER}, old;
    return __sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

static const struct {
    const char *name;
    sighandler_t (*install)(int, sighandler_t);
} ways[] = {{"signal", signal},           {"bsd_signal", bsd_signal},       {"ssignal", ssignal},
            {"sysv_signal", sysv_signal}, {"__sysv_signal", __sysv_signal}, {"sigset", sigset},
            {"__sigaction", by_internal_name}};
#define WAYS (int)(sizeof ways / sizeof *ways)

static void count_too(int signal)
{
    count(signal);
}

static const char *name_of(sighandler_t handler)
{
    return handler == SIG_DFL     ? "SIG_DFL"
           : handler == SIG_IGN   ? "SIG_IGN"
           : handler == SIG_ERR   ? "SIG_ERR"
           : handler == SIG_HOLD  ? "SIG_HOLD"
           : handler == count     ? "count"
           : handler == count_too ? "count_too"
                                  : "another";
}

static void say_action(void)
{
    struct sigaction now;
    MUST(sigaction(SIGUSR1, NULL, &now));
    printf("  action %s flags %x mask %d\n", name_of(now.sa_handler), now.sa_flags & ~0x04000000,
           sigismember(&now.sa_mask, SIGUSR1));
}

static void installers(void)
{
    int fd = bound(), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < WAYS; i++) {
        printf("%s: old %s\n", ways[i].name, name_of(ways[i].install(SIGUSR1, count)));
        say_action();
        handled = 0;
        signal_in(50);
        ask_for(fd, 1, 20, 200, 0, 0);
        if (say_recv("  recv", fd, 64, 0) < 0)
            say_recv("  recv again", fd, 64, 0);
        printf("  handled %d, then %s\n", handled, name_of(ways[i].install(SIGUSR1, count_too)));
        signal_in(50);
        say("  epoll_wait", epoll_wait(set, &event, 1, 3000));
        /* What one of them gives back, every other one takes. */
        sighandler_t old = ways[i].install(SIGUSR1, SIG_IGN);
        printf("  back: %s\n", name_of(old));
        for (int j = 0; j < WAYS; j++) {
            handled = 0;
            ways[j].install(SIGUSR1, count);
            old = ways[i].install(SIGUSR1, SIG_DFL);
            ways[j].install(SIGUSR1, old);
            raise(SIGUSR1);
            printf("  %s: %s, handled %d\n", ways[j].name, name_of(old), handled);
        }
        errno = 0;
        printf("  no such signal: %s", name_of(ways[i].install(77, count)));
        printf(" %s\n", strerrorname_np(errno));
        printf("  of the C library: %s\n", name_of(ways[i].install(33, count)));
        printf("  SIGKILL: %s\n", name_of(ways[i].install(SIGKILL, count)));
        printf("  no handler: %s\n", name_of(ways[i].install(SIGUSR1, SIG_DFL)));
    }
    printf("sigset holds: %s\n", name_of(sigset(SIGUSR1, SIG_HOLD)));
    handled = 0;
    raise(SIGUSR1);
    printf("still: %s\n", name_of(sigset(SIGUSR1, SIG_HOLD)));
    printf("handler for a held one: %s, handled %d\n", name_of(sigset(SIGUSR1, count)), handled);
    printf("then: %s\n", name_of(sigset(SIGUSR1, SIG_HOLD)));
    MUST(sighold(SIGUSR1));
    MUST(raise(SIGUSR1));
    MUST(sigrelse(SIGUSR1));
    printf("released: handled %d\n", handled);
    MUST(sigignore(SIGUSR1));
    printf("ignored: %s\n", name_of(signal(SIGUSR1, count)));
    printf("SIG_ERR: %s\n", name_of(signal(SIGUSR1, SIG_ERR)));
    printf("SIG_ERR: %s\n", name_of(sysv_signal(SIGUSR1, SIG_ERR)));
    say("sigset of nothing", (long)sigset(0, SIG_HOLD));
    say("sigset of nothing", (long)sigset(65, count));
}

/* One thread installs handlers of one argument, the other of three; each must get its own arguments. */
static volatile sig_atomic_t wrong, ends;

static void of_one_argument(int signal)
{
    wrong += signal != SIGUSR2;
}

static void of_three_arguments(int signal, siginfo_t *info, void *context)
{
    wrong += signal != SIGUSR2 || info == NULL || info->si_signo != SIGUSR2 || context == NULL;
}

static void *install_in_turn(void *unused)
{
    struct sigaction one = {.sa_handler = of_one_argument, .sa_flags = SA_RESTART};
    struct sigaction three = {.sa_sigaction = of_three_arguments, .sa_flags = SA_SIGINFO};
    struct sigaction old;
    while (!ends) {
        MUST(sigaction(SIGUSR2, &one, NULL));
        MUST(sigaction(SIGUSR2, &three, &old));
        /* Another thread may have been in between with either, but never with half of one. */
        int info = (old.sa_flags & SA_SIGINFO) != 0;
        wrong += info ? old.sa_sigaction != of_three_arguments : old.sa_handler != of_one_argument;
    }
    return unused;
}

static void install_race(void)
{
    pthread_t threads[2];
    int fd = bound();
    MUST(signal(SIGUSR2, of_one_argument) == SIG_ERR ? -1 : 0);
    for (int i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, install_in_turn, NULL) == 0, "pthread_create", __LINE__);
    for (double end = now_sec() + 1; now_sec() < end;)
        MUST(raise(SIGUSR2));
    ends = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("wrong %d\n", wrong);
    have(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
}

static void of_the_child(int signal)
{
    (void)signal;
    _exit(3);
}

/* A child of vfork(2) has its parent's memory, but handlers of its own. */
static void vfork_child(void)
{
    int fd = bound(), status;
    handle(SIGUSR1, 0);
    for (int i = 0; i < 2; i++) {
        pid_t child = vfork();
        if (child == 0) {
            if (i == 0)
                signal(SIGUSR1, of_the_child);
            else
                sigset(SIGUSR1, SIG_DFL);
            raise(SIGUSR1);
            _exit(0);
        }
        MUST(waitpid(child, &status, 0));
        printf("child: exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
               WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        signal_in(30);
        say_recv("recv", fd, 64, 0);
        printf("handled %d, %s\n", handled, name_of(sigset(SIGUSR1, count)));
    }
}

static void *send_signals(void *unused)
{
    while (!ends) {
        pthread_kill(*(pthread_t *)unused, SIGUSR1);
        usleep(200);
    }
    return NULL;
}

/* A handler leaves by a jump wherever the thread is, inside of the library, too. */
static void jump_storm(void)
{
    pthread_t self = pthread_self(), sender;
    char buffer[64];
    static volatile int jumps;
    static int fd;
    struct sockaddr_in peer = address(PEER, 7999);
    fd = bound();
    MUST(sigset(SIGUSR1, leave) == SIG_ERR ? -1 : 0);
    sigsetjmp(out, 1);
    if (jumps++ == 0)
        must(pthread_create(&sender, NULL, send_signals, &self) == 0, "pthread_create", __LINE__);
    while (jumps < 1000) {
        struct pollfd polled = {fd, POLLIN, 0};
        sendto(fd, "x", 1, 0, generic(&peer), sizeof peer);
        recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        poll(&polled, 1, 1);
    }
    MUST(sigignore(SIGUSR1));
    ends = 1;
    pthread_join(sender, NULL);
    have(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
    int other = bound();
    have(other, 1, 21);
    say_recv("recv", other, 64, 0);
    MUST(close(other));
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
      {"answered_by_a_handler", answered_by_a_handler}, {"long_jump", long_jump}, {"installers", installers},
      {"install_race", install_race}, {"vfork_child", vfork_child}, {"jump_storm", jump_storm},
      {"child_ends", child_ends})
