/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indices are written without the lock: what a host reports comes with a question of its agent, all of which wait for one lock
 * on the thread that answers them, and a disk may take seconds to sync.
 *
 * So a report only marks the recording as changed, and a thread writes what is marked. It is started by the first report. A
 * crash before that loses a reason, and the host waits again, until its agent is asked and says once more what became of it.
 * One thread writes the index of one recording at a time, so that the last one written is the newest.
 */
#include "server/stores/recordings_int.h"

static struct entry *next_changed(const struct recordings *recordings)
{
	for (size_t i = 0; i < recordings->count; i++)
		if (recordings->entries[i]->is_changed && !recordings->entries[i]->is_saving)
			return recordings->entries[i];
	return NULL;
}

int recordings_save_entry(struct recordings *recordings, struct entry *entry, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	entry->is_saving = true;
	entry->is_changed = false;
	entry->users++;
	int r = recordings_write_index(entry, &text, err);
	pthread_mutex_unlock(&recordings->lock);
	if (r == 0)
		r = recordings_save_index(recordings, entry->request.id, buffer_bytes(&text), err);
	pthread_mutex_lock(&recordings->lock);
	entry->is_saving = false;
	if (entry->is_changed)
		pthread_cond_signal(&recordings->saver_wake);
	recordings_leave(recordings, entry);
	return r;
}

static void *run(void *context)
{
	struct recordings *recordings = context;
	pthread_mutex_lock(&recordings->lock);
	for (;;) {
		struct entry *entry = next_changed(recordings);
		struct error err = {0};
		if (entry && recordings_save_entry(recordings, entry, &err) < 0)
			problems_report(&recordings->options.problems, err.message);
		else if (!entry && recordings->saver_stops)
			break;
		else if (!entry)
			pthread_cond_wait(&recordings->saver_wake, &recordings->lock);
	}
	pthread_mutex_unlock(&recordings->lock);
	return NULL;
}

void recordings_save_later(struct recordings *recordings, struct entry *entry)
{
	struct error err = {0};
	entry->is_changed = true;
	if (!recordings->saver_runs && thread_start(&recordings->saver, "wick-recordings", run, recordings, &err) < 0) {
		problems_report(&recordings->options.problems, err.message); /* the next report may have more luck */
		return;
	}
	recordings->saver_runs = true;
	pthread_cond_signal(&recordings->saver_wake);
}

void recordings_stop_saver(struct recordings *recordings)
{
	pthread_mutex_lock(&recordings->lock);
	recordings->saver_stops = true;
	pthread_cond_signal(&recordings->saver_wake);
	pthread_mutex_unlock(&recordings->lock);
	if (recordings->saver_runs)
		pthread_join(recordings->saver, NULL);
	recordings->saver_runs = false;
}
