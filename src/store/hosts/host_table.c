/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts, each with its runs, by rising time. A run is a set of labels with the times of the first and the last profile that
 * said so. It holds from its first time until the next run begins; the first one also holds before.
 *
 *   profiles      A . A . A . . . . B . B . . A
 *   runs          [first A last]    [ B ]     [A]
 *   holds         A A A A A A A A A B B B B B A A ...
 *
 * Profiles come in any order (spools, several ways to the server), so a run may begin earlier than was thought, or a new one
 * may come between others. Invariants: runs of a host do not overlap, and two neighbours differ. A profile from the middle of a
 * run that says something else (two hosts of one name, in truth) cuts the run in two.
 *
 * Labels are packed: "name\0value\0" by rising name, one allocation a run. Sets are compared as bytes. They are not shared
 * between hosts: that would save a few hundred bytes a host, and needs counts of references and somebody to collect what is
 * left over.
 */
#include "store/hosts/host_table.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/sorted.h"

#define HOST_BYTES  96 /* of a host and its place in the index, besides its name */
#define NAMES_BYTES (LIMIT_HOST_LABEL_NAMES * (LIMIT_LABEL_NAME_BYTES + 64))

struct host_run {
	int64_t first_ns, last_ns;
	char *text; /* packed labels */
	size_t len, count;
};
struct host {
	char *name;
	struct host_run *runs;
	size_t count, capacity;
};
struct host_table {
	struct host *hosts;
	size_t count, capacity;
	struct index32 index; /* by name */
	struct intern names;  /* of labels: those that some host has, or had */
	size_t runs;
	uint64_t bytes, dropped;
};

int host_table_new(struct host_table **ret, struct error *err)
{
	_cleanup_(host_table_freep) struct host_table *table = mem_zalloc(sizeof(*table));
	if (!table || intern_init(&table->names, NAMES_BYTES) < 0)
		return error_nomem(err);
	*ret = TAKE(table);
	return 0;
}

static void host_release(struct host *host)
{
	for (size_t i = 0; i < host->count; i++)
		mem_free(host->runs[i].text);
	mem_free(host->runs);
	mem_free(host->name);
}

struct host_table *host_table_free(struct host_table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->count; i++)
		host_release(&table->hosts[i]);
	mem_free(table->hosts);
	index32_release(&table->index);
	intern_release(&table->names);
	return mem_free(table);
}

static uint64_t hash_name(const char *name)
{
	return hash64_guarded(name, strlen(name));
}

static struct host *find_host(const struct host_table *table, const char *name)
{
	uint64_t hash = hash_name(name);
	uint32_t id;
	for (size_t at = index32_first(&table->index, hash); index32_at(&table->index, hash, &at, &id); at++)
		if (strcmp(table->hosts[id].name, name) == 0)
			return &table->hosts[id];
	return NULL;
}

/* ---- packed labels ---- */

static size_t packed_size(const struct labels *labels)
{
	size_t size = 0;
	for (size_t i = 0; i < labels->count; i++)
		size += strlen(labels->items[i].name) + strlen(labels->items[i].value) + 2;
	return size;
}

static char *pack(const struct labels *labels, size_t size)
{
	char *text = mem_alloc(size + 1), *at = text;
	for (size_t i = 0; text && i < labels->count; i++) {
		at = stpcpy(at, labels->items[i].name) + 1;
		at = stpcpy(at, labels->items[i].value) + 1;
	}
	return text;
}

static bool is_same(const struct host_run *run, const struct labels *labels)
{
	const char *at = run->text;
	if (run->count != labels->count)
		return false;
	for (size_t i = 0; i < labels->count; i++) {
		const char *value = at + strlen(at) + 1;
		if (strcmp(at, labels->items[i].name) != 0 || strcmp(value, labels->items[i].value) != 0)
			return false;
		at = value + strlen(value) + 1;
	}
	return true;
}

/* Points into the run. */
static size_t unpack(const struct host_run *run, const char *const *names, size_t name_count,
		     struct label out[static LIMIT_HOST_LABELS])
{
	char *at = run->text;
	size_t count = 0;
	for (size_t i = 0; i < run->count; i++) {
		char *value = at + strlen(at) + 1;
		bool wanted = name_count == 0;
		for (size_t k = 0; k < name_count && !wanted; k++)
			wanted = strcmp(at, names[k]) == 0;
		if (wanted)
			out[count++] = (struct label){at, value};
		at = value + strlen(value) + 1;
	}
	return count;
}

/* ---- what a profile changes ---- */

struct observation {
	const char *host;
	const struct labels *labels;
	int64_t first_ns, last_ns;
};

enum change {
	CHANGE_NOTHING,
	CHANGE_LAST,   /* run `at` was seen later */
	CHANGE_FIRST,  /* run `at` began earlier */
	CHANGE_INSERT, /* a run before run `at` */
	CHANGE_CUT,    /* run `at` is cut in two, and the new one comes between */
};
struct step {
	enum change change;
	size_t at;
};

static struct step step_of(const struct host *host, const struct observation *seen)
{
	size_t count = host ? host->count : 0;
	/* The run that holds at that time: the last one that began by then. */
	size_t after = sorted_count_while(count, i, host->runs[i].first_ns <= seen->first_ns);
	const struct host_run *run = after ? &host->runs[after - 1] : NULL;
	const struct host_run *next = after < count ? &host->runs[after] : NULL;
	if (run && is_same(run, seen->labels))
		return (struct step){run->last_ns < seen->last_ns ? CHANGE_LAST : CHANGE_NOTHING, after - 1};
	/* Two profiles of one time cannot both be right; the first to come is. */
	if (run && (run->first_ns == seen->first_ns || run->last_ns == seen->first_ns))
		return (struct step){CHANGE_NOTHING, 0};
	if (run && run->last_ns > seen->first_ns)
		return (struct step){CHANGE_CUT, after - 1};
	if (next && is_same(next, seen->labels))
		return (struct step){CHANGE_FIRST, after};
	return (struct step){CHANGE_INSERT, after};
}

static int check_limits(const struct host_table *table, const struct host *host, const struct observation *seen,
			struct error *err)
{
	size_t size = packed_size(seen->labels) + sizeof(struct host_run), fresh = 0;
	if (strlen(seen->host) > LIMIT_LABEL_VALUE_BYTES)
		return error_set(err, -EDQUOT, "the name of the host is longer than %d bytes", LIMIT_LABEL_VALUE_BYTES);
	if (seen->labels->count > LIMIT_HOST_LABELS)
		return error_set(err, -EDQUOT, "%zu labels, the limit is %u", seen->labels->count, LIMIT_HOST_LABELS);
	if (!host && table->count >= LIMIT_HOSTS)
		return error_set(err, -EDQUOT, "there are %u hosts already, the limit", LIMIT_HOSTS);
	for (size_t i = 0; i < seen->labels->count; i++) {
		const char *name = seen->labels->items[i].name;
		uint32_t id;
		fresh += !intern_find(&table->names, name, strlen(name), &id);
	}
	if (fresh && table->names.count + fresh > LIMIT_HOST_LABEL_NAMES + 1)
		return error_set(err, -EDQUOT, "there are %zu different labels of hosts already, the limit is %u",
				 table->names.count - 1, LIMIT_HOST_LABEL_NAMES);
	if (table->bytes + 2 * size + (host ? 0 : HOST_BYTES + strlen(seen->host)) > LIMIT_HOSTS_BYTES)
		return error_set(err, -EDQUOT, "the table of hosts has %llu bytes already, the limit is %llu",
				 (unsigned long long)table->bytes, (unsigned long long)LIMIT_HOSTS_BYTES);
	return 0;
}

/* ---- making the change ---- */

static void drop_run(struct host_table *table, struct host *host, size_t at)
{
	table->bytes -= host->runs[at].len + sizeof(struct host_run);
	table->runs--;
	mem_free(host->runs[at].text);
	host->count--;
	memmove(host->runs + at, host->runs + at + 1, (host->count - at) * sizeof(*host->runs));
}

/* There is room. Takes the text over. */
static void insert_run(struct host_table *table, struct host *host, size_t at, struct host_run run)
{
	memmove(host->runs + at + 1, host->runs + at, (host->count - at) * sizeof(*host->runs));
	host->runs[at] = run;
	host->count++;
	table->runs++;
	table->bytes += run.len + sizeof(run);
}

static struct host_run run_of(const struct observation *seen)
{
	size_t size = packed_size(seen->labels);
	return (struct host_run){.first_ns = seen->first_ns,
				 .last_ns = seen->last_ns,
				 .text = pack(seen->labels, size),
				 .len = size,
				 .count = seen->labels->count};
}

static int add_host(struct host_table *table, const char *name, struct host **ret, struct error *err)
{
	if (array_reserve(&table->hosts, &table->capacity, table->count + 1, LIMIT_HOSTS) < 0 ||
	    index32_reserve(&table->index, 1) < 0)
		return error_nomem(err);
	struct host host = {.name = mem_strdup(name)};
	if (!host.name)
		return error_nomem(err);
	index32_add(&table->index, hash_name(name), (uint32_t)table->count);
	table->bytes += HOST_BYTES + strlen(name);
	*ret = &table->hosts[table->count];
	table->hosts[table->count++] = host;
	return 0;
}

static int add_names(struct host_table *table, const struct labels *labels, struct error *err)
{
	uint32_t id;
	for (size_t i = 0; i < labels->count; i++)
		if (intern_add_string(&table->names, labels->items[i].name, &id) < 0)
			return error_nomem(err);
	return 0;
}

static int add_run(struct host_table *table, struct host *host, struct step step, const struct observation *seen,
		   struct error *err)
{
	/* A cut adds two. */
	if (array_reserve(&host->runs, &host->capacity, host->count + 2, LIMIT_HOST_RUNS + 2) < 0)
		return error_nomem(err);
	struct host_run run = run_of(seen), rest = {0};
	if (!run.text)
		return error_nomem(err);
	if (step.change == CHANGE_CUT) {
		rest = host->runs[step.at];
		rest.text = mem_alloc(rest.len + 1);
		if (!rest.text) {
			mem_free(run.text);
			return error_nomem(err);
		}
		memcpy(rest.text, host->runs[step.at].text, rest.len);
		/* When the old labels were back is not known; at the last profile that had them they were. */
		rest.first_ns = rest.last_ns;
		run.last_ns = run.last_ns < rest.first_ns ? run.last_ns : run.first_ns;
		host->runs[step.at].last_ns = host->runs[step.at].first_ns;
		insert_run(table, host, step.at + 1, rest);
		step.at++;
	} else if (step.at < host->count && run.last_ns >= host->runs[step.at].first_ns) {
		run.last_ns = run.first_ns; /* only a file can say that */
	}
	insert_run(table, host, step.at, run);
	for (; host->count > LIMIT_HOST_RUNS; table->dropped++)
		drop_run(table, host, 0);
	return 0;
}

/* What a file says may reach into the next run. */
static void extend(struct host *host, size_t at, const struct observation *seen)
{
	struct host_run *run = &host->runs[at];
	if (run->last_ns < seen->last_ns && (at + 1 == host->count || seen->last_ns < run[1].first_ns))
		run->last_ns = seen->last_ns;
}

static int apply(struct host_table *table, struct host *host, struct step step, const struct observation *seen,
		 struct error *err)
{
	struct host_run *run = host ? &host->runs[step.at] : NULL;
	switch (step.change) {
	case CHANGE_NOTHING: return 0;
	case CHANGE_LAST: extend(host, step.at, seen); return 0;
	case CHANGE_FIRST:
		run->first_ns = seen->first_ns;
		extend(host, step.at, seen);
		return HOST_TABLE_NEWS;
	default: break;
	}
	int r = add_names(table, seen->labels, err);
	if (r == 0 && !host)
		r = add_host(table, seen->host, &host, err);
	if (r == 0)
		r = add_run(table, host, step, seen, err);
	return r < 0 ? r : HOST_TABLE_NEWS;
}

int host_table_note(struct host_table *table, const char *name, const struct labels *labels, int64_t first_ns, int64_t last_ns,
		    struct error *err)
{
	const struct observation seen = {name, labels, first_ns, last_ns};
	struct host *host = find_host(table, name);
	struct step step = step_of(host, &seen);
	int r = step.change >= CHANGE_INSERT ? check_limits(table, host, &seen, err) : 0;
	return r < 0 ? r : apply(table, host, step, &seen, err);
}

int host_table_check(const struct host_table *table, const char *name, const struct labels *labels, int64_t first_ns,
		     int64_t last_ns, struct error *err)
{
	const struct observation seen = {name, labels, first_ns, last_ns};
	const struct host *host = find_host(table, name);
	struct step step = step_of(host, &seen);
	int r = step.change >= CHANGE_INSERT ? check_limits(table, host, &seen, err) : 0;
	return r < 0 ? r : step.change >= CHANGE_FIRST ? HOST_TABLE_NEWS : 0;
}

/* ---- reading ---- */

static int read_host(const struct host *host, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
		     store_on_host on_host, void *context, struct error *err)
{
	struct label items[LIMIT_HOST_LABELS];
	int r = 0;
	for (size_t i = 0; r == 0 && i < host->count; i++) {
		const struct host_run *run = &host->runs[i];
		struct labels labels = {.items = items};
		struct store_host out = {.name = host->name,
					 .from_ns = i ? run->first_ns : INT64_MIN,
					 .to_ns = i + 1 < host->count ? run[1].first_ns : INT64_MAX,
					 .first_ns = run->first_ns,
					 .last_ns = run->last_ns,
					 .labels = &labels};
		if (out.from_ns >= to_ns || out.to_ns <= from_ns)
			continue;
		labels.count = unpack(run, names, name_count, items);
		r = on_host(context, &out, err);
	}
	return r;
}

static bool has_any(const struct host *host, const char *const *names, size_t name_count)
{
	struct label items[LIMIT_HOST_LABELS];
	for (size_t i = 0; i < host->count; i++)
		if (unpack(&host->runs[i], names, name_count, items))
			return true;
	return false;
}

int host_table_read(const struct host_table *table, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
		    store_on_host on_host, void *context, struct error *err)
{
	bool known = name_count == 0;
	uint32_t id;
	for (size_t i = 0; i < name_count && !known; i++)
		known = intern_find(&table->names, names[i], strlen(names[i]), &id);
	int r = 0;
	for (size_t i = 0; known && r == 0 && i < table->count; i++)
		if (has_any(&table->hosts[i], names, name_count))
			r = read_host(&table->hosts[i], names, name_count, from_ns, to_ns, on_host, context, err);
	return r;
}

/* ---- forgetting ---- */

static size_t forget_runs(struct host_table *table, struct host *host, int64_t before_ns)
{
	size_t forgotten = 0;
	while (host->count > 1 && host->runs[1].first_ns <= before_ns) {
		drop_run(table, host, 0);
		forgotten++;
	}
	if (host->count == 1 && host->runs[0].last_ns < before_ns) {
		drop_run(table, host, 0);
		forgotten++;
	}
	return forgotten;
}

size_t host_table_forget(struct host_table *table, int64_t before_ns)
{
	size_t forgotten = 0, kept = 0;
	for (size_t i = 0; i < table->count; i++) {
		struct host *host = &table->hosts[i];
		forgotten += forget_runs(table, host, before_ns);
		if (host->count) {
			table->hosts[kept++] = *host;
			continue;
		}
		table->bytes -= HOST_BYTES + strlen(host->name);
		host_release(host);
	}
	if (kept == table->count)
		return forgotten;
	table->count = kept;
	/* There was room for more. */
	index32_clear(&table->index);
	for (size_t i = 0; i < kept; i++)
		index32_add(&table->index, hash_name(table->hosts[i].name), (uint32_t)i);
	return forgotten;
}

struct host_table_figures host_table_figures(const struct host_table *table)
{
	return (struct host_table_figures){
		.hosts = table->count, .runs = table->runs, .bytes = table->bytes, .dropped = table->dropped};
}
