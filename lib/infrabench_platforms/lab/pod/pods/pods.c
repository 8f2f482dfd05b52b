/* ib-pods: starts a tool in many pods at one instant, and collects what it said.
 *
 *   ib-pods serve [--port P] [--address A]
 *       Main process of a pod: takes in orphans, ends at once on SIGTERM, and runs one job for each connection that
 *       begins with the secret of the environment variable INFRABENCH_TOKEN (16 to 256 bytes). When a connection
 *       closes, its job's whole process group is killed.
 *   ib-pods hello -n N [--list FILE] [--port P]
 *       Asks pods 1 to N of the list (lines "NAME ADDRESS") for their start, and compares clocks. Prints a JSON object
 *       a line for each, and {"end": N}.
 *   ib-pods run -n N -t SECONDS [--gate exec|stdin] [--pairs all|first --server-port P --server WORD ...]
 *           [--stat FILE] [--list FILE] [--port P] -- COMMAND...
 *       Starts COMMAND in pods 1 to N at one instant. Gate exec: it is executed then. Gate stdin: it is executed
 *       before, says the line "ready" (which is no part of its output) and is given a line with the instant (seconds
 *       of Unix time of its pod's clock) shortly before it; it waits until then. With pairs the odd pods first start
 *       the server, a word for each --server, and are waited for until it listens on P; the word {peer} of COMMAND
 *       becomes the server's address. `first`: only the first pair, the others stay idle. SECONDS is the longest time
 *       to get ready, and again to run. The first line of the --stat FILE (/proc/stat, say) goes to the standard error
 *       at that instant, and again when the last pod has told its end. Prints a JSON object for the run, one for each pod, and {"end": N}.
 *   ib-pods facts
 *       Prints what the kernel and the processor say about the sandbox this runs in.
 *
 * A pod's start_s is the instant, if its process was awake by then, else when it woke up; it waits for a processor after
 * that. With gate stdin it is when the line was written, and the tool has to tell its own. Times end in _s: seconds of
 * Unix time of the pod's clock. user_s and system_s are of its process and of those that it has waited for.
 *
 * Texts in JSON are bytes, a character for each (ISO 8859-1). offset_s is the pod's clock minus the conductor's: times
 * of a pod minus it are on the conductor's clock. Nobody is trusted with more than the caps of pods.h allow.
 * Exit status: 0 every pod did its job, 1 one did not, 2 bad arguments.
 */
#include "pods.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("ib-pods: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

int64_t number(const char *what, const char *text, double lowest, double highest, double scale) {
    char *end = NULL;
    errno = 0;
    double value = text ? strtod(text, &end) : 0.0;
    if (!text || errno || end == text || *end || !(value >= lowest && value <= highest))
        usage("%s must be a number from %g to %g, not %s", what, lowest, highest, text ? text : "nothing");
    return (int64_t)(value * scale);
}

int main(int argc, char **argv) {
    int64_t started = wall();
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "serve") == 0)
        return serve(argc - 2, argv + 2, started);
    if (strcmp(verb, "hello") == 0)
        return hello(argc - 2, argv + 2);
    if (strcmp(verb, "run") == 0)
        return run(argc - 2, argv + 2);
    if (strcmp(verb, "facts") == 0)
        return facts();
    if (strcmp(verb, "--version") == 0) {
        puts("ib-pods " VERSION);
        return 0;
    }
    usage("say serve, hello, run, facts or --version, not %s", *verb ? verb : "nothing");
}
