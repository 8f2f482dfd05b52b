/* nbdkit's side of the plugin: parameters, and the volume of one pool as a network block device.
 *
 *   nbdkit -f -t 32 -U SOCKET zvol.so pool=NAME disk=PATH disk=PATH control=SOCKET [create=yes size=128G block=16k]
 *       [arc=1G] [dirty=512M] [sync=standard|always] [compression=off|lz4] [autotrim=yes|no] [throttle=default|open]
 */
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#include "engine.h"
#include <errno.h>
#include <nbdkit-plugin.h>
#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define GIB (KIB * KIB * KIB)
#define BLOCK_LEAST (4 * KIB)
#define BLOCK_MOST (16 * KIB) /* larger blocks are logged by pointer to them, which this plugin does not do */

static struct engine_options options = {
    .autotrim = true, .block = 16 * KIB, .cache = GIB, .dirty = GIB / 2, .size = 0
};
static char *control;
static bool running;

static int word(const char *key, const char *value, const char *no, const char *yes, bool *is) {
    if (strcmp(value, no) != 0 && strcmp(value, yes) != 0) {
        nbdkit_error("%s=%s: it is %s or %s", key, value, no, yes);
        return -1;
    }
    *is = strcmp(value, yes) == 0;
    return 0;
}

static int bytes(const char *key, const char *value, uint64_t least, uint64_t most, uint64_t *into) {
    int64_t parsed = nbdkit_parse_size(value);
    if (parsed < 0)
        return -1;
    if ((uint64_t)parsed < least || (uint64_t)parsed > most) {
        nbdkit_error("%s=%s: from %llu to %llu bytes", key, value, (unsigned long long)least, (unsigned long long)most);
        return -1;
    }
    *into = (uint64_t)parsed;
    return 0;
}

static int disk(const char *value) {
    if (options.count == DISKS_MOST) {
        nbdkit_error("at most %d disks", DISKS_MOST);
        return -1;
    }
    char *path = nbdkit_realpath(value);
    options.disks[options.count++] = path;
    return path ? 0 : -1;
}

static int name(const char *value) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (!(*value >= 'a' && *value <= 'z') || strlen(value) > 32 || strspn(value, letters) != strlen(value)) {
        nbdkit_error("pool=%s: a letter, then letters, digits and -, at most 32", value);
        return -1;
    }
    options.pool = value; /* nbdkit keeps its command line */
    return 0;
}

static int zvol_config(const char *key, const char *value) {
    if (!strcmp(key, "pool"))
        return name(value);
    if (!strcmp(key, "disk"))
        return disk(value);
    if (!strcmp(key, "control"))
        return (control = nbdkit_absolute_path(value)) ? 0 : -1;
    if (!strcmp(key, "create"))
        return word(key, value, "no", "yes", &options.create);
    if (!strcmp(key, "autotrim"))
        return word(key, value, "no", "yes", &options.autotrim);
    if (!strcmp(key, "compression"))
        return word(key, value, "off", "lz4", &options.compress);
    if (!strcmp(key, "sync"))
        return word(key, value, "standard", "always", &options.always);
    if (!strcmp(key, "throttle"))
        return word(key, value, "default", "open", &options.open);
    if (!strcmp(key, "size"))
        return bytes(key, value, 16 * KIB * KIB, 1024 * GIB, &options.size);
    if (!strcmp(key, "block"))
        return bytes(key, value, BLOCK_LEAST, BLOCK_MOST, &options.block);
    if (!strcmp(key, "arc"))
        return bytes(key, value, 64 * KIB * KIB, 1024 * GIB, &options.cache);
    if (!strcmp(key, "dirty"))
        return bytes(key, value, 64 * KIB * KIB, 1024 * GIB, &options.dirty);
    nbdkit_error("unknown parameter %s", key);
    return -1;
}

static int zvol_config_complete(void) {
    if (!options.pool || !options.count || !control) {
        nbdkit_error("pool=, disk= and control= are needed");
        return -1;
    }
    if (options.block & (options.block - 1)) {
        nbdkit_error("block=%llu is no power of two", (unsigned long long)options.block);
        return -1;
    }
    if (options.create && (!options.size || options.size % options.block)) {
        nbdkit_error("create=yes needs size=, in whole blocks");
        return -1;
    }
    return 0;
}

static int failed(const char *what, int error, struct text *why) {
    nbdkit_error("%s: %s", what, why->size ? why->data : strerror(error));
    text_free(why);
    errno = error;
    return -1;
}

/* Threads do not outlive a fork: the engine starts after nbdkit's, and before the first connection is taken. */
static int zvol_after_fork(void) {
    struct text why = {0};
    int error = engine_start(&options, &why);
    if (error)
        return failed(options.pool, error, &why);
    running = true;
    error = control_start(control, &why);
    return error ? failed("control socket", error, &why) : 0;
}

/* No connection is left. */
static void zvol_cleanup(void) {
    struct text why = {0};
    if (!running)
        return;
    control_stop();
    int error = engine_stop(&why);
    if (error)
        failed("export", error, &why);
    running = false;
}

static void zvol_unload(void) {
    for (int i = 0; i < options.count; i++)
        free((char *)options.disks[i]);
    free(control);
}

static void *zvol_open(int readonly) {
    (void)readonly;
    return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t zvol_get_size(void *handle) {
    (void)handle;
    return (int64_t)volume_size();
}

static int zvol_block_size(void *handle, uint32_t *least, uint32_t *preferred, uint32_t *most) {
    (void)handle;
    *least = 1;
    *preferred = (uint32_t)volume_block();
    *most = 32 * KIB * KIB;
    return 0;
}

static int can(void *handle) {
    (void)handle;
    return 1;
}

static int zvol_can_fua(void *handle) {
    (void)handle;
    return NBDKIT_FUA_NATIVE;
}

static int told(int error) {
    if (error == 0)
        return 0;
    nbdkit_set_error(error);
    nbdkit_error("%s", strerror(error));
    return -1;
}

static int zvol_pread(void *handle, void *data, uint32_t size, uint64_t offset, uint32_t flags) {
    (void)handle;
    (void)flags;
    return told(volume_read(data, size, offset));
}

static int zvol_pwrite(void *handle, const void *data, uint32_t size, uint64_t offset, uint32_t flags) {
    (void)handle;
    return told(volume_write(data, size, offset, flags & NBDKIT_FLAG_FUA));
}

static int zvol_flush(void *handle, uint32_t flags) {
    (void)handle;
    (void)flags;
    return told(volume_flush());
}

static int zvol_trim(void *handle, uint32_t size, uint64_t offset, uint32_t flags) {
    uint64_t first, last;
    (void)handle;
    return told(volume_free(size, offset, flags & NBDKIT_FLAG_FUA, &first, &last));
}

/* Whole blocks are freed and read as zeros then; what the range has of other blocks is written. */
static int zvol_zero(void *handle, uint32_t size, uint64_t offset, uint32_t flags) {
    static const char zeros[BLOCK_MOST];
    uint64_t first, last, end = offset + size;
    bool now = flags & NBDKIT_FLAG_FUA;
    (void)handle;
    if (!(flags & NBDKIT_FLAG_MAY_TRIM) || size < 2 * volume_block()) {
        errno = EOPNOTSUPP; /* nbdkit writes the zeros */
        return -1;
    }
    int error = volume_free(size, offset, now, &first, &last);
    if (!error && first > offset)
        error = volume_write(zeros, first - offset, offset, now);
    if (!error && end > last)
        error = volume_write(zeros, end - last, last, now);
    return told(error);
}

static struct nbdkit_plugin plugin = {
    .name = "zvol",
    .longname = "a volume of an OpenZFS pool, by libzpool",
    .version = "1.0",
    .config = zvol_config,
    .config_complete = zvol_config_complete,
    .config_help = "pool=, disk= (each), control=; create=yes size= block=; arc= dirty= sync= compression= autotrim= "
                   "throttle=",
    .after_fork = zvol_after_fork,
    .cleanup = zvol_cleanup,
    .unload = zvol_unload,
    .open = zvol_open,
    .get_size = zvol_get_size,
    .block_size = zvol_block_size,
    .can_write = can,
    .can_flush = can,
    .can_trim = can,
    .can_zero = can,
    .can_multi_conn = can,
    .can_fua = zvol_can_fua,
    .pread = zvol_pread,
    .pwrite = zvol_pwrite,
    .flush = zvol_flush,
    .trim = zvol_trim,
    .zero = zvol_zero,
    .errno_is_preserved = 1,
};
NBDKIT_REGISTER_PLUGIN(plugin)
