/* What a sandbox shows of itself from inside: kernel, hypervisor, processors, memory. */
#include "pods.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#define UNLIMITED (UINT64_C(1) << 60) /* version 1 of control groups tells a limit near 2^63 where there is none */

static void print_text(const char *name, const char *text) {
    printf("\"%s\": \"", name);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        printf(*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\' ? "\\u%04x" : "%c", *c);
    printf("\", ");
}

/* The signature that a hypervisor gives in leaf 0x40000000, where the processor says that there is one. */
static void print_hypervisor(void) {
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) && c >> 31 & 1) {
        char signature[13] = "";
        __cpuid(0x40000000, a, b, c, d);
        memcpy(signature, &b, 4);
        memcpy(signature + 4, &c, 4);
        memcpy(signature + 8, &d, 4);
        print_text("hypervisor", signature);
        return;
    }
#endif
    printf("\"hypervisor\": null, ");
}

/* The number in a file of control groups; 0 where it is not told or no limit. */
static unsigned long long limit_in(const char *path) {
    char line[64] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    unsigned long long found = fgets(line, sizeof line, file) ? strtoull(line, NULL, 10) : 0;
    fclose(file);
    return found < UNLIMITED ? found : 0;
}

static void print_bytes(const char *name, unsigned long long bytes, const char *then) {
    if (bytes)
        printf("\"%s\": %llu%s", name, bytes, then);
    else
        printf("\"%s\": null%s", name, then);
}

int facts(void) {
    struct utsname kernel;
    cpu_set_t usable;
    unsigned long long total = 0, limit = limit_in("/sys/fs/cgroup/memory.max");
    char line[128];
    if (uname(&kernel) != 0 || sched_getaffinity(0, sizeof usable, &usable) != 0) {
        perror("ib-pods");
        return 1;
    }
    if (!limit)
        limit = limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    FILE *memory = fopen("/proc/meminfo", "r");
    while (memory && fgets(line, sizeof line, memory)) {
        unsigned long long kib;
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
            total = kib * 1024;
    }
    if (memory)
        fclose(memory);
    printf("{");
    print_hypervisor();
    print_text("kernel", kernel.release);
    print_text("kernel_version", kernel.version);
    print_text("machine", kernel.machine);
    printf("\"cpus\": %d, ", CPU_COUNT(&usable));
    print_bytes("memory_limit_B", limit, ", ");
    print_bytes("memory_total_B", total, "}\n");
    return fflush(stdout) == 0 ? 0 : 1;
}
