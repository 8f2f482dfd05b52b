/* ib-data PATH BYTES: make PATH hold exactly BYTES bytes that do not compress and are the same everywhere.
 *
 * A file that has that size already is left as it is; its content is the caller's to check (SHA-256). The bytes
 * come from a counter-based mixing function with fixed constants, so every machine makes the same file. It is
 * written under a temporary name and renamed, so a half-written file is never taken for a whole one.
 * Exit status: 0 good, 1 the file could not be written, 2 bad arguments.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS 8192

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

static int fail(const char *path)
{
    fprintf(stderr, "ib-data: %s: %s\n", path, strerror(errno));
    return 1;
}

static int fill(FILE *file, uint64_t bytes)
{
    static uint64_t block[WORDS];
    uint64_t counter = 0;
    while (bytes > 0) {
        size_t part = bytes < sizeof block ? (size_t)bytes : sizeof block;
        for (size_t i = 0; i < WORDS; i++)
            block[i] = htole64(mix(++counter * UINT64_C(0x9e3779b97f4a7c15)));
        if (fwrite(block, 1, part, file) != part)
            return 0;
        bytes -= part;
    }
    return fflush(file) == 0 && fsync(fileno(file)) == 0;
}

int main(int argc, char **argv)
{
    char *end = NULL, temporary[4096];
    errno = 0;
    uint64_t bytes = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
    if (argc != 3 || errno || end == argv[2] || *end || argv[2][0] == '-' || strlen(argv[1]) > sizeof temporary - 8) {
        fprintf(stderr, "usage: ib-data PATH BYTES\n");
        return 2;
    }
    struct stat status;
    if (stat(argv[1], &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size == bytes)
        return 0;
    snprintf(temporary, sizeof temporary, "%s.part", argv[1]);
    FILE *file = fopen(temporary, "wb");
    if (!file || !fill(file, bytes) || fclose(file) != 0 || rename(temporary, argv[1]) != 0)
        return fail(argv[1]);
    return 0;
}
