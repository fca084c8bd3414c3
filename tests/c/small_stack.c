// Opens the process's first socket on a thread with a stack of so many bytes. Arguments: own address, bytes.
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct sockaddr_in own = {.sin_family = AF_INET};

static void *use_socket(void *unused) {
    (void)unused;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    long result = bind(fd, (struct sockaddr *)&own, sizeof own);
    struct timeval timeout = {.tv_usec = 50000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    char byte;
    recv(fd, &byte, 1, 0);
    close(fd);
    return (void *)result;
}

int main(int argc, char **argv) {
    if (argc != 3 || inet_pton(AF_INET, argv[1], &own.sin_addr) != 1)
        return 2;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t thread;
    void *result;
    if (pthread_attr_setstacksize(&attributes, strtoul(argv[2], NULL, 10)) != 0 ||
        pthread_create(&thread, &attributes, use_socket, NULL) != 0 || pthread_join(thread, &result) != 0)
        return 1;
    printf("bound: %ld\n", (long)result);
    return 0;
}
