/* One job of a pod: a process group that waits at its gate, runs, and whose end is told to the conductor.
 *
 * Its deadline is that of its phase: getting ready, waiting for the word to go, running.
 */
#include "pods.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_LINE "ready\n"
#define GO_WITHIN (60 * SECOND)    /* the word to go comes that much before the instant at most */
#define STOP_WITHIN (2 * SECOND)   /* a server that is told to end is killed then */
#define DRAIN_WITHIN (SECOND / 2)  /* for what is still in the pipes at the end */
#define LOOK_AGAIN (SECOND / 100)  /* whether the server listens */
#define GATHER (SECOND / 50)
#define NOTE 9                     /* what the child says before it becomes the tool: a kind and an integer */
enum { AT_GATE = 'w', STARTS = 's', NO_EXEC = 'e' };
enum phase { PREPARING, HELD, RUNNING, STOPPING, OVER };

struct text {
    unsigned char *data;
    size_t size;
};

struct job {
    int connection, gate, port;
    int64_t limit, deadline, start, end;
    char *words[WORDS_MOST + 1];
    pid_t child;
    int in, note, streams[2]; /* our ends of its pipes; -1: closed */
    struct text said[2];      /* stdout, stderr */
    enum phase phase;
    int timed_out;
};

static void kill_group(const struct job *job) {
    if (job->child > 0)
        kill(-job->child, SIGKILL);
}

/* Kill what is left and tell the conductor why there is no result. */
static void fail(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct job *job, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kill_group(job);
    send_frame(job->connection, FAILED, text, strlen(text), steady() + ANSWER);
    job->phase = OVER;
}

/* --- the child --------------------------------------------------------------------------------------------- */

static void note(int fd, int kind, int64_t value) {
    unsigned char whole[NOTE] = {(unsigned char)kind};
    put(whole + 1, 0, value);
    if (write(fd, whole, sizeof whole) != sizeof whole)
        _exit(126);
}

/* In the child: wait at the gate, say when it starts, become the tool. Of many that wait for the same instant all are
 * awake a little before it, and wait again: else the first would keep the processors busy before the last is awake. A
 * start is the instant, or when it woke up if that was later.
 */
static void become(struct job *job, int in, const int *streams, int notes) {
    sigset_t none;
    unsigned char instant[8];
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static const int given_back[] = {SIGPIPE, SIGTERM, SIGINT, SIGCHLD};
    for (size_t i = 0; i < sizeof given_back / sizeof *given_back; i++)
        signal(given_back[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (job->gate == GATE_EXEC) {
        note(notes, AT_GATE, 0);
        if (read(in, instant, sizeof instant) != sizeof instant)
            _exit(126);
        sleep_until(get(instant, 0) - GATHER);
    }
    int64_t start = wall();
    if (job->gate == GATE_EXEC && start < get(instant, 0)) {
        start = get(instant, 0);
        sleep_until(start);
    }
    if (job->gate != GATE_STDIN)
        in = open("/dev/null", O_RDONLY);
    dup2(in, STDIN_FILENO);
    dup2(streams[0], STDOUT_FILENO);
    dup2(streams[1], STDERR_FILENO);
    note(notes, STARTS, start);
    execvp(job->words[0], job->words);
    note(notes, NO_EXEC, errno);
    _exit(127);
}

/* Make the child with pipes to it; 0, or -1 and errno. */
static int launch(struct job *job) {
    int pipes[4][2]; /* stdin or gate, stdout, stderr, notes */
    for (int i = 0; i < 4; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0)
            return -1;
    int streams[2] = {pipes[1][1], pipes[2][1]};
    pid_t parent = getpid();
    job->child = fork();
    if (job->child < 0)
        return -1;
    if (job->child == 0) {
        close(pipes[0][1]); /* else the gate would never see its end */
        if (getppid() == parent)
            become(job, pipes[0][0], streams, pipes[3][1]);
        _exit(126);
    }
    setpgid(job->child, job->child);
    close(pipes[0][0]);
    for (int i = 1; i < 4; i++) {
        close(pipes[i][1]);
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    }
    job->in = pipes[0][1];
    job->streams[0] = pipes[1][0];
    job->streams[1] = pipes[2][0];
    job->note = pipes[3][0];
    return 0;
}

/* --- its parent -------------------------------------------------------------------------------------------- */

/* Return whether someone listens on a TCP port here. */
static int listens(int port) {
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    int found = 0;
    for (int i = 0; i < 2; i++) {
        char line[512];
        FILE *table = fopen(tables[i], "r");
        while (table && fgets(line, sizeof line, table)) {
            unsigned local, state;
            if (sscanf(line, "%*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &state) == 2)
                found |= local == (unsigned)port && state == 0x0A;
        }
        if (table)
            fclose(table);
    }
    return found;
}

static void say_ready(struct job *job) {
    unsigned char when[8];
    put(when, 0, wall());
    /* A server runs until it is told to end: no longer than all others get ready and run. */
    job->phase = job->gate == GATE_SERVER ? RUNNING : HELD;
    job->deadline = steady() + (job->phase == HELD ? 1 : 2) * job->limit + GO_WITHIN;
    if (send_frame(job->connection, READY, when, sizeof when, steady() + ANSWER) != 0)
        fail(job, "the conductor is gone");
}

static void go(struct job *job, const struct frame *frame) {
    int64_t instant = frame->size == 8 ? get(frame->data, 0) : 0, now = wall();
    if (job->phase != HELD || frame->size != 8 || instant > now + GO_WITHIN) {
        fail(job, "told to go at a wrong time");
        return;
    }
    job->phase = RUNNING;
    job->deadline = steady() + (instant > now ? instant - now : 0) + job->limit;
    if (job->gate == GATE_EXEC) {
        if (write(job->in, frame->data, 8) != 8)
            fail(job, "the waiting process is gone");
    } else {
        dprintf(job->in, "%lld.%09lld\n", (long long)(instant / SECOND), (long long)(instant % SECOND));
        job->start = wall();
    }
    close(job->in);
    job->in = -1;
}

static void take_order(struct job *job) {
    struct frame frame;
    if (read_frame(job->connection, &frame, 64, steady() + ANSWER) != 0)
        fail(job, "the conductor is gone");
    else if (frame.kind == GO)
        go(job, &frame);
    else if (frame.kind == STOP && job->gate == GATE_SERVER && job->phase == RUNNING) {
        kill(-job->child, SIGTERM);
        job->phase = STOPPING;
        job->deadline = steady() + STOP_WITHIN;
    } else
        fail(job, "told what it does not know");
    free(frame.data);
}

static void take_notes(struct job *job) {
    unsigned char whole[NOTE];
    ssize_t size;
    while ((size = read(job->note, whole, sizeof whole)) == sizeof whole) {
        int64_t value = get(whole + 1, 0);
        if (whole[0] == AT_GATE)
            say_ready(job);
        else if (whole[0] == STARTS)
            job->start = job->gate == GATE_STDIN ? 0 : value;
        else
            fail(job, "cannot run %s: %s", job->words[0], strerror((int)value));
    }
    if (size == 0) { /* it has become the tool, or is gone */
        close(job->note);
        job->note = -1;
    }
}

/* Read what a stream holds; -1 when it is more than is allowed, 1 when there may be more to come. */
static int take_output(struct job *job, int stream) {
    unsigned char piece[16384];
    struct text *text = &job->said[stream];
    ssize_t size = read(job->streams[stream], piece, sizeof piece);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        close(job->streams[stream]);
        job->streams[stream] = -1;
        return 0;
    }
    if (size < 0)
        return 1;
    unsigned char *larger = text->size + (size_t)size > OUTPUT_MOST ? NULL : realloc(text->data, text->size + (size_t)size);
    if (!larger) {
        fail(job, "its %s is larger than %u bytes", stream ? "stderr" : "stdout", OUTPUT_MOST);
        return -1;
    }
    memcpy(larger + text->size, piece, (size_t)size);
    text->data = larger;
    text->size += (size_t)size;
    return 1;
}

/* A tool that waits for a line says that it is ready first; that line is no part of its output. */
static void look_for_ready(struct job *job) {
    struct text *out = &job->said[0];
    size_t line = strlen(READY_LINE), known = out->size < line ? out->size : line;
    if (job->gate == GATE_STDIN && known && memcmp(out->data, READY_LINE, known) != 0)
        fail(job, "it did not say that it is ready, but %.*s", (int)(out->size < 80 ? out->size : 80), (char *)out->data);
    else if (job->gate == GATE_STDIN && known == line) {
        out->size -= line;
        memmove(out->data, out->data + line, out->size);
        say_ready(job);
    } else if (job->gate == GATE_SERVER && job->note < 0 && listens(job->port))
        say_ready(job);
}

static void time_is_up(struct job *job) {
    if (job->phase == PREPARING)
        fail(job, "it was not ready within %g s", (double)job->limit / SECOND);
    else if (job->phase == HELD)
        fail(job, "nobody said go");
    else {
        job->timed_out = job->phase == RUNNING;
        kill_group(job);
        job->deadline = steady() + 3600 * SECOND; /* its end comes now */
    }
}

static int64_t microseconds(struct timeval time) { return (int64_t)time.tv_sec * SECOND + time.tv_usec * 1000; }

/* The child has ended: end its group, read what is left, and tell it all. */
static void finish(struct job *job) {
    int status;
    struct rusage used;
    job->end = wall();
    kill_group(job);
    if (wait4(job->child, &status, 0, &used) != job->child) {
        fail(job, "its end was lost: %s", strerror(errno));
        return;
    }
    job->child = 0;
    int64_t until = steady() + DRAIN_WITHIN;
    for (int stream = 0; stream < 2; stream++)
        while (job->streams[stream] >= 0) {
            if (await(job->streams[stream], POLLIN, until) != 0) {
                fail(job, "a process that it left keeps its output open");
                return;
            }
            if (take_output(job, stream) < 0)
                return;
        }
    size_t sizes[2] = {job->said[0].size, job->said[1].size};
    unsigned char *whole = malloc(8 * DONE_FIELDS + sizes[0] + sizes[1]);
    if (!whole) {
        fail(job, "no memory for its output");
        return;
    }
    put(whole, DONE_START, job->start);
    put(whole, DONE_END, job->end);
    put(whole, DONE_STATUS, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    put(whole, DONE_SIGNAL, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    put(whole, DONE_TIMED_OUT, job->timed_out);
    put(whole, DONE_USER, microseconds(used.ru_utime));
    put(whole, DONE_SYSTEM, microseconds(used.ru_stime));
    put(whole, DONE_OUT_SIZE, (int64_t)sizes[0]);
    put(whole, DONE_ERR_SIZE, (int64_t)sizes[1]);
    unsigned char *place = whole + 8 * DONE_FIELDS;
    for (int stream = 0; stream < 2; place += sizes[stream++])
        if (sizes[stream])
            memcpy(place, job->said[stream].data, sizes[stream]);
    send_frame(job->connection, DONE, whole, 8 * DONE_FIELDS + sizes[0] + sizes[1], steady() + ANSWER);
    free(whole);
    job->phase = OVER;
}

static int has_ended(const struct job *job) {
    siginfo_t about = {.si_pid = 0};
    return waitid(P_PID, (id_t)job->child, &about, WEXITED | WNOHANG | WNOWAIT) == 0 && about.si_pid == job->child;
}

/* Wait for whatever comes next, and answer it. */
static void step(struct job *job) {
    struct pollfd fds[4] = {
        {.fd = job->connection, .events = POLLIN},
        {.fd = job->note, .events = POLLIN},
        {.fd = job->streams[0], .events = POLLIN},
        {.fd = job->streams[1], .events = POLLIN},
    };
    int looks = job->phase == PREPARING && job->gate == GATE_SERVER;
    int64_t left = job->deadline - steady();
    left = left < 0 ? 0 : looks && left > LOOK_AGAIN ? LOOK_AGAIN : left;
    struct timespec wait = {.tv_sec = (time_t)(left / SECOND), .tv_nsec = (long)(left % SECOND)};
    sigset_t open;
    sigemptyset(&open);
    int found = ppoll(fds, 4, &wait, &open);
    if (told_to_end) {
        kill_group(job);
        _exit(0);
    }
    if (found > 0 && fds[1].revents)
        take_notes(job);
    if (job->phase != OVER && has_ended(job)) {
        finish(job);
        return;
    }
    for (int stream = 0; stream < 2 && job->phase != OVER; stream++)
        if (found > 0 && fds[2 + stream].revents)
            take_output(job, stream);
    if (job->phase == PREPARING)
        look_for_ready(job);
    if (job->phase != OVER && found > 0 && fds[0].revents)
        take_order(job);
    if (job->phase != OVER && steady() >= job->deadline)
        time_is_up(job);
}

/* Fill in a job from its frame: integers, then the words of the command, each with a zero at its end. */
static int understand(struct job *job, const struct frame *asked) {
    size_t place = 8 * JOB_FIELDS;
    int count = 0;
    if (asked->size <= place || asked->data[asked->size - 1] != '\0')
        return -1;
    job->gate = (int)get(asked->data, JOB_GATE);
    job->port = (int)get(asked->data, JOB_PORT);
    job->limit = get(asked->data, JOB_LIMIT);
    while (place < asked->size && count < WORDS_MOST) {
        job->words[count++] = (char *)asked->data + place;
        place += strlen((char *)asked->data + place) + 1;
    }
    int known = job->gate == GATE_EXEC || job->gate == GATE_STDIN || job->gate == GATE_SERVER;
    return place == asked->size && known && job->limit > 0 && job->limit <= 3600 * SECOND ? 0 : -1;
}

void run_job(int connection, const struct frame *asked) {
    struct job job = {.connection = connection, .streams = {-1, -1}, .in = -1, .note = -1, .phase = PREPARING};
    const char *refused = NULL;
    if (understand(&job, asked) != 0)
        refused = "it was given a command that makes no sense";
    else if (job.gate == GATE_SERVER && listens(job.port))
        refused = "the server's port is taken";
    else if (launch(&job) != 0)
        refused = strerror(errno);
    if (refused) {
        send_frame(connection, FAILED, refused, strlen(refused), steady() + ANSWER);
        return;
    }
    job.deadline = steady() + job.limit;
    while (job.phase != OVER)
        step(&job);
    if (job.child > 0)
        waitpid(job.child, NULL, 0); /* it was killed */
}
