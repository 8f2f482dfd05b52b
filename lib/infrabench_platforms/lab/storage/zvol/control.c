/* The control socket: one command a connection, a line of words; the answer is one line of JSON.
 *
 *   status | sync standard | sync always | throttle default | throttle open | commit | drop | offline GUID |
 *   replace GUID PATH | scrub start | scrub stop | trim
 *
 * Only the user that this process runs as may speak to it. Whatever is not exactly a command is refused.
 */
#include "engine.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LINE_MOST 1024
#define WORDS_MOST 4
#define PATH_MOST 255
#define WAIT_MS 5000 /* for a command that a client began to send, or for an answer that it does not read */
#define CLIENTS_MOST 32

static int listener = -1, stop = -1, clients;
static char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
static pthread_t server;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, one_change = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone = PTHREAD_COND_INITIALIZER;

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Read one line, without its end, into `line`; 0 or why not. */
static const char *read_line(int fd, char *line) {
    int64_t deadline = now_ms() + WAIT_MS;
    size_t size = 0;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - now_ms();
        if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
            return "no whole line came in time";
        ssize_t got = read(fd, line + size, LINE_MOST - size);
        if (got <= 0)
            return "the connection ended before the line did";
        char *end = memchr(line + size, '\n', (size_t)got);
        size += (size_t)got;
        if (end && end + 1 != line + size)
            return "one line is taken, there is more";
        if (end && memchr(line, '\0', (size_t)(end - line)))
            return "there is a zero byte in the line";
        if (end) {
            *end = '\0';
            return NULL;
        }
        if (size == LINE_MOST)
            return "the line is too long";
    }
}

/* Split at single spaces; the number of words, or 0 where there are none, too many, or an empty one. */
static int split(char *line, char **words) {
    int count = 0;
    for (char *next = line; next; count++) {
        char *word = next;
        next = strchr(word, ' ');
        if (next)
            *next++ = '\0';
        if (!*word || count == WORDS_MOST)
            return 0;
        words[count] = word;
    }
    return count;
}

static bool is_path(const char *word) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+:-";
    return *word == '/' && strlen(word) <= PATH_MOST && strspn(word, letters) == strlen(word);
}

/* The number that a word is, or 0. */
static uint64_t guid(const char *word) {
    if (!*word || *word == '0' || strlen(word) > 20 || strspn(word, "0123456789") != strlen(word))
        return 0;
    errno = 0;
    uint64_t number = strtoull(word, NULL, 10);
    return errno ? 0 : number;
}

static bool is(char **words, int count, const char *first, const char *second) {
    return count == (second ? 2 : 1) && !strcmp(words[0], first) && (!second || !strcmp(words[1], second));
}

/* Do what the words say; -1 when they are no command. */
static int obey(char **words, int count, struct text *why) {
    if (is(words, count, "sync", "standard"))
        return pool_sync(false, why);
    if (is(words, count, "sync", "always"))
        return pool_sync(true, why);
    if (is(words, count, "commit", NULL))
        return pool_commit(why);
    if (is(words, count, "drop", NULL))
        return pool_drop(why);
    if (is(words, count, "scrub", "start"))
        return pool_scrub(true, why);
    if (is(words, count, "scrub", "stop"))
        return pool_scrub(false, why);
    if (is(words, count, "trim", NULL))
        return pool_trim(why);
    if (is(words, count, "throttle", "default"))
        return pool_throttle(false, why);
    if (is(words, count, "throttle", "open"))
        return pool_throttle(true, why);
    if (count == 2 && !strcmp(words[0], "offline") && guid(words[1]))
        return pool_offline(guid(words[1]), why);
    if (count == 3 && !strcmp(words[0], "replace") && guid(words[1]) && is_path(words[2]))
        return pool_replace(guid(words[1]), words[2], why);
    text_add(why, "no such command");
    return -1;
}

static void answer(int fd) {
    char line[LINE_MOST], *words[WORDS_MOST];
    struct text told = {0}, why = {0};
    const char *wrong = read_line(fd, line);
    int count = wrong ? 0 : split(line, words), error = -1;
    if (wrong) {
        text_add(&why, "%s", wrong);
    } else if (is(words, count, "status", NULL)) {
        error = pool_status(&told, &why);
    } else {
        pthread_mutex_lock(&one_change);
        error = obey(words, count, &why);
        pthread_mutex_unlock(&one_change);
    }
    if (error) {
        text_free(&told);
        text_add(&told, "{\"ok\": false, \"errno\": %d, \"reason\": ", error < 0 ? EINVAL : error);
        text_quote(&told, why.size ? why.data : strerror(error));
        text_add(&told, "}");
    } else if (!told.size) {
        text_add(&told, "{\"ok\": true}");
    }
    text_add(&told, "\n");
    for (size_t sent = 0; sent < told.size;) {
        ssize_t more = send(fd, told.data + sent, told.size - sent, MSG_NOSIGNAL); /* SO_SNDTIMEO bounds it */
        if (more <= 0)
            break;
        sent += (size_t)more;
    }
    text_free(&told);
    text_free(&why);
}

static void *client(void *argument) {
    int fd = (int)(intptr_t)argument;
    char rest[LINE_MOST];
    answer(fd);
    shutdown(fd, SHUT_WR); /* what is still unread when it closes would take the answer away again */
    for (int i = 0; i < 64 && recv(fd, rest, sizeof rest, MSG_DONTWAIT) > 0; i++)
        ;
    close(fd);
    pthread_mutex_lock(&lock);
    clients--;
    pthread_cond_signal(&gone);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void take(int fd) {
    struct ucred other;
    socklen_t size = sizeof other;
    struct timeval patience = {.tv_sec = WAIT_MS / 1000};
    pthread_t thread;
    bool ours = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    pthread_mutex_lock(&lock);
    bool room = ours && clients < CLIENTS_MOST;
    clients += room;
    pthread_mutex_unlock(&lock);
    if (room && pthread_create(&thread, NULL, client, (void *)(intptr_t)fd) == 0) {
        pthread_detach(thread);
        return;
    }
    if (room) {
        pthread_mutex_lock(&lock);
        clients--;
        pthread_mutex_unlock(&lock);
    }
    static const char busy[] = "{\"ok\": false, \"errno\": 16, \"reason\": \"refused\"}\n";
    send(fd, busy, sizeof busy - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static void *serve(void *unused) {
    (void)unused;
    for (;;) {
        struct pollfd ready[] = {{.fd = listener, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (ready[1].revents)
            return NULL;
        if (!ready[0].revents)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            take(fd);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            usleep(10000); /* it stays in the queue: not to turn in circles until others have closed */
    }
}

int control_start(const char *path, struct text *why) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        text_add(why, "%s is too long for a socket", path);
        return ENAMETOOLONG;
    }
    strcpy(address.sun_path, path);
    strcpy(socket_path, path);
    unlink(path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    stop = eventfd(0, EFD_CLOEXEC);
    if (listener < 0 || stop < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 64) != 0 || pthread_create(&server, NULL, serve, NULL) != 0) {
        text_add(why, "%s: %s", path, strerror(errno));
        close(listener);
        close(stop);
        listener = -1;
        return EIO;
    }
    return 0;
}

void control_stop(void) {
    if (listener < 0)
        return;
    uint64_t one = 1;
    if (write(stop, &one, sizeof one) != sizeof one)
        return;
    pthread_join(server, NULL);
    unlink(socket_path);
    close(listener);
    listener = -1;
    pthread_mutex_lock(&lock);
    while (clients > 0) /* each has a deadline of its own; what it began on the pool must not outlive the pool */
        pthread_cond_wait(&gone, &lock);
    pthread_mutex_unlock(&lock);
}
