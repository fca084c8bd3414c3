// Connections that a program has closed, and whose peers have not.
//
//   closes serve|connect <address> <port> <count>
//
// The program may have 120 descriptors. It makes so many connections one after the other, as a server or as a client, and closes each.
// Then it says how many other files it can have; and when it is told to (a line), whether it has many descriptors still.
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
    int serves = strcmp(argv[1], "serve") == 0, count = atoi(argv[4]), done = 0;
    int listener = serves ? listening() : -1;
    printf("ready\n");
    while (done < count && (serves ? served(listener) : connected()) == 0)
        done++;
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
    printf("%s descriptors\n", still < 50 ? "few" : "many");
    fprintf(stderr, "%d descriptors\n", still);
    return 0;
}
