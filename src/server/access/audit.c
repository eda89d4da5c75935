/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line for each event:
 *
 *   {"time":"2026-11-30T02:26:56.120Z","event":"call","name":"ops","kind":"token","address":"10.1.2.3","method":"POST",
 *    "target":"/api/v1/delete?query=...","tenant":"team-a","status":200}
 *
 * Calls that change something are there, logins and refusals; not queries, and not what agents send, which is the purpose of a
 * server and would bury the rest.
 *
 * Events are made on event loops, which must not wait for a disk. So they go into a buffer, and a thread writes it, within a
 * second. What does not fit is counted, and the next line says how many were left out: a log with a gap that nobody sees would
 * be worse than the gap. Refusals are what anybody can cause, so only some a second are kept of them, which leaves room for the
 * rest.
 *
 * The file is opened for appending, and again when its name leads to another, so programs that rotate logs may move it away.
 * Without one it is moved to PATH.1 when it is full, over the one that is there.
 */
#include "server/access/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/privilege/broker.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "codec/json.h"

#define BUFFER_MAX	 ((size_t)4 * 1024 * 1024)
#define LINE_MAX_BYTES	 ((size_t)8 * 1024)
#define TEXT_MAX	 1024 /* of a target, a reason: more is cut */
#define REFUSALS_BURST	 200.0
#define REFUSALS_RATE	 20.0 /* a second */
#define AUDIT_PATH_MAX	 4096
#define LOOK_INTERVAL_NS NS_PER_S

struct audit {
	char path[AUDIT_PATH_MAX];
	uint64_t bytes_max;
	void (*on_problem)(void *context, const char *message);
	void *context;
	int fd; /* the thread's; -1 = could not be opened again */
	bool failed;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct buffer lines; /* lock */
	uint64_t skipped;    /* lock: since the last line */
	double refusals;     /* lock: that may come now */
	int64_t refilled_ns; /* lock */
	bool stopping;	     /* lock */
	atomic_uint_least64_t written, dropped;
};

static const char *const event_names[] = {
	[AUDIT_CALL] = "call", [AUDIT_LOGIN] = "login", [AUDIT_REFUSAL] = "refusal", [AUDIT_TOKENS] = "tokens"};

/* ---- events ---- */

static void write_text(struct json_writer *json, const char *name, const char *text)
{
	if (!text || !*text)
		return;
	struct bytes whole = bytes_of_string(text);
	whole.len = text_cut(whole, TEXT_MAX);
	json_member_bytes(json, name, whole);
}

static int write_line(struct buffer *out, const struct audit_entry *entry, uint64_t skipped)
{
	char time[TIME_TEXT_MAX];
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_cstring(&json, "time", time_format(time_now_ns(), time));
	json_member_cstring(&json, "event", event_names[entry->event]);
	write_text(&json, "name", entry->name);
	write_text(&json, "kind", entry->kind);
	write_text(&json, "address", entry->address);
	write_text(&json, "method", entry->method);
	write_text(&json, "target", entry->target);
	write_text(&json, "tenant", entry->tenant);
	if (entry->status || entry->event == AUDIT_CALL)
		json_member_int(&json, "status", entry->status);
	write_text(&json, "reason", entry->reason);
	if (skipped)
		json_member_uint(&json, "left_out", skipped);
	json_end_object(&json);
	int r = json_finish(&json, NULL);
	return r < 0 ? r : buffer_append_byte(out, '\n');
}

/* With the lock held. */
static bool may_refuse(struct audit *audit)
{
	int64_t now_ns = time_monotonic_ns();
	audit->refusals += (double)(now_ns - audit->refilled_ns) / (double)NS_PER_S * REFUSALS_RATE;
	audit->refilled_ns = now_ns;
	if (audit->refusals > REFUSALS_BURST)
		audit->refusals = REFUSALS_BURST;
	if (audit->refusals < 1)
		return false;
	audit->refusals -= 1;
	return true;
}

void audit_add(struct audit *audit, const struct audit_entry *entry)
{
	if (!audit)
		return;
	_cleanup_(buffer_release) struct buffer line = {.max = LINE_MAX_BYTES};
	THREAD_LOCK_SCOPE(&audit->lock);
	if ((entry->event == AUDIT_REFUSAL && !may_refuse(audit)) || write_line(&line, entry, audit->skipped) < 0 ||
	    line.len > BUFFER_MAX - audit->lines.len || buffer_append(&audit->lines, line.data, line.len) < 0) {
		audit->skipped++;
		atomic_fetch_add(&audit->dropped, 1);
		return;
	}
	audit->skipped = 0;
	atomic_fetch_add(&audit->written, 1);
	pthread_cond_signal(&audit->wake);
}

/* ---- the file ---- */

/* Opens the file if there is none open, or if the name leads to another. */
static int look_at_file(struct audit *audit, struct error *err)
{
	struct stat open_one, named;
	if (audit->fd >= 0 && fstat(audit->fd, &open_one) == 0 && stat(audit->path, &named) == 0 &&
	    open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino)
		return 0;
	int r = io_open(audit->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600, err);
	int fd = r == -EACCES ? broker_append(audit->path) : r;
	if (fd < 0)
		return r;
	io_close(audit->fd);
	audit->fd = fd;
	return 0;
}

static int rotate(struct audit *audit, size_t more, struct error *err)
{
	char old[AUDIT_PATH_MAX + 2];
	struct stat info;
	if (fstat(audit->fd, &info) < 0 || !S_ISREG(info.st_mode) || !info.st_size ||
	    (uint64_t)info.st_size + more <= audit->bytes_max)
		return 0;
	snprintf(old, sizeof(old), "%s.1", audit->path);
	int r = io_rename(audit->path, old, err);
	if (r == -EACCES && broker_rotate(audit->path) == 0)
		r = 0;
	return r < 0 ? r : look_at_file(audit, err);
}

static void write_out(struct audit *audit, struct bytes lines)
{
	struct error err = {0};
	int r = look_at_file(audit, &err);
	if (!r)
		r = rotate(audit, lines.len, &err);
	if (!r)
		r = io_write(audit->fd, lines.data, lines.len, audit->path, &err);
	if (r < 0) {
		uint64_t count = 0;
		for (size_t i = 0; i < lines.len; i++)
			count += lines.data[i] == '\n';
		atomic_fetch_add(&audit->dropped, count);
		atomic_fetch_sub(&audit->written, count);
		pthread_mutex_lock(&audit->lock);
		audit->skipped += count;
		pthread_mutex_unlock(&audit->lock);
	}
	if (r < 0 && !audit->failed && audit->on_problem)
		audit->on_problem(audit->context, err.message);
	audit->failed = r < 0;
}

static void *run(void *context)
{
	struct audit *audit = context;
	struct buffer taken = {.max = BUFFER_MAX};
	bool stopping = false;
	while (!stopping) {
		pthread_mutex_lock(&audit->lock);
		while (!audit->stopping && !audit->lines.len)
			thread_wait_until(&audit->wake, &audit->lock, time_monotonic_ns() + LOOK_INTERVAL_NS);
		struct buffer swap = audit->lines;
		audit->lines = taken;
		taken = swap;
		stopping = audit->stopping;
		pthread_mutex_unlock(&audit->lock);
		if (taken.len)
			write_out(audit, buffer_bytes(&taken));
		buffer_clear(&taken);
	}
	buffer_release(&taken);
	return NULL;
}

int audit_open(const struct audit_options *options, struct audit **ret, struct error *err)
{
	struct audit *audit = mem_zalloc(sizeof(*audit));
	if (!audit)
		return error_nomem(err);
	audit->bytes_max = options->bytes_max ? options->bytes_max : AUDIT_BYTES_DEFAULT;
	audit->on_problem = options->on_problem;
	audit->context = options->context;
	audit->fd = -1;
	audit->refusals = REFUSALS_BURST;
	audit->refilled_ns = time_monotonic_ns();
	buffer_init(&audit->lines, BUFFER_MAX);
	pthread_mutex_init(&audit->lock, NULL);
	thread_condition_init(&audit->wake);
	int r = 0;
	if ((size_t)snprintf(audit->path, sizeof(audit->path), "%s", options->path) >= sizeof(audit->path))
		r = error_set(err, -ENAMETOOLONG, "the path of the audit log is too long");
	if (!r)
		r = look_at_file(audit, err);
	if (!r)
		r = thread_start(&audit->thread, "wick-audit", run, audit, err);
	if (!r) {
		*ret = audit;
		return 0;
	}
	io_close(audit->fd);
	pthread_mutex_destroy(&audit->lock);
	pthread_cond_destroy(&audit->wake);
	mem_free(audit);
	return r;
}

void audit_get_stats(struct audit *audit, struct audit_stats *ret)
{
	*ret = (struct audit_stats){0};
	if (audit)
		*ret = (struct audit_stats){atomic_load(&audit->written), atomic_load(&audit->dropped)};
}

struct audit *audit_close(struct audit *audit)
{
	if (!audit)
		return NULL;
	pthread_mutex_lock(&audit->lock);
	audit->stopping = true;
	pthread_cond_signal(&audit->wake);
	pthread_mutex_unlock(&audit->lock);
	pthread_join(audit->thread, NULL);
	io_close(audit->fd);
	buffer_release(&audit->lines);
	pthread_mutex_destroy(&audit->lock);
	pthread_cond_destroy(&audit->wake);
	return mem_free(audit);
}
