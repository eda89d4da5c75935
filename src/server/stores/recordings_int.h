/* SPDX-License-Identifier: Apache-2.0 */
/* Private to recordings*.c. */
#ifndef WICK_SERVER_STORES_RECORDINGS_INT_H
#define WICK_SERVER_STORES_RECORDINGS_INT_H

#include <limits.h>
#include <stdbool.h>

#include "base/thread.h"
#include "server/stores/recordings.h"
#include "server/stores/recordings_file.h"

struct entry_host {
	struct recording_host shown;
	char key[CONTROL_KEY_SIZE]; /* that its agent got with the request; "" = none, nobody may send anything */
	bool is_writing;	    /* a file of it is being written, without the lock */
};
struct entry {
	struct recording_request request;
	int64_t created_ns;
	uint64_t bytes;
	struct entry_host *hosts;
	size_t host_count;
	unsigned users;		    /* who work on its files without the lock */
	bool is_gone;		    /* out of the table; the last user removes it */
	bool is_changed, is_saving; /* the index on disk is to be written anew; is being written, without the lock */
};
struct recordings {
	struct recordings_options options;
	char *directory;
	int64_t opened_ns; /* wall clock */
	pthread_mutex_t lock;
	struct entry **entries; /* oldest first */
	size_t count, capacity, host_count;
	struct recordings_agent *agents;
	size_t agent_count, agent_capacity;
	struct recordings_stats stats;
	pthread_t saver;
	bool saver_runs, saver_stops;
	pthread_cond_t saver_wake;
	uint64_t reserved; /* at most, of files that are being written; not in stats.bytes */
};

int recordings_path(const struct recordings *recordings, const char *id, const char *name, char out[static PATH_MAX],
		    struct error *err);
struct entry *entry_free(struct entry *entry);
/* With the lock: the user's last act. */
void recordings_leave(struct recordings *recordings, struct entry *entry);
/* With the lock. The entry is the table's then. */
int recordings_add_entry(struct recordings *recordings, struct entry *entry, struct error *err);
struct entry_host *entry_host_find(struct entry *entry, const char *name);
/* recordings_disk.c: DIR/ID/recording.json, the request and its state. */
int recordings_write_index(const struct entry *entry, struct buffer *out, struct error *err);
int recordings_save_index(const struct recordings *recordings, const char *id, struct bytes text, struct error *err);
int recordings_load(struct recordings *recordings, struct error *err);
void recordings_set_aside(struct recordings *recordings, const char *path, const char *why);
/* recordings_saver.c, with the lock. At once, which gives the lock up meanwhile; the caller is a user, or it may be gone. */
int recordings_save_entry(struct recordings *recordings, struct entry *entry, struct error *err);
void recordings_save_later(struct recordings *recordings, struct entry *entry);
/* Without the lock, when nobody else uses them: all is written. */
void recordings_stop_saver(struct recordings *recordings);

#endif
