/* What the parts of ib-pods share: time, frames on a connection, and the three things that the program does. */
#ifndef PODS_H
#define PODS_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#define VERSION "1.1"
#define PORT 7411
#define POPULATION "/tmp/infrabench-population"
#define SECRET_LEAST 16
#define SECRET_MOST 256
#define WORDS_MOST 256       /* of a command */
#define JOB_MOST 65536       /* bytes of a command and what belongs to it */
#define OUTPUT_MOST 1048576u /* bytes of stdout, and of stderr, of one job: more of it is an error */
#define PODS_MOST 1000
#define SECOND INT64_C(1000000000)
#define ANSWER (10 * SECOND) /* longest time for an answer that needs no work */

/* Kinds of frames: from the conductor ... */
enum { SECRET = 'A', PING = 'P', JOB = 'J', GO = 'G', STOP = 'S' };
/* ... and from a pod. */
enum { PONG = 'p', READY = 'r', DONE = 'd', FAILED = 'f' };
/* How a job waits: before exec, in the tool until a line comes, or not at all, since it serves others. */
enum { GATE_EXEC = 'e', GATE_STDIN = 'i', GATE_SERVER = 's' };

/* Integers of a frame: 8 bytes, most significant first. Times are nanoseconds of CLOCK_REALTIME of who says them. */
enum { PONG_STARTED, PONG_RECEIVED, PONG_SENT, PONG_FIELDS };
enum { JOB_GATE, JOB_PORT, JOB_LIMIT, JOB_FIELDS };
enum {
    DONE_START, DONE_END, DONE_STATUS, DONE_SIGNAL, DONE_TIMED_OUT, DONE_USER, DONE_SYSTEM, DONE_OUT_SIZE,
    DONE_ERR_SIZE, DONE_FIELDS
};

struct frame {
    int kind;
    size_t size;
    unsigned char *data; /* to be freed; one zero byte follows it */
};

int64_t wall(void);   /* CLOCK_REALTIME */
int64_t steady(void); /* CLOCK_MONOTONIC: deadlines are of this clock */
void sleep_until(int64_t wall_time);
void put(unsigned char *field, int index, int64_t value);
int64_t get(const unsigned char *field, int index);

/* All three: 0, or -1 and errno; ETIMEDOUT when the deadline passed, ECONNRESET when the other end closed. */
int await(int fd, short events, int64_t deadline);
int send_frame(int fd, int kind, const void *data, size_t size, int64_t deadline);
/* A frame larger than `most` is EMSGSIZE. */
int read_frame(int fd, struct frame *frame, size_t most, int64_t deadline);

/* Return the size of the socket address that `text` and `port` are, or 0. `text` NULL: any address. */
struct sockaddr_storage;
size_t socket_address(struct sockaddr_storage *address, const char *text, int port);
void prepare_connection(int fd);

/* Return the number `text`, or end the program with status 2. */
int64_t number(const char *what, const char *text, double lowest, double highest, double scale);
void usage(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

int serve(int argc, char **argv, int64_t started);
int hello(int argc, char **argv);
int run(int argc, char **argv);
int facts(void);

/* Run one job for the connection and send its end there; returns when the job and its process group are gone. */
void run_job(int connection, const struct frame *asked);
extern volatile int told_to_end;
#endif
