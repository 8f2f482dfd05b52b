/* ib-rate: requests of one page at a fixed rate, whatever the server makes of it (an open loop).
 *
 *   ib-rate ADDRESS PORT PATH --rate R --seconds S --timeout T [--seed N] [--even] | --version
 *
 * Begins R * S requests, each on a connection of its own, at instants that were drawn before the first: independent users
 * (exponential gaps, by the seed), or all R-th parts of a second (--even). A request's time runs from its instant, and
 * not from when the program came to begin it: what waits behind a slow answer counts as waiting. One that has no answer T
 * seconds after its instant is given up, and its time is T. An answer is whole when the status is 200 and as many bytes
 * of content came as its header says.
 *
 * Prints one JSON object: what was asked for, counts, and times in seconds over all requests. `delay_mean_s` and
 * `delay_max_s` are how late the program itself began requests.
 *
 * Exit status: 0 all were begun, 1 it could not (descriptors, memory), 2 bad arguments.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define VERSION "1.0"
#define MOST_REQUESTS 4000000.0
#define EVENTS 256
#define HEADER_BYTES 4096
#define SPARE_FILES 1024
#define SPIN_S 0.0001 /* before an instant the processor is not given away: to be woken takes as long */
#define LEAD_S 0.01 /* from the end of the preparation to the first instant */

enum state { WAITING, OPEN, WHOLE, LATE, BROKEN };

struct request {
    double due_s;   /* its instant */
    double time_s;  /* until its end */
    double delay_s; /* until it was begun */
    int file;
    enum state state;
};

struct connection { /* by file descriptor */
    long request;
    size_t got;     /* bytes of the header in `header` */
    long long left; /* bytes of content that are still to come; -1: the header is not whole */
    char header[HEADER_BYTES];
};

static void fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("ib-rate: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double number(const char *name, const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most))
        fail(2, "%s must be from %g to %g, not %s", name, least, most, text);
    return value;
}

/* splitmix64 (Steele, Lea and Flood 2014): the same numbers on every machine. */
static double uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static struct request *requests;
static struct connection *connections;
static long count, first_open, open_now, most_files;
static int events_file;
static char page[1024];

static void end(struct request *one, enum state state, double at_s)
{
    /* A reset in the place of an orderly end keeps no port waiting. */
    struct linger linger = {1, 0};
    setsockopt(one->file, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(one->file);
    one->state = state;
    one->time_s = at_s - one->due_s;
    open_now--;
}

static void begin(long number, const struct sockaddr *address, socklen_t length)
{
    struct request *one = &requests[number];
    int on = 1;
    one->file = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (one->file < 0 || one->file >= most_files)
        fail(1, "no socket for request %ld of %ld, %ld are open: %s", number + 1, count, open_now, strerror(errno));
    setsockopt(one->file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    open_now++;
    one->state = OPEN;
    one->delay_s = now_s() - one->due_s;
    struct connection *its = &connections[one->file];
    its->request = number;
    its->got = 0;
    its->left = -1;
    struct epoll_event event = {.events = EPOLLOUT, .data.fd = one->file};
    if ((connect(one->file, address, length) && errno != EINPROGRESS) ||
        epoll_ctl(events_file, EPOLL_CTL_ADD, one->file, &event))
        end(one, BROKEN, now_s());
}

/* Reads the header's end and the length of the content; returns how many bytes of content are in the header's buffer,
 * or -1 where the answer is no page. */
static long long content_begun(struct connection *its)
{
    its->header[its->got] = 0;
    char *body = strstr(its->header, "\r\n\r\n");
    if (!body)
        return its->got < HEADER_BYTES - 1 ? 0 : -1;
    char *length = strcasestr(its->header, "\r\nContent-Length:");
    if ((strncmp(its->header, "HTTP/1.1 200 ", 13) && strncmp(its->header, "HTTP/1.0 200 ", 13)) || !length || length > body)
        return -1;
    its->left = strtoll(length + 17, NULL, 10);
    return its->got - (size_t)(body + 4 - its->header);
}

static void go_on(int file, uint32_t happened)
{
    static char content[65536];
    struct connection *its = &connections[file];
    struct request *one = &requests[its->request];
    if (happened & EPOLLOUT) {
        int wrong = 0;
        socklen_t size = sizeof wrong;
        size_t length = strlen(page);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
        if (getsockopt(file, SOL_SOCKET, SO_ERROR, &wrong, &size) || wrong ||
            send(file, page, length, MSG_NOSIGNAL) != (ssize_t)length ||
            epoll_ctl(events_file, EPOLL_CTL_MOD, file, &event))
            end(one, BROKEN, now_s());
        return;
    }
    for (;;) {
        int in_header = its->left < 0;
        char *to = in_header ? its->header + its->got : content;
        ssize_t got = recv(file, to, in_header ? HEADER_BYTES - 1 - its->got : sizeof content, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) { /* the end before the content was whole */
            end(one, BROKEN, now_s());
            return;
        }
        long long more = got;
        if (in_header) {
            its->got += (size_t)got;
            more = content_begun(its);
            if (more < 0) {
                end(one, BROKEN, now_s());
                return;
            }
        }
        if (its->left >= 0) {
            its->left -= more;
            if (its->left <= 0) {
                end(one, its->left ? BROKEN : WHOLE, now_s());
                return;
            }
        }
    }
}

static void give_up(double at_s, double timeout_s)
{
    /* Instants are in order, and so are those that are too late. */
    while (first_open < count && requests[first_open].state != WAITING) {
        struct request *one = &requests[first_open];
        if (one->state == OPEN) {
            if (at_s < one->due_s + timeout_s)
                return;
            end(one, LATE, one->due_s + timeout_s);
        }
        first_open++;
    }
}

int main(int argc, char **argv)
{
    double rate = 0, seconds = 0, timeout_s = 0, seed = 1;
    int even = 0;
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts("ib-rate " VERSION);
        return 0;
    }
    if (argc < 4)
        fail(2, "usage: ib-rate ADDRESS PORT PATH --rate R --seconds S --timeout T [--seed N] [--even]");
    for (int i = 4; i < argc; i++) {
        if (!strcmp(argv[i], "--even"))
            even = 1;
        else if (i + 1 == argc)
            fail(2, "unknown option, or one without its value: %s", argv[i]);
        else if (!strcmp(argv[i], "--rate"))
            rate = number("--rate", argv[++i], 0.1, 1e6);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = number("--seconds", argv[++i], 0.01, 86400);
        else if (!strcmp(argv[i], "--timeout"))
            timeout_s = number("--timeout", argv[++i], 0.001, 60);
        else if (!strcmp(argv[i], "--seed"))
            seed = number("--seed", argv[++i], 0, 4294967295.0);
        else
            fail(2, "unknown option: %s", argv[i]);
    }
    int port = (int)number("PORT", argv[2], 1, 65535);
    if (!(rate > 0 && seconds > 0 && timeout_s > 0))
        fail(2, "--rate, --seconds and --timeout are needed");
    if (rate * seconds < 1 || rate * seconds > MOST_REQUESTS)
        fail(2, "%g requests: from 1 to %g can be begun", rate * seconds, MOST_REQUESTS);

    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    int is_four = inet_pton(AF_INET, argv[1], &four.sin_addr) == 1;
    if (!is_four && inet_pton(AF_INET6, argv[1], &six.sin6_addr) != 1)
        fail(2, "%s is no address", argv[1]);
    const struct sockaddr *address = is_four ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t length = is_four ? sizeof four : sizeof six;
    const char *shape = is_four ? "%s:%d" : "[%s]:%d";
    char host[128];
    snprintf(host, sizeof host, shape, argv[1], port);
    if (snprintf(page, sizeof page, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", argv[3], host) >= (int)sizeof page)
        fail(2, "PATH is too long");

    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    most_files = files.rlim_max > 1048576 ? 1048576 : (long)files.rlim_max;
    count = (long)(rate * seconds + 0.5);
    /* The kernel may refuse a table that is larger than memory, though its pages are never touched. */
    if (most_files > count + SPARE_FILES)
        most_files = count + SPARE_FILES;
    requests = calloc((size_t)count, sizeof *requests);
    connections = calloc((size_t)most_files, sizeof *connections);
    double *times_s = calloc((size_t)count, sizeof *times_s);
    events_file = epoll_create1(EPOLL_CLOEXEC);
    if (!requests || !connections || !times_s || events_file < 0)
        fail(1, "no memory for %ld requests", count);

    uint64_t state = (uint64_t)seed;
    double begun_s = now_s() + LEAD_S, due_s = begun_s;
    for (long i = 0; i < count; i++) {
        requests[i].due_s = due_s;
        due_s += even ? 1 / rate : -log(uniform(&state)) / rate;
    }
    long next = 0;
    while (next < count || open_now) {
        double at_s = now_s();
        for (; next < count && requests[next].due_s <= at_s; next++)
            begin(next, address, length);
        give_up(now_s(), timeout_s);
        double until_s = next < count ? requests[next].due_s : at_s + timeout_s;
        if (first_open < next && requests[first_open].due_s + timeout_s < until_s)
            until_s = requests[first_open].due_s + timeout_s;
        double wait_s = until_s - SPIN_S - now_s();
        struct timespec wait = {0, 0};
        if (wait_s > 0) {
            wait.tv_sec = (time_t)wait_s;
            wait.tv_nsec = (long)(1e9 * (wait_s - (double)wait.tv_sec));
        }
        struct epoll_event events[EVENTS];
        int happened = epoll_pwait2(events_file, events, EVENTS, &wait, NULL);
        if (happened < 0 && errno != EINTR)
            fail(1, "epoll: %s", strerror(errno));
        for (int i = 0; i < happened; i++)
            go_on(events[i].data.fd, events[i].events);
    }
    double elapsed_s = now_s() - begun_s;

    long counts[5] = {0};
    double time_sum = 0, delay_sum = 0, delay_max = 0;
    for (long i = 0; i < count; i++) {
        const struct request *one = &requests[i];
        counts[one->state]++;
        /* One that broke got no answer either: it counts as if it had been waited for. */
        times_s[i] = one->state == WHOLE ? one->time_s : timeout_s;
        time_sum += times_s[i];
        delay_sum += one->delay_s;
        if (one->delay_s > delay_max)
            delay_max = one->delay_s;
    }
    qsort(times_s, (size_t)count, sizeof *times_s, by_size);
    printf("{\"program\": \"ib-rate " VERSION "\", \"address\": \"%s\", \"path\": \"%s\", \"rate\": %.17g, \"seconds\": %.17g, "
           "\"timeout_s\": %.17g, \"seed\": %.0f, \"arrivals\": \"%s\",\n",
           host, argv[3], rate, seconds, timeout_s, seed, even ? "even" : "poisson");
    printf("\"requests\": %ld, \"whole\": %ld, \"late\": %ld, \"broken\": %ld, \"elapsed_s\": %.9f,\n", count, counts[WHOLE],
           counts[LATE], counts[BROKEN], elapsed_s);
    printf("\"mean_s\": %.9f, ", time_sum / (double)count);
    const int percents[] = {50, 90, 95, 99, 100};
    for (int i = 0; i < 5; i++) { /* the least value that so many are not above */
        long rank = (long)ceil(percents[i] / 100.0 * (double)count) - 1;
        printf("\"p%d_s\": %.9f, ", percents[i], times_s[rank < 0 ? 0 : rank]);
    }
    printf("\"delay_mean_s\": %.9f, \"delay_max_s\": %.9f}\n", delay_sum / (double)count, delay_max);
    return 0;
}
