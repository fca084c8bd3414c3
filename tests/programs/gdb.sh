# Breakpoints, an inferior call and a crash in a program with a socket.
cat >program.c <<'END'
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static int ask(int fd, const char *text)
{
    char answer[100];
    send(fd, text, strlen(text), 0);
    return (int)recv(fd, answer, sizeof answer, 0);
}
int main(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7)};
    inet_aton(getenv("PEER"), &to.sin_addr);
    connect(fd, (struct sockaddr *)&to, sizeof to);
    for (int i = 0; i < 4; i++)
        printf("%d\n", ask(fd, "datagram"));
    fflush(stdout);
    abort();
}
END
gcc -g -o program program.c
gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set print thread-events off' -ex 'break program.c:ask' -ex run -ex 'print text' -ex delete -ex 'print ask(fd, "inferior call")' \
    -ex continue -ex 'frame function main' -ex 'print i' -ex kill ./program 2>gdb.log |
    grep -v 'libthread_db\|^\[\|^$' | sed "s:$HOME::; s/^Thread 1 .* hit //; s/^Thread 1 .program./Program/; s/0x[0-9a-f]*/0x/"
