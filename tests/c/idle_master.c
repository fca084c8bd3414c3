/* idle_master <ip> <port>: listens, and has two children that accept, each line sent back. The parent uses no socket any more. Ends
 * when its standard input does. */
#include "case.h"
#include <sys/prctl.h>

static void serve(int listener)
{
    char buffer[4096];
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        ssize_t len;
        while (fd >= 0 && (len = recv(fd, buffer, sizeof buffer, 0)) > 0)
            if (send(fd, buffer, (size_t)len, MSG_NOSIGNAL) != len)
                break;
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
        return 2;
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16))
        return 1;
    for (int worker = 0; worker < 2; worker++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve(listener);
        }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    while (getchar() != EOF) {
    }
    return 0;
}
