// Threads with sockets of their own send numbered datagrams and stream data that is echoed; then it waits for its input to end.
// Arguments: the peer's address, the port for datagrams of the first socket (each has the next one), the port of the echo of streams,
// threads, sockets of each thread, datagrams of each socket.
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKETS_MAX = 8, ECHOES = 100, ECHO_BYTES = 700 };

static struct sockaddr_in peer;
static int udp_port, tcp_port, threads, sockets;
static uint32_t count;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int connected(int type, int port) {
    struct sockaddr_in address = peer;
    address.sin_port = htons(port);
    int fd = socket(AF_INET, type, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    return fd;
}

static void echo(int fd, int round) {
    char out[ECHO_BYTES], in[ECHO_BYTES];
    memset(out, round, sizeof out);
    if (send(fd, out, sizeof out, 0) != sizeof out)
        fail("send");
    if (recv(fd, in, sizeof in, MSG_WAITALL) != sizeof in)
        fail("recv");
    if (memcmp(out, in, sizeof in) != 0) {
        fputs("another echo\n", stderr);
        exit(1);
    }
}

static void *use(void *argument) {
    int thread = (int)(intptr_t)argument, fds[SOCKETS_MAX];
    int stream = connected(SOCK_STREAM, tcp_port);
    // The peer's hardware address is known from here on.
    echo(stream, 0);
    for (int i = 0; i < sockets; i++)
        fds[i] = connected(SOCK_DGRAM, udp_port + thread * sockets + i);
    for (uint32_t number = 0; number < count; number++) {
        for (int i = 0; i < sockets; i++)
            if (send(fds[i], &number, sizeof number, 0) != sizeof number)
                fail("send");
        if (number % (count / ECHOES) == 0)
            echo(stream, (int)number);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    peer.sin_family = AF_INET;
    inet_pton(AF_INET, argv[1], &peer.sin_addr);
    udp_port = atoi(argv[2]);
    tcp_port = atoi(argv[3]);
    threads = atoi(argv[4]);
    sockets = atoi(argv[5]);
    count = strtoul(argv[6], NULL, 10);
    pthread_t started[SOCKETS_MAX];
    if (threads > SOCKETS_MAX || sockets > SOCKETS_MAX)
        return 2;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, use, (void *)(intptr_t)i) != 0)
            fail("pthread_create");
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    puts("sent");
    fflush(stdout);
    char end;
    return read(STDIN_FILENO, &end, 1) == 0 ? 0 : 1;
}
