/* The volume's intent log: a record for each write and each free, and what is done with them after a crash. */
#include "inside.h"

/* A write that is committed at once carries its data; else they are read again if a flush comes before they are on
 * disk by themselves (`log_read`). `zil_itx_assign` takes the record over.
 */
void log_write(dmu_tx_t *tx, uint64_t offset, uint64_t size, const void *data, bool now) {
    bool copied = now && size <= zil_max_copied_data(volume.log);
    itx_t *record = zil_itx_create(TX_WRITE, sizeof(lr_write_t) + (copied ? size : 0));
    lr_write_t *write = (lr_write_t *)&record->itx_lr;
    if (copied)
        memcpy(write + 1, data, size);
    record->itx_wr_state = copied ? WR_COPIED : WR_NEED_COPY;
    record->itx_sync = now ? B_TRUE : B_FALSE;
    record->itx_private = NULL;
    write->lr_foid = DATA_OBJECT;
    write->lr_offset = offset;
    write->lr_length = size;
    write->lr_blkoff = 0;
    BP_ZERO(&write->lr_blkptr);
    zil_itx_assign(volume.log, record, tx);
}

void log_free(dmu_tx_t *tx, uint64_t offset, uint64_t size, bool now) {
    itx_t *record = zil_itx_create(TX_TRUNCATE, sizeof(lr_truncate_t));
    lr_truncate_t *freed = (lr_truncate_t *)&record->itx_lr;
    record->itx_sync = now ? B_TRUE : B_FALSE;
    freed->lr_foid = DATA_OBJECT;
    freed->lr_offset = offset;
    freed->lr_length = size;
    zil_itx_assign(volume.log, record, tx);
}

/* Called while the log is committed: put the data of a record into `data`. */
int log_read(void *argument, uint64_t generation, lr_write_t *record, char *data, struct lwb *lwb, zio_t *zio) {
    (void)argument, (void)generation, (void)lwb, (void)zio;
    if (!data) /* a block by pointer: no record of ours asks for that */
        return ENOTSUP;
    zfs_locked_range_t *range =
        zfs_rangelock_enter(&volume.ranges, record->lr_offset, record->lr_length, RL_READER);
    int error =
        dmu_read_by_dnode(volume.data, record->lr_offset, record->lr_length, data, DMU_READ_NO_PREFETCH);
    zfs_rangelock_exit(range);
    return error;
}

struct replay {
    uint64_t done;
    int error; /* of the last record */
};

static int replayed(struct replay *replay, int error) {
    replay->error = error;
    replay->done += error == 0;
    return error;
}

static bool outside(uint64_t offset, uint64_t size) {
    return size > volume.size || offset > volume.size - size;
}

static int write_again(lr_write_t *write) {
    if (write->lr_foid != DATA_OBJECT || outside(write->lr_offset, write->lr_length) ||
        write->lr_common.lrc_reclen < sizeof *write + write->lr_length)
        return EINVAL;
    dmu_tx_t *tx = dmu_tx_create(volume.os);
    dmu_tx_hold_write_by_dnode(tx, volume.data, write->lr_offset, (int)write->lr_length);
    int error = dmu_tx_assign(tx, DMU_TX_WAIT);
    if (error) {
        dmu_tx_abort(tx);
        return error;
    }
    error = dmu_write_by_dnode(volume.data, write->lr_offset, write->lr_length, write + 1, tx);
    if (!error)
        (void)zil_replaying(dmu_objset_zil(volume.os), tx); /* remembers how far the replay has come */
    dmu_tx_commit(tx);
    return error;
}

static int free_again(lr_truncate_t *freed) {
    if (freed->lr_foid != DATA_OBJECT || outside(freed->lr_offset, freed->lr_length))
        return EINVAL;
    int error = dmu_free_long_range(volume.os, DATA_OBJECT, freed->lr_offset, freed->lr_length);
    if (error)
        return error;
    dmu_tx_t *tx = dmu_tx_create(volume.os);
    dmu_tx_mark_netfree(tx);
    error = dmu_tx_assign(tx, DMU_TX_WAIT);
    if (error) {
        dmu_tx_abort(tx);
        return error;
    }
    (void)zil_replaying(dmu_objset_zil(volume.os), tx);
    dmu_tx_commit(tx);
    return 0;
}

/* `swap`: written by a machine of the other byte order; our disks do not move between machines. */
static int replay_write(void *argument, void *record, boolean_t swap) {
    return replayed(argument, swap ? ENOTSUP : write_again(record));
}

static int replay_free(void *argument, void *record, boolean_t swap) {
    return replayed(argument, swap ? ENOTSUP : free_again(record));
}

static int replay_other(void *argument, void *record, boolean_t swap) {
    (void)record, (void)swap;
    return replayed(argument, ENOTSUP);
}

/* Replay what a crash left. The engine tries a record that fails once more, then gives the rest of the log up: the
 * last error tells that this happened, and then the volume, which lacks writes, is not opened.
 */
int log_replay(struct text *why) {
    zil_replay_func_t *by_type[TX_MAX_TYPE];
    struct replay replay = {0, 0};
    for (int type = 0; type < TX_MAX_TYPE; type++)
        by_type[type] = replay_other;
    by_type[TX_WRITE] = replay_write;
    by_type[TX_TRUNCATE] = replay_free;
    zil_replay(volume.os, &replay, by_type);
    if (replay.done)
        fprintf(stderr, "zvol: %llu records of the intent log replayed\n", (unsigned long long)replay.done);
    return replay.error ? failing(why, "a record of the intent log cannot be replayed", replay.error) : 0;
}
