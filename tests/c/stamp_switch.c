// Sockets that ask for time stamps, and stop doing so in every way, as the letters on standard input say; the number of each is answered.
// One more socket never asks.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/net_tstamp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

static int bound(void) {
    struct sockaddr_in here = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    must(inet_pton(AF_INET, "10.77.0.2", &here.sin_addr), "inet_pton");
    must(bind(fd, (struct sockaddr *)&here, sizeof here), "bind");
    return fd;
}

static void ask(int fd, int name, int value) { must(setsockopt(fd, SOL_SOCKET, name, &value, sizeof value), "setsockopt"); }

// A child takes from the socket, which is the kernel's from there on.
static void share(int fd) {
    pid_t child = fork();
    must(child, "fork");
    if (child == 0) {
        char byte;
        recv(fd, &byte, 1, MSG_DONTWAIT);
        _exit(0);
    }
    must(waitpid(child, NULL, 0), "waitpid");
}

int main(void) {
    int silent = bound(), first = bound(), second = bound(), letter, count = 0;
    printf("bound\n");
    fflush(stdout);
    while ((letter = getchar()) != EOF) {
        switch (letter) {
        case 'a': ask(first, SO_TIMESTAMPNS, 1); break;
        case 'b': ask(second, SO_TIMESTAMP, 1); break;
        case 'h': ask(first, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE); break;
        case 'o': ask(second, SO_TIMESTAMP, 0); break;
        case 'c': must(close(first), "close"); break;
        case 'r': first = bound(); break;
        case 'f': share(second); break;
        default: continue;
        }
        printf("did %d\n", ++count);
        fflush(stdout);
    }
    return close(silent);
}
