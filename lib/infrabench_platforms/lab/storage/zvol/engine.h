/* The storage engine as its callers see it: one pool with one volume, in this process. No header of OpenZFS or of
 * nbdkit is included here, so that both sides can be compiled each with its own.
 *
 * Functions that can fail return 0 or an errno value, and where they take a `struct text` they say why in it.
 */
#ifndef ENGINE_H
#define ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISKS_MOST 4
#define VOLUME "volume" /* the name of the one volume, below the name of the pool */

struct text {
    char *data; /* always ends in a zero byte once something was added; to be freed */
    size_t size, room;
};

struct engine_options {
    const char *pool;
    const char *disks[DISKS_MOST]; /* devices or files; of a new pool these make one mirror */
    int count;
    bool create, autotrim, compress, always, open;
    uint64_t size, block; /* bytes: of a new volume, and of its blocks */
    uint64_t cache, dirty; /* bytes: most that the ARC holds; most of what is written and not yet on disk */
};

/* Make the pool or import it, then open its volume; what a crash left in the intent log is replayed. */
int engine_start(const struct engine_options *options, struct text *why);
/* Everything to disk, then export the pool. */
int engine_stop(struct text *why);

uint64_t volume_size(void);
uint64_t volume_block(void);
/* Ranges must lie within the volume. `now`: return when it is on disk. */
int volume_read(void *data, uint64_t size, uint64_t offset);
int volume_write(const void *data, uint64_t size, uint64_t offset, bool now);
int volume_flush(void);
/* Give the whole blocks of the range back to the pool; they read as zeros then. `*first` and `*last` bound them. */
int volume_free(uint64_t size, uint64_t offset, bool now, uint64_t *first, uint64_t *last);

/* `always`: every write returns when it is on disk (the property sync=always); else when it is told to (standard). */
int pool_sync(bool always, struct text *why);
int pool_commit(struct text *why); /* everything to disk */
int pool_drop(struct text *why);   /* everything to disk, then out of memory */
/* Disks are named by their guid, which `pool_status` tells: a path may be that of another disk by now. */
int pool_offline(uint64_t disk, struct text *why);
int pool_replace(uint64_t disk, const char *by, struct text *why);
int pool_scrub(bool start, struct text *why);
/* `open`: scrub and resilver take what the disks give; else they make way for others, as the engine does by itself. */
int pool_throttle(bool open, struct text *why);
int pool_trim(struct text *why); /* tell the disks of all free space; returns when it has begun */
/* Append one JSON object: the pool, its disks, its scan and its volume. */
int pool_status(struct text *json, struct text *why);

void text_free(struct text *text);
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_quote(struct text *text, const char *string); /* as a JSON string */

/* Answer commands on a unix socket, from a thread of its own (see control.c). */
int control_start(const char *path, struct text *why);
void control_stop(void);
#endif
