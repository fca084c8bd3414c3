/* Network namespaces: a socket belongs to that in which it was made, wherever its thread is later. */
#include "case.h"
#include <sched.h>

static int old_namespace = -1;

static void leave(void)
{
    old_namespace = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    MUST(old_namespace);
    MUST(unshare(CLONE_NEWNET));
}

static void go_back(void)
{
    MUST(setns(old_namespace, CLONE_NEWNET));
}

/* What the peer sends to our address at `port` from here on does not reach `fd`. */
static void say_silence(const char *what, int asking, int fd, int port)
{
    set_timeout(fd, 300);
    ask_for(asking, 3, 20, 0, 0, port);
    say_recv(what, fd, 64, 0);
}

/* After the library has begun its work, the thread leaves, and binds a socket where it is now. */
static void left_after_the_first_socket(void)
{
    int first = bound();
    set_timeout(first, 5000);
    ask(first, 1, 20);
    say_recv("first", first, 64, 0);
    leave();

    int second = bound_to("0.0.0.0", 7777);
    say_silence("second", first, second, 7777);
    struct sockaddr_in peer = address(PEER, PEER_PORT), self = address(SELF, 7778);
    say("send", sendto(second, "x", 1, 0, generic(&peer), sizeof peer));
    say("connect", connect(second, generic(&peer), sizeof peer));
    say("address of the old one", bind(udp(), generic(&self), sizeof self));

    /* The first one is where it was. */
    ask(first, 1, 30);
    say_recv("first, from elsewhere", first, 64, 0);
    struct sockaddr_in none = {.sin_family = AF_UNSPEC};
    MUST(connect(first, generic(&peer), sizeof peer));
    say("connected", send(first, "S 1 40 0 0 0", 12, 0));
    say_recv("connected", first, 64, 0);
    MUST(connect(first, generic(&none), sizeof none));

    go_back();
    int third = bound_to("0.0.0.0", 7779);
    set_timeout(third, 5000);
    ask(third, 1, 50);
    say_recv("third", third, 64, 0);
}

/* The socket is made before the thread leaves, and bound where the thread is then. */
static void bound_from_elsewhere(void)
{
    int first = udp(), helper = bound();
    leave();
    struct sockaddr_in self = address(SELF, 7780);
    say("bind", bind(first, generic(&self), sizeof self));
    set_timeout(first, 5000);
    ask(first, 1, 20);
    say_recv("first", first, 64, 0);
    go_back();
    ask_for(helper, 1, 30, 0, 0, 7780);
    say_recv("first, asked for by another", first, 64, 0);
}

static void *make_a_socket(void *made)
{
    MUST(unshare(CLONE_NEWNET));
    *(int *)made = bound_to("0.0.0.0", 7781);
    return NULL;
}

/* A thread that is elsewhere makes the socket; one that is not uses it. */
static void made_by_another_thread(void)
{
    int made = -1, helper = bound();
    set_timeout(helper, 5000);
    ask(helper, 1, 10);
    say_recv("helper", helper, 64, 0);
    pthread_t thread;
    must(pthread_create(&thread, NULL, make_a_socket, &made) == 0, "pthread_create", __LINE__);
    pthread_join(thread, NULL);
    say_silence("made elsewhere", helper, made, 7781);
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    say("send", sendto(made, "x", 1, 0, generic(&peer), sizeof peer));
}

CASES({"left_after_the_first_socket", left_after_the_first_socket}, {"bound_from_elsewhere", bound_from_elsewhere},
      {"made_by_another_thread", made_by_another_thread})
