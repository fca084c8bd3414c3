/* Calls that move data without a buffer of the program's, or with more arguments than a socket has a use for. */
#include "case.h"
#include <aio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

static int works(int fd, int len)
{
    set_timeout(fd, 2000);
    ask(fd, 1, len);
    return (int)say_recv("  recv", fd, 64, 0);
}

static int connected(void)
{
    int fd = bound();
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(connect(fd, generic(&peer), sizeof peer));
    set_timeout(fd, 2000);
    return fd;
}

/* What the peer says of each datagram that it has got. */
static void say_reports(int fd, int count)
{
    for (int i = 0; i < count; i++) {
        char report[64] = "";
        if (recv(fd, report, sizeof report - 1, 0) < 0) {
            say("report", -1);
            return;
        }
        printf("  %s\n", report);
    }
    set_timeout(fd, 100);
    char byte;
    say("no further report", recv(fd, &byte, 1, 0));
    set_timeout(fd, 2000);
}

static void say_pipe(int pipe, size_t room)
{
    char buffer[256] = "";
    say("  from the pipe", read(pipe, buffer, room));
    printf("  %.8s\n", buffer);
}

static int file_of(size_t len)
{
    int file = memfd_create("letters", 0);
    MUST(file);
    for (size_t i = 0; i < len; i++) {
        char letter = (char)('a' + i % 26);
        MUST(write(file, &letter, 1));
    }
    MUST(lseek(file, 0, SEEK_SET));
    return file;
}

static void offsets(void)
{
    int fd = connected();
    char buffer[64] = "", more[64] = "";
    struct iovec parts[2] = {{buffer, 8}, {more, 60}};
    have(fd, 6, 20);
    say("pread", pread(fd, buffer, 8, 0));
    say("pwrite", pwrite(fd, buffer, 8, 0));
    say("preadv", preadv(fd, parts, 2, 0));
    say("pwritev", pwritev(fd, parts, 2, 0));
    say("preadv at -1", preadv(fd, parts, 2, -1));
    say("preadv2 at 0", preadv2(fd, parts, 2, 0, 0));
    say("preadv2 at -2", preadv2(fd, parts, 2, -2, 0));
    say("preadv2", preadv2(fd, parts, 2, -1, 0));
    printf("  %.8s %.12s\n", buffer, more);
    say("preadv2 of nothing", preadv2(fd, parts, 0, -1, 0));
    say("preadv2 with RWF_NOWAIT", preadv2(fd, parts, 1, -1, RWF_NOWAIT));
    printf("  %.8s\n", buffer);
    say("preadv2 with unknown flags", preadv2(fd, parts, 2, -1, 1 << 30));
    say("preadv2 with RWF_HIPRI", preadv2(fd, parts, 2, -1, RWF_HIPRI));
    printf("  %.8s %.12s\n", buffer, more);
    for (int i = 0; i < 3; i++)
        say_recv("recv", fd, 64, MSG_DONTWAIT);
    say("preadv2 with RWF_NOWAIT, empty", preadv2(fd, parts, 1, -1, RWF_NOWAIT));
    memcpy(buffer, "eight by", 8);
    parts[1] = (struct iovec){"and ten more", 12};
    say("pwritev2", pwritev2(fd, parts, 2, -1, 0));
    say_reports(fd, 1);
    say("pwritev2 with RWF_NOWAIT", pwritev2(fd, parts, 2, -1, RWF_NOWAIT));
    say_reports(fd, 1);
    say("pwritev2 at 0", pwritev2(fd, parts, 2, 0, 0));
    works(fd, 10);
}

/* Datagrams that have come already, and later ones. */
static void splice_from(void)
{
    int fd = bound(), pipes[2];
    MUST(pipe(pipes));
    have(fd, 4, 20);
    say_recv("recv", fd, 64, 0);
    for (int i = 0; i < 2; i++) {
        say("splice", splice(fd, NULL, pipes[1], NULL, i ? 8 : 64, 0));
        say_pipe(pipes[0], 64);
    }
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    say("splice, empty", splice(fd, NULL, pipes[1], NULL, 64, SPLICE_F_NONBLOCK));
    MUST(fcntl(fd, F_SETFL, 0));
    ask_for(fd, 1, 30, 100, 0, 0);
    say("blocking splice", splice(fd, NULL, pipes[1], NULL, 64, 0));
    say_pipe(pipes[0], 64);
    loff_t offset = 0;
    say("splice with an offset", splice(fd, &offset, pipes[1], NULL, 64, 0));
    say("splice without a pipe", splice(fd, NULL, fd, NULL, 64, 0));
    works(fd, 12);
}

/* Nearly as much as the kernel's buffer holds by default. */
static void splice_many(void)
{
    enum { COUNT = 250 };
    int fd = bound(), pipes[2], wrong = 0, got = 0;
    MUST(pipe(pipes));
    for (int i = 0; i < COUNT / 50; i++)
        have(fd, 50, 26);
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    for (int i = 0; i < COUNT; i++) {
        char buffer[64] = "";
        if (splice(fd, NULL, pipes[1], NULL, 64, SPLICE_F_NONBLOCK) != 26)
            break;
        got++;
        MUST(read(pipes[0], buffer, 26));
        wrong += buffer[0] != 'a' + i % 50 % 26;
    }
    printf("spliced %d, %d out of order\n", got, wrong);
}

static void splice_to(void)
{
    int fd = connected(), pipes[2];
    MUST(pipe(pipes));
    works(fd, 10);
    MUST(write(pipes[1], "spliced data", 12));
    say("splice", splice(pipes[0], NULL, fd, NULL, 64, 0));
    say_reports(fd, 1);
    MUST(send(fd, "after", 5, 0));
    say_reports(fd, 1);
    MUST(write(pipes[1], "one", 3));
    say("splice with more to come", splice(pipes[0], NULL, fd, NULL, 3, SPLICE_F_MORE));
    MUST(send(fd, "two", 3, 0));
    say_reports(fd, 1);
    int alone = udp();
    MUST(write(pipes[1], "lost", 4));
    say("splice to an unconnected socket", splice(pipes[0], NULL, alone, NULL, 4, 0));
    works(fd, 12);
}

static void sendfile_to(void)
{
    int fd = connected(), file = file_of(5000);
    works(fd, 10);
    say("sendfile", sendfile(fd, file, NULL, 100));
    say_reports(fd, 1);
    printf("position %ld\n", (long)lseek(file, 0, SEEK_CUR));
    off_t offset = 50;
    say("sendfile from an offset", sendfile(fd, file, &offset, 200));
    printf("position %ld offset %ld\n", (long)lseek(file, 0, SEEK_CUR), (long)offset);
    say_reports(fd, 1);
    offset = 4990;
    say("sendfile beyond the end", sendfile(fd, file, &offset, 100));
    printf("offset %ld\n", (long)offset);
    MUST(send(fd, "after", 5, 0));
    char report[64];
    int reports = 0;
    set_timeout(fd, 300);
    while (recv(fd, report, sizeof report, 0) > 0)
        reports++;
    printf("reports %d\n", reports);
    offset = -1;
    say("sendfile from before the beginning", sendfile(fd, file, &offset, 1));
    say("sendfile of nothing", sendfile(fd, file, NULL, 0));
    works(fd, 11);
}

static void sendfile_from(void)
{
    int fd = bound(), file = file_of(0), pipes[2];
    MUST(pipe(pipes));
    have(fd, 2, 20);
    say("sendfile to a file", sendfile(file, fd, NULL, 64));
    say_recv("recv", fd, 64, 0);
    say_recv("recv", fd, 64, 0);
    works(fd, 11);
}

/* Calls that no socket of this kind has. */
static void refused(void)
{
    int fd = bound(), pipes[2], file = file_of(10);
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    struct iovec part = {"vmsplice", 8};
    MUST(pipe(pipes));
    works(fd, 10);
    say("listen", listen(fd, 5));
    say("accept", accept(fd, (struct sockaddr *)&from, &len));
    say("accept4", accept4(fd, NULL, NULL, SOCK_CLOEXEC));
    say("tee from", tee(fd, pipes[1], 10, 0));
    say("tee to", tee(pipes[0], fd, 10, 0));
    say("vmsplice", vmsplice(fd, &part, 1, 0));
    say("copy_file_range", copy_file_range(file, NULL, fd, NULL, 10, 0));
    say("copy_file_range from", copy_file_range(fd, NULL, file, NULL, 10, 0));
    say("sockatmark", sockatmark(fd));
    say("isfdtype", isfdtype(fd, 0140000));
    say("getpeername", getpeername(fd, (struct sockaddr *)&from, &len));
    say("getsockname", getsockname(fd, (struct sockaddr *)&from, &len));
    say_address("self", &from, len);
    int error = -1;
    len = sizeof error;
    say("getsockopt", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    printf("error %d\n", error);
    say("lseek", lseek(fd, 0, SEEK_SET));
    say("ftruncate", ftruncate(fd, 0));
    say("fsync", fsync(fd));
    printf("mmap %d\n", mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    works(fd, 11);
}

/* The C library reads and writes past every hook. */
static void streams(void)
{
    int fd = connected();
    char line[64] = "";
    have(fd, 3, 20);
    say_recv("recv", fd, 64, 0);
    FILE *stream = fdopen(fd, "r+");
    setvbuf(stream, NULL, _IONBF, 0);
    printf("fread %zu\n", fread(line, 1, 20, stream));
    printf("  %.8s\n", line);
    printf("fread %zu\n", fread(line, 1, 20, stream));
    printf("  %.8s\n", line);
    ask_for(fd, 1, 20, 100, 0, 0);
    printf("blocking fread %zu\n", fread(line, 1, 20, stream));
    printf("  %.8s\n", line);
    fprintf(stream, "from a stream");
    fflush(stream);
    say_reports(fd, 1);
    dprintf(fd, "formatted %d", 7);
    say_reports(fd, 1);
    works(fd, 10);
    say("fclose", fclose(stream));
    int fresh = bound();
    printf("same number %d\n", fresh == fd);
    works(fresh, 11);
}

static void asynchronous(void)
{
    int fd = bound();
    char buffer[64] = "", other[64] = "";
    struct aiocb control = {.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = sizeof buffer};
    struct aiocb second = {.aio_fildes = fd, .aio_buf = other, .aio_nbytes = sizeof other, .aio_lio_opcode = LIO_READ};
    const struct aiocb *waited[] = {&control};
    struct aiocb *list[] = {NULL, &second};
    have(fd, 3, 20);
    say("aio_read", aio_read(&control));
    MUST(aio_suspend(waited, 1, NULL));
    say("aio_return", aio_return(&control));
    printf("  %.8s\n", buffer);
    say("lio_listio", lio_listio(LIO_WAIT, list, 2, NULL));
    say("aio_return", aio_return(&second));
    printf("  %.8s\n", other);
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    works(fd, 10);
}

CASES({"offsets", offsets}, {"splice_from", splice_from}, {"splice_many", splice_many}, {"splice_to", splice_to},
      {"sendfile_to", sendfile_to}, {"sendfile_from", sendfile_from}, {"refused", refused}, {"streams", streams},
      {"asynchronous", asynchronous})
