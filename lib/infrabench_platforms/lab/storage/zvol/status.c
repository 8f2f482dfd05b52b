/* What the pool says of itself, as JSON: exact integers, in bytes and seconds, under names of ours. */
#include "inside.h"

#include <sys/arc_impl.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>

#define ULL unsigned long long

static const char *const vdev_states[] = {
    "unknown", "closed", "offline", "removed", "cannot-open", "faulted", "degraded", "online"
};
static const char *const scan_states[] = {"none", "scanning", "finished", "canceled", "errorscrubbing"};
static const char *const scan_kinds[] = {"none", "scrub", "resilver", "errorscrub"};
static const char *const trim_states[] = {"none", "active", "canceled", "suspended", "complete"};

#define NAMED(names, index) ((index) < sizeof(names) / sizeof *(names) ? (names)[index] : "unknown")

/* The statistics of a vdev come as an array; an engine of another version has more or fewer of them. */
static bool statistics(nvlist_t *disk, vdev_stat_t *into) {
    uint64_t *raw;
    uint_t count;
    if (nvlist_lookup_uint64_array(disk, ZPOOL_CONFIG_VDEV_STATS, &raw, &count) != 0 ||
        count != sizeof *into / sizeof *raw)
        return false;
    memcpy(into, raw, sizeof *into);
    return true;
}

static bool add_vdev(struct text *json, nvlist_t *disk) {
    vdev_stat_t stat;
    nvlist_t **children;
    uint_t count = 0;
    const char *type = fnvlist_lookup_string(disk, ZPOOL_CONFIG_TYPE);
    const char *path;
    if (!statistics(disk, &stat))
        return false;
    text_add(json, "{\"type\": ");
    text_quote(json, type);
    if (nvlist_lookup_string(disk, ZPOOL_CONFIG_PATH, &path) == 0) {
        text_add(json, ", \"path\": ");
        text_quote(json, path);
    }
    text_add(json, ", \"guid\": %llu, \"state\": \"%s\"", (ULL)fnvlist_lookup_uint64(disk, ZPOOL_CONFIG_GUID),
        NAMED(vdev_states, stat.vs_state));
    text_add(json, ", \"allocated_B\": %llu, \"space_B\": %llu, \"read_B\": %llu, \"written_B\": %llu",
        (ULL)stat.vs_alloc, (ULL)stat.vs_space, (ULL)stat.vs_bytes[ZIO_TYPE_READ],
        (ULL)stat.vs_bytes[ZIO_TYPE_WRITE]);
    text_add(json, ", \"reads\": %llu, \"writes\": %llu", (ULL)stat.vs_ops[ZIO_TYPE_READ],
        (ULL)stat.vs_ops[ZIO_TYPE_WRITE]);
    text_add(json, ", \"read_errors\": %llu, \"write_errors\": %llu, \"checksum_errors\": %llu",
        (ULL)stat.vs_read_errors, (ULL)stat.vs_write_errors, (ULL)stat.vs_checksum_errors);
    text_add(json, ", \"healed_B\": %llu, \"scanned_B\": %llu, \"trimmed_B\": %llu, \"trim\": \"%s\"",
        (ULL)stat.vs_self_healed, (ULL)stat.vs_scan_processed, (ULL)stat.vs_trim_bytes_done,
        NAMED(trim_states, stat.vs_trim_state));
    text_add(json, ", \"trim_errors\": %llu, \"children\": [", (ULL)stat.vs_trim_errors);
    bool whole = true;
    if (nvlist_lookup_nvlist_array(disk, ZPOOL_CONFIG_CHILDREN, &children, &count) != 0)
        count = 0;
    for (uint_t i = 0; i < count && whole; i++) {
        text_add(json, i ? ", " : "");
        whole = add_vdev(json, children[i]);
    }
    text_add(json, "]}");
    return whole;
}

/* The last scrub or resilver, running or not; null when there never was one. */
static bool add_scan(struct text *json, nvlist_t *tree) {
    pool_scan_stat_t scan;
    uint64_t *raw;
    uint_t count;
    if (nvlist_lookup_uint64_array(tree, ZPOOL_CONFIG_SCAN_STATS, &raw, &count) != 0) {
        text_add(json, "null");
        return true;
    }
    if (count != sizeof scan / sizeof *raw)
        return false;
    memcpy(&scan, raw, sizeof scan);
    text_add(json, "{\"kind\": \"%s\", \"state\": \"%s\"", NAMED(scan_kinds, scan.pss_func),
        NAMED(scan_states, scan.pss_state));
    text_add(json, ", \"begun_s\": %llu, \"ended_s\": %llu", (ULL)scan.pss_start_time, (ULL)scan.pss_end_time);
    text_add(json, ", \"all_B\": %llu, \"examined_B\": %llu, \"issued_B\": %llu, \"processed_B\": %llu",
        (ULL)scan.pss_to_examine, (ULL)scan.pss_examined, (ULL)scan.pss_issued, (ULL)scan.pss_processed);
    text_add(json, ", \"skipped_B\": %llu, \"errors\": %llu}", (ULL)scan.pss_skipped, (ULL)scan.pss_errors);
    return true;
}

static int add_volume(struct text *json) {
    uint64_t referenced, available, objects, free_objects, sync, compression;
    int error = dsl_prop_get_integer(pool.volume, "sync", &sync, NULL);
    if (!error)
        error = dsl_prop_get_integer(pool.volume, "compression", &compression, NULL);
    if (error)
        return error;
    dmu_objset_space(volume.os, &referenced, &available, &objects, &free_objects);
    text_add(json, "{\"size_B\": %llu, \"block_B\": %llu, \"referenced_B\": %llu, \"available_B\": %llu",
        (ULL)volume.size, (ULL)volume.block, (ULL)referenced, (ULL)available);
    text_add(json, ", \"sync\": \"%s\", \"compression\": \"%s\"}", sync == ZFS_SYNC_ALWAYS ? "always" : "standard",
        compression == ZIO_COMPRESS_LZ4 ? "lz4" : "off");
    return 0;
}

int told_status(struct text *json, nvlist_t *config, struct text *why) {
    nvlist_t *tree = fnvlist_lookup_nvlist(config, ZPOOL_CONFIG_VDEV_TREE);
    uint64_t errors = 0;
    uint64_t autotrim = spa_get_autotrim(pool.spa);
    if (nvlist_lookup_uint64(config, ZPOOL_CONFIG_ERRCOUNT, &errors) != 0)
        return failing(why, "the pool tells no count of errors", EPROTO);
    text_add(json, "{\"ok\": true, \"pool\": \"%s\", \"guid\": %llu, \"suspended\": %s, \"errors\": %llu", pool.name,
        (ULL)fnvlist_lookup_uint64(config, ZPOOL_CONFIG_POOL_GUID),
        nvlist_exists(config, ZPOOL_CONFIG_SUSPENDED) ? "true" : "false", (ULL)errors);
    text_add(json, ", \"autotrim\": %s, \"cache\": {\"most_B\": %llu, \"least_B\": %llu, \"target_B\": %llu",
        autotrim == SPA_AUTOTRIM_ON ? "true" : "false", (ULL)arc_c_max, (ULL)arc_c_min, (ULL)arc_c);
    text_add(json, ", \"data_B\": %llu", (ULL)wmsum_value(&arc_sums.arcstat_data_size)); /* the rest is metadata */
    text_add(json, ", \"held_B\": %llu}, \"dirty_most_B\": %llu, \"throttle\": \"%s\"",
        (ULL)aggsum_value(&arc_sums.arcstat_size), (ULL)zfs_dirty_data_max, pool.open ? "open" : "default");
    text_add(json, ", \"let_through\": %llu, \"scan\": ", (ULL)pool.let_through);
    if (!add_scan(json, tree))
        return failing(why, "the pool's scan has other statistics than this plugin was built for", EPROTO);
    text_add(json, ", \"volume\": ");
    int error = add_volume(json);
    if (error)
        return failing(why, "the volume tells nothing", error);
    text_add(json, ", \"vdevs\": ");
    if (!add_vdev(json, tree))
        return failing(why, "the pool's disks have other statistics than this plugin was built for", EPROTO);
    text_add(json, "}");
    return 0;
}
