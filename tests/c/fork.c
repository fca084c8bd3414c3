/* Sockets that parent and child have in common: a datagram is for whichever takes it first. */
#include "case.h"
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>

static int fd = -1;

static void works(int socket_fd, int len)
{
    set_timeout(socket_fd, 2000);
    ask(socket_fd, 1, len);
    say_recv("  recv", socket_fd, 64, 0);
}

/* Runs `child` in a child and waits for its end. */
static void in_child(void (*child)(void))
{
    fflush(stdout);
    pid_t pid = fork();
    MUST(pid);
    if (pid == 0) {
        alarm(5);
        child();
        fflush(stdout);
        _exit(7);
    }
    int status;
    MUST(waitpid(pid, &status, 0));
    printf("child %x\n", status);
}

static void receive_two(void)
{
    say_recv("in the child", fd, 64, MSG_DONTWAIT);
    say_recv("in the child", fd, 64, MSG_DONTWAIT);
}

/* The parent can open nothing more: its library hands over what waits without a descriptor of its own. */
static void queued_when_full(void)
{
    fd = bound();
    have(fd, 2, 20);
    int first_free = dup(fd);
    MUST(first_free);
    MUST(close(first_free));
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = (rlim_t)first_free;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    say("dup", dup(fd));
    in_child(receive_two);
    say_recv("in the parent", fd, 64, MSG_DONTWAIT);
}

static void receive_new(void)
{
    works(fd, 33);
    works(fd, 34);
}

/* Datagrams that waited before the fork. */
static void queued(void)
{
    fd = bound();
    have(fd, 3, 20);
    in_child(receive_two);
    say_recv("in the parent", fd, 64, MSG_DONTWAIT);
    say_recv("in the parent", fd, 64, MSG_DONTWAIT);
    in_child(receive_new);
    works(fd, 21);
}

static void do_nothing(void)
{
}

static void close_all(void)
{
    for (int number = 3; number < 1100; number++)
        close(number);
}

static void close_range_all(void)
{
    say("close_range", (long)syscall(SYS_close_range, 3, ~0U, 0));
}

/* Children that do not use the socket leave it as it is, however they close it. */
static void unused(void)
{
    fd = bound();
    have(fd, 4, 20);
    in_child(do_nothing);
    say_recv("recv", fd, 64, 0);
    in_child(close_all);
    say_recv("recv", fd, 64, 0);
    in_child(close_range_all);
    say_recv("recv", fd, 64, 0);
    works(fd, 21);
    say_recv("recv", fd, 64, 0);
}

static int set = -1;

static void wait_poll(void)
{
    struct pollfd polled = {fd, POLLIN, 0};
    say("poll", poll(&polled, 1, 2000));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static void wait_ppoll(void)
{
    struct pollfd polled = {fd, POLLIN, 0};
    struct timespec timeout = {2, 0};
    say("ppoll", ppoll(&polled, 1, &timeout, NULL));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static void wait_select(void)
{
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    struct timeval timeout = {2, 0};
    say("select", select(fd + 1, &in, NULL, NULL, &timeout));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static void wait_pselect(void)
{
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    struct timespec timeout = {2, 0};
    say("pselect", pselect(fd + 1, &in, NULL, NULL, &timeout, NULL));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static void wait_own_epoll(void)
{
    int own = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(own, EPOLL_CTL_ADD, fd, &event));
    say("epoll_wait", epoll_wait(own, &event, 1, 2000));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static void wait_inherited_epoll(void)
{
    struct epoll_event event;
    say("epoll_wait", epoll_wait(set, &event, 1, 2000));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static void wait_ioctl(void)
{
    int waiting = -1;
    sleep_msec(300);
    MUST(ioctl(fd, FIONREAD, &waiting));
    printf("FIONREAD %d\n", waiting);
    say_recv("recv", fd, 64, MSG_DONTWAIT);
}

static void wait_in_copy(void)
{
    set_timeout(dup(fd), 2000);
    say_recv("recv of a copy", dup2(fd, 99), 64, 0);
}

static void wait_in_every_way(int late)
{
    void (*ways[])(void) = {wait_poll,      wait_ppoll,           wait_select, wait_pselect,
                            wait_own_epoll, wait_inherited_epoll, wait_ioctl,  wait_in_copy};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        fd = bound();
        set = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        if (late)
            ask_for(fd, 1, 25, 150, 0, 0);
        else
            have(fd, 1, 24);
        in_child(ways[i]);
        say("epoll_wait in the parent", epoll_wait(set, &event, 1, 0));
        works(fd, 26);
        MUST(close(fd));
        MUST(close(set));
    }
}

/* A child finds what is there in any way. */
static void waits(void)
{
    wait_in_every_way(0);
}

/* And what comes later. */
static void waits_long(void)
{
    wait_in_every_way(1);
}

static void send_request(void)
{
    ask(fd, 2, 27);
}

/* The child sends, the parent receives. */
static void sends(void)
{
    fd = bound();
    set_timeout(fd, 2000);
    in_child(send_request);
    say_recv("recv", fd, 64, 0);
    say_recv("recv", fd, 64, 0);
}

static void grandchild(void)
{
    in_child(receive_new);
}

static void great_grandchild(void)
{
    in_child(grandchild);
    receive_new();
}

static void generations(void)
{
    fd = bound();
    works(fd, 20);
    in_child(great_grandchild);
    works(fd, 21);
}

/* Every generation opens a socket, and the last uses those of all. */
static void lineage(void)
{
    enum { GENERATIONS = 4 };
    int fds[GENERATIONS], level = 0;
    pid_t child = 0;
    for (; level < GENERATIONS && child == 0; level++) {
        alarm(10);
        fds[level] = bound();
        have(fds[level], 1, 20 + level);
        fflush(stdout);
        if (level < GENERATIONS - 1) {
            child = fork();
            MUST(child);
        }
    }
    if (child != 0) {
        MUST(waitpid(child, NULL, 0));
        works(fds[level - 1], 40 + level);
    } else {
        for (int i = 0; i < GENERATIONS; i++)
            say_recv("in the last", fds[i], 64, MSG_DONTWAIT);
        for (int i = 0; i < GENERATIONS; i++)
            works(fds[i], 30 + i);
    }
    fflush(stdout);
    if (level > 1 || child == 0)
        _exit(0);
}

/* The parent waits in recv while the child does. */
static void both_wait(void)
{
    fd = bound();
    set_timeout(fd, 700);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    char buffer[64];
    int received = 0;
    if (child == 0)
        sleep_msec(100);
    else
        ask_for(fd, 4, 20, 300, 0, 0);
    while (recv(fd, buffer, sizeof buffer, 0) == 20)
        received++;
    if (child == 0)
        _exit(received);
    int status;
    MUST(waitpid(child, &status, 0));
    printf("received %d\n", received + WEXITSTATUS(status));
}

/* One socket, several servers. */
static void several_children(void)
{
    enum { CHILDREN = 4, COUNT = 200 };
    pid_t children[CHILDREN];
    fd = bound();
    set_timeout(fd, 1000);
    fflush(stdout);
    for (int i = 0; i < CHILDREN; i++) {
        MUST(children[i] = fork());
        if (children[i] == 0) {
            char buffer[64];
            int received = 0;
            while (recv(fd, buffer, sizeof buffer, 0) == 20)
                received++;
            _exit(received);
        }
    }
    sleep_msec(200);
    for (int sent = 0; sent < COUNT; sent += 20) {
        ask(fd, 20, 20);
        sleep_msec(5);
    }
    int sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        MUST(waitpid(children[i], &status, 0));
        sum += WEXITSTATUS(status);
    }
    printf("received %d\n", sum);
}

static int pipes[2];

/* The one that opened the socket ends, its child goes on with it. `end` ends it. */
static void outlive(void (*end)(void))
{
    MUST(pipe(pipes));
    fflush(stdout);
    pid_t parent = fork();
    MUST(parent);
    if (parent == 0) {
        fd = bound();
        have(fd, 2, 20);
        fflush(stdout);
        pid_t child = fork();
        MUST(child);
        if (child != 0)
            end();
        setsid();
        sleep_msec(150);
        alarm(6);
        receive_two();
        receive_new();
        works(bound(), 35);
        fflush(stdout);
        MUST(write(pipes[1], "x", 1));
        _exit(0);
    }
    int status;
    char byte;
    MUST(waitpid(parent, &status, 0));
    MUST(read(pipes[0], &byte, 1));
    printf("parent %x\n", status);
}

static void end_at_once(void)
{
    _exit(1);
}

static void end_orderly(void)
{
    exit(2);
}

static void end_by_closing(void)
{
    MUST(close(fd));
    sleep_msec(600);
    _Exit(3);
}

static void parent_exits(void)
{
    outlive(end_at_once);
    outlive(end_orderly);
    outlive(end_by_closing);
}

/* daemon(3) forks inside of the C library. */
static void daemonised(void)
{
    MUST(pipe(pipes));
    fflush(stdout);
    pid_t parent = fork();
    MUST(parent);
    if (parent == 0) {
        fd = bound();
        have(fd, 2, 20);
        fflush(stdout);
        MUST(daemon(1, 1));
        sleep_msec(150);
        alarm(6);
        receive_two();
        receive_new();
        works(bound(), 35);
        fflush(stdout);
        MUST(write(pipes[1], "x", 1));
        _exit(0);
    }
    int status;
    char byte;
    MUST(waitpid(parent, &status, 0));
    MUST(read(pipes[0], &byte, 1));
    printf("parent %x\n", status);
}

static void poll_and_receive(void)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    set_timeout(fd, 2000);
    for (int i = 0; i < 3; i++) {
        ask(fd, 1, 40 + i);
        say("  poll", poll(&waits, 1, 4000));
        say_recv("  a second one", fd, 64, 0);
    }
}

/* One child of a process that has ended receives, with an option of that one's; then a second one does, too. */
static void one_then_several(void)
{
    int on = 1;
    MUST(pipe(pipes));
    fflush(stdout);
    pid_t parent = fork();
    MUST(parent);
    if (parent == 0) {
        fd = bound();
        MUST(setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on));
        MUST(daemon(1, 1));
        alarm(20);
        for (int i = 0; i < 5; i++)
            works(fd, 20 + i);
        char control[100], octets[64];
        struct iovec part = {octets, sizeof octets};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ask(fd, 1, 30);
        say("with its control message", recvmsg(fd, &message, 0));
        say("of", message.msg_controllen);
        in_child(poll_and_receive);
        works(fd, 50);
        fflush(stdout);
        MUST(write(pipes[1], "x", 1));
        _exit(0);
    }
    int status;
    char byte;
    MUST(waitpid(parent, &status, 0));
    MUST(read(pipes[0], &byte, 1));
    printf("parent %x\n", status);
}

static void bind_it(void)
{
    struct sockaddr_in self = address(SELF, 7140);
    MUST(bind(fd, generic(&self), sizeof self));
}

static void set_nonblocking(void)
{
    MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

static void connect_it(void)
{
    struct sockaddr_in peer = address(PEER, PEER_PORT + 1);
    MUST(connect(fd, generic(&peer), sizeof peer));
}

static void shut_it_down(void)
{
    say("shutdown", shutdown(fd, SHUT_RD));
}

/* What one changes, both have. */
static void changes(void)
{
    fd = udp();
    in_child(bind_it);
    printf("port %d\n", port_of(fd));
    int other = bound();
    ask_for(other, 1, 20, 0, 0, 7140);
    set_timeout(fd, 2000);
    say_recv("recv after the child's bind", fd, 64, 0);
    MUST(close(fd));

    fd = bound();
    works(fd, 20);
    in_child(set_nonblocking);
    say_recv("recv after the child's O_NONBLOCK", fd, 64, 0);
    MUST(close(fd));

    fd = bound();
    works(fd, 20);
    in_child(connect_it);
    ask_for(other, 1, 21, 0, 0, port_of(fd));
    set_timeout(fd, 300);
    say_recv("recv from another than the child's peer", fd, 64, 0);
    ask_for(other, 1, 22, 0, 1, port_of(fd));
    say_recv("recv from the child's peer", fd, 64, 0);
    MUST(close(fd));

    fd = bound();
    works(fd, 20);
    in_child(shut_it_down);
    say_recv("recv after the child's shutdown", fd, 64, 0);
}

/* The child waits for a socket that the parent binds later. */
static void bound_later(void)
{
    fd = udp();
    set_timeout(fd, 2000);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        say_recv("in the child", fd, 64, 0);
        fflush(stdout);
        _exit(0);
    }
    sleep_msec(200);
    bind_it();
    ask(bound(), 1, 20);
    ask_for(bound(), 1, 20, 0, 0, 7140);
    MUST(waitpid(child, NULL, 0));
    works(fd, 21);
}

static int opened_before, handlers_did[3];

static int exchange(int socket_fd, int len)
{
    char buffer[64];
    set_timeout(socket_fd, 1000);
    ask(socket_fd, 1, len);
    return recv(socket_fd, buffer, sizeof buffer, 0) == len;
}

static int exchange_on_own(int len)
{
    int own = bound(), done = exchange(own, len);
    close(own);
    return done;
}

static void in_prepare(void)
{
    handlers_did[0] = exchange_on_own(20) + exchange(opened_before, 21);
}

/* The child's handler, which runs at the same time, has the old socket. */
static void in_parent(void)
{
    handlers_did[1] = exchange_on_own(22);
}

static void in_newborn(void)
{
    handlers_did[2] = exchange_on_own(23) + exchange(opened_before, 24);
}

static void say_newborn(void)
{
    printf("the child's handler did %d of 2\n", handlers_did[2]);
    works(opened_before, 30);
}

/* Handlers of the program's own use sockets around the fork: registered before its first socket, and after. */
static void atfork_handlers(void)
{
    pthread_atfork(in_prepare, in_parent, in_newborn);
    opened_before = bound();
    works(opened_before, 20);
    in_child(say_newborn);
    printf("handlers did %d of 2 and %d of 1\n", handlers_did[0], handlers_did[1]);
    pthread_atfork(in_prepare, in_parent, in_newborn);
    in_child(say_newborn);
    printf("handlers did %d of 2 and %d of 1\n", handlers_did[0], handlers_did[1]);
    works(opened_before, 31);
}

/* A child that no handler knows of. */
static void raw_clone(void)
{
    fd = bound();
    have(fd, 2, 20);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        MUST(child);
        if (child == 0) {
            alarm(5);
            if (i == 0)
                works(bound(), 30);
            say_recv("in the child", fd, 64, MSG_DONTWAIT);
            fflush(stdout);
            _exit(0);
        }
        MUST(waitpid((pid_t)child, NULL, 0));
    }
    works(fd, 21);
}

static volatile sig_atomic_t born;

static void fork_in_handler(int signal)
{
    (void)signal;
    pid_t child = fork();
    if (child == 0) {
        int own = bound(), status = 9;
        char buffer[64];
        set_timeout(own, 1000);
        ask(own, 1, 30);
        status -= recv(own, buffer, sizeof buffer, 0) == 30;
        _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    born += WEXITSTATUS(status) == 8;
}

static void *receive_from(void *unused)
{
    (void)unused;
    char buffer[64];
    return (void *)recv(fd, buffer, sizeof buffer, 0);
}

static void in_a_handler(void)
{
    struct sigaction action = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    fd = bound();
    works(fd, 20);
    set_timeout(fd, 0);
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, receive_from, NULL);
        sleep_msec(50);
        pthread_kill(thread, SIGUSR1);
        sleep_msec(50);
        ask(fd, 1, 40 + i);
        void *result;
        pthread_join(thread, &result);
        printf("received %ld\n", (long)result);
    }
    printf("born %d\n", born);
}

enum { STORM_THREADS = 3 };

static int storm_ends;

/* Does everything that takes a lock, without a pause. */
static void *storm(void *unused)
{
    (void)unused;
    char buffer[64];
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    struct epoll_event event = {.events = EPOLLIN};
    while (!__atomic_load_n(&storm_ends, __ATOMIC_RELAXED)) {
        int own = bound(), own_set = epoll_create1(0);
        epoll_ctl(own_set, EPOLL_CTL_ADD, own, &event);
        for (int i = 0; i < 20; i++) {
            sendto(own, "S 3 20 0 0 0", 12, 0, generic(&peer), sizeof peer);
            epoll_wait(own_set, &event, 1, i % 2);
            while (recv(own, buffer, sizeof buffer, MSG_DONTWAIT) > 0)
                ;
            recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
            free(malloc((size_t)(i * 100)));
        }
        close(dup(own));
        close(own);
        close(own_set);
    }
    return NULL;
}

/* Children are born while other threads are anywhere in the library, and need what these threads had locked. */
static void fork_in_a_storm(void)
{
    pthread_t threads[STORM_THREADS];
    int bad = 0, children = 0;
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_create(&threads[i], NULL, storm, NULL);
    for (double begun = now_sec(); now_sec() - begun < 3; children++) {
        fd = bound();
        ask(fd, 5, 20);
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            alarm(5);
            char buffer[64];
            int own = bound(), own_set = epoll_create1(0), copy = dup(own);
            struct epoll_event event = {.events = EPOLLIN};
            epoll_ctl(own_set, EPOLL_CTL_ADD, own, &event);
            epoll_wait(own_set, &event, 1, 0);
            if (children % 2)
                recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
            free(malloc(1000));
            _exit(close(copy) || close(own) || close(own_set) || close(fd));
        }
        int status = -1;
        MUST(waitpid(child, &status, 0));
        bad += status != 0;
        MUST(close(fd));
    }
    __atomic_store_n(&storm_ends, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(threads[i], NULL);
    fprintf(stderr, "%d children\n", children);
    printf("enough %d bad %d\n", children > 20, bad);
    works(bound(), 20);
}

/* A stopped owner does not hold its child for ever, and the child's wish is not forgotten. */
static void stopped_owner(void)
{
    fflush(stdout);
    pid_t owner = fork();
    MUST(owner);
    if (owner == 0) {
        fd = bound();
        works(fd, 20);
        fflush(stdout);
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            sleep_msec(100);
            double begun = now_sec();
            set_timeout(fd, 3000);
            printf("not for ever: %d\n", now_sec() - begun < 1);
            ask_for(fd, 1, 30, 800, 0, 0);
            say_recv("in the child", fd, 64, 0);
            fflush(stdout);
            _exit(0);
        }
        raise(SIGSTOP);
        MUST(waitpid(child, NULL, 0));
        works(fd, 21);
        fflush(stdout);
        _exit(0);
    }
    sleep_msec(500);
    kill(owner, SIGCONT);
    MUST(waitpid(owner, NULL, 0));
}

/* What the library has left a child: nothing on the kernel. */
static int inherited_channel(void)
{
    for (int number = 900; number < 1100; number++) {
        int domain = 0;
        socklen_t len = sizeof domain;
        if (syscall(SYS_getsockopt, number, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX)
            return number;
    }
    return -1;
}

static double processor_sec(void)
{
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* A child that has given up its rights asks without end, then cuts the others off. */
static void mischief(void)
{
    fd = bound();
    works(fd, 10);
    fflush(stdout);
    pid_t parent = getpid(), child = fork();
    MUST(child);
    if (child == 0) {
        MUST(setgid(65534));
        MUST(setuid(65534));
        int channel = inherited_channel();
        while (getppid() == parent)
            syscall(SYS_sendto, channel, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
        _exit(0);
    }
    sleep_msec(200);
    double begun = processor_sec();
    sleep_msec(1000);
    double busy = processor_sec() - begun;
    printf("busy %d\n", busy > 0.5);
    if (busy > 0.5)
        fprintf(stderr, "%.3f s of a second\n", busy);
    works(fd, 11);
    int other = bound();
    works(other, 12);
    MUST(kill(child, SIGKILL));
    MUST(waitpid(child, NULL, 0));
    child = fork();
    MUST(child);
    if (child == 0) {
        syscall(SYS_shutdown, inherited_channel(), SHUT_RDWR);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    sleep_msec(100);
    begun = processor_sec();
    sleep_msec(500);
    printf("busy %d\n", processor_sec() - begun > 0.25);
    works(fd, 13);
    fflush(stdout);
    child = fork();
    MUST(child);
    if (child == 0) {
        works(fd, 14);
        works(other, 15);
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    works(fd, 16);
    other = bound();
    works(other, 17);
}

CASES({"queued", queued}, {"queued_when_full", queued_when_full}, {"unused", unused}, {"waits", waits},
      {"waits_long", waits_long}, {"sends", sends}, {"generations", generations}, {"lineage", lineage},
      {"both_wait", both_wait}, {"several_children", several_children}, {"parent_exits", parent_exits},
      {"daemonised", daemonised}, {"one_then_several", one_then_several},
      {"changes", changes}, {"bound_later", bound_later}, {"atfork_handlers", atfork_handlers}, {"raw_clone", raw_clone}, {"in_a_handler", in_a_handler},
      {"stopped_owner", stopped_owner}, {"fork_in_a_storm", fork_in_a_storm}, {"mischief", mischief})
