/* churn <ip> <seconds>: opens and closes sockets on ports that others send to, from several threads; then says how many
 * datagrams it received and waits for the end of its standard input. */
#include "case.h"

#define THREADS 3
#define PORTS 32
#define FIRST_PORT 7400

static const char *ip;
static double until_sec;
static unsigned long received, opened;

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void *churn(void *seed)
{
    unsigned state = (unsigned)(long)seed;
    char buffer[2048];
    while (now_sec() < until_sec) {
        int fd = udp(), port = FIRST_PORT + (int)(next_random(&state) % PORTS), copy = -1;
        struct sockaddr_in self = address(next_random(&state) % 2 ? ip : "0.0.0.0", port), peer = address(PEER, PEER_PORT);
        if (bind(fd, generic(&self), sizeof self) < 0) {
            /* Another thread has the port. */
            must(errno == EADDRINUSE, "bind", __LINE__);
            MUST(close(fd));
            continue;
        }
        __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
        if (next_random(&state) % 4 == 0)
            copy = dup(fd);
        if (next_random(&state) % 4 == 0)
            MUST(connect(fd, generic(&peer), sizeof peer));
        for (unsigned i = next_random(&state) % 20; i > 0; i--) {
            struct pollfd polled = {fd, POLLIN, 0};
            MUST(poll(&polled, 1, 1));
            ssize_t len = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (len < 0)
                must(errno == EAGAIN || errno == ECONNREFUSED, "recv", __LINE__);
            /* A datagram is for the port that it was sent to, whoever had the descriptor before. */
            else if (len != 8 || atoi(buffer) != port)
                printf("FAILED: %zd bytes %.8s on port %d\n", len, buffer, port);
            else
                __atomic_fetch_add(&received, 1, __ATOMIC_RELAXED);
        }
        MUST(close(fd));
        if (copy >= 0) {
            recv(copy, buffer, sizeof buffer, MSG_DONTWAIT);
            MUST(close(copy));
        }
        /* The number is used for something else. */
        int file = open("/dev/null", O_RDWR);
        MUST(file);
        MUST(write(file, buffer, 8));
        must(read(file, buffer, 8) == 0, "read of /dev/null", __LINE__);
        MUST(close(file));
    }
    return NULL;
}

static int run(int seconds)
{
    pthread_t threads[THREADS];
    until_sec = now_sec() + seconds;
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    ip = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* The first round opens the device and whatever else stays open. */
    if (run(1) != 0)
        return 1;
    printf("warm\n");
    char line[16];
    if (!fgets(line, sizeof line, stdin))
        return 1;
    if (run(atoi(argv[2])) != 0)
        return 1;
    printf("opened %lu received %lu\n", opened, received);
    getchar();
    return 0;
}
