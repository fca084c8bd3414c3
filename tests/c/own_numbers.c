/* Descriptors that the program puts where a library inside it may keep its own. */
#include "case.h"
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/un.h>

extern char **environ;

#define FIRST 960
#define END 1024

static void works(int fd, int len)
{
    set_timeout(fd, 5000);
    ask(fd, 1, len);
    say_recv("  recv", fd, 64, 0);
}

/* Takes every number, gives them back, and says what went wrong. */
static void take_all(int fd)
{
    for (int number = FIRST; number < END; number++)
        if (dup2(fd, number) != number)
            printf("dup2 to %d: %s\n", number, strerrorname_np(errno));
}

static void give_back_all(void)
{
    for (int number = FIRST; number < END; number++)
        if (close(number) != 0)
            printf("close of %d: %s\n", number, strerrorname_np(errno));
}

static void say_flags(const char *what, int fd)
{
    printf("%s: closes on exec: %d\n", what, fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

static void replaced(void)
{
    int fd = bound(), pipes[2];
    works(fd, 10);
    MUST(pipe(pipes));
    for (int round = 0; round < 3; round++) {
        take_all(pipes[0]);
        works(fd, 11);
        for (int number = FIRST; number < END; number++) {
            char byte = 'x';
            MUST(write(pipes[1], "p", 1));
            if (read(number, &byte, 1) != 1 || byte != 'p')
                printf("%d is not the pipe\n", number);
        }
        int late = bound();
        works(late, 12);
        give_back_all();
        MUST(close(late));
        works(fd, 13);
    }
    for (int number = FIRST; number < END; number++)
        if (dup3(pipes[0], number, O_CLOEXEC) != number || fcntl(number, F_GETFD) != FD_CLOEXEC)
            printf("dup3 to %d\n", number);
    works(fd, 14);
    give_back_all();
}

#define FAILS(call) (wrong += (call) >= 0 || errno != EBADF)

/* Calls that would take something from what the number stands for, or give it something. */
static int transfers_on_nothing(int number)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr messages = {.msg_hdr = message};
    int wrong = 0;
    FAILS(read(number, &byte, 1));
    FAILS(readv(number, &part, 1));
    FAILS(recv(number, &byte, 1, MSG_DONTWAIT));
    FAILS(recvfrom(number, &byte, 1, MSG_DONTWAIT, NULL, NULL));
    FAILS(recvmsg(number, &message, MSG_DONTWAIT));
    FAILS(recvmmsg(number, &messages, 1, MSG_DONTWAIT, NULL));
    FAILS(write(number, &byte, 1));
    FAILS(writev(number, &part, 1));
    FAILS(send(number, &byte, 1, 0));
    FAILS(sendto(number, &byte, 1, 0, NULL, 0));
    FAILS(sendmsg(number, &message, 0));
    FAILS(sendmmsg(number, &messages, 1, 0));
    FAILS(splice(number, NULL, STDOUT_FILENO, NULL, 1, SPLICE_F_NONBLOCK));
    FAILS(sendfile(STDOUT_FILENO, number, NULL, 1));
    wrong += fdopen(number, "r") != NULL || errno != EBADF;
    return wrong;
}

/* Waits that have it among what they wait for end at once. */
static int waits_on_nothing(int fd, int number)
{
    struct pollfd polled[] = {{fd, POLLIN, 7}, {number, POLLIN, 7}, {-number, POLLIN, 7}};
    struct timespec timeout = {10, 0};
    struct timeval wrong_time = {-1, 0};
    struct epoll_event event;
    fd_set set;
    int wrong = 0;
    for (int form = 0; form < 2; form++) {
        wrong += (form ? ppoll(polled, 3, &timeout, NULL) : poll(polled, 3, -1)) != 1;
        wrong += polled[0].revents != 0 || polled[1].revents != POLLNVAL || polled[2].revents != 0;
        wrong += polled[1].fd != number;
    }
    FD_ZERO(&set);
    FD_SET(number, &set);
    FAILS(select(number + 1, &set, NULL, NULL, NULL));
    FD_SET(fd, &set);
    FAILS(select(FD_SETSIZE, NULL, NULL, &set, NULL));
    FAILS(pselect(FD_SETSIZE, &set, NULL, NULL, &timeout, NULL));
    wrong += select(FD_SETSIZE, &set, NULL, NULL, &wrong_time) >= 0 || errno != EINVAL;
    wrong += !FD_ISSET(number, &set) || !FD_ISSET(fd, &set);
    FAILS(epoll_wait(number, &event, 1, -1));
    return wrong;
}

/* Calls on a number that is not open: how many do not say so. */
static int calls_on_nothing(int fd, int set, int number)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_in self = address(SELF, 0);
    socklen_t len = sizeof self;
    int value = 0, wrong = 0;
    socklen_t value_len = sizeof value;
    struct sockaddr *name = (struct sockaddr *)&self;
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, number, &event));
    FAILS(epoll_ctl(set, EPOLL_CTL_MOD, number, &event));
    FAILS(epoll_ctl(set, EPOLL_CTL_DEL, number, NULL));
    FAILS(epoll_ctl(number, EPOLL_CTL_ADD, fd, &event));
    FAILS(ioctl(number, FIONREAD, &value));
    FAILS(ioctl(number, FIONBIO, &value));
    FAILS(fcntl(number, F_GETFD));
    FAILS(fcntl(number, F_SETFL, O_NONBLOCK));
    FAILS(fcntl(number, F_DUPFD, 0));
    FAILS(dup(number));
    FAILS(dup2(number, fd));
    FAILS(dup3(number, fd, O_CLOEXEC));
    FAILS(getsockopt(number, SOL_SOCKET, SO_ERROR, &value, &value_len));
    FAILS(setsockopt(number, SOL_SOCKET, SO_BROADCAST, &value, sizeof value));
    FAILS(getsockname(number, name, &len));
    FAILS(getpeername(number, name, &len));
    FAILS(bind(number, name, sizeof self));
    FAILS(connect(number, name, sizeof self));
    FAILS(listen(number, 1));
    FAILS(accept(number, NULL, NULL));
    FAILS(shutdown(number, SHUT_RDWR));
    wrong += transfers_on_nothing(number) + waits_on_nothing(fd, number);
#undef FAILS
    return wrong;
}

/* What the kernel refuses leaves all as it was. */
static void refused(void)
{
    int fd = bound(), closed = bound(), wrong = 0, set = epoll_create1(0);
    MUST(set);
    MUST(close(closed));
    works(fd, 10);
    for (int number = FIRST; number < END; number++) {
        wrong += dup2(closed, number) >= 0 || errno != EBADF;
        wrong += dup2(-1, number) >= 0 || errno != EBADF;
        wrong += dup2(number, number) >= 0 || errno != EBADF;
        wrong += dup3(fd, number, O_APPEND) >= 0 || errno != EINVAL;
        wrong += dup3(number, number, 0) >= 0 || errno != EINVAL;
        wrong += close(number) >= 0 || errno != EBADF;
        wrong += calls_on_nothing(fd, set, number);
    }
    printf("%d wrong\n", wrong);
    works(fd, 11);
}

static void lowest_free(void)
{
    struct rlimit limit = {END, END};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int fd = bound(), copies[END - FIRST];
    works(fd, 10);
    int last = fcntl(fd, F_DUPFD, END - 1);
    say("the last", last);
    say("none", fcntl(fd, F_DUPFD, END - 1));
    say("beyond", fcntl(fd, F_DUPFD, END));
    works(last, 11);
    MUST(close(last));
    for (int i = 0; i < END - FIRST; i++)
        copies[i] = fcntl(fd, i % 2 ? F_DUPFD : F_DUPFD_CLOEXEC, FIRST);
    for (int i = 0; i < END - FIRST; i++)
        if (copies[i] != FIRST + i)
            printf("%d instead of %d\n", copies[i], FIRST + i);
    say_flags("F_DUPFD_CLOEXEC", FIRST);
    say_flags("F_DUPFD", FIRST + 1);
    works(FIRST + 30, 12);
    works(END - 1, 13);
    give_back_all();
    works(fd, 14);
}

static void *takes(void *argument)
{
    sleep_msec(100);
    take_all(*(int *)argument);
    sleep_msec(50);
    give_back_all();
    sleep_msec(50);
    return NULL;
}

/* A thread that sleeps learns of what comes afterwards. */
static void asleep(void)
{
    int fd = bound(), pipes[2], set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    pthread_t taker;
    works(fd, 10);
    MUST(pipe(pipes));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int how = 0; how < 4; how++) {
        set_timeout(fd, 10000);
        ask_for(fd, 1, 20, 500, 0, 0);
        MUST(pthread_create(&taker, NULL, takes, &pipes[0]));
        double begun = now_sec();
        struct pollfd polled = {fd, POLLIN, 0};
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(fd, &readable);
        struct timeval ten = {10, 0};
        if (how == 1)
            say("poll", poll(&polled, 1, 10000));
        if (how == 2)
            say("select", select(fd + 1, &readable, NULL, NULL, &ten));
        if (how == 3)
            say("epoll_wait", epoll_wait(set, &event, 1, 10000));
        say_recv("recv", fd, 64, 0);
        if (now_sec() - begun > 5)
            printf("it was woken late\n");
        MUST(pthread_join(taker, NULL));
    }
}

static void *waits_in_set(void *argument)
{
    struct epoll_event event;
    say("epoll_wait", epoll_wait(*(int *)argument, &event, 1, 10000));
    return NULL;
}

/* The set gets its first socket while a thread waits, and the numbers are taken. */
static void first_member(void)
{
    for (int round = 0; round < 3; round++) {
        int set = epoll_create1(0), pipes[2], fd = bound();
        struct epoll_event event = {.events = EPOLLIN};
        pthread_t waiter;
        MUST(pipe(pipes));
        MUST(pthread_create(&waiter, NULL, waits_in_set, &set));
        sleep_msec(100);
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        take_all(pipes[0]);
        /* Nothing but the socket makes the set ready, now or later. */
        struct pollfd polled = {set, POLLIN, 0};
        sleep_msec(300);
        say("set", poll(&polled, 1, 0));
        ask(fd, 1, 20);
        MUST(pthread_join(waiter, NULL));
        say_recv("recv", fd, 64, 0);
        give_back_all();
        MUST(close(fd));
        MUST(close(set));
    }
}

static volatile int ends;

static void *asks(void *failures)
{
    int fd = bound();
    set_timeout(fd, 5000);
    for (int count = 0; !ends || count < 10; count++) {
        char buffer[64];
        ask(fd, 1, 20);
        *(int *)failures += recv(fd, buffer, sizeof buffer, 0) != 20;
    }
    MUST(close(fd));
    return NULL;
}

static void *sends(void *failures)
{
    struct sockaddr_in peer = address(PEER, 7999);
    int fd = bound();
    while (!ends) {
        *(int *)failures += sendto(fd, "x", 1, 0, generic(&peer), sizeof peer) != 1;
        sleep_msec(1);
    }
    MUST(close(fd));
    return NULL;
}

/* Nothing is lost, and nothing that is the library's comes to the program's files. */
static void under_traffic(void)
{
    int failures[4] = {0}, pipes[2], pair[2], waiting = -1;
    pthread_t threads[4];
    MUST(pipe(pipes));
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, i < 3 ? asks : sends, &failures[i]));
    sleep_msec(100);
    for (int round = 0; round < 40; round++) {
        take_all(round % 2 ? pipes[1] : pair[1]);
        give_back_all();
    }
    ends = 1;
    for (int i = 0; i < 4; i++) {
        MUST(pthread_join(threads[i], NULL));
        printf("failures %d\n", failures[i]);
    }
    MUST(ioctl(pipes[0], FIONREAD, &waiting));
    printf("in the pipe: %d\n", waiting);
    struct pollfd polled = {pair[0], POLLIN, 0};
    say("in the socket", poll(&polled, 1, 0));
}

static void reap(pid_t child)
{
    int status = -1;
    MUST(waitpid(child, &status, 0));
    started++;
    printf("child ended: exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void say_pipe(int fd)
{
    char line[64] = "";
    MUST(read(fd, line, sizeof line - 1));
    printf("%s", line);
}

/* A child has numbers of its own. */
static void in_children(void)
{
    int fd = bound(), pipes[2];
    works(fd, 10);
    MUST(pipe(pipes));
    for (int number = FIRST; number < END; number += 9) {
        char command[64], child_number[16];
        snprintf(command, sizeof command, "echo $0 > /proc/self/fd/%d", number);
        snprintf(child_number, sizeof child_number, "%d", number);
        char *arguments[] = {"sh", "-c", command, child_number, NULL};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addclose(&actions, number);
        posix_spawn_file_actions_adddup2(&actions, pipes[1], number);
        pid_t child;
        errno = posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ);
        must(errno == 0, "posix_spawn", __LINE__);
        reap(child);
        say_pipe(pipes[0]);
        fflush(stdout);
        child = vfork();
        if (child == 0) {
            if (dup2(pipes[1], number) != number)
                _exit(126);
            execl("/bin/sh", "sh", "-c", command, "vfork", (char *)NULL);
            _exit(127);
        }
        reap(child);
        say_pipe(pipes[0]);
        child = fork();
        if (child == 0) {
            if (dup2(pipes[1], number) != number)
                _exit(126);
            MUST(write(number, "fork\n", 5));
            int own = bound();
            take_all(pipes[1]);
            set_timeout(own, 5000);
            ask(own, 1, 20);
            char buffer[64];
            exit((int)recv(own, buffer, sizeof buffer, 0));
        }
        reap(child);
        say_pipe(pipes[0]);
    }
    works(fd, 11);
}

CASES({"replaced", replaced}, {"refused", refused}, {"lowest_free", lowest_free}, {"asleep", asleep},
      {"first_member", first_member}, {"under_traffic", under_traffic}, {"in_children", in_children})
