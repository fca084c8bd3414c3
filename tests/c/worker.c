/* worker <ip> <port>: opens a socket whose datagrams children answer, each with its letter in front. Lines of standard input say what
 * else happens:
 *   fork       another child answers (the first one does from the beginning)
 *   kill       the youngest child is killed
 *   stop, go   the youngest child is stopped, goes on
 *   receive N  the parent answers N datagrams
 *   poll MSEC  the parent waits for a datagram
 *   epoll      the parent puts the socket into a set
 *   option     the parent sets an option
 * Each is followed by a line that says "done". */
#include "case.h"
#include <sys/epoll.h>

static int fd;

/* Whether there was one. */
static int answer(char letter)
{
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    char buffer[65];
    buffer[0] = letter;
    ssize_t len = recvfrom(fd, buffer + 1, sizeof buffer - 1, 0, (struct sockaddr *)&from, &from_len);
    if (len < 0)
        return 0;
    MUST(sendto(fd, buffer, (size_t)len + 1, 0, generic(&from), from_len));
    return 1;
}

static pid_t start_child(char letter)
{
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(0);
        alarm(100);
        for (;;)
            answer(letter);
    }
    printf("child %d\n", child);
    return child;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    fd = bound_to(argv[1], atoi(argv[2]));
    char letter = 'a', line[64];
    pid_t child = start_child(letter);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        int number = 0, status;
        long result = 0;
        if (strcmp(line, "fork\n") == 0) {
            child = start_child(++letter);
        } else if (strcmp(line, "kill\n") == 0) {
            MUST(kill(child, SIGKILL));
            MUST(waitpid(child, &status, 0));
        } else if (strcmp(line, "stop\n") == 0) {
            MUST(kill(child, SIGSTOP));
            MUST(waitpid(child, &status, WUNTRACED));
        } else if (strcmp(line, "go\n") == 0) {
            MUST(kill(child, SIGCONT));
        } else if (sscanf(line, "receive %d", &number) == 1) {
            while (number-- > 0)
                result += answer('P');
        } else if (sscanf(line, "poll %d", &number) == 1) {
            struct pollfd polled = {fd, POLLIN, 0};
            result = poll(&polled, 1, number);
        } else if (strcmp(line, "epoll\n") == 0) {
            struct epoll_event event = {.events = EPOLLIN};
            int set = epoll_create1(0);
            MUST(set);
            MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
        } else if (strcmp(line, "option\n") == 0) {
            number = 1;
            MUST(setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &number, sizeof number));
        } else {
            return 3;
        }
        printf("done %ld\n", result);
        fflush(stdout);
    }
    MUST(kill(child, SIGKILL));
    return 0;
}
