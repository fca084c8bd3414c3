// Connections that a program has closed, and whose peers have not.
//
//   closes serve|connect <address> <port> <count>
//
// The program may have 120 descriptors. It makes so many connections one after the other, as a server or as a client, and closes each.
// Then it says how many other files it can have; and when it is told to (a line), whether it has many descriptors still.
//
//   closes answer|first|last <address> <port> <count>
//
// A server that answers each connection, and a client that connects to it again and again by the same port of its own, and closes
// before the server or after it.
#include "case.h"
#include <dirent.h>

#define LIMIT 120
#define FILES 60
#define LONG_ANSWER 100000

static struct sockaddr_in place;

static int listening(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    MUST(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(fd, generic(&place), sizeof place));
    MUST(listen(fd, 64));
    return fd;
}

static int served(int listener)
{
    static char answer[LONG_ANSWER];
    int fd = accept(listener, NULL, NULL), room = 4 * LONG_ANSWER;
    if (fd < 0)
        return -1;
    char asked = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room));
    MUST(recv(fd, &asked, 1, 0));
    size_t len = asked == 'l' ? sizeof answer : 1;
    memset(answer, 'y', sizeof answer);
    must(send(fd, answer, len, MSG_NOSIGNAL) == (ssize_t)len, "send", __LINE__);
    return close(fd);
}

static int connected(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        return -1;
    char octet = 'x';
    MUST(connect(fd, generic(&place), sizeof place));
    MUST(send(fd, &octet, 1, MSG_NOSIGNAL));
    must(recv(fd, &octet, 1, 0) == 1, "recv", __LINE__);
    return close(fd);
}

static void answered(int listener)
{
    int fd = accept(listener, NULL, NULL);
    char how = 0, end;
    MUST(fd);
    MUST(recv(fd, &how, 1, 0));
    must(send(fd, "r", 1, MSG_NOSIGNAL) == 1, "send", __LINE__);
    if (how == 'f')
        must(recv(fd, &end, 1, 0) == 0, "recv", __LINE__);
    MUST(close(fd));
}

#define OWN_PORT 6001

/* 0, or why not. */
static int connected_again(char how)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, failed = 0;
    MUST(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    struct sockaddr_in self = address(PEER, OWN_PORT);
    char octets[2] = {how};
    if (bind(fd, generic(&self), sizeof self) < 0 || connect(fd, generic(&place), sizeof place) < 0)
        failed = errno;
    else if (send(fd, octets, 1, MSG_NOSIGNAL) != 1 || recv(fd, octets, 1, 0) != 1)
        failed = errno;
    else if (how == 'l' && recv(fd, octets, 1, 0) != 0)
        failed = errno;
    MUST(close(fd));
    // The other side has to hear of the end first, and may have to wait for a CPU.
    sleep_msec(20);
    return failed;
}

static int again(const char *how, int count)
{
    if (strcmp(how, "answer") == 0) {
        int listener = listening();
        printf("ready\n");
        while (count-- > 0)
            answered(listener);
        return 0;
    }
    for (int number = 0; number < count; number++) {
        int failed = connected_again(*how);
        if (failed)
            printf("%d: %s\n", number, strerrorname_np(failed));
    }
    return 0;
}

static int descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    must(directory != NULL, "opendir", __LINE__);
    int count = 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct rlimit limit = {LIMIT, LIMIT};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    place = address(argv[2], atoi(argv[3]));
    if (strcmp(argv[1], "serve") != 0 && strcmp(argv[1], "connect") != 0)
        return again(argv[1], atoi(argv[4]));
    int serves = strcmp(argv[1], "serve") == 0, count = atoi(argv[4]), done = 0;
    int listener = serves ? listening() : -1;
    printf("ready\n");
    /* With one connection the library has all that are its own. */
    int own = 0;
    while (done < count && (serves ? served(listener) : connected()) == 0)
        if (done++ == 0)
            own = descriptors();
    printf("%d connections\n", done);
    int files[FILES], opened = 0;
    while (opened < FILES && (files[opened] = open("/dev/null", O_RDONLY)) >= 0)
        opened++;
    printf("%d files\n", opened);
    while (opened > 0)
        close(files[--opened]);
    char line[9];
    must(fgets(line, sizeof line, stdin) != NULL, "fgets", __LINE__);
    int still = descriptors();
    printf("%s descriptors\n", still < own + 10 ? "few" : "many");
    fprintf(stderr, "%d descriptors, %d at first\n", still, own);
    return 0;
}
