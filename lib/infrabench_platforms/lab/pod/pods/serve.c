/* ib-pods serve: the main process of a pod. It waits in one small process, and forks one for each connection, so that
 * nothing a job needs stays behind. One connection is served at a time; the next one waits.
 */
#include "pods.h"
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int told_to_end;
static char secret[SECRET_MOST];
static size_t secret_size;

static void on_signal(int signal) {
    if (signal != SIGCHLD)
        told_to_end = 1;
}

/* Block what would otherwise come between a look and a wait; `open` is the mask to wait with. */
static void prepare_signals(sigset_t *open) {
    static const int awaited[] = {SIGTERM, SIGINT, SIGCHLD};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof awaited / sizeof *awaited; i++) {
        sigaddset(&blocked, awaited[i]);
        sigaction(awaited[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &blocked, open);
    for (size_t i = 0; i < sizeof awaited / sizeof *awaited; i++)
        sigdelset(open, awaited[i]);
}

static int listen_at(const char *text, int port) {
    struct sockaddr_storage address;
    static const char *const any[] = {NULL, "0.0.0.0"}; /* where IPv6 cannot be had, IPv4 alone */
    for (int i = 0; i < (text ? 1 : 2); i++) {
        size_t size = socket_address(&address, text ? text : any[i], port);
        int yes = 1, no = 0;
        if (!size)
            usage("%s is no address", text);
        int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (address.ss_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        if (bind(fd, (struct sockaddr *)&address, (socklen_t)size) == 0 && listen(fd, 16) == 0)
            return fd;
        close(fd);
    }
    return -1;
}

/* Takes the same time whatever the bytes are; the length of the secret is none. */
static int is_secret(const unsigned char *data, size_t size) {
    unsigned char differ = size != secret_size;
    for (size_t i = 0; i < secret_size; i++)
        differ |= (unsigned char)((i < size ? data[i] : 0) ^ (unsigned char)secret[i]);
    return differ == 0;
}

static void refuse(int connection, const char *text) {
    send_frame(connection, FAILED, text, strlen(text), steady() + ANSWER);
}

/* Serve one connection: the secret, then questions about the time, then at most one job. */
static void answer(int connection, int64_t started) {
    struct frame frame;
    prepare_connection(connection);
    if (read_frame(connection, &frame, SECRET_MOST, steady() + ANSWER) != 0)
        return;
    if (frame.kind != SECRET || !is_secret(frame.data, frame.size)) {
        refuse(connection, "it has another secret");
        return;
    }
    free(frame.data);
    while (read_frame(connection, &frame, JOB_MOST, steady() + 3600 * SECOND) == 0) {
        int64_t received = wall();
        if (frame.kind == PING && frame.size == 0) {
            unsigned char times[8 * PONG_FIELDS];
            put(times, PONG_STARTED, started);
            put(times, PONG_RECEIVED, received);
            put(times, PONG_SENT, wall());
            if (send_frame(connection, PONG, times, sizeof times, steady() + ANSWER) != 0)
                return;
        } else if (frame.kind == JOB) {
            run_job(connection, &frame);
            return;
        } else {
            refuse(connection, "it was asked for what it does not know");
            return;
        }
        free(frame.data);
    }
}

/* Wait until the child that serves a connection has ended; all others that have are taken in. */
static void wait_for(pid_t child, const sigset_t *open) {
    pid_t ended = 0;
    while (ended != child && !told_to_end) {
        while ((ended = waitpid(-1, NULL, WNOHANG)) > 0 && ended != child)
            ;
        if (ended == 0)
            sigsuspend(open);
        else if (ended < 0)
            return;
    }
    if (told_to_end)
        kill(child, SIGTERM);
}

static void read_secret(void) {
    const char *given = getenv("INFRABENCH_TOKEN");
    secret_size = given ? strlen(given) : 0;
    if (secret_size < SECRET_LEAST || secret_size > SECRET_MOST)
        usage("INFRABENCH_TOKEN must have %d to %d bytes", SECRET_LEAST, SECRET_MOST);
    memcpy(secret, given, secret_size);
    unsetenv("INFRABENCH_TOKEN"); /* jobs do not need it */
}

int serve(int argc, char **argv, int64_t started) {
    int port = PORT;
    const char *address = NULL;
    sigset_t open;
    for (int i = 0; i < argc; i += 2) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--port") == 0)
            port = (int)number("--port", value, 1, 65535, 1);
        else if (strcmp(argv[i], "--address") == 0 && value)
            address = value;
        else
            usage("serve does not know %s, or it lacks a value", argv[i]);
    }
    read_secret();
    prepare_signals(&open);
    int listener = listen_at(address, port);
    if (listener < 0) {
        fprintf(stderr, "ib-pods: port %d: %s\n", port, strerror(errno));
        return 1;
    }
    while (!told_to_end) {
        struct pollfd one = {.fd = listener, .events = POLLIN};
        int found = ppoll(&one, 1, NULL, &open);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (found <= 0)
            continue;
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            continue;
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            close(listener);
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (getppid() == parent)
                answer(connection, started);
            _exit(0);
        }
        close(connection);
        if (child > 0)
            wait_for(child, &open);
    }
    return 0;
}
