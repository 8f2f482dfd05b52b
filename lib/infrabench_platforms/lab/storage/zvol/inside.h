/* What the parts of the engine share: the open pool and its volume. Only these parts see headers of OpenZFS. */
#ifndef INSIDE_H
#define INSIDE_H
#include "engine.h"
#include <pthread.h>
#include <sys/zfs_context.h>

#include <sys/dmu.h>
#include <sys/dnode.h>
#include <sys/spa.h>
#include <sys/txg.h>
#include <sys/zfs_rlock.h>
#include <sys/zil.h>

/* Where every volume has its data and its size, so that tools and kernels find them (on-disk format of a zvol). */
#define DATA_OBJECT 1ULL
#define SIZE_OBJECT 2ULL

struct open_pool {
    char name[64], volume[128]; /* NAME and NAME/volume */
    spa_t *spa;
    volatile bool open; /* the throttle of scrub and resilver is */
    volatile bool queued; /* a request to a disk has come through our `vdev_queue_io` */
    uint64_t let_through; /* reads of scrub and resilver that did not make way for others */
};

struct open_volume {
    objset_t *os;
    dnode_t *data;
    zilog_t *log;
    zfs_rangelock_t ranges; /* who reads or writes which part */
    uint64_t size, block;
    volatile bool always;
    pthread_rwlock_t gate; /* held to read by each request, to write by who needs that there are none */
};

extern struct open_pool pool;
extern struct open_volume volume;

int volume_create(uint64_t size, uint64_t block, bool compress, struct text *why);
int volume_open(struct text *why);
void volume_close(void);

/* The intent log: what was written since the last transaction group, as records that a crash leaves behind. */
void log_write(dmu_tx_t *tx, uint64_t offset, uint64_t size, const void *data, bool now);
void log_free(dmu_tx_t *tx, uint64_t offset, uint64_t size, bool now);
int log_read(void *argument, uint64_t generation, lr_write_t *record, char *data, struct lwb *lwb, zio_t *zio);
int log_replay(struct text *why);

/* Append the pool's own words (`spa_get_stats`) as JSON. */
int told_status(struct text *json, nvlist_t *config, struct text *why);

int failing(struct text *why, const char *what, int error);
#endif
