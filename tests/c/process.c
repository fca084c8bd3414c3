/* What programs do with their descriptors and themselves that a library inside them has to survive. */
#include "case.h"
#include <sys/resource.h>

static int works(int fd, int len)
{
    set_timeout(fd, 2000);
    ask(fd, 1, len);
    return (int)say_recv("  recv", fd, 64, 0);
}

/* Numbers where a library may keep descriptors of its own. */
static void high_numbers(void)
{
    int fd = bound(), pipes[2];
    works(fd, 10);
    MUST(pipe(pipes));
    for (int number = 900; number < 1024; number++) {
        MUST(dup2(pipes[0], number));
        char byte = 'x';
        MUST(write(pipes[1], "p", 1));
        if (read(number, &byte, 1) != 1 || byte != 'p')
            printf("%d is not the pipe\n", number);
    }
    works(fd, 11);
    for (int number = 900; number < 1024; number++)
        close(number);
    works(fd, 12);
    int copy = fcntl(fd, F_DUPFD, 1000);
    MUST(copy);
    works(copy, 13);
    int late = bound();
    works(late, 14);
}

/* What daemons did before close_range. */
static void close_everything(void)
{
    int fd = bound(), other = bound();
    works(fd, 10);
    works(other, 11);
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    int end = limit.rlim_cur < 10000 ? (int)limit.rlim_cur : 10000;
    for (int number = 3; number < end; number++)
        if (number != fd)
            close(number);
    works(fd, 12);
    say("closed", recv(other, NULL, 0, MSG_DONTWAIT));
    int late = bound();
    works(late, 13);
    struct pollfd polled = {fd, POLLIN, 0};
    ask_for(fd, 1, 10, 200, 0, 0);
    say("poll", poll(&polled, 1, 2000));
    say_recv("recv", fd, 64, 0);
}

/* Standard input closed: the socket gets its number. */
static void low_numbers(void)
{
    MUST(close(0));
    int fd = bound();
    printf("number %d\n", fd);
    works(fd, 10);
    MUST(dup2(fd, 2));
    works(2, 11);
    MUST(close(fd));
    works(2, 12);
    fd = bound();
    printf("number %d\n", fd);
    works(fd, 13);
}

/* So few descriptors that high numbers are not to be had. */
static void few_numbers(void)
{
    struct rlimit limit = {64, 64};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = bound();
        if (i % 5 == 0)
            works(fds[i], 10 + i);
    }
    /* The library's own are not in between. */
    printf("numbers %d to %d\n", fds[0], fds[19]);
    for (int number = fds[19] + 1; number < 70; number++)
        close(number);
    works(fds[7], 31);
    works(fds[8], 32);
    for (int i = 0; i < 20; i++)
        MUST(close(fds[i]));
    works(bound(), 33);
}

/* More sockets than the statistics have room for. */
static void many_sockets(void)
{
    enum { COUNT = 300 };
    static struct pollfd polled[COUNT];
    int received = 0;
    for (int i = 0; i < COUNT; i++)
        polled[i] = (struct pollfd){bound(), POLLIN, 0};
    for (int i = 0; i < COUNT; i++) {
        ask(polled[i].fd, 1, 20);
        /* The peer has one receive buffer. */
        if (i % 20 == 0)
            sleep_msec(20);
    }
    while (received < COUNT && poll(polled, COUNT, 2000) > 0) {
        char buffer[64];
        for (int i = 0; i < COUNT; i++)
            if (polled[i].revents & POLLIN && recv(polled[i].fd, buffer, sizeof buffer, MSG_DONTWAIT) == 20)
                received++;
    }
    printf("received %d\n", received);
    for (int i = 0; i < COUNT; i++)
        MUST(close(polled[i].fd));
    works(bound(), 21);
}

static int is_executed(void)
{
    const char *number = getenv("TEST_SOCKET");
    return number ? atoi(number) : -1;
}

/* The socket goes on in another program. */
static void executed(void)
{
    int fd = is_executed();
    if (fd >= 0) {
        works(fd, 20);
        works(fd, 21);
        works(bound(), 22);
        return;
    }
    char number[16];
    fd = bound();
    works(fd, 10);
    snprintf(number, sizeof number, "%d", fd);
    setenv("TEST_SOCKET", number, 1);
    fflush(stdout);
    execl("/proc/self/exe", "process", "executed", (char *)NULL);
    MUST(-1);
}

/* A server that binds first and lets its children serve. */
static void preforked(void)
{
    int fd = bound();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        works(fd, 20);
        works(fd, 21);
        exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    works(fd, 22);
}

/* A daemon: the process that opened the socket ends, its child goes on. */
static void daemonized(void)
{
    int fd = bound(), pipes[2];
    works(fd, 10);
    MUST(pipe(pipes));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (fork() != 0)
            _exit(0);
        setsid();
        sleep_msec(100);
        alarm(30);
        works(fd, 20);
        works(bound(), 21);
        fflush(stdout);
        MUST(write(pipes[1], "x", 1));
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    MUST(close(fd));
    char byte;
    MUST(read(pipes[0], &byte, 1));
}

static int stop;
static int arrived;

static void *receive_all(void *fd)
{
    char buffer[64];
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        if (recv((int)(long)fd, buffer, sizeof buffer, MSG_DONTWAIT) == 20)
            __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Children are born while other threads are anywhere in the library. */
static void fork_under_traffic(void)
{
    enum { BURST = 25 };
    /* Each child opens an interface, which takes a lock of all network namespaces: others may have it for seconds. */
    alarm(120);
    int fd = bound(), good = 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, receive_all, (void *)(long)fd);
    for (int round = 1; round <= 25; round++) {
        ask(fd, BURST, 20);
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            alarm(20);
            int own = bound(), status = 0;
            char buffer[64];
            set_timeout(own, 15000);
            ask(own, 1, 30);
            status |= recv(own, buffer, sizeof buffer, 0) != 30;
            status |= close(own) != 0;
            _exit(status);
        }
        int status = -1;
        MUST(waitpid(child, &status, 0));
        good += status == 0;
        for (int wait = 0; wait < 1000 && __atomic_load_n(&arrived, __ATOMIC_RELAXED) < round * BURST; wait++)
            sleep_msec(1);
        if (arrived != round * BURST) {
            printf("round %d: %d datagrams of %d\n", round, arrived, round * BURST);
            break;
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("children %d\n", good);
}

CASES({"high_numbers", high_numbers}, {"close_everything", close_everything}, {"low_numbers", low_numbers},
      {"few_numbers", few_numbers}, {"many_sockets", many_sockets}, {"executed", executed}, {"preforked", preforked},
      {"daemonized", daemonized}, {"fork_under_traffic", fork_under_traffic})
