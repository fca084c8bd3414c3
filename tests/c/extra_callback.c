/* A function that sees packets before calls receive them: what it is told, what its verdicts do, in which calls it runs, what it may do. */
#include "extra_case.h"
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>

#define MOST 4096

/* What the function says to the next packets; the last one goes on. */
static const vma_recv_callback_retval_t *verdicts;
static int seen, told, running, overlaps;
static void *ids[MOST];
static struct iovec parts[MOST];

static void see_as(const vma_recv_callback_retval_t *next)
{
    verdicts = next;
    seen = 0;
}

static vma_recv_callback_retval_t look(int fd, size_t count, struct iovec iov[], struct vma_info_t *info, void *context)
{
    (void)fd;
    (void)context;
    if (__atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST) != 1)
        overlaps++;
    if (count == 1 && seen < MOST) {
        ids[seen] = info->packet_id;
        parts[seen] = iov[0];
    }
    vma_recv_callback_retval_t verdict = verdicts[0];
    if (verdicts[1] <= VMA_PACKET_HOLD)
        verdicts++;
    __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
    return verdict;
}

#define END ((vma_recv_callback_retval_t)99)
static const vma_recv_callback_retval_t drop[] = {VMA_PACKET_DROP, END}, keep[] = {VMA_PACKET_RECV, END}, hold[] = {VMA_PACKET_HOLD, END};

static int give_back(int fd, int from, int to)
{
    int wrong = 0;
    for (int i = from; i < to; i++) {
        struct vma_packet_t packet = {.packet_id = ids[i]};
        wrong += api->free_packets(fd, &packet, 1) != 0;
    }
    return wrong;
}

/* Waits in calls of this kind until so many were seen; returns the last result. */
static void wait_until_seen(int fd, int count)
{
    struct pollfd polled = {fd, POLLIN, 0};
    int result = 0;
    for (int i = 0; i < 200 && seen < count; i++)
        result = poll(&polled, 1, 50);
    printf("poll %d, seen %d\n", result, seen);
}

static int watched(void)
{
    look_for_it();
    int fd = bound();
    set_timeout(fd, 5000);
    MUST(api->register_recv_callback(fd, look, NULL));
    return fd;
}

/* What it is told. */
static vma_recv_callback_retval_t tell(int fd, size_t count, struct iovec iov[], struct vma_info_t *info, void *context)
{
    struct sockaddr_in self;
    socklen_t len = sizeof self;
    MUST(getsockname(fd, (struct sockaddr *)&self, &len));
    printf("  %s: %zu part of %zu octets, %.8s\n", (char *)context, count, iov[0].iov_len, (char *)iov[0].iov_base);
    printf("  info of %zu: id %d, payload %zu, queue %u of %u, from %s:%s, to self %d, stamped %d\n", info->struct_sz,
           info->packet_id != NULL, info->payload_sz, info->socket_ready_queue_pkt_count, info->socket_ready_queue_byte_count,
           inet_ntoa(info->src->sin_addr), info->src->sin_port ? "known" : "unknown",
           info->dst->sin_port == self.sin_port && info->dst->sin_addr.s_addr == inet_addr(SELF) && info->dst->sin_family == AF_INET,
           info->sw_timestamp.tv_sec > 1600000000);
    told++;
    errno = EDOM;
    return VMA_PACKET_RECV;
}

static void facts(void)
{
    look_for_it();
    int fd = bound(), on = 1;
    set_timeout(fd, 5000);
    say("no socket", api->register_recv_callback(0, tell, NULL));
    say("closed", api->register_recv_callback(1000, tell, NULL));
    say("register", api->register_recv_callback(fd, tell, "datagram"));
    ask(fd, 2, 20);
    sleep_msec(200);
    say_recv("first", fd, 64, 0);
    say_recv("second", fd, 64, 0);
    MUST(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on));
    ask(fd, 1, 12);
    say_recv("stamped", fd, 64, 0);
    say_recv("none", fd, 64, MSG_DONTWAIT);
    say("again", api->register_recv_callback(fd, tell, "another context"));
    ask(fd, 1, 12);
    say_recv("third", fd, 64, 0);
    say("no more", api->register_recv_callback(fd, NULL, NULL));
    ask(fd, 1, 12);
    say_recv("unseen", fd, 64, 0);
    printf("told %d\n", told);
}

static void datagrams(void)
{
    int fd = watched(), pending;
    see_as(drop);
    ask(fd, 3, 20);
    printf("dropped: ");
    wait_until_seen(fd, 3);
    say_recv("nothing", fd, 64, MSG_DONTWAIT);
    see_as(keep);
    ask(fd, 2, 20);
    await_data(fd);
    say_recv("one", fd, 64, 0);
    say_recv("two", fd, 64, 0);
    printf("seen %d\n", seen);
    see_as(hold);
    ask(fd, 3, 20);
    printf("held: ");
    wait_until_seen(fd, 3);
    printf("first %.8s\n", (char *)parts[0].iov_base);
    MUST(ioctl(fd, FIONREAD, &pending));
    printf("pending %d\n", pending);
    int other = bound();
    printf("of another: %d wrong\n", give_back(other, 0, 3));
    printf("given back: %d wrong\n", give_back(fd, 0, 3));
    printf("twice: %d wrong\n", give_back(fd, 0, 3));
    /* What was not held cannot be given back. */
    see_as(drop);
    ask(fd, 1, 20);
    wait_until_seen(fd, 1);
    printf("not held: %d wrong\n", give_back(fd, 0, 1));
    /* What waits unseen is received when nobody is to see it any more. */
    see_as(drop);
    ask(fd, 2, 20);
    sleep_msec(300);
    MUST(ioctl(fd, FIONREAD, &pending));
    printf("unseen: pending %d, seen %d\n", pending, seen);
    MUST(api->register_recv_callback(fd, NULL, NULL));
    say_recv("passed", fd, 64, 0);
    say_recv("passed", fd, 64, 0);
    printf("seen %d\n", seen);
}

/* Calls in which it runs, of this socket and another. */
static void calls(void)
{
    int fd = watched(), other = bound(), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    struct timeval second = {1, 0};
    fd_set set;
    MUST(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event));
    set_timeout(other, 300);
    see_as(drop);
    ask(fd, 1, 20);
    say("epoll_wait", epoll_wait(epfd, &event, 1, 300));
    printf("seen %d\n", seen);
    ask(fd, 1, 20);
    FD_ZERO(&set);
    FD_SET(fd, &set);
    second = (struct timeval){0, 300000};
    say("select", select(fd + 1, &set, NULL, NULL, &second));
    printf("seen %d\n", seen);
    set_timeout(fd, 300);
    ask(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
    printf("seen %d\n", seen);
    ask(fd, 1, 20);
    say_recv("of another", other, 64, 0);
    printf("seen %d\n", seen);
    ask(fd, 1, 20);
    sleep_msec(200);
    say_recv("without waiting", fd, 64, MSG_DONTWAIT);
    printf("seen %d\n", seen);
    see_as(keep);
    ask(fd, 1, 20);
    say("epoll_wait", epoll_wait(epfd, &event, 1, 5000));
    say_recv("received", fd, 64, MSG_DONTWAIT);
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = fd;
    MUST(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event));
    ask(fd, 1, 20);
    say("an edge", epoll_wait(epfd, &event, 1, 5000));
    say("no other", epoll_wait(epfd, &event, 1, 100));
    say_recv("received", fd, 64, MSG_DONTWAIT);
    ask(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
    printf("seen %d\n", seen);
    /* What is held ends a call that waits, as with VMA; once, and there is nothing to receive. */
    see_as(hold);
    for (int i = 0; i < 2; i++) {
        event.events = i ? EPOLLIN | EPOLLET : EPOLLIN;
        MUST(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event));
        ask(fd, 1, 20);
        say("held in epoll_wait", epoll_wait(epfd, &event, 1, 5000));
        say("no other", epoll_wait(epfd, &event, 1, 100));
    }
    ask(fd, 1, 20);
    FD_SET(fd, &set);
    second = (struct timeval){5, 0};
    say("held in select", select(fd + 1, &set, NULL, NULL, &second));
    printf("readable %d\n", FD_ISSET(fd, &set) != 0);
    second = (struct timeval){0, 100000};
    say("no other", select(fd + 1, &set, NULL, NULL, &second));
    say_recv("nothing", fd, 64, MSG_DONTWAIT);
    printf("given back: %d wrong\n", give_back(fd, 0, seen));
}

/* What it may do. */
static int other_fd = -1;
static const char *deed;
static jmp_buf outside;

static vma_recv_callback_retval_t act(int fd, size_t count, struct iovec iov[], struct vma_info_t *info, void *context)
{
    char room[64];
    (void)count;
    (void)context;
    seen++;
    if (strcmp(deed, "send") == 0) {
        ask(fd, seen < 3 ? 1 : 0, 10);
        return VMA_PACKET_DROP;
    }
    if (strcmp(deed, "receive") == 0) {
        printf("  of itself %zd, ", recv(fd, room, sizeof room, MSG_DONTWAIT));
        ask(other_fd, 1, 15);
        printf("of another %zd\n", recv(other_fd, room, sizeof room, 0));
        return VMA_PACKET_RECV;
    }
    if (strcmp(deed, "unregister") == 0) {
        printf("  unregister %d\n", api->register_recv_callback(fd, NULL, NULL));
        return VMA_PACKET_RECV;
    }
    if (strcmp(deed, "close") == 0) {
        close(fd);
        for (int i = 0; i < 64; i++)
            close(bound());
        printf("  still %.8s\n", (char *)iov[0].iov_base);
        return seen % 2 ? VMA_PACKET_RECV : VMA_PACKET_HOLD;
    }
    if (strcmp(deed, "free") == 0) {
        struct vma_packet_t packet = {.packet_id = info->packet_id};
        say("  too early", api->free_packets(fd, &packet, 1));
        ids[0] = info->packet_id;
        return VMA_PACKET_HOLD;
    }
    if (strcmp(deed, "jump") == 0)
        longjmp(outside, 1);
    if (strcmp(deed, "exit") == 0)
        pthread_exit(NULL);
    if (strcmp(deed, "kernel") == 0)
        must(fdopen(dup(fd), "r") != NULL, "fdopen", __LINE__);
    return VMA_PACKET_RECV;
}

static int acting(const char *what)
{
    int fd = bound();
    set_timeout(fd, 5000);
    deed = what;
    seen = 0;
    printf("%s\n", what);
    MUST(api->register_recv_callback(fd, act, NULL));
    return fd;
}

static void *receive_there(void *argument)
{
    char room[64];
    recv(*(int *)argument, room, sizeof room, 0);
    return "back";
}

static void inside(void)
{
    char room[64];
    look_for_it();
    int fd = acting("send");
    ask(fd, 1, 20);
    wait_until_seen(fd, 3);
    fd = acting("receive");
    other_fd = bound();
    set_timeout(other_fd, 5000);
    ask(fd, 1, 20);
    say_recv("one", fd, 64, 0);
    ask(fd, 1, 20);
    say_recv("two", fd, 64, 0);
    fd = acting("unregister");
    ask(fd, 3, 20);
    for (int i = 0; i < 3; i++)
        say_recv("in order", fd, 64, 0);
    printf("seen %d\n", seen);
    for (int i = 0; i < 2; i++) {
        fd = acting("close");
        seen = i;
        ask(fd, 3, 20);
        say("recv", recv(fd, room, sizeof room, 0));
        printf("seen %d\n", seen - i);
    }
    fd = acting("free");
    ask(fd, 1, 20);
    wait_until_seen(fd, 1);
    printf("later: %d wrong\n", give_back(fd, 0, 1));
    fd = acting("jump");
    ask(fd, 2, 20);
    for (volatile int i = 0; i < 3; i++) {
        if (setjmp(outside) == 0)
            printf("%zd %.8s\n", recv(fd, room, sizeof room, 0), room);
        deed = "nothing";
    }
    printf("seen %d\n", seen);
    fd = acting("exit");
    ask(fd, 2, 20);
    pthread_t thread;
    void *result = NULL;
    must(pthread_create(&thread, NULL, receive_there, &fd) == 0, "a thread", __LINE__);
    must(pthread_join(thread, &result) == 0 && result == NULL, "its end", __LINE__);
    deed = "nothing";
    say_recv("of a thread that has ended", fd, 64, 0);
    say_recv("the next", fd, 64, 0);
    fd = acting("kernel");
    ask(fd, 1, 20);
    say_recv("of the kernel's", fd, 64, 0);
}

/* Streams. */
static void streams(void)
{
    char room[64];
    look_for_it();
    int fd = connected(), pending;
    MUST(api->register_recv_callback(fd, look, NULL));
    see_as(keep);
    must(send(fd, "question", 8, 0) == 8, "send", __LINE__);
    say_recv("received", fd, 64, 0);
    see_as(drop);
    must(send(fd, "dropped", 7, 0) == 7, "send", __LINE__);
    printf("dropped: ");
    wait_until_seen(fd, 1);
    say_recv("nothing", fd, 64, MSG_DONTWAIT);
    see_as(hold);
    must(send(fd, "held", 4, 0) == 4, "send", __LINE__);
    printf("held: ");
    wait_until_seen(fd, 1);
    printf("%.4s\n", (char *)parts[0].iov_base);
    printf("given back: %d wrong\n", give_back(fd, 0, 1));
    printf("twice: %d wrong\n", give_back(fd, 0, 1));
    /* What comes behind what waits is not seen. */
    see_as(keep);
    must(send(fd, "one", 3, 0) == 3, "send", __LINE__);
    wait_until_seen(fd, 1);
    must(send(fd, "two", 3, 0) == 3, "send", __LINE__);
    await_octets(fd, 6);
    printf("seen %d\n", seen);
    say_recv("both", fd, 64, 0);
    /* Unseen, until nobody is to see it. */
    see_as(drop);
    must(send(fd, "unseen", 6, 0) == 6, "send", __LINE__);
    sleep_msec(300);
    MUST(ioctl(fd, FIONREAD, &pending));
    printf("pending %d, seen %d\n", pending, seen);
    MUST(api->register_recv_callback(fd, NULL, NULL));
    say_recv("passed", fd, 64, 0);
    /* The end comes behind what was dropped. */
    MUST(api->register_recv_callback(fd, look, NULL));
    must(send(fd, "last", 4, 0) == 4, "send", __LINE__);
    MUST(shutdown(fd, SHUT_WR));
    say_recv("the end", fd, 64, 0);
    printf("seen %d\n", seen);
    /* It is closed in the function, goes to the kernel, is left. */
    fd = connected();
    deed = "close";
    seen = 0;
    MUST(api->register_recv_callback(fd, act, NULL));
    must(send(fd, "closing", 7, 0) == 7, "send", __LINE__);
    say("closed", recv(fd, room, sizeof room, 0));
    fd = connected();
    deed = "kernel";
    MUST(api->register_recv_callback(fd, act, NULL));
    must(send(fd, "to the kernel", 13, 0) == 13, "send", __LINE__);
    say_recv("there", fd, 64, 0);
    fd = connected();
    deed = "jump";
    MUST(api->register_recv_callback(fd, act, NULL));
    must(send(fd, "left", 4, 0) == 4, "send", __LINE__);
    for (volatile int i = 0; i < 2; i++) {
        if (setjmp(outside) == 0)
            printf("%zd %.4s\n", recv(fd, room, sizeof room, 0), room);
        deed = "nothing";
    }
}

/* What is held keeps the window closed, and opens it when it is given back. */
static void window(void)
{
    static char data[1000];
    look_for_it();
    int fd = connected(), size = 40000;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    MUST(api->register_recv_callback(fd, look, NULL));
    see_as(hold);
    for (int round = 0; round < 2; round++) {
        int before;
        size_t octets = 0;
        do {
            before = seen;
            while (send(fd, data, sizeof data, MSG_DONTWAIT) > 0)
                ;
            struct pollfd polled = {fd, POLLIN, 0};
            poll(&polled, 1, 300);
        } while (seen > before && seen < MOST);
        for (int i = 0; i < seen && i < MOST; i++)
            octets += parts[i].iov_len;
        /* The buffer may have grown before its size was set: the connection came over from the kernel's socket then. */
        printf("held as much as there is room for %d\n", octets > 10000 && octets < 4000000);
        if (octets <= 10000 || octets >= 4000000)
            printf("%zu octets\n", octets);
        printf("given back: %d wrong\n", give_back(fd, 0, seen));
        seen = 0;
    }
}

/* Threads that receive by one socket: the function sees one packet of it at a time, in order. */
static void *take_some(void *argument)
{
    char room[64];
    long count = 0;
    while (recv(*(int *)argument, room, sizeof room, 0) > 0)
        count++;
    return (void *)count;
}

static void threads(void)
{
    enum { THREADS = 4, COUNT = 2000 };
    pthread_t all[THREADS];
    long total = 0;
    int fd = watched(), size = 1 << 22;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    set_timeout(fd, 1500);
    see_as(keep);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&all[i], NULL, take_some, &fd) == 0, "a thread", __LINE__);
    for (int i = 0; i < COUNT / 20; i++) {
        ask(fd, 20, 20);
        sleep_msec(1);
    }
    for (int i = 0; i < THREADS; i++) {
        void *count;
        pthread_join(all[i], &count);
        total += (long)count;
    }
    printf("seen %d, received %ld, at once %d\n", seen, total, overlaps);
}

/* A child has what its parent holds, and gives it back for itself. */
static void forked(void)
{
    int fd = watched(), status;
    see_as(hold);
    ask(fd, 2, 20);
    wait_until_seen(fd, 2);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        struct vma_packet_t packet = {.packet_id = ids[0]};
        api->free_packets(fd, &packet, 1);
        api->free_packets(fd, &packet, 1);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    printf("child %d\n", status);
    printf("still %.8s\n", (char *)parts[0].iov_base);
    printf("given back: %d wrong\n", give_back(fd, 0, 2));
}

/* More than the pool has. */
static void hoarded(void)
{
    int fd = watched(), wrong = 0, size = 1 << 22;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    see_as(hold);
    for (int i = 0; i < MOST; i += 32) {
        struct pollfd polled = {fd, POLLIN, 0};
        ask(fd, 32, 20 + i / 32 % 30);
        for (int j = 0; j < 1000 && seen < i + 32; j++)
            poll(&polled, 1, 5);
    }
    for (int i = 0; i < MOST; i++)
        wrong += parts[i].iov_len != (size_t)(20 + i / 32 % 30) || *(char *)parts[i].iov_base != 'a' + i % 32 % 26;
    printf("seen %d, wrong %d\n", seen, wrong);
    printf("given back: %d wrong\n", give_back(fd, 0, MOST));
}

CASES({"facts", facts}, {"datagrams", datagrams}, {"calls", calls}, {"inside", inside}, {"streams", streams}, {"window", window},
      {"threads", threads}, {"forked", forked}, {"hoarded", hoarded})
