// TCP connections for tests of what is left of them: of a process that is killed, of addresses that are used again, of errors.
//
//   tcp_safety hold <address> <port> <connections>         opens connections, says hello on each, and waits to be killed
//   tcp_safety listen <address> <port> <connections>       accepts so many, and waits to be killed; others wait to be accepted

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in peer;

static void check(int ok, const char *what) {
    if (!ok) {
        printf("%s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static void say(const char *what) {
    puts(what);
    fflush(stdout);
}

static int new_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd >= 0, "socket");
    return fd;
}

static void hold(int connections) {
    for (int i = 0; i < connections; i++) {
        int fd = new_socket();
        check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
        check(send(fd, "hello", 5, 0) == 5, "send");
    }
    say("ready");
    for (;;) pause();
}

static void listens(int connections) {
    int fd = new_socket();
    check(bind(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "bind");
    check(listen(fd, 128) == 0, "listen");
    say("listens");
    for (int i = 0; i < connections; i++) {
        char hello[5];
        int connection = accept(fd, NULL, NULL);
        check(connection >= 0, "accept");
        check(recv(connection, hello, sizeof hello, MSG_WAITALL) == 5, "recv");
    }
    say("ready");
    for (;;) pause();
}

int main(int argc, char **argv) {
    check(argc == 5, "arguments");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    peer.sin_family = AF_INET;
    peer.sin_port = htons((uint16_t)atoi(argv[3]));
    check(inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1, "address");
    const char *name = argv[1];
    int number = atoi(argv[4]);
    if (!strcmp(name, "hold")) hold(number);
    else if (!strcmp(name, "listen")) listens(number);
    else check(0, "case");
    return 0;
}
