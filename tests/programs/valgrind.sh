# memcheck sees no error in a program with sockets that it does not have without the library.
cat >program.c <<'END'
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7)}, from;
    inet_aton(getenv("PEER"), &to.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    for (int i = 0; i < 5; i++) {
        char *text = malloc(100), *answer = malloc(100);
        snprintf(text, 100, "datagram %d", i);
        sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof to);
        struct epoll_event ready;
        struct pollfd polled = {fd, POLLIN, 0};
        int count = i % 2 ? poll(&polled, 1, 30000) : epoll_wait(set, &ready, 1, 30000);
        socklen_t len = sizeof from;
        ssize_t got = recvfrom(fd, answer, 100, 0, (struct sockaddr *)&from, &len);
        printf("%d %zd %.*s %u\n", count, got, (int)got, answer, len);
        if (i == 4 && answer[0] == 'd' && memcmp(text, answer, strlen(text)) == 0)
            printf("the same\n");
        free(text);
        free(answer);
    }
    close(fd);
    close(set);
    return 0;
}
END
gcc -g -o program program.c
valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite ./program

# Signals that come while a call is being made are delivered, although valgrind does not heed the mask that a handler leaves.
cat >signals.c <<'END'
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
static volatile int count;
static void handled(int number) { count += number == SIGALRM; }
int main(void)
{
    struct sigaction action = {.sa_handler = handled};
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7)};
    inet_aton(getenv("PEER"), &to.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    connect(fd, (struct sockaddr *)&to, sizeof to);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (char octet; count < 200;)
        recv(fd, &octet, 1, MSG_DONTWAIT);
    printf("all signals\n");
    return 0;
}
END
gcc -g -o signals signals.c
valgrind -q --tool=none ./signals
