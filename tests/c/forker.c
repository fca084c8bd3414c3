/* forker <ip> <port> <children>: receives numbered datagrams and answers every tenth, while it starts that many children in
 * every way there is. Says what it received when a datagram says "end". Ends when its standard input does. */
#include "case.h"
#include <spawn.h>

extern char **environ;

static pid_t start_child(int way)
{
    char *const arguments[] = {"true", NULL};
    pid_t child = -1;
    switch (way % 5) {
    case 0:
        child = fork();
        if (child == 0) {
            for (int number = 3; number < 1100; number++)
                close(number);
            execv("/bin/true", arguments);
            _exit(1);
        }
        return child;
    case 1:
        child = vfork();
        if (child == 0) {
            execvp("true", arguments);
            _exit(1);
        }
        return child;
    case 2:
        errno = posix_spawnp(&child, "true", NULL, NULL, arguments, environ);
        return errno == 0 ? child : -1;
    case 3:
        child = fork();
        if (child == 0)
            exit(0);
        return child;
    default:
        return system("true") == 0 ? 0 : -1;
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int fd = bound_to(argv[1], atoi(argv[2])), wanted = atoi(argv[3]), children = 0, alive = 0, failed = 0;
    char buffer[64] = "";
    long received = 0, twice = 0;
    static char seen[1 << 20];
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        ssize_t len = recvfrom(fd, buffer, sizeof buffer - 1, 0, (struct sockaddr *)&from, &from_len);
        MUST(len);
        buffer[len] = 0;
        if (strcmp(buffer, "end") == 0)
            break;
        int number = atoi(buffer) & ((1 << 20) - 1);
        twice += seen[number]++;
        if (++received % 10 == 0)
            MUST(sendto(fd, "ten", 3, 0, generic(&from), from_len));
        if (received % 50 == 0 && children < wanted) {
            pid_t child = start_child(children++);
            MUST(child);
            alive += child > 0;
        }
        int status;
        while (alive > 0 && waitpid(-1, &status, WNOHANG) > 0) {
            alive--;
            failed += status != 0;
        }
    }
    for (int status; alive > 0 && waitpid(-1, &status, 0) > 0; alive--)
        failed += status != 0;
    printf("received %ld twice %ld children %d failed %d\n", received, twice, children, failed);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
