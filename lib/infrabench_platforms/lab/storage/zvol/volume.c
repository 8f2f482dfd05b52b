/* The volume: reads, writes and frees of ranges, each a transaction of the pool, with the intent log for what has to
 * be on disk before the transaction group is.
 */
#include "inside.h"

#include <sys/arc_impl.h>
#include <sys/dsl_prop.h>
#include <sys/zap.h>

#define PIECE (1ULL << 20) /* bytes of one transaction, at most */
#define DROP_TRIES 100
#define DROP_WAIT_US 100000

struct open_volume volume;
static char holder[] = "volume";

struct shape {
    uint64_t size, block;
};

static void shape_volume(objset_t *os, void *argument, cred_t *user, dmu_tx_t *tx) {
    struct shape *shape = argument;
    (void)user;
    VERIFY0(dmu_object_claim(os, DATA_OBJECT, DMU_OT_ZVOL, (int)shape->block, DMU_OT_NONE, 0, tx));
    VERIFY0(zap_create_claim(os, SIZE_OBJECT, DMU_OT_ZVOL_PROP, DMU_OT_NONE, 0, tx));
    VERIFY0(zap_update(os, SIZE_OBJECT, "size", sizeof shape->size, 1, &shape->size, tx));
}

int volume_create(uint64_t size, uint64_t block, bool compress, struct text *why) {
    struct shape shape = {size, block};
    int error = dmu_objset_create(pool.volume, DMU_OST_ZVOL, 0, NULL, shape_volume, &shape);
    if (error)
        return failing(why, "the volume cannot be created", error);
    error = dsl_prop_set_int(
        pool.volume, "compression", ZPROP_SRC_LOCAL, compress ? ZIO_COMPRESS_LZ4 : ZIO_COMPRESS_OFF);
    return error ? failing(why, "compression", error) : 0;
}

/* Own the volume and hold its data; the log is open for the replay that comes first. */
static int own(void) {
    dmu_object_info_t info;
    int error = dmu_objset_own(pool.volume, DMU_OST_ZVOL, B_FALSE, B_TRUE, holder, &volume.os);
    if (error)
        return error;
    error = zap_lookup(volume.os, SIZE_OBJECT, "size", sizeof volume.size, 1, &volume.size);
    if (!error)
        error = dmu_object_info(volume.os, DATA_OBJECT, &info);
    if (!error)
        error = dnode_hold(volume.os, DATA_OBJECT, holder, &volume.data);
    if (error) {
        dmu_objset_disown(volume.os, B_TRUE, holder);
        return error;
    }
    volume.block = info.doi_data_block_size;
    return 0;
}

int volume_open(struct text *why) {
    pthread_rwlockattr_t fair;
    int error = own();
    if (error)
        return failing(why, "the volume cannot be opened", error);
    pthread_rwlockattr_init(&fair); /* who wants no requests gets its turn among many of them */
    pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&volume.gate, &fair);
    pthread_rwlockattr_destroy(&fair);
    zfs_rangelock_init(&volume.ranges, NULL, NULL);
    error = log_replay(why);
    if (error) {
        dnode_rele(volume.data, holder);
        dmu_objset_disown(volume.os, B_TRUE, holder);
        return error;
    }
    volume.log = zil_open(volume.os, log_read, NULL);
    return 0;
}

void volume_close(void) {
    zil_close(volume.log);
    dnode_rele(volume.data, holder);
    txg_wait_synced(dmu_objset_pool(volume.os), 0);
    dmu_objset_disown(volume.os, B_TRUE, holder);
    zfs_rangelock_fini(&volume.ranges);
    pthread_rwlock_destroy(&volume.gate);
}

uint64_t volume_size(void) { return volume.size; }

uint64_t volume_block(void) { return volume.block; }

static zfs_locked_range_t *enter(uint64_t offset, uint64_t size, zfs_rangelock_type_t how) {
    pthread_rwlock_rdlock(&volume.gate);
    return zfs_rangelock_enter(&volume.ranges, offset, size, how);
}

static void leave(zfs_locked_range_t *range) {
    zfs_rangelock_exit(range);
    pthread_rwlock_unlock(&volume.gate);
}

static int known(int error) { return error == ECKSUM ? EIO : error; /* NBD knows no "checksum" */ }

int volume_read(void *data, uint64_t size, uint64_t offset) {
    if (!size)
        return 0;
    zfs_locked_range_t *range = enter(offset, size, RL_READER);
    int error = 0;
    for (uint64_t done = 0; done < size && !error; done += PIECE)
        error = dmu_read_by_dnode(
            volume.data, offset + done, MIN(PIECE, size - done), (char *)data + done, DMU_READ_PREFETCH);
    leave(range);
    return known(error);
}

static int write_piece(const char *data, uint64_t size, uint64_t offset, bool now) {
    dmu_tx_t *tx = dmu_tx_create(volume.os);
    dmu_tx_hold_write_by_dnode(tx, volume.data, offset, (int)size);
    int error = dmu_tx_assign(tx, DMU_TX_WAIT); /* also waits where more is dirty than may be */
    if (error) {
        dmu_tx_abort(tx);
        return error;
    }
    error = dmu_write_by_dnode(volume.data, offset, size, data, tx);
    if (!error)
        log_write(tx, offset, size, data, now);
    dmu_tx_commit(tx);
    return error;
}

int volume_write(const void *data, uint64_t size, uint64_t offset, bool now) {
    if (!size)
        return 0;
    now = now || volume.always;
    zfs_locked_range_t *range = enter(offset, size, RL_WRITER);
    int error = 0;
    for (uint64_t done = 0; done < size && !error; done += PIECE)
        error = write_piece((const char *)data + done, MIN(PIECE, size - done), offset + done, now);
    zfs_rangelock_exit(range); /* before the commit, which reads what it logs */
    if (now)
        zil_commit(volume.log, DATA_OBJECT);
    pthread_rwlock_unlock(&volume.gate);
    return known(error);
}

int volume_flush(void) {
    pthread_rwlock_rdlock(&volume.gate);
    zil_commit(volume.log, DATA_OBJECT);
    pthread_rwlock_unlock(&volume.gate);
    return 0;
}

int volume_free(uint64_t size, uint64_t offset, bool now, uint64_t *first, uint64_t *last) {
    *first = (offset + volume.block - 1) / volume.block * volume.block;
    *last = (offset + size) / volume.block * volume.block;
    if (*first >= *last)
        return 0;
    now = now || volume.always;
    zfs_locked_range_t *range = enter(*first, *last - *first, RL_WRITER);
    dmu_tx_t *tx = dmu_tx_create(volume.os);
    dmu_tx_mark_netfree(tx); /* a full pool must still be able to free */
    int error = dmu_tx_assign(tx, DMU_TX_WAIT);
    if (error) {
        dmu_tx_abort(tx);
    } else {
        log_free(tx, *first, *last - *first, now);
        dmu_tx_commit(tx);
        error = dmu_free_long_range(volume.os, DATA_OBJECT, *first, *last - *first);
    }
    zfs_rangelock_exit(range);
    if (now && !error)
        zil_commit(volume.log, DATA_OBJECT);
    pthread_rwlock_unlock(&volume.gate);
    return known(error);
}

int pool_sync(bool always, struct text *why) {
    int error = dsl_prop_set_int(
        pool.volume, "sync", ZPROP_SRC_LOCAL, always ? ZFS_SYNC_ALWAYS : ZFS_SYNC_STANDARD);
    if (error)
        return failing(why, "sync", error);
    pthread_rwlock_wrlock(&volume.gate); /* every request from now on sees it, and none before is open */
    volume.always = always;
    pthread_rwlock_unlock(&volume.gate);
    return 0;
}

int pool_commit(struct text *why) {
    (void)why;
    zil_commit(volume.log, DATA_OBJECT);
    txg_wait_synced(dmu_objset_pool(volume.os), 0);
    return 0;
}

/* What was read ahead stays in the cache for a second at least, whoever asks: then it is asked again. */
int pool_drop(struct text *why) {
    bool held = true;
    pthread_rwlock_wrlock(&volume.gate);
    zil_commit(volume.log, DATA_OBJECT);
    txg_wait_synced(dmu_objset_pool(volume.os), 0);
    for (int tries = 0; held && tries < DROP_TRIES; tries++) {
        if (tries)
            usleep(DROP_WAIT_US);
        dmu_objset_evict_dbufs(volume.os); /* else they hold on to what the cache is to give up */
        arc_flush(pool.spa, B_FALSE);
        held = wmsum_value(&arc_sums.arcstat_data_size) != 0;
    }
    pthread_rwlock_unlock(&volume.gate);
    return held ? failing(why, "the cache keeps data", EBUSY) : 0;
}
