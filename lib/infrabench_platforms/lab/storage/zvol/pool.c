/* The pool: made or imported when the process starts, exported when it ends, and what may happen to its disks. */
#include "inside.h"

#include <dlfcn.h>
#include <libzutil.h>
#include <sys/prctl.h>
#include <sys/arc_impl.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/spa_impl.h>
#include <sys/vdev.h>
#include <sys/vdev_impl.h>
#include <sys/zio.h>
#include <zfeature_common.h>

#define ASHIFT 12 /* sectors of 4 KiB */
#define NO_FILE "/nonexistent/zpool.cache" /* pools are found by their labels; no list of them is kept */

struct open_pool pool;
static char holder[] = "pool";
static zio_t *(*queue)(zio_t *); /* the library's own, see `vdev_queue_io` */

int failing(struct text *why, const char *what, int error) {
    text_add(why, "%s: %s", what, error == ECKSUM ? "checksum error" : strerror(error));
    return error;
}

/* As a description of a disk, with the names that OpenZFS gives to what it needs to know. */
static nvlist_t *described(const char *path) {
    nvlist_t *disk = fnvlist_alloc();
    fnvlist_add_string(disk, ZPOOL_CONFIG_TYPE, VDEV_TYPE_DISK);
    fnvlist_add_string(disk, ZPOOL_CONFIG_PATH, path);
    fnvlist_add_uint64(disk, ZPOOL_CONFIG_ASHIFT, ASHIFT);
    fnvlist_add_uint64(disk, ZPOOL_CONFIG_WHOLE_DISK, 0);
    return disk;
}

static nvlist_t *root(nvlist_t *child) {
    nvlist_t *tree = fnvlist_alloc();
    const nvlist_t *const children[] = {child};
    fnvlist_add_string(tree, ZPOOL_CONFIG_TYPE, VDEV_TYPE_ROOT);
    fnvlist_add_nvlist_array(tree, ZPOOL_CONFIG_CHILDREN, children, 1);
    nvlist_free(child);
    return tree;
}

static nvlist_t *layout(const struct engine_options *options) {
    nvlist_t *disks[DISKS_MOST];
    if (options->count == 1)
        return root(described(options->disks[0]));
    for (int i = 0; i < options->count; i++)
        disks[i] = described(options->disks[i]);
    nvlist_t *mirror = fnvlist_alloc();
    fnvlist_add_string(mirror, ZPOOL_CONFIG_TYPE, VDEV_TYPE_MIRROR);
    fnvlist_add_uint64(mirror, ZPOOL_CONFIG_IS_LOG, 0);
    fnvlist_add_nvlist_array(mirror, ZPOOL_CONFIG_CHILDREN, (const nvlist_t *const *)disks, (uint_t)options->count);
    for (int i = 0; i < options->count; i++)
        nvlist_free(disks[i]);
    return root(mirror);
}

static int create(const struct engine_options *options, struct text *why) {
    nvlist_t *tree = layout(options), *wanted = fnvlist_alloc();
    char feature[128];
    for (int i = 0; i < SPA_FEATURES; i++) {
        snprintf(feature, sizeof feature, "feature@%s", spa_feature_table[i].fi_uname);
        fnvlist_add_uint64(wanted, feature, 0);
    }
    fnvlist_add_uint64(wanted, "autotrim", options->autotrim ? SPA_AUTOTRIM_ON : SPA_AUTOTRIM_OFF);
    int error = spa_create(pool.name, tree, wanted, NULL, NULL);
    nvlist_free(tree);
    nvlist_free(wanted);
    return error ? failing(why, "the pool cannot be created", error) : 0;
}

/* Import the pool from the labels of its disks. It may still be marked as in use: by us, before a crash. */
static int import(const struct engine_options *options, struct text *why) {
    nvlist_t *config = NULL;
    importargs_t search = {
        .path = (char **)options->disks, .paths = options->count, .poolname = pool.name, .can_be_active = B_TRUE,
        .scan = B_TRUE
    };
    libpc_handle_t finder = {.lpc_ops = &libzpool_config_ops};
    setenv("ZFS_VDEV_DEVID_OPT_OUT", "YES", 1); /* else it waits seconds for a udevd to name each disk (zpool(8)) */
    int error = zpool_find_config(&finder, pool.name, &config, &search);
    if (error)
        return failing(why, "no pool of that name on these disks", error);
    error = spa_import(pool.name, config, NULL, ZFS_IMPORT_NORMAL);
    nvlist_free(config);
    return error ? failing(why, "the pool cannot be imported", error) : 0;
}

static void tune(const struct engine_options *options) {
    spa_config_path = NO_FILE;
    zfs_arc_max = options->cache;
    zfs_arc_min = options->cache / 4;
    zfs_dirty_data_max = zfs_dirty_data_max_max = options->dirty;
    zfs_flags = 0;            /* no debugging log */
    zfs_deadman_enabled = 0;  /* to be frozen for minutes is no hanging disk */
}

int engine_start(const struct engine_options *options, struct text *why) {
    snprintf(pool.name, sizeof pool.name, "%s", options->pool);
    snprintf(pool.volume, sizeof pool.volume, "%s/%s", options->pool, VOLUME);
    tune(options);
    queue = (zio_t * (*)(zio_t *)) dlsym(RTLD_NEXT, "vdev_queue_io");
    if (!queue)
        return failing(why, "the library has no queue of its disks", ENOTSUP);
    kernel_init(SPA_MODE_READ | SPA_MODE_WRITE);
    prctl(PR_SET_PDEATHSIG, 0); /* nbdkit in the foreground ends with its parent; ours is a verb that ends at once */
    arc_tuning_update(B_TRUE); /* without it zfs_arc_max is not looked at */
    int error = options->create ? create(options, why) : import(options, why);
    if (!error && options->create)
        error = volume_create(options->size, options->block, options->compress, why);
    if (!error && (error = spa_open(pool.name, &pool.spa, holder)) != 0)
        failing(why, "the pool cannot be opened", error);
    if (!error)
        error = pool_throttle(options->open, why);
    if (!error && (error = volume_open(why)) == 0)
        error = pool_sync(options->always, why);
    return error;
}

int engine_stop(struct text *why) {
    zfs_txg_timeout = 1; /* the autotrim thread ends with a transaction group: not to wait for the usual five seconds */
    volume_close();
    spa_close(pool.spa, holder);
    int error = spa_export(pool.name, NULL, B_FALSE, B_FALSE);
    if (error)
        return failing(why, "the pool cannot be exported", error);
    kernel_fini();
    return 0;
}

int pool_status(struct text *json, struct text *why) {
    nvlist_t *config = NULL;
    int error = spa_get_stats(pool.name, &config, NULL, 0);
    if (!error && config)
        error = told_status(json, config, why);
    else
        error = failing(why, "the pool tells nothing", error ? error : ENOENT);
    nvlist_free(config);
    return error;
}

int pool_offline(uint64_t disk, struct text *why) {
    int error = vdev_offline(pool.spa, disk, 0);
    return error ? failing(why, "not taken offline", error) : 0;
}

/* The old disk leaves the pool by itself when the new one has everything. */
int pool_replace(uint64_t disk, const char *by, struct text *why) {
    nvlist_t *tree = root(described(by));
    int error = spa_vdev_attach(pool.spa, disk, tree, B_TRUE, B_FALSE);
    nvlist_free(tree);
    return error ? failing(why, "not replaced", error) : 0;
}

int pool_scrub(bool start, struct text *why) {
    int error = start ? spa_scan(pool.spa, POOL_SCAN_SCRUB) : spa_scan_stop(pool.spa);
    return error ? failing(why, start ? "no scrub begins" : "no scrub ends", error) : 0;
}

/* The library asks `vdev_queue_io` below for each request to a disk; else this would change nothing, unnoticed. */
int pool_throttle(bool open, struct text *why) {
    if (!pool.queued)
        return failing(why, "the queue of the disks is not ours to change", ENOTSUP);
    pool.open = open;
    return 0;
}

/* In front of the library's function of this name, which puts a request into the queue of its disk. What the kernel's
 * module has as tunables of scrub and resilver (zfs(4)) are constants in this library: reads of a scan have a class of
 * their own, of which one is in flight beside other requests, and at most three. With an open throttle they are put
 * among the reads that somebody waits for, of which ten are in flight.
 */
__attribute__((visibility("default"))) zio_t *vdev_queue_io(zio_t *request) {
    if (!pool.queued)
        pool.queued = true;
    if (pool.open && request->io_type == ZIO_TYPE_READ && request->io_priority == ZIO_PRIORITY_SCRUB &&
        !(request->io_flags & ZIO_FLAG_DONT_QUEUE)) {
        request->io_priority = ZIO_PRIORITY_SYNC_READ;
        atomic_inc_64(&pool.let_through);
    }
    return queue(request);
}

static void collect(nvlist_t *tree, nvlist_t *guids) {
    nvlist_t **children;
    uint_t count = 0;
    char key[32];
    if (nvlist_lookup_nvlist_array(tree, ZPOOL_CONFIG_CHILDREN, &children, &count) != 0) {
        uint64_t guid = fnvlist_lookup_uint64(tree, ZPOOL_CONFIG_GUID);
        snprintf(key, sizeof key, "%llu", (unsigned long long)guid);
        fnvlist_add_uint64(guids, key, guid);
    }
    for (uint_t i = 0; i < count; i++)
        collect(children[i], guids);
}

int pool_trim(struct text *why) {
    nvlist_t *config = NULL;
    int error = spa_get_stats(pool.name, &config, NULL, 0);
    if (error || !config)
        return failing(why, "the pool tells nothing", error ? error : ENOENT);
    nvlist_t *guids = fnvlist_alloc(), *wrong = fnvlist_alloc();
    collect(fnvlist_lookup_nvlist(config, ZPOOL_CONFIG_VDEV_TREE), guids);
    int failed = spa_vdev_trim(pool.spa, guids, POOL_TRIM_START, 0, B_FALSE, B_FALSE, wrong);
    nvpair_t *first = nvlist_next_nvpair(wrong, NULL);
    if (failed)
        error = first ? (int)fnvpair_value_int64(first) : EIO;
    nvlist_free(guids);
    nvlist_free(wrong);
    nvlist_free(config);
    return error ? failing(why, "not every disk is trimmed", error) : 0;
}
