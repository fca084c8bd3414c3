/* Sets that are waited on under one number and changed under another: mio, and tokio with it, copies the number of each set. Threads
 * sleep in the set, under several numbers, before the first socket comes into it. */
#include "case.h"
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define SLEEPERS_MAX 16
#define MARK 7

struct sleeper {
    pthread_t thread;
    int epfd;
    int form;
    int result;
    struct epoll_event event;
    atomic_int is_back;
};

static struct sleeper sleepers[SLEEPERS_MAX];
static int sleeper_count;

static int epoll(void)
{
    int set = epoll_create1(0);
    MUST(set);
    return set;
}

static void *sleeps(void *argument)
{
    struct sleeper *self = argument;
    struct epoll_event events[4] = {0};
    struct timespec timeout = {20, 0};
    sigset_t none;
    sigemptyset(&none);
    if (self->form == 0)
        self->result = epoll_wait(self->epfd, events, 4, -1);
    else if (self->form == 1)
        self->result = epoll_pwait(self->epfd, events, 4, 20000, &none);
    else
        self->result = epoll_pwait2(self->epfd, events, 4, &timeout, NULL);
    self->event = events[0];
    self->is_back = 1;
    return NULL;
}

static void let_sleep(int epfd, int form)
{
    struct sleeper *self = &sleepers[sleeper_count++];
    *self = (struct sleeper){.epfd = epfd, .form = form};
    MUST(-pthread_create(&self->thread, NULL, sleeps, self));
}

/* Says what brought the threads back. One that is not there after ten seconds never comes. */
static void say_sleepers(const char *what)
{
    printf("%s\n", what);
    for (int i = 0; i < sleeper_count; i++) {
        struct sleeper *self = &sleepers[i];
        for (int waited = 0; !self->is_back && waited < 1000; waited++)
            sleep_msec(10);
        if (!self->is_back) {
            printf("  [%d] sleeps on\n", i);
            _exit(1);
        }
        pthread_join(self->thread, NULL);
        printf("  [%d] %d, mark %u, events %x\n", i, self->result, self->event.data.u32, self->event.events);
    }
    sleeper_count = 0;
}

static void add_socket(int set, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u32 = MARK};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

/* A set with something in it that says nothing, as runtimes have. */
static int usual_set(void)
{
    int set = epoll(), pipes[2];
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 1};
    MUST(pipe(pipes));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event));
    return set;
}

/* Copies of a number, made in every way but messages. The last is not slept under. */
enum { DUP, DUP2, DUP3, F_DUP, F_DUP_CLOEXEC, PIDFD, CHANGED, COPIES };

static void copy_set(int set, int copies[COPIES])
{
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    MUST(self);
    copies[DUP] = dup(set);
    copies[DUP2] = dup2(set, 300);
    copies[DUP3] = dup3(set, 301, O_CLOEXEC);
    copies[F_DUP] = fcntl(set, F_DUPFD, 3);
    copies[F_DUP_CLOEXEC] = fcntl(set, F_DUPFD_CLOEXEC, 3);
    copies[PIDFD] = (int)syscall(SYS_pidfd_getfd, self, set, 0);
    copies[CHANGED] = fcntl(set, F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < COPIES; i++)
        MUST(copies[i]);
}

static void sleep_under_all(int set, const int copies[COPIES])
{
    let_sleep(set, 0);
    for (int i = 0; i < CHANGED; i++)
        let_sleep(copies[i], i % 3);
    let_sleep(set, 2);
    sleep_msec(200);
}

/* Several rounds: in the first the set is the kernel's alone as the threads fall asleep. */
static void datagrams(void)
{
    int set = usual_set(), copies[COPIES];
    copy_set(set, copies);
    sleep_under_all(set, copies);
    int fd = bound();
    add_socket(copies[CHANGED], fd, EPOLLIN);
    for (int round = 0; round < 3; round++) {
        ask_for(fd, 1, 10, 100, 0, 0);
        say_sleepers("back");
        say_recv("recv", fd, 64, 0);
        sleep_under_all(set, copies);
    }
    ask(fd, 1, 10);
    say_sleepers("back");
}

/* The library is at work before the set is made. */
static void library_first(void)
{
    int earlier = bound();
    ask(earlier, 1, 10);
    say_recv("recv", earlier, 64, 0);
    datagrams();
}

/* The socket comes past the kernel only when it is in the set. */
static void bound_later(void)
{
    int set = usual_set(), copies[COPIES], fd = udp();
    copy_set(set, copies);
    sleep_under_all(set, copies);
    add_socket(copies[CHANGED], fd, EPOLLIN);
    sleep_msec(200);
    struct sockaddr_in self = address(SELF, 0);
    MUST(bind(fd, generic(&self), sizeof self));
    ask_for(fd, 1, 10, 100, 0, 0);
    say_sleepers("back");
}

/* An edge is one thread's, as often as it comes. */
static void edges(void)
{
    int set = usual_set(), copies[COPIES], fd = bound();
    copy_set(set, copies);
    for (int round = 0; round < 4; round++) {
        let_sleep(copies[round], round % 3);
        sleep_msec(200);
        if (round == 0)
            add_socket(copies[CHANGED], fd, EPOLLIN | EPOLLET);
        ask_for(fd, 1, 10, 100, 0, 0);
        say_sleepers("back");
    }
}

static void listener(void)
{
    int set = usual_set(), copies[COPIES], one = 1, asker = bound();
    copy_set(set, copies);
    sleep_under_all(set, copies);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in self = address(SELF, 7400);
    MUST(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 5));
    add_socket(copies[CHANGED], fd, EPOLLIN);
    char script[] = "C 7400 100";
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(sendto(asker, script, sizeof script - 1, 0, generic(&peer), sizeof peer));
    say_sleepers("a connection");
    int connection = accept(fd, NULL, NULL);
    MUST(connection);
    for (int round = 0; round < 2; round++) {
        char buffer[64];
        sleep_under_all(set, copies);
        if (round == 0)
            add_socket(copies[CHANGED], connection, EPOLLIN);
        else
            MUST(write(connection, "x", 1));
        say_sleepers("back");
        say("read", read(connection, buffer, sizeof buffer));
    }
}

/* What becomes of a connection is past the kernel. */
static void stream(void)
{
    int set = usual_set(), copies[COPIES];
    copy_set(set, copies);
    sleep_under_all(set, copies);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in peer = address(PEER, 7990);
    MUST(fd);
    bound();
    say("connect", connect(fd, generic(&peer), sizeof peer));
    add_socket(copies[CHANGED], fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    say_sleepers("refused");
}

static void let_one_sleep_and_close(int set, int copy, int how)
{
    int other[2];
    let_sleep(set, how % 3);
    let_sleep(copy, 0);
    sleep_msec(200);
    MUST(pipe(other));
    if (how == 0)
        MUST(close(set));
    else if (how == 1)
        MUST(close_range((unsigned)set, (unsigned)set, 0));
    else if (how == 2)
        MUST(dup2(other[0], set));
    else
        MUST((int)syscall(SYS_close, set));
}

/* One number is closed, or stands for something else, while a thread sleeps under it and others stay. */
static void closed_while_waiting(void)
{
    for (int how = 0; how < 4; how++) {
        int set = usual_set(), copy = fcntl(set, F_DUPFD_CLOEXEC, 3), fd;
        struct epoll_event event;
        MUST(copy);
        let_one_sleep_and_close(set, copy, how);
        fd = bound();
        add_socket(copy, fd, EPOLLIN);
        ask_for(fd, 1, 10, 100, 0, 0);
        say_sleepers("back");
        if (how != 2)
            say("closed", epoll_wait(900, &event, 1, 100));
        close(fd);
        close(copy);
    }
}

/* The same when the socket is in the set before a thread falls asleep. */
static void closed_later(void)
{
    for (int how = 0; how < 4; how++) {
        int set = usual_set(), copy = fcntl(set, F_DUPFD_CLOEXEC, 3), fd = how % 2 ? bound() : udp();
        struct sockaddr_in self = address(SELF, 0);
        MUST(copy);
        add_socket(copy, fd, EPOLLIN);
        let_one_sleep_and_close(set, copy, how);
        if (how % 2 == 0)
            MUST(bind(fd, generic(&self), sizeof self));
        ask_for(fd, 1, 10, 100, 0, 0);
        say_sleepers("back");
        close(fd);
        close(copy);
    }
}

static int through_message(int fd)
{
    int pair[2], copy;
    char octet = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&octet, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(sendmsg(pair[0], &message, 0));
    MUST(recvmsg(pair[1], &message, 0));
    memcpy(&copy, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof copy);
    close(pair[0]);
    close(pair[1]);
    return copy;
}

/* A number that came in a message, before there is a socket in the set, and after. */
static void passed(void)
{
    for (int late = 0; late < 2; late++) {
        int set = usual_set(), copy = late ? -1 : through_message(set), fd = bound();
        if (late)
            add_socket(set, fd, EPOLLIN);
        else
            let_sleep(copy, 0);
        sleep_msec(200);
        if (late) {
            copy = through_message(set);
            let_sleep(copy, 0);
        } else {
            add_socket(set, fd, EPOLLIN);
        }
        let_sleep(set, 1);
        sleep_msec(200);
        ask_for(fd, 1, 10, 100, 0, 0);
        say_sleepers("back");
        close(fd);
    }
}

/* Another process has the set: what it reports must be in the kernel. */
static void passed_to_a_child(void)
{
    int set = usual_set(), pair[2], earlier = bound();
    ask(earlier, 1, 10);
    say_recv("recv", earlier, 64, 0);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        char octet, control[CMSG_SPACE(sizeof(int))];
        struct iovec part = {&octet, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct epoll_event event = {0};
        int copy;
        close(set);
        MUST(recvmsg(pair[1], &message, 0));
        memcpy(&copy, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof copy);
        say("child", epoll_wait(copy, &event, 1, 10000));
        printf("mark %u, events %x\n", event.data.u32, event.events);
        fflush(stdout);
        _exit(0);
    }
    char octet = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&octet, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &set, sizeof set);
    MUST(sendmsg(pair[0], &message, 0));
    sleep_msec(300);
    int fd = bound(), status;
    add_socket(set, fd, EPOLLIN);
    ask_for(fd, 1, 10, 100, 0, 0);
    MUST(waitpid(child, &status, 0));
    say_recv("recv", fd, 64, 0);
}

CASES({"datagrams", datagrams}, {"library_first", library_first}, {"bound_later", bound_later}, {"edges", edges},
      {"listener", listener}, {"stream", stream}, {"closed_while_waiting", closed_while_waiting}, {"closed_later", closed_later},
      {"passed", passed}, {"passed_to_a_child", passed_to_a_child})
