// SPDX-License-Identifier: Apache-2.0
/*
 * Readings of what processes have used, and their differences.
 *
 * A process is known by its pid and the time of its start, so a pid that is used again is another process. One that is seen for
 * the first time and started before the last reading was missed by that reading (there was no room, or it hid in a race): what
 * it used since then is not known, and it gets no row until the next one.
 *
 * The exit of a process is reported a moment after it has left the list of threads (an RCU grace period), so it may be in
 * neither. Its last totals are carried on for one reading for that reason.
 */
#include "agent/process/process_stats.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/process/vmas.h"
#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/time.h"
#include "bpf/process_stats.skel.h"

#define KNOWN_QUIET    1024u		/* room that is kept between readings */
#define START_SLACK_NS (20 * NS_PER_MS) /* between the time of a start and the process becoming visible */
#define SHORT_LIFE_NS  (10 * NS_PER_MS) /* CPU time */

struct process_stats_source {
	int iterator_fd; /* of the link */
	struct bpf_link *end_link;
	struct process_stats_bpf *programs;
	struct ring_buffer *ended;
	uint8_t *buffer;
};

/* ---- readings ---- */

static struct process_reading *current(struct process_stats *stats)
{
	return &stats->readings[stats->now];
}

static const struct process_reading *previous(const struct process_stats *stats)
{
	return &stats->readings[!stats->now];
}

static void reading_release(struct process_reading *reading)
{
	mem_free(reading->items);
	map64_release(&reading->by_pid);
	*reading = (struct process_reading){0};
}

void process_stats_begin(struct process_stats *stats, int64_t time_ns)
{
	stats->older_time_ns = previous(stats)->time_ns;
	stats->now = !stats->now;
	struct process_reading *reading = current(stats);
	if (reading->capacity > KNOWN_QUIET && reading->count < reading->capacity / 4)
		reading_release(reading);
	reading->count = 0;
	map64_clear(&reading->by_pid);
	reading->time_ns = time_ns;
}

static struct process_totals *find_totals(const struct process_reading *reading, pid_t pid)
{
	uint64_t index;
	return map64_get(&reading->by_pid, (uint64_t)pid, &index) ? &reading->items[index] : NULL;
}

/* *ret is NULL if there is no room. */
static int add_totals(struct process_stats *stats, pid_t pid, uint64_t started_ns, struct process_totals **ret)
{
	struct process_reading *reading = current(stats);

	*ret = NULL;
	if (reading->count >= PROCESS_STATS_KNOWN_MAX) {
		stats->left_out++;
		return 0;
	}
	if (array_reserve(&reading->items, &reading->capacity, reading->count + 1, PROCESS_STATS_KNOWN_MAX) < 0 ||
	    map64_put(&reading->by_pid, (uint64_t)pid, reading->count) < 0)
		return -ENOMEM;
	*ret = &reading->items[reading->count++];
	**ret = (struct process_totals){.pid = pid, .started_ns = started_ns};
	return 0;
}

/* See the top of the file. */
static int carry_on(struct process_stats *stats)
{
	const struct process_reading *last = previous(stats);
	int r = 0;

	for (size_t i = 0; i < last->count && r == 0; i++) {
		const struct process_totals *before = &last->items[i];
		struct process_totals *totals;
		if (before->has_ended || before->is_gone || find_totals(current(stats), before->pid))
			continue;
		r = add_totals(stats, before->pid, before->started_ns, &totals);
		if (r < 0 || !totals)
			continue;
		*totals = *before;
		totals->is_gone = true;
	}
	return r;
}

int process_stats_add(struct process_stats *stats, const struct stats_record *record)
{
	if (record->pid == 0 || record->pid > PROCESSES_MAX)
		return 0;
	struct process_totals *totals = find_totals(current(stats), (pid_t)record->pid);
	int r = totals ? 0 : add_totals(stats, (pid_t)record->pid, record->started_ns, &totals);
	if (r < 0 || !totals)
		return r;
	/* Two owners of a pid in one interval: the one that ends is listed first, and the younger one stays. */
	if (record->started_ns > totals->started_ns)
		*totals = (struct process_totals){.pid = (pid_t)record->pid, .started_ns = record->started_ns};
	if (record->started_ns < totals->started_ns || totals->has_ended)
		return 0;
	const uint64_t values[PROCESS_STATS_COLUMNS] = {
		[PROCESS_STATS_CPU] = record->cpu_ns,
		[PROCESS_STATS_RSS] = record->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE),
		[PROCESS_STATS_MINOR_FAULTS] = record->minor_faults,
		[PROCESS_STATS_MAJOR_FAULTS] = record->major_faults,
		[PROCESS_STATS_VOLUNTARY_SWITCHES] = record->voluntary_switches,
		[PROCESS_STATS_INVOLUNTARY_SWITCHES] = record->involuntary_switches,
		[PROCESS_STATS_READ] = record->read_bytes,
		[PROCESS_STATS_WRITTEN] = record->written_bytes,
		[PROCESS_STATS_THREADS] = record->threads,
	};
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		sum_to(&totals->values[i], (int64_t)values[i]);
	totals->has_ended = record->kind == STATS_ENDED;
	if (record->kind != STATS_THREAD) {
		totals->has_leader = true;
		totals->cgroup = record->cgroup;
	}
	return 0;
}

/* ---- differences ---- */

struct row {
	const struct process_totals *totals;
	const struct process *process;
	int64_t values[PROCESS_STATS_COLUMNS];
};

static bool is_level(size_t column)
{
	return column == PROCESS_STATS_RSS || column == PROCESS_STATS_THREADS;
}

/* False if it is not known what the process used, or it used no CPU time.
 *
 * Each process makes a series of its own in the store. So one that began and ended in the same interval must have been sampled,
 * or have used as much as a sample stands for roughly: a shell script or a compiler starts hundreds of others a second. */
static bool make_row(const struct process_stats *stats, const struct process_totals *totals, const struct process *process,
		     struct row *ret)
{
	static const struct process_totals nothing;
	const struct process_totals *before = find_totals(previous(stats), totals->pid);

	int64_t since_ns = totals->has_ended ? stats->older_time_ns : previous(stats)->time_ns;

	if (!totals->has_leader || totals->is_gone)
		return false;
	if (before && before->started_ns != totals->started_ns)
		before = NULL;
	if (!before && (int64_t)totals->started_ns + START_SLACK_NS < since_ns)
		return false;
	ret->totals = totals;
	ret->process = process;
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++) {
		int64_t last = is_level(i) || !before ? nothing.values[i] : before->values[i];
		/* Counters of threads that end in between may be missing from one reading. */
		ret->values[i] = totals->values[i] > last ? totals->values[i] - last : 0;
	}
	bool brief = !before && totals->has_ended && !(process && process->wanted);
	return ret->values[PROCESS_STATS_CPU] > (brief ? SHORT_LIFE_NS : 0);
}

static int compare_rows(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	return ORDER(b->values[PROCESS_STATS_CPU], a->values[PROCESS_STATS_CPU]) ?: ORDER(a->totals->pid, b->totals->pid);
}

/* All rows, those with the most CPU time first; the caller frees them. */
static int make_rows(struct process_stats *stats, const struct process_table *table, struct row **ret, size_t *ret_count)
{
	const struct process_reading *reading = &stats->readings[stats->now];
	struct row *rows = mem_alloc_array(reading->count, sizeof(*rows));
	size_t count = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < reading->count; i++) {
		const struct process *process = process_table_find(table, reading->items[i].pid);
		bool is_row = make_row(stats, &reading->items[i], process, &rows[count]);
		count += process && is_row;
		/* The table of a machine that starts processes all the time forgets the dead early. */
		stats->left_out += !process && is_row;
	}
	sort_array(rows, count, compare_rows);
	*ret = rows;
	*ret_count = count < PROCESS_STATS_ROWS_MAX ? count : PROCESS_STATS_ROWS_MAX;
	stats->left_out += count - *ret_count;
	return 0;
}

/* ---- the profile ---- */

static int add_types(struct profile *profile, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < PROCESS_STATS_COLUMNS && r == 0; i++)
		r = profile_add_named_type(profile, process_stats_columns[i].sample_type, process_stats_columns[i].unit, err);
	return r < 0 ? r : profile_add_cstring(profile, PROCESS_STATS_NAME, &profile->period_type.type, err);
}

static int add_row(struct profile *profile, struct sample_labels *labels, const struct row *row, int64_t time_ns,
		   struct error *err)
{
	const struct abi_sample sample = {.cgroup = row->totals->cgroup}; /* of no thread */
	struct profile_sample added = {.time_ns = time_ns};

	int r = sample_labels_add(labels, profile, row->process, &sample, &added.labels, err);
	if (r > 0) /* rules drop it */
		return 0;
	return r < 0 ? r : profile_add_sample(profile, &added, row->values, err);
}

static int add_rows(struct profile *profile, struct sample_labels *labels, const struct row *rows, size_t count,
		    struct error *err)
{
	int64_t time_ns = profile->time_ns + profile->duration_ns;
	int r = add_types(profile, err);

	if (r == 0)
		r = sample_labels_add_resource(labels, profile, err);
	for (size_t i = 0; i < count && r == 0; i++)
		r = add_row(profile, labels, &rows[i], time_ns, err);
	return r;
}

int process_stats_make(struct process_stats *stats, const struct process_table *table, const struct sample_labels *labels,
		       int64_t start_ns, int64_t duration_ns, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(mem_freep) struct row *rows = NULL;
	_cleanup_(sample_labels_release) struct sample_labels own = {
		.binaries = labels->binaries,
		.cgroups = labels->cgroups,
		.host = labels->host,
		.release = labels->release,
		.given = labels->given,
		.relabel = labels->relabel,
	};
	size_t count;

	*ret = NULL;
	if (carry_on(stats) < 0 || make_rows(stats, table, &rows, &count) < 0)
		return error_nomem(err);
	int r = profile_new(&profile, err);
	if (r < 0)
		return r;
	profile->time_ns = start_ns;
	profile->duration_ns = duration_ns;
	r = add_rows(profile, &own, rows, count, err);
	if (r < 0 || profile->sample_count == 0)
		return r;
	*ret = TAKE(profile);
	return 0;
}

/* ---- from the kernel ---- */

static int take_record(void *context, void *data, size_t size)
{
	struct stats_record record;

	if (size < sizeof(record))
		return 0;
	memcpy(&record, data, sizeof(record));
	return process_stats_add(context, &record);
}

static int take_list(void *context, const void *buffer, size_t len, size_t *ret_used)
{
	int r = 0;

	for (*ret_used = 0; r == 0 && len - *ret_used >= sizeof(struct stats_record); *ret_used += sizeof(struct stats_record))
		r = take_record(context, (char *)buffer + *ret_used, sizeof(struct stats_record));
	return r;
}

static int read_list(struct process_stats *stats, struct error *err)
{
	struct process_stats_source *source = stats->source;
	_cleanup_(fd_closep) int fd = bpf_iter_create(source->iterator_fd);

	if (fd < 0)
		return error_set_errno(err, fd, "cannot start the BPF iterator over threads");
	int r = iterator_read(fd, "threads", take_list, stats, source->buffer, err);
	return r == -ENOMEM ? error_nomem(err) : r;
}

/* First those that ended: who is in the list as well was about to. */
static int take_reading(struct process_stats *stats, struct error *err)
{
	process_stats_begin(stats, time_monotonic_ns());
	int r = ring_buffer__consume(stats->source->ended);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(err) : error_set_errno(err, r, "cannot read the list of ended processes");
	return read_list(stats, err);
}

int process_stats_read(struct process_stats *stats, struct error *err)
{
	int r = take_reading(stats, err);
	return r < 0 ? r : carry_on(stats) < 0 ? error_nomem(err) : 0;
}

int64_t process_stats_find(const struct process_stats *stats, pid_t pid, const struct process_totals **ret_now,
			   const struct process_totals **ret_before)
{
	const struct process_reading *now = &stats->readings[stats->now], *before = previous(stats);

	*ret_now = find_totals(now, pid);
	*ret_before = find_totals(before, pid);
	if (*ret_now && *ret_before && (*ret_now)->started_ns != (*ret_before)->started_ns)
		*ret_before = NULL;
	if (*ret_now && (!(*ret_now)->has_leader || (*ret_now)->is_gone || (*ret_now)->has_ended))
		*ret_now = NULL;
	return now->time_ns - before->time_ns;
}

int process_stats_take(struct process_stats *stats, const struct process_table *table, const struct sample_labels *labels,
		       int64_t start_ns, int64_t duration_ns, struct profile **ret, struct error *err)
{
	int r = take_reading(stats, err);
	if (r < 0)
		return r;
	uint64_t lost = stats->source->programs->bss->ends_lost;
	stats->left_out += lost - stats->ends_lost;
	stats->ends_lost = lost;
	return process_stats_make(stats, table, labels, start_ns, duration_ns, ret, err);
}

static int attach(struct process_stats *stats, struct error *err)
{
	struct process_stats_source *source = stats->source;
	struct bpf_link *link = bpf_program__attach_iter(source->programs->progs.list_threads, NULL);

	if (!link)
		return error_set_errno(err, -errno, "cannot list threads by a BPF iterator");
	source->iterator_fd = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 0);
	int code = -errno;
	bpf_link__destroy(link);
	if (source->iterator_fd < 0)
		return error_set_errno(err, code, "cannot list threads by a BPF iterator");
	source->end_link = bpf_program__attach(source->programs->progs.note_end);
	if (!source->end_link)
		return error_set_errno(err, -errno, "cannot track process exits");
	source->ended = ring_buffer__new(bpf_map__fd(source->programs->maps.ended), take_record, stats, NULL);
	return source->ended ? 0 : error_set_errno(err, -errno, "cannot track process exits");
}

static int load(struct process_stats_source *source, bool cgroup_v1, struct error *err)
{
	libbpf_print_fn_t print = libbpf_set_print(iterator_say_nothing);
	int r = 0;

	source->programs = process_stats_bpf__open();
	if (source->programs) {
		source->programs->rodata->cgroup_v1 = cgroup_v1;
		r = process_stats_bpf__load(source->programs);
	} else {
		r = -errno;
	}
	libbpf_set_print(print);
	return r < 0 ? error_set_errno(err, r, "cannot load the BPF programs for process_stats") : 0;
}

struct process_stats *process_stats_new_empty(void)
{
	return mem_zalloc(sizeof(struct process_stats));
}

int process_stats_new(bool cgroup_v1, struct process_stats **ret, struct error *err)
{
	_cleanup_(process_stats_freep) struct process_stats *stats = process_stats_new_empty();

	if (!stats)
		return error_nomem(err);
	stats->source = mem_zalloc(sizeof(*stats->source));
	if (!stats->source)
		return error_nomem(err);
	stats->source->iterator_fd = -1;
	stats->source->buffer = mem_alloc(ITERATOR_BYTES);
	if (!stats->source->buffer)
		return error_nomem(err);
	int r = load(stats->source, cgroup_v1, err);
	if (r == 0)
		r = attach(stats, err);
	if (r == 0)
		r = take_reading(stats, err);
	if (r == 0)
		*ret = TAKE(stats);
	return r;
}

struct process_stats *process_stats_free(struct process_stats *stats)
{
	if (!stats)
		return NULL;
	if (stats->source) {
		ring_buffer__free(stats->source->ended);
		bpf_link__destroy(stats->source->end_link);
		fd_closep(&stats->source->iterator_fd);
		process_stats_bpf__destroy(stats->source->programs);
		mem_free(stats->source->buffer);
		mem_free(stats->source);
	}
	reading_release(&stats->readings[0]);
	reading_release(&stats->readings[1]);
	return mem_free(stats);
}
