/* The pool: made or imported when the process starts, exported when it ends, and what may happen to its disks. */
#include "inside.h"

#include <libzutil.h>
#include <sys/prctl.h>
#include <sys/arc_impl.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/spa_impl.h>
#include <sys/vdev.h>
#include <zfeature_common.h>

#define ASHIFT 12 /* sectors of 4 KiB */
#define NO_FILE "/nonexistent/zpool.cache" /* pools are found by their labels; no list of them is kept */

/* Tunables of scrub and resilver (zfs(4)), which no header declares: requests in flight to a disk, at least and at
 * most; how much they make way for others; bytes in flight. `pool_throttle` knows their defaults.
 */
#define OPEN_ACTIVE 10
extern uint32_t zfs_vdev_scrub_min_active, zfs_vdev_scrub_max_active;
extern uint_t zfs_vdev_nia_delay, zfs_vdev_nia_credit;
extern unsigned long zfs_scan_vdev_limit;

struct open_pool pool;
static char holder[] = "pool";

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
    fnvlist_add_string(tree, ZPOOL_CONFIG_TYPE, VDEV_TYPE_ROOT);
    fnvlist_add_nvlist_array(tree, ZPOOL_CONFIG_CHILDREN, &child, 1);
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
    fnvlist_add_nvlist_array(mirror, ZPOOL_CONFIG_CHILDREN, disks, (uint_t)options->count);
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
    setenv("ZFS_VDEV_DEVID_OPT_OUT", "YES", 1); /* else it waits seconds for a udevd to name each disk (zpool(8)) */
    int error = zpool_find_config(NULL, pool.name, &config, &search, &libzpool_config_ops);
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

int pool_throttle(bool open, struct text *why) {
    (void)why;
    zfs_vdev_scrub_min_active = open ? OPEN_ACTIVE : 1;
    zfs_vdev_scrub_max_active = open ? OPEN_ACTIVE : 3;
    zfs_vdev_nia_credit = open ? OPEN_ACTIVE : 5;
    zfs_vdev_nia_delay = open ? 0 : 5;
    zfs_scan_vdev_limit = open ? 16ul << 20 : 4ul << 20;
    pool.open = open;
    return 0;
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
