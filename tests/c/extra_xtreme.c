/* SocketXtreme: packets, events and connections by a ring. */
#include "extra_case.h"
#include <sys/epoll.h>

static struct vma_completion_t completions[64];

static int ring_of(int fd)
{
    int ring = -1;
    printf("rings %d, ", api->get_socket_rings_num(fd));
    printf("given %d, ", api->get_socket_rings_fds(fd, &ring, 1));
    printf("known %d, the same for sending %d\n", ring >= 0, api->get_socket_tx_ring_fd(fd, NULL, 0) == ring);
    return ring;
}

/* Polls until so many completions have come. */
static int take(int ring, int count)
{
    int taken = 0;
    double end = now_sec() + 5;
    while (taken < count && now_sec() < end) {
        int found = api->socketxtreme_poll(ring, completions + taken, 64 - (unsigned)taken, 0);
        if (found < 0) {
            say("poll", found);
            return taken;
        }
        taken += found;
    }
    return taken;
}

static void show(struct vma_completion_t *it)
{
    if (it->events & VMA_SOCKETXTREME_PACKET)
        printf("  packet of %zu buffers, %u octets: %.8s, of %s, data %lu\n", it->packet.num_bufs, it->packet.total_len,
               (char *)it->packet.buff_lst->payload, inet_ntoa(it->src.sin_addr), (unsigned long)it->user_data);
    else
        printf("  events %#lx\n", (unsigned long)it->events);
}

static int free_one(struct vma_completion_t *it)
{
    return api->socketxtreme_free_vma_packets(&it->packet, 1);
}

static void with_data(int fd, uint64_t data)
{
    MUST(setsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &data, sizeof data));
}

static void datagrams(void)
{
    char room[64];
    int value = 1;
    look_for_it();
    int fd = bound(), other = bound();
    say("short data", setsockopt(fd, SOL_SOCKET, SO_VMA_USER_DATA, &value, sizeof value));
    with_data(fd, 77);
    with_data(other, 78);
    int ring = ring_of(fd);
    printf("one ring %d\n", ring == ring_of(other));
    say("no ring", api->socketxtreme_poll(fd, completions, 64, 0));
    say("nothing", api->socketxtreme_poll(ring, completions, 64, 0));
    say("no array", api->get_socket_rings_fds(fd, NULL, 1));
    say("no socket", api->get_socket_rings_num(0));
    say("no callback", api->register_recv_callback(fd, NULL, NULL));
    ask(fd, 3, 20);
    printf("taken %d\n", take(ring, 3));
    for (int i = 0; i < 3; i++)
        show(&completions[i]);
    /* It stays while it has users. */
    struct vma_buff_t *buff = completions[0].packet.buff_lst;
    say("one user more", api->socketxtreme_ref_vma_buff(buff));
    say("free", free_one(&completions[0]));
    printf("still %.8s\n", (char *)buff->payload);
    say("the last user", api->socketxtreme_free_vma_buff(buff));
    say("no user", api->socketxtreme_free_vma_buff(buff));
    say("nor this", api->socketxtreme_ref_vma_buff(buff));
    say("free again", free_one(&completions[0]));
    say("free several", api->socketxtreme_free_vma_packets(&completions[1].packet, 1));
    completions[3] = completions[2];
    completions[3].packet.buff_lst = (struct vma_buff_t *)((char *)completions[2].packet.buff_lst + 8);
    say("no buffer", free_one(&completions[3]));
    completions[3].packet.buff_lst = (struct vma_buff_t *)room;
    say("nor this", free_one(&completions[3]));
    say("no packets", api->socketxtreme_free_vma_packets(NULL, 1));
    say("none", api->socketxtreme_free_vma_packets(NULL, 0));
    /* Calls find it, too: each is taken by one of them. */
    ask(other, 1, 20);
    struct pollfd polled = {other, POLLIN, 0};
    say("poll", poll(&polled, 1, 5000));
    say_recv("recv", other, 64, MSG_DONTWAIT);
    say("not by the ring", api->socketxtreme_poll(ring, completions + 3, 1, 0));
    set_timeout(other, 5000);
    ask(other, 1, 20);
    say_recv("recv", other, 64, 0);
    say("not by the ring", api->socketxtreme_poll(ring, completions + 3, 1, 0));
    ask(other, 1, 20);
    printf("taken %d\n", take(ring, 1));
    say("poll", poll(&polled, 1, 100));
    say_recv("recv", other, 64, MSG_DONTWAIT);
    show(&completions[0]);
    say("free", free_one(&completions[0]));
    /* Held past its socket's end. */
    say("past close", (close(fd), free_one(&completions[2])));
    /* The ring says when there is something. */
    polled = (struct pollfd){ring, POLLIN, 0};
    say("quiet ring", poll(&polled, 1, 100));
    ask(other, 1, 20);
    say("ring", poll(&polled, 1, 5000));
    printf("taken %d\n", take(ring, 1));
    /* A closed socket tells nothing. */
    ask(other, 1, 20);
    sleep_msec(200);
    close(other);
    say("of a closed one", api->socketxtreme_poll(ring, completions, 64, 0));
}

static void plain(void)
{
    int ring;
    look_for_it();
    int fd = bound();
    say("poll", api->socketxtreme_poll(fd, completions, 64, 0));
    say("rings", api->get_socket_rings_num(fd));
    say("rings", api->get_socket_rings_fds(fd, &ring, 1));
    say("free", api->socketxtreme_free_vma_packets(&completions[0].packet, 1));
    say("free", api->socketxtreme_free_vma_buff(NULL));
    say("ref", api->socketxtreme_ref_vma_buff(NULL));
    with_data(fd, 1);
    ask(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
}

/* What has come to a stream, until so many octets are there or the events. */
static uint64_t gather(int ring, size_t octets, uint64_t events)
{
    char text[128] = "";
    size_t len = 0;
    uint64_t seen = 0;
    double end = now_sec() + 5;
    while ((len < octets || (seen & events) != events) && now_sec() < end) {
        struct vma_completion_t one;
        if (api->socketxtreme_poll(ring, &one, 1, 0) != 1)
            continue;
        seen |= one.events;
        if (one.events & VMA_SOCKETXTREME_PACKET) {
            if (len + one.packet.total_len < sizeof text)
                memcpy(text + len, one.packet.buff_lst->payload, one.packet.total_len);
            len += one.packet.total_len;
            must(free_one(&one) == 0, "free", __LINE__);
        }
    }
    printf("%zu octets: %s\n", len, text);
    return seen;
}

static void streams(void)
{
    look_for_it();
    struct sockaddr_in peer = address(PEER, PORT), self = address(SELF, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    say("none yet", api->get_socket_rings_num(fd));
    MUST(bind(fd, generic(&self), sizeof self));
    int ring = ring_of(fd);
    int started = connect(fd, generic(&peer), sizeof peer);
    must(started == 0 || errno == EINPROGRESS, "connect", __LINE__);
    uint64_t seen = gather(ring, 0, EPOLLOUT);
    printf("connected %d\n", (seen & EPOLLOUT) != 0);
    must(send(fd, "question", 8, 0) == 8, "send", __LINE__);
    gather(ring, 8, 0);
    say_recv("recv", fd, 64, 0);
    must(send(fd, "again", 5, 0) == 5, "send", __LINE__);
    gather(ring, 5, 0);
    /* Or by calls. */
    must(send(fd, "by a call", 9, 0) == 9, "send", __LINE__);
    await_octets(fd, 9);
    say_recv("recv", fd, 64, 0);
    struct vma_completion_t none;
    say("not by the ring", api->socketxtreme_poll(ring, &none, 1, 0));
    MUST(shutdown(fd, SHUT_WR));
    seen = gather(ring, 0, EPOLLRDHUP | EPOLLIN);
    printf("the end %d\n", (seen & (EPOLLRDHUP | EPOLLIN)) == (EPOLLRDHUP | EPOLLIN));
    close(fd);
}

/* Connections are accepted without a call. */
static void accepted_by_ring(void)
{
    look_for_it();
    struct sockaddr_in self = address(SELF, 0), name;
    socklen_t len = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0), count = 0;
    struct vma_completion_t one = {0};
    MUST(bind(listener, generic(&self), sizeof self));
    int ring = ring_of(listener);
    MUST(listen(listener, 5));
    have_one_asked_for(listener);
    double end = now_sec() + 5;
    while (count < 1 && now_sec() < end)
        if (api->socketxtreme_poll(ring, &one, 1, 0) == 1 && one.events & VMA_SOCKETXTREME_NEW_CONNECTION_ACCEPTED)
            count++;
    printf("accepted %d, by the listener %d, of %s\n", count, one.listen_fd == listener, inet_ntoa(one.src.sin_addr));
    int fd = (int)one.user_data;
    say("its peer", getpeername(fd, (struct sockaddr *)&name, &len));
    printf("the same %d\n", name.sin_port == one.src.sin_port);
    gather(ring, 1, 0);
    must(send(fd, "hello", 5, 0) == 5, "send", __LINE__);
    gather(ring, 5, 0);
    close(fd);
    close(listener);
}

/* Many, and more than there are frames; the window of a stream reopens. */
static void many(void)
{
    enum { COUNT = 6000 };
    static struct vma_completion_t held[COUNT];
    look_for_it();
    int fd = bound(), taken = 0, wrong = 0, size = 1 << 22;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    int ring = ring_of(fd);
    for (int i = 0; i < COUNT / 20; i++) {
        ask(fd, 20, 20);
        double end = now_sec() + 5;
        while (taken < (i + 1) * 20 && now_sec() < end)
            taken += api->socketxtreme_poll(ring, held + taken, 32, 0);
    }
    for (int i = 0; i < taken; i++)
        wrong += held[i].packet.total_len != 20 || *(char *)held[i].packet.buff_lst->payload != 'a' + i % 20;
    printf("taken %d, wrong %d\n", taken, wrong);
    for (int i = 0; i < taken; i++)
        wrong += free_one(&held[i]) != 0;
    printf("freed, wrong %d\n", wrong);
    ask(fd, 1, 20);
    printf("one more %d\n", take(ring, 1));
}

/* Threads free what others have taken, and each other's again; a child has copies. */
static int shared_ring;
static _Atomic int total, freed;

static void *take_and_free(void *argument)
{
    (void)argument;
    double end = now_sec() + 3;
    while (total < 2000 && now_sec() < end) {
        struct vma_completion_t some[8];
        int found = api->socketxtreme_poll(shared_ring, some, 8, 0);
        for (int i = 0; i < found; i++) {
            total++;
            freed += free_one(&some[i]) == 0;
            free_one(&some[i]);
        }
    }
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t all[THREADS];
    look_for_it();
    int fd = bound(), size = 1 << 22, status;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    shared_ring = ring_of(fd);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&all[i], NULL, take_and_free, NULL) == 0, "a thread", __LINE__);
    for (int i = 0; i < 100; i++) {
        ask(fd, 20, 20);
        sleep_msec(1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    printf("taken %d\n", total);
    ask(fd, 1, 20);
    take(shared_ring, 1);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        free_one(&completions[0]);
        api->socketxtreme_poll(shared_ring, completions + 1, 8, 0);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    printf("child %d\n", status);
    printf("still %.8s\n", (char *)completions[0].packet.buff_lst->payload);
    say("free", free_one(&completions[0]));
}

CASES({"datagrams", datagrams}, {"plain", plain}, {"streams", streams}, {"accepted", accepted_by_ring}, {"many", many}, {"threads", threads})
