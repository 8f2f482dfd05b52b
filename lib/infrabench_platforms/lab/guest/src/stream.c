/* ib-stream: four memory kernels (copy, scale, add, triad) over arrays larger than the last-level cache.
 *
 *   ib-stream [--threads N] [--repetitions N | --seconds S] [--array-bytes B | --llc-multiple X] [--wait] [--version]
 *
 * Prints one JSON object. Each of the three arrays is B bytes, or X times the sum of the last-level caches that
 * the allowed CPUs share. Every page is first touched by the thread that later works on it. Each kernel runs
 * `repetitions` times, or until S seconds have passed, three times at least; all times are printed and the reader leaves
 * out the first. Results are validated against the closed form; a wrong result is an error, not a number.
 *
 * With --wait it says "ready" once every page is there and waits for a line, which may hold the instant to start at, in
 * seconds of Unix time. It wakes up 20 ms before that (`awake_s`), so that of many that wait for the same instant all
 * are awake before the first one keeps the processors busy, and waits again: `started_s` is the instant, or when it woke
 * up if that was later. `begun_s` and `ended_s` are those of the repetitions: of more programs than processors, one
 * begins when it gets one. S is counted from the instant on, so that all work in the same time.
 *
 * Exit status: 0 good, 1 wrong result, 2 bad arguments, 3 the arrays do not fit or the cache size is unknown.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VERSION "1.1"
#define MAX_REPETITIONS 10000
#define LEAST_IN_TIME 3 /* repetitions; the first is not counted */
#define LONGEST_WAIT_S 3600.0
#define GATHER_S 0.02
#define MAX_CACHES 256
#define NO_LIMIT UINT64_MAX

/* With s = sqrt(2) - 1 one round of the four kernels maps a to (2s + s^2) a = a: values neither grow nor vanish. */
static const double SCALAR = 0.41421356237309504880;
static const char *const NAMES[4] = {"copy", "scale", "add", "triad"};
static const int ARRAYS_MOVED[4] = {2, 2, 3, 3};

static void fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("ib-stream: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

static double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

/* First line of a file without its newline; 0 when it cannot be read. */
static int read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int ok = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

/* --- sizes ------------------------------------------------------------------------------------------------ */

/* Bytes of the highest-level data cache of one CPU and the list of CPUs that share it; 0 when unknown. */
static uint64_t last_level_cache(int cpu, char *shared, size_t shared_size)
{
    uint64_t bytes = 0;
    int highest = 0;
    for (int index = 0; index < 16; index++) {
        char path[128], level[32], type[32], size[32], list[256];
        const char *base = "/sys/devices/system/cpu/cpu%d/cache/index%d/%s";
        snprintf(path, sizeof path, base, cpu, index, "level");
        if (!read_line(path, level, sizeof level))
            break;
        snprintf(path, sizeof path, base, cpu, index, "type");
        if (!read_line(path, type, sizeof type) || strcmp(type, "Instruction") == 0 || atoi(level) <= highest)
            continue;
        snprintf(path, sizeof path, base, cpu, index, "size");
        if (!read_line(path, size, sizeof size))
            continue;
        snprintf(path, sizeof path, base, cpu, index, "shared_cpu_list");
        if (!read_line(path, list, sizeof list))
            continue;
        char *unit;
        uint64_t value = strtoull(size, &unit, 10);
        bytes = value * (*unit == 'K' ? 1024u : *unit == 'M' ? 1024u * 1024u : *unit == 'G' ? 1024u * 1024u * 1024u : 1u);
        highest = atoi(level);
        snprintf(shared, shared_size, "%s", list);
    }
    return bytes;
}

/* Sum over the distinct last-level caches of the CPUs this process may use: all of them can hold our data. */
static uint64_t allowed_caches(void)
{
    static char seen[MAX_CACHES][256];
    int count = 0;
    uint64_t total = 0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char shared[256] = "";
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        uint64_t bytes = last_level_cache(cpu, shared, sizeof shared);
        int known = 0;
        for (int i = 0; i < count; i++)
            known |= strcmp(seen[i], shared) == 0;
        if (bytes == 0 || known || count == MAX_CACHES)
            continue;
        snprintf(seen[count++], sizeof seen[0], "%s", shared);
        total += bytes;
    }
    return total;
}

/* Smallest limit found in `root`/`path` and every directory above it, down to `root`. */
static uint64_t smallest_limit(const char *root, const char *path, const char *name)
{
    char directory[1024], file[1300], line[64];
    uint64_t smallest = NO_LIMIT;
    snprintf(directory, sizeof directory, "%s", path);
    for (;;) {
        snprintf(file, sizeof file, "%s%s/%s", root, directory, name);
        if (read_line(file, line, sizeof line) && line[0] >= '0' && line[0] <= '9') {
            uint64_t value = strtoull(line, NULL, 10);
            smallest = value < smallest ? value : smallest;
        }
        char *slash = strrchr(directory, '/');
        if (!slash)
            return smallest;
        *slash = '\0';
    }
}

/* Memory this process may use: the tightest of its cgroup limits (v1 or v2) and what the kernel has available. */
static uint64_t memory_limit(void)
{
    char line[1100];
    uint64_t limit = NO_LIMIT, found = NO_LIMIT;
    FILE *groups = fopen("/proc/self/cgroup", "r");
    while (groups && fgets(line, sizeof line, groups)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        if (strcmp(controllers + 1, "") == 0)
            found = smallest_limit("/sys/fs/cgroup", path, "memory.max");
        else if (strcmp(controllers + 1, "memory") == 0)
            found = smallest_limit("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
        limit = found < limit ? found : limit;
    }
    if (groups)
        fclose(groups);
    FILE *memory = fopen("/proc/meminfo", "r");
    while (memory && fgets(line, sizeof line, memory)) {
        unsigned long long kib;
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1 && kib * 1024 < limit)
            limit = kib * 1024;
    }
    if (memory)
        fclose(memory);
    return limit;
}

/* --- kernels: noinline, so that no two of them are merged --------------------------------------------------- */

__attribute__((noinline)) static void copy(double *restrict c, const double *restrict a, size_t n)
{
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++)
        c[i] = a[i];
}

__attribute__((noinline)) static void scale(double *restrict b, const double *restrict c, size_t n)
{
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++)
        b[i] = SCALAR * c[i];
}

__attribute__((noinline)) static void add(double *restrict c, const double *restrict a, const double *restrict b, size_t n)
{
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

__attribute__((noinline)) static void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n)
{
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + SCALAR * c[i];
}

static void first_touch(double *a, double *b, double *c, size_t n)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.0;
    }
}

/* Largest relative error of any element against the values that the same rounds give a single number. */
static double largest_error(const double *a, const double *b, const double *c, size_t n, int repetitions)
{
    double x = 1.0, y = 2.0, z = 0.0, worst = 0.0;
    for (int k = 0; k < repetitions; k++) {
        z = x;
        y = SCALAR * z;
        z = x + y;
        x = y + SCALAR * z;
    }
#pragma omp parallel for schedule(static) reduction(max : worst)
    for (size_t i = 0; i < n; i++) {
        double error = fmax(fabs(a[i] / x - 1.0), fmax(fabs(b[i] / y - 1.0), fabs(c[i] / z - 1.0)));
        /* A NaN compares false with everything, so it is caught by asking for the opposite. */
        worst = !(error <= worst) ? (isnan(error) ? INFINITY : error) : worst;
    }
    return worst;
}

/* --- the program -------------------------------------------------------------------------------------------- */

static double number(const char *name, const char *text, double lowest, double highest)
{
    char *end;
    errno = 0;
    double value = text ? strtod(text, &end) : NAN;
    if (!text || errno || end == text || *end || !(value >= lowest && value <= highest))
        fail(2, "%s must be a number from %g to %g, not %s", name, lowest, highest, text ? text : "nothing");
    return value;
}

static double *allocate(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes) != 0)
        fail(3, "could not allocate an array of %zu bytes", bytes);
    return memory;
}

static void sleep_until(double instant)
{
    struct timespec until = {.tv_sec = (time_t)instant, .tv_nsec = (long)(1e9 * (instant - floor(instant)))};
    while (clock_s(CLOCK_REALTIME) < instant)
        if (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) > 0)
            return;
}

struct start {
    double awake, started; /* seconds of Unix time */
};

/* Say that all is there, wait for the line and for the instant in it. */
static struct start wait_for_start(void)
{
    struct start found;
    char line[64], *end;
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        fail(2, "expected a line on standard input");
    double instant = strtod(line, &end), ahead = instant - clock_s(CLOCK_REALTIME);
    if (end != line && !(ahead <= LONGEST_WAIT_S))
        fail(2, "the instant to start at is %s", line);
    if (end != line)
        sleep_until(instant - GATHER_S);
    found.awake = found.started = clock_s(CLOCK_REALTIME);
    if (end != line && found.awake < instant) {
        sleep_until(instant);
        found.started = instant;
    }
    return found;
}

static void print_kernels(const double (*times)[MAX_REPETITIONS], int repetitions, uint64_t array_bytes)
{
    for (int k = 0; k < 4; k++) {
        double best = INFINITY, sum = 0.0;
        printf("%s\n  \"%s\": {\"bytes\": %llu, \"times_s\": [", k ? "," : "", NAMES[k],
               (unsigned long long)(array_bytes * (uint64_t)ARRAYS_MOVED[k]));
        for (int r = 0; r < repetitions; r++) {
            printf("%s%.9f", r ? ", " : "", times[k][r]);
            if (r > 0) {
                best = fmin(best, times[k][r]);
                sum += times[k][r];
            }
        }
        printf("], \"best_s\": %.9f, \"mean_s\": %.9f}", best, sum / (repetitions - 1));
    }
}

int main(int argc, char **argv)
{
    int threads = 0, repetitions = 10, waits = 0;
    double multiple = 4.0, bytes = 0.0, seconds = 0.0;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--version") == 0) {
            printf("ib-stream %s (compiler %s)\n", VERSION, __VERSION__);
            return 0;
        } else if (strcmp(argv[i], "--wait") == 0) {
            waits = 1;
            i--; /* it has no value */
        } else if (strcmp(argv[i], "--threads") == 0)
            threads = (int)number("--threads", value, 1, 4096);
        else if (strcmp(argv[i], "--repetitions") == 0)
            repetitions = (int)number("--repetitions", value, 2, MAX_REPETITIONS);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = number("--seconds", value, 0.001, 3600);
        else if (strcmp(argv[i], "--array-bytes") == 0)
            bytes = number("--array-bytes", value, 4096, 1e15);
        else if (strcmp(argv[i], "--llc-multiple") == 0)
            multiple = number("--llc-multiple", value, 0.001, 1000);
        else
            fail(2, "unknown argument %s", argv[i]);
    }
    uint64_t caches = allowed_caches(), limit = memory_limit();
    if (bytes == 0.0 && caches == 0)
        fail(3, "the size of the last-level cache is unknown here; give --array-bytes");
    size_t n = (size_t)((bytes > 0.0 ? bytes : multiple * (double)caches) / sizeof(double));
    uint64_t array_bytes = (uint64_t)n * sizeof(double);
    if ((double)array_bytes * 3.0 > 0.9 * (double)limit)
        fail(3, "three arrays of %llu bytes do not fit in 90 %% of the %llu bytes of memory allowed here; "
                "raise the memory limit or give a smaller --llc-multiple or --array-bytes",
             (unsigned long long)array_bytes, (unsigned long long)limit);
    if (threads)
        omp_set_num_threads(threads);
    double *a = allocate(array_bytes), *b = allocate(array_bytes), *c = allocate(array_bytes);
    first_touch(a, b, c, n);
    struct start start = {0.0, 0.0};
    if (waits)
        start = wait_for_start();
    static double times[4][MAX_REPETITIONS];
    /* The clock of `started` first: a preemption between the two makes the run longer, and the other way round shorter. */
    double begun = clock_s(CLOCK_REALTIME), begin = now_s();
    if (waits)
        begin -= begun - start.started;
    if (seconds > 0.0)
        repetitions = MAX_REPETITIONS;
    for (int r = 0; r < repetitions; r++) {
        double t[5];
        t[0] = now_s();
        copy(c, a, n);
        t[1] = now_s();
        scale(b, c, n);
        t[2] = now_s();
        add(c, a, b, n);
        t[3] = now_s();
        triad(a, b, c, n);
        t[4] = now_s();
        for (int k = 0; k < 4; k++)
            times[k][r] = t[k + 1] - t[k];
        if (seconds > 0.0 && t[4] - begin >= seconds && r + 1 >= LEAST_IN_TIME)
            repetitions = r + 1;
    }
    double ended = clock_s(CLOCK_REALTIME);
    if (seconds > 0.0 && now_s() - begin < seconds)
        fail(3, "%d repetitions took less than %g s: give a larger --array-bytes", MAX_REPETITIONS, seconds);
    double error = largest_error(a, b, c, n, repetitions);
    int valid = error <= 1e-12 * repetitions;
    printf("{\"program\": \"ib-stream\", \"version\": \"%s\", \"compiler\": \"%s\", \"threads\": %d, \"repetitions\": %d,\n"
           " \"array_bytes\": %llu, \"llc_bytes\": %llu, \"array_per_llc\": ",
           VERSION, __VERSION__, omp_get_max_threads(), repetitions, (unsigned long long)array_bytes,
           (unsigned long long)caches);
    if (caches)
        printf("%.6g", (double)array_bytes / (double)caches);
    else
        printf("null");
    if (waits)
        printf(", \"awake_s\": %.9f, \"started_s\": %.9f, \"begun_s\": %.9f, \"ended_s\": %.9f", start.awake,
               start.started, begun, ended);
    printf(", \"largest_relative_error\": %.3g, \"valid\": %s,\n \"kernels\": {", isfinite(error) ? error : 1e308,
           valid ? "true" : "false");
    print_kernels(times, repetitions, array_bytes);
    printf("}}\n");
    if (!valid)
        fail(1, "wrong result: largest relative error %g", error);
    return 0;
}
