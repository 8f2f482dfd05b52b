/* Time, and frames on a connection: a byte for the kind, four for the size, and the data. Everything has a deadline. */
#include "pods.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEADER 5

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

int64_t wall(void) { return clock_ns(CLOCK_REALTIME); }

int64_t steady(void) { return clock_ns(CLOCK_MONOTONIC); }

void sleep_until(int64_t wall_time) {
    struct timespec until = {.tv_sec = (time_t)(wall_time / SECOND), .tv_nsec = (long)(wall_time % SECOND)};
    while (wall() < wall_time && clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

void put(unsigned char *field, int index, int64_t value) {
    for (int byte = 0; byte < 8; byte++)
        field[8 * index + byte] = (unsigned char)((uint64_t)value >> (56 - 8 * byte));
}

int64_t get(const unsigned char *field, int index) {
    uint64_t value = 0;
    for (int byte = 0; byte < 8; byte++)
        value = value << 8 | field[8 * index + byte];
    return (int64_t)value;
}

int await(int fd, short events, int64_t deadline) {
    for (;;) {
        int64_t left = deadline - steady();
        if (left <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        struct timespec wait = {.tv_sec = (time_t)(left / SECOND), .tv_nsec = (long)(left % SECOND)};
        struct pollfd one = {.fd = fd, .events = events};
        sigset_t none; /* what is blocked elsewhere may come here */
        sigemptyset(&none);
        int found = ppoll(&one, 1, &wait, &none);
        if (found > 0)
            return 0;
        if (found < 0 && (errno != EINTR || told_to_end))
            return -1;
    }
}

/* Send or receive all of `size` bytes. */
static int transfer(int fd, unsigned char *data, size_t size, int sending, int64_t deadline) {
    while (size > 0) {
        ssize_t done = sending ? send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, data, size, MSG_DONTWAIT);
        if (done > 0) {
            data += done;
            size -= (size_t)done;
        } else if (done == 0) {
            errno = ECONNRESET;
            return -1;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (await(fd, sending ? POLLOUT : POLLIN, deadline) != 0)
                return -1;
        } else if (errno != EINTR)
            return -1;
    }
    return 0;
}

int send_frame(int fd, int kind, const void *data, size_t size, int64_t deadline) {
    /* In one piece, since a header of its own would leave as a packet of its own. */
    unsigned char *whole = malloc(HEADER + size);
    if (!whole)
        return -1;
    whole[0] = (unsigned char)kind;
    for (int byte = 0; byte < 4; byte++)
        whole[1 + byte] = (unsigned char)(size >> (24 - 8 * byte));
    if (size)
        memcpy(whole + HEADER, data, size);
    int status = transfer(fd, whole, HEADER + size, 1, deadline);
    int error = errno;
    free(whole);
    errno = error;
    return status;
}

int read_frame(int fd, struct frame *frame, size_t most, int64_t deadline) {
    unsigned char header[HEADER];
    frame->data = NULL;
    if (transfer(fd, header, sizeof header, 0, deadline) != 0)
        return -1;
    frame->kind = header[0];
    frame->size = (size_t)header[1] << 24 | (size_t)header[2] << 16 | (size_t)header[3] << 8 | header[4];
    if (frame->size > most) {
        errno = EMSGSIZE;
        return -1;
    }
    frame->data = malloc(frame->size + 1);
    if (!frame->data)
        return -1;
    frame->data[frame->size] = '\0';
    if (transfer(fd, frame->data, frame->size, 0, deadline) == 0)
        return 0;
    int error = errno;
    free(frame->data);
    frame->data = NULL;
    errno = error;
    return -1;
}

size_t socket_address(struct sockaddr_storage *address, const char *text, int port) {
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    memset(address, 0, sizeof *address);
    if (text && inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    if (!text || inet_pton(AF_INET6, text, &six->sin6_addr) == 1) { /* any address is all zero */
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        return sizeof *six;
    }
    return 0;
}

void prepare_connection(int fd) {
    int yes = 1, idle_s = 10, between_s = 5, probes = 3;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    /* Also an end that vanished without a word is found out. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}
