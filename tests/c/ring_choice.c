// Sockets that choose their rings (SO_VMA_RING_ALLOC_LOGIC) send datagrams in turn; then it waits for its input to end.
// Arguments: the peer's address, the port for datagrams, the port of the echo of streams, datagrams of each socket.
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SO_VMA_RING_ALLOC_LOGIC = 2810, PER_SOCKET = 10, PER_USER_ID = 11 };
enum { PROFILE_COUNTS = 1, ID_COUNTS = 2, INGRESS_COUNTS = 4, EGRESS_COUNTS = 8 };
enum { SOCKETS = 5, ECHOES = 100 };

struct ring_logic {
    uint32_t counts, logic, profile, id;
    uint32_t ingress : 1, egress : 1, reserved : 30;
};

static const struct ring_logic of_its_own = {INGRESS_COUNTS | EGRESS_COUNTS, PER_SOCKET, 0, 0, 1, 1, 0},
                               seven = {ID_COUNTS | EGRESS_COUNTS, PER_USER_ID, 0, 7, 0, 1, 0},
                               nine = {ID_COUNTS | EGRESS_COUNTS, PER_USER_ID, 0, 9, 0, 1, 0};

static struct sockaddr_in peer;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void choose(int fd, const struct ring_logic *logic) {
    if (setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, logic, sizeof *logic) != 0)
        fail("setsockopt");
}

static void refuses(int fd, const void *value, socklen_t len, int expected) {
    int result = setsockopt(fd, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, value, len);
    if (result == 0 || errno != expected) {
        fprintf(stderr, "result %d, errno %d, not %d\n", result, errno, expected);
        exit(1);
    }
}

static void connect_to(int fd, int port) {
    peer.sin_port = htons(port);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0)
        fail("connect");
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    peer.sin_family = AF_INET;
    inet_pton(AF_INET, argv[1], &peer.sin_addr);
    int fds[SOCKETS], stream = socket(AF_INET, SOCK_STREAM, 0), pipes[2];
    for (int i = 0; i < SOCKETS; i++)
        fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
    struct ring_logic wrong = of_its_own;
    wrong.counts |= PROFILE_COUNTS;
    refuses(fds[0], &wrong, sizeof wrong, EINVAL);
    refuses(fds[0], &of_its_own, sizeof of_its_own - 1, EINVAL);
    refuses(fds[0], NULL, sizeof of_its_own, EINVAL);
    refuses(fds[0], (void *)8, sizeof of_its_own, EFAULT);
    if (pipe(pipes) != 0)
        fail("pipe");
    refuses(pipes[0], &of_its_own, sizeof of_its_own, ENOTSOCK);

    choose(stream, &nine);
    choose(fds[1], &of_its_own);
    choose(fds[2], &seven);
    choose(fds[3], &seven);
    connect_to(stream, atoi(argv[3]));
    for (int i = 0; i < ECHOES; i++) {
        char octet = (char)i, back;
        if (send(stream, &octet, 1, 0) != 1 || recv(stream, &back, 1, 0) != 1 || back != octet)
            fail("echo");
    }
    int count = atoi(argv[4]);
    for (int i = 0; i < SOCKETS; i++)
        connect_to(fds[i], atoi(argv[2]));
    // One that has sent already moves.
    if (send(fds[4], "", 1, 0) != 1)
        fail("send");
    choose(fds[4], &of_its_own);
    for (int number = 0; number < count; number++)
        for (int i = 0; i < SOCKETS; i++)
            if (send(fds[i], &number, sizeof number, 0) != sizeof number)
                fail("send");
    puts("sent");
    fflush(stdout);
    char end;
    return read(STDIN_FILENO, &end, 1) == 0 ? 0 : 1;
}
