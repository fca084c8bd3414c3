/* The peer of stream_case.h's programs in a process of its own: it sends back what comes, and connects when it is asked to. */
#include "stream_case.h"

static void *send_back(void *argument)
{
    int fd = (int)(long)argument;
    static _Thread_local char octets[30000];
    for (;;) {
        ssize_t len = recv(fd, octets, sizeof octets, 0), done = 0;
        if (len <= 0)
            break;
        while (done < len) {
            ssize_t count = send(fd, octets + done, (size_t)(len - done), MSG_NOSIGNAL);
            if (count < 0)
                goto end;
            done += count;
        }
    }
    shutdown(fd, SHUT_WR);
end:
    close(fd);
    return NULL;
}

static void in_a_thread(int fd)
{
    pthread_t thread;
    pthread_create(&thread, NULL, send_back, (void *)(long)fd);
    pthread_detach(thread);
}

static void *accepts(void *nothing)
{
    struct sockaddr_in self = address(PEER, PORT);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    MUST(listener);
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 64));
    printf("ready\n");
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0)
            in_a_thread(fd);
    }
    return nothing;
}

int main(void)
{
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int asked = bound_to(PEER, PEER_PORT);
    pthread_create(&thread, NULL, accepts, NULL);
    for (;;) {
        char order[40] = "";
        struct sockaddr_storage from;
        socklen_t len = sizeof from;
        int port;
        ssize_t count = recvfrom(asked, order, sizeof order - 1, 0, (struct sockaddr *)&from, &len);
        if (count <= 0 || sscanf(order, "C %d", &port) != 1)
            continue;
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in to = address(SELF, port);
        if (connect(fd, generic(&to), sizeof to) == 0 && send(fd, "c", 1, MSG_NOSIGNAL) == 1)
            in_a_thread(fd);
        else
            close(fd);
    }
}
