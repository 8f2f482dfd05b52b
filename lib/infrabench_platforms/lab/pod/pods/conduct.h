/* What a run of the conductor consists of, and how it is told. */
#ifndef CONDUCT_H
#define CONDUCT_H
#include "pods.h"

#define NAME_MOST 64
enum role { TOOL, SERVER, CLIENT, IDLE };
enum state { MET, ASKED, AT_GATE, RUNNING, STOPPED, ENDED, LOST };

struct pod {
    char name[NAME_MOST], address[NAME_MOST];
    enum role role;
    enum state state;
    int fd, pending; /* pending: its answer is waited for */
    const struct pod *peer;
    int64_t started, offset, round_trip, ready, fields[DONE_FIELDS];
    struct frame done; /* its data is the tool's output, from DONE_FIELDS on */
    char error[500];
};

struct plan {
    const char *list, *gate, *pairs;
    int count, port, server_port, words, server_words;
    int64_t limit, begun, instant, sent;
    const char *stat; /* file whose first line is told at the instant and after the last end */
    char **command, *server[WORDS_MOST + 1];
    struct pod *pods;
};

/* Print what is known of one pod, or of the run and all pods. */
void print_greeting(const struct pod *pod);
void print_run(const struct plan *plan);
/* Print the last line, which proves that nothing is cut off; returns the exit status. */
int print_end(const struct plan *plan, int all_good);
#endif
