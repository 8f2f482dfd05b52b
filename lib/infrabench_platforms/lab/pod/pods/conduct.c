/* ib-pods hello and run: one process that has a connection to every pod, and says go to all of them at once. */
#include "conduct.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PINGS 8                      /* the one with the shortest way tells the clock */
#define LEAD (SECOND / 10)           /* the word to go is sent that long before the instant ... */
#define LEAD_EACH (SECOND / 500)     /* ... and longer for each pod */
#define PEER "{peer}"
#define LONGEST 3600

static void lose(struct pod *pod, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void lose(struct pod *pod, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pod->error, sizeof pod->error, format, arguments);
    va_end(arguments);
    if (pod->fd >= 0)
        close(pod->fd);
    pod->fd = -1;
    pod->state = LOST;
    pod->pending = 0;
}

/* Say of a pod whose connection failed why, in words. */
static void lose_to(struct pod *pod, const char *when) {
    const char *why = errno == ECONNRESET || errno == EPIPE ? "it closed the connection"
                      : errno == ETIMEDOUT                  ? "no answer in time; it may be gone, or serve another run"
                                                            : strerror(errno);
    lose(pod, "%s: %s", when, why);
}

/* --- who is there -------------------------------------------------------------------------------------------- */

static void read_list(struct plan *plan) {
    char line[4 * NAME_MOST];
    int found = 0;
    FILE *list = fopen(plan->list, "r");
    if (!list)
        usage("%s: %s", plan->list, strerror(errno));
    plan->pods = calloc((size_t)plan->count, sizeof *plan->pods);
    if (!plan->pods)
        usage("no memory for %d pods", plan->count);
    while (found < plan->count && fgets(line, sizeof line, list)) {
        struct pod *pod = &plan->pods[found++];
        struct sockaddr_storage address;
        char more;
        if (sscanf(line, "%63s %63s %c", pod->name, pod->address, &more) != 2
            || !socket_address(&address, pod->address, plan->port))
            usage("%s: line %d is no name and address", plan->list, found);
        pod->fd = -1;
    }
    fclose(list);
    if (found < plan->count)
        usage("%s has %d pods, %d are asked for", plan->list, found, plan->count);
}

static void connect_all(struct plan *plan) {
    int64_t deadline = steady() + ANSWER;
    for (int i = 0; i < plan->count; i++) {
        struct pod *pod = &plan->pods[i];
        struct sockaddr_storage address;
        size_t size = socket_address(&address, pod->address, plan->port);
        pod->fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (pod->fd >= 0)
            prepare_connection(pod->fd);
        if (pod->fd < 0 || (connect(pod->fd, (struct sockaddr *)&address, (socklen_t)size) != 0 && errno != EINPROGRESS))
            lose_to(pod, "not reached");
    }
    for (int i = 0; i < plan->count; i++) {
        struct pod *pod = &plan->pods[i];
        int error = 0;
        socklen_t size = sizeof error;
        if (pod->fd >= 0 && await(pod->fd, POLLOUT, deadline) == 0)
            getsockopt(pod->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        else
            error = errno;
        errno = error;
        if (pod->fd >= 0 && error)
            lose_to(pod, "not reached");
    }
}

/* Show the secret and compare clocks; one pod after the other, so that none waits for another. */
static void greet(struct pod *pod, const char *secret) {
    int64_t deadline = steady() + ANSWER;
    if (pod->fd < 0)
        return;
    int sent = send_frame(pod->fd, SECRET, secret, strlen(secret), deadline) == 0;
    for (int i = 0; sent && i < PINGS; i++) {
        struct frame frame = {0};
        int64_t asked = wall();
        sent = send_frame(pod->fd, PING, NULL, 0, deadline) == 0;
        if (read_frame(pod->fd, &frame, 500, deadline) != 0)
            break;
        int64_t answered = wall();
        if (frame.kind == FAILED)
            lose(pod, "%s", (char *)frame.data);
        else if (frame.kind != PONG || frame.size != 8 * PONG_FIELDS)
            lose(pod, "it does not speak as a pod does");
        else {
            int64_t there = get(frame.data, PONG_RECEIVED), back = get(frame.data, PONG_SENT);
            int64_t round_trip = answered - asked - (back - there);
            if (i == 0 || round_trip < pod->round_trip) {
                pod->started = get(frame.data, PONG_STARTED);
                pod->round_trip = round_trip;
                pod->offset = (there - asked + back - answered) / 2;
            }
        }
        free(frame.data);
        if (pod->fd < 0 || i == PINGS - 1)
            return;
    }
    lose_to(pod, "not greeted");
}

static void meet(struct plan *plan) {
    const char *secret = getenv("INFRABENCH_TOKEN");
    if (!secret || strlen(secret) < SECRET_LEAST || strlen(secret) > SECRET_MOST)
        usage("INFRABENCH_TOKEN must have %d to %d bytes", SECRET_LEAST, SECRET_MOST);
    plan->begun = wall();
    read_list(plan);
    connect_all(plan);
    for (int i = 0; i < plan->count; i++)
        greet(&plan->pods[i], secret);
}

/* --- what they do -------------------------------------------------------------------------------------------- */

static void send_job(const struct plan *plan, struct pod *pod) {
    unsigned char job[JOB_MOST];
    size_t size = 8 * JOB_FIELDS;
    char *const *words = pod->role == SERVER ? plan->server : plan->command;
    int gate = pod->role == SERVER ? GATE_SERVER : strcmp(plan->gate, "exec") == 0 ? GATE_EXEC : GATE_STDIN;
    put(job, JOB_GATE, gate);
    put(job, JOB_PORT, plan->server_port);
    put(job, JOB_LIMIT, plan->limit);
    for (; *words; words++) {
        const char *word = pod->peer && strcmp(*words, PEER) == 0 ? pod->peer->address : *words;
        size_t length = strlen(word) + 1;
        if (size + length > sizeof job)
            usage("the command is longer than %d bytes", JOB_MOST);
        memcpy(job + size, word, length);
        size += length;
    }
    pod->state = ASKED;
    pod->pending = 1;
    if (send_frame(pod->fd, JOB, job, size, steady() + ANSWER) != 0)
        lose_to(pod, "not given its job");
}

static void take_end(struct pod *pod, struct frame *frame) {
    int64_t sizes[2];
    for (int i = 0; i < DONE_FIELDS && frame->size >= 8 * DONE_FIELDS; i++)
        pod->fields[i] = get(frame->data, i);
    sizes[0] = pod->fields[DONE_OUT_SIZE];
    sizes[1] = pod->fields[DONE_ERR_SIZE];
    if (frame->size < 8 * DONE_FIELDS || sizes[0] < 0 || sizes[0] > OUTPUT_MOST || sizes[1] < 0 || sizes[1] > OUTPUT_MOST
        || frame->size != 8 * DONE_FIELDS + (size_t)(sizes[0] + sizes[1])) {
        memset(pod->fields, 0, sizeof pod->fields);
        lose(pod, "it does not speak as a pod does");
        return;
    }
    pod->done = *frame;
    frame->data = NULL;
    if (pod->state == ASKED)
        lose(pod, "it ended before it was ready");
    else if (pod->role == SERVER && pod->state != STOPPED)
        lose(pod, "it ended before it was told to");
    else if (pod->state == AT_GATE)
        lose(pod, "it ended before it was told to go");
    pod->state = pod->state == LOST ? LOST : ENDED;
    pod->pending = 0;
}

/* Read the one frame that has come from a pod. */
static void receive(struct pod *pod) {
    struct frame frame;
    if (read_frame(pod->fd, &frame, 8 * DONE_FIELDS + 2 * OUTPUT_MOST, steady() + ANSWER) != 0)
        lose_to(pod, "lost");
    else if (frame.kind == FAILED)
        lose(pod, "%.400s", (char *)frame.data);
    else if (frame.kind == READY && frame.size == 8 && pod->state == ASKED) {
        pod->ready = get(frame.data, 0);
        pod->state = AT_GATE;
        pod->pending = 0;
    } else if (frame.kind == DONE)
        take_end(pod, &frame);
    else
        lose(pod, "it does not speak as a pod does");
    free(frame.data);
}

/* Listen to all pods until none is waited for, or the deadline has passed. */
static void gather(const struct plan *plan, int64_t deadline, const char *what) {
    struct pollfd fds[PODS_MOST];
    for (;;) {
        int pending = 0;
        for (int i = 0; i < plan->count; i++) {
            fds[i] = (struct pollfd){.fd = plan->pods[i].fd, .events = POLLIN};
            if (plan->pods[i].state == ENDED)
                fds[i].fd = -1;
            pending += plan->pods[i].pending;
        }
        int64_t left_ms = (deadline - steady()) / 1000000;
        if (!pending || left_ms < 0)
            break;
        if (poll(fds, (nfds_t)plan->count, (int)left_ms + 1) <= 0)
            continue;
        for (int i = 0; i < plan->count; i++)
            if (fds[i].revents)
                receive(&plan->pods[i]);
    }
    for (int i = 0; i < plan->count; i++)
        if (plan->pods[i].pending)
            lose(&plan->pods[i], "%s", what);
}

/* Give a job to all servers, or to all others that have one, and wait until they are ready. */
static int prepare(const struct plan *plan, int servers) {
    for (int i = 0; i < plan->count; i++) {
        struct pod *pod = &plan->pods[i];
        if (pod->role != IDLE && (pod->role == SERVER) == servers)
            send_job(plan, pod);
    }
    gather(plan, steady() + plan->limit + ANSWER, "it did not get ready in time");
    for (int i = 0; i < plan->count; i++)
        if (plan->pods[i].state == LOST)
            return 0;
    return 1;
}

static void say_go(struct plan *plan) {
    plan->instant = wall() + LEAD + plan->count * LEAD_EACH;
    for (int i = 0; i < plan->count; i++) {
        struct pod *pod = &plan->pods[i];
        unsigned char instant[8];
        if (pod->role != TOOL && pod->role != CLIENT)
            continue;
        put(instant, 0, plan->instant + pod->offset);
        pod->state = RUNNING;
        pod->pending = 1;
        if (send_frame(pod->fd, GO, instant, sizeof instant, steady() + ANSWER) != 0)
            lose_to(pod, "not told to go");
    }
    plan->sent = wall();
}

static void stop_servers(const struct plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        struct pod *pod = &plan->pods[i];
        if (pod->role != SERVER || pod->state != AT_GATE)
            continue;
        pod->state = STOPPED;
        pod->pending = 1;
        if (send_frame(pod->fd, STOP, NULL, 0, steady() + ANSWER) != 0)
            lose_to(pod, "not told to end");
    }
    gather(plan, steady() + ANSWER, "it did not end in time");
}

/* Copy the first line of the file that was asked for to the standard error. */
static void tell_stat(const struct plan *plan) {
    char line[512];
    FILE *file = fopen(plan->stat, "r");
    if (file && fgets(line, sizeof line, file))
        fputs(line, stderr);
    else
        fprintf(stderr, "ib-pods: %s: %s\n", plan->stat, strerror(errno));
    if (file)
        fclose(file);
}

static void conduct(struct plan *plan) {
    int complete = 1;
    for (int i = 0; i < plan->count; i++)
        complete &= plan->pods[i].state != LOST;
    if (complete && prepare(plan, 1) && prepare(plan, 0)) {
        say_go(plan);
        if (plan->stat) {
            sleep_until(plan->instant);
            tell_stat(plan);
        }
        gather(plan, steady() + LEAD + plan->count * LEAD_EACH + plan->limit + ANSWER, "it did not end in time");
        if (plan->stat)
            tell_stat(plan);
        stop_servers(plan);
        return;
    }
    for (int i = 0; i < plan->count; i++)
        if (plan->pods[i].state != LOST)
            lose(&plan->pods[i], "not started, since another pod was not ready");
}

/* --- the two verbs ------------------------------------------------------------------------------------------- */

/* Take the options that begin `argv`; returns how many words they are. */
static int take_options(struct plan *plan, int argc, char **argv, int running) {
    int i = 0;
    *plan = (struct plan){.list = POPULATION, .gate = "exec", .port = PORT};
    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "-n") == 0)
            plan->count = (int)number(name, value, 1, PODS_MOST, 1);
        else if (strcmp(name, "--port") == 0)
            plan->port = (int)number(name, value, 1, 65535, 1);
        else if (strcmp(name, "--list") == 0 && value)
            plan->list = value;
        else if (running && strcmp(name, "-t") == 0)
            plan->limit = number(name, value, 0.001, LONGEST, SECOND);
        else if (running && strcmp(name, "--gate") == 0 && value)
            plan->gate = value;
        else if (running && strcmp(name, "--stat") == 0 && value)
            plan->stat = value;
        else if (running && strcmp(name, "--pairs") == 0 && value)
            plan->pairs = value;
        else if (running && strcmp(name, "--server-port") == 0)
            plan->server_port = (int)number(name, value, 1, 65535, 1);
        else if (running && strcmp(name, "--server") == 0 && value && plan->server_words < WORDS_MOST)
            plan->server[plan->server_words++] = value;
        else
            usage("%s is not known here, or lacks a value", name);
    }
    if (!plan->count)
        usage("-n says how many pods");
    return i;
}

static void check(const struct plan *plan) {
    int all = plan->pairs && strcmp(plan->pairs, "all") == 0, first = plan->pairs && strcmp(plan->pairs, "first") == 0;
    if (!plan->limit)
        usage("-t says how many seconds it may take");
    if (plan->words < 1 || plan->words > WORDS_MOST)
        usage("after -- come 1 to %d words of a command", WORDS_MOST);
    if (strcmp(plan->gate, "exec") != 0 && strcmp(plan->gate, "stdin") != 0)
        usage("--gate is exec or stdin, not %s", plan->gate);
    if (plan->pairs && !all && !first)
        usage("--pairs is all or first, not %s", plan->pairs);
    if ((all && plan->count % 2) || (first && plan->count < 2))
        usage("%d pods are no pairs", plan->count);
    if (!plan->pairs != !plan->server_words || !plan->pairs != !plan->server_port)
        usage("--pairs, --server-port and --server belong together");
}

static void give_roles(struct plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        struct pod *pod = &plan->pods[i];
        int idle = plan->pairs && strcmp(plan->pairs, "first") == 0 && i > 1;
        pod->role = !plan->pairs ? TOOL : idle ? IDLE : i % 2 ? CLIENT : SERVER;
        pod->peer = pod->role == CLIENT ? pod - 1 : NULL;
    }
}

static int good(const struct pod *pod) {
    if (*pod->error)
        return 0;
    if (pod->role == IDLE || pod->role == SERVER)
        return 1;
    return pod->state == ENDED && pod->fields[DONE_STATUS] == 0 && !pod->fields[DONE_TIMED_OUT];
}

int hello(int argc, char **argv) {
    struct plan plan;
    int all_good = 1;
    if (take_options(&plan, argc, argv, 0) != argc)
        usage("hello takes no command");
    meet(&plan);
    for (int i = 0; i < plan.count; i++) {
        print_greeting(&plan.pods[i]);
        all_good &= !*plan.pods[i].error;
    }
    return print_end(&plan, all_good);
}

int run(int argc, char **argv) {
    struct plan plan;
    int all_good = 1, options = take_options(&plan, argc, argv, 1);
    plan.command = argv + options + 1;
    plan.words = argc - options - 1;
    check(&plan);
    meet(&plan);
    give_roles(&plan);
    conduct(&plan);
    print_run(&plan);
    for (int i = 0; i < plan.count; i++)
        all_good &= good(&plan.pods[i]);
    return print_end(&plan, all_good);
}
