/* What the conductor prints: JSON objects, one a line. */
#include "conduct.h"
#include <stdio.h>
#include <string.h>

static const char *const ROLES[] = {"tool", "server", "client", "idle"};

static void print_quoted(const unsigned char *c, size_t size) {
    putchar('"');
    for (; size > 0; size--, c++)
        if (*c == '\n')
            printf("\\n");
        else if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20 || *c > 0x7e)
            printf("\\u%04x", *c);
        else
            putchar(*c);
    putchar('"');
}

/* Bytes of an output, or null where there is none. */
static void print_bytes(const char *name, const unsigned char *bytes, size_t size) {
    printf("\"%s\": ", name);
    if (bytes)
        print_quoted(bytes, size);
    else
        printf("null");
    printf(", ");
}

static void print_word(const char *name, const char *text) {
    print_bytes(name, (const unsigned char *)text, text ? strlen(text) : 0);
}

/* Nanoseconds as seconds with all digits; null where the time is not known. */
static void print_time(const char *name, int64_t time, int known) {
    int64_t size = time < 0 ? -time : time;
    if (known)
        printf("\"%s\": %s%lld.%09lld, ", name, time < 0 ? "-" : "", (long long)(size / SECOND), (long long)(size % SECOND));
    else
        printf("\"%s\": null, ", name);
}

static void print_who(const struct pod *pod) {
    int met = pod->started != 0;
    printf("{");
    print_word("name", pod->name);
    print_word("address", pod->address);
    print_time("started_s", pod->started, met);
    print_time("offset_s", pod->offset, met);
    print_time("round_trip_s", pod->round_trip, met);
}

/* The last of a pod's object: null where nothing is wrong. */
static void print_error(const struct pod *pod) {
    printf("\"error\": ");
    if (*pod->error)
        print_quoted((const unsigned char *)pod->error, strlen(pod->error));
    else
        printf("null");
    printf("}\n");
}

void print_greeting(const struct pod *pod) {
    print_who(pod);
    print_error(pod);
}

static void print_pod(const struct pod *pod) {
    const int64_t *field = pod->fields;
    const unsigned char *output = pod->done.data ? pod->done.data + 8 * DONE_FIELDS : NULL;
    int ended = output != NULL, signal = ended && field[DONE_SIGNAL];
    size_t out = (size_t)field[DONE_OUT_SIZE];
    print_who(pod);
    print_word("role", ROLES[pod->role]);
    print_time("ready_s", pod->ready, pod->ready != 0);
    print_time("start_s", field[DONE_START], ended && field[DONE_START]);
    print_time("end_s", field[DONE_END], ended);
    printf(ended && !signal ? "\"status\": %lld, " : "\"status\": null, ", (long long)field[DONE_STATUS]);
    printf(signal ? "\"signal\": %lld, " : "\"signal\": null, ", (long long)field[DONE_SIGNAL]);
    printf("\"timed_out\": %s, ", field[DONE_TIMED_OUT] ? "true" : "false");
    print_time("user_s", field[DONE_USER], ended);
    print_time("system_s", field[DONE_SYSTEM], ended);
    print_bytes("stdout", output, out);
    print_bytes("stderr", output ? output + out : NULL, (size_t)field[DONE_ERR_SIZE]);
    print_error(pod);
}

void print_run(const struct plan *plan) {
    printf("{\"ib_pods\": \"" VERSION "\", \"count\": %d, ", plan->count);
    print_word("gate", plan->gate);
    print_word("pairs", plan->pairs);
    printf("\"limit_s\": %.9g, ", (double)plan->limit / SECOND);
    print_time("begun_s", plan->begun, 1);
    print_time("go_s", plan->instant, plan->instant != 0);
    print_time("sent_s", plan->sent, plan->sent != 0);
    printf("\"command\": [");
    for (int i = 0; i < plan->words; i++) {
        printf(i ? ", " : "");
        print_quoted((const unsigned char *)plan->command[i], strlen(plan->command[i]));
    }
    printf("]}\n");
    for (int i = 0; i < plan->count; i++)
        print_pod(&plan->pods[i]);
}

int print_end(const struct plan *plan, int all_good) {
    printf("{\"end\": %d}\n", plan->count);
    return fflush(stdout) == 0 && !ferror(stdout) && all_good ? 0 : 1;
}
