/* pause: the first process of a pod. It holds the pod's namespaces, takes in children that lost their parent, and ends
 * when it is told to.
 *
 * Exit status: 0 told to end by SIGTERM or SIGINT, 1 the kernel refused something.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#ifndef VERSION
#define VERSION "1.0"
#endif

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("pause " VERSION);
        return 0;
    }
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGINT);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGCHLD);
    /* Blocked, so that none is lost between two waits; a first process would not get them by default either. */
    if (sigprocmask(SIG_BLOCK, &awaited, NULL) != 0) {
        perror("pause: sigprocmask");
        return 1;
    }
    for (;;) {
        int signal = sigwaitinfo(&awaited, NULL);
        if (signal == SIGINT || signal == SIGTERM)
            return 0;
        if (signal == -1 && errno != EINTR) {
            perror("pause: sigwaitinfo");
            return 1;
        }
        /* One signal may stand for several children. */
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}
