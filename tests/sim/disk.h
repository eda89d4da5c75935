/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that keeps only what was synced.
 *
 * The code under test runs on real files, in a directory of its own on tmpfs. Every call that changes something is caught on
 * its way (the linker's --wrap, see the Makefile): the real file holds what a process sees, the page cache as it were, and a
 * shadow beside it records what is durable, and the changes since. The rules are POSIX's, and no file system's in particular:
 *
 *   data       is durable after a sync of the file. Of unsynced writes any subset of 512 byte sectors may arrive, in any order;
 *              the file may have grown without its data: zeros.
 *   entries    of a directory (made, removed, renamed) are durable after a sync of the directory. Of unsynced changes any
 *              subset may arrive, but those to one name arrive in order, and a directory is not removed before what was in it.
 *              A rename is there on both sides or on neither.
 *   a failed   sync leaves a part of what it should have written on the disk, and the rest in memory only, marked clean: later
 *   sync       syncs do not write it. That is what Linux does. By the next start it is evicted; Linux may keep it for longer,
 *              and who reads it back then cannot know that it is not on the disk.
 *
 * Two ways to die: a process that is killed leaves the cache, a machine that loses power leaves what is durable and a part of
 * the rest. Either can be set for the n-th changing call from now, before it, behind it or, for a write, within it. From then
 * on the process is a ghost: its calls fail and change nothing, so it can be led out through its own error paths and freed, and
 * the next one starts in the same program. That is some 50 times faster than a process for each life, and a debugger can
 * follow.
 *
 * One disk. One thread at a time changes it, and several may read meanwhile.
 */
#ifndef WICK_TESTS_SIM_DISK_H
#define WICK_TESTS_SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum disk_death {
	DISK_KILLED,
	DISK_POWER_LOST,
};

/* Empties root, an absolute path to a directory that only the simulation uses, and starts anew. */
void disk_reset(const char *root, uint64_t seed);
/* Ends the process at the n-th changing call from now; 0 = not. */
void disk_set_death(uint64_t nth, enum disk_death death);
void disk_die(enum disk_death death); /* now */
bool disk_is_dead(void);
/* Makes the tree what the next process finds. Nobody has a file open. */
void disk_restart(void);
uint64_t disk_calls(void); /* changing calls since disk_reset() */

/* Called before each changing call of a live process. It may use the disk itself; it is not called within itself. */
void disk_set_hook(void (*hook)(void *context), void *context);

/* The n-th write from now, and those behind it until disk_set_full(0), finds the disk full; it may write a part. */
void disk_set_full(uint64_t nth);
bool disk_is_full(void); /* a call was refused for want of room since disk_set_full() */
/* The n-th sync from now fails with EIO. */
void disk_set_failing_sync(uint64_t nth);
bool disk_has_failed(void); /* since disk_reset() */

/* Whether a crash may have torn what is at `offset` of a file with this name in its directory: the offset lay in its unsynced
 * part when the power was lost. */
bool disk_was_torn(const char *name, uint64_t offset);
/* Flips one bit of one file below `directory` (relative to root), chosen by chance; false if there is no byte to flip. The path
 * relative to the root is in path. */
bool disk_flip_bit(const char *directory, char *path, size_t size);
/* Compares the shadow, all its changes applied, to the real tree; a description of the first difference, or NULL. */
const char *disk_check(void);

#endif
