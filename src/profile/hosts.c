/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hosts.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/align_int.h"
#include "profile/merge.h"
#include "profile/profile_int.h"

#define NAME_MAX_BYTES 300

/* ---- labels ---- */

/* A set with another host: `to` in the place of `from`, or besides the rest if `from` is 0 and none is there. */
static int change_set(struct profile *profile, uint32_t id, uint32_t key, uint32_t from, uint32_t to, uint32_t *ret,
		      struct error *err)
{
	struct profile_label_set set = profile->label_sets[id];
	_cleanup_(mem_freep) struct profile_label *labels = mem_alloc_array(set.count + 1, sizeof(*labels));
	size_t count = set.count;
	bool changed = false, has_host = false;
	if (!labels)
		return error_nomem(err);
	for (uint32_t i = 0; i < set.count; i++) {
		labels[i] = profile->labels[set.first + i];
		if (labels[i].key != key || !labels[i].value)
			continue;
		has_host = true;
		if (from && labels[i].value == from) {
			labels[i].value = to;
			changed = true;
		}
	}
	if (!from && !has_host) {
		labels[count++] = (struct profile_label){.key = key, .value = to};
		changed = true;
	}
	*ret = id;
	return changed ? profile_add_label_set(profile, labels, count, ret, err) : 0;
}

/* In all sets that samples have. */
static int change_samples(struct profile *profile, uint32_t key, uint32_t from, uint32_t to, struct error *err)
{
	size_t count = profile->label_set_count;
	_cleanup_(mem_freep) uint32_t *sets = mem_alloc_array(count, sizeof(*sets));
	bool changed = false;
	int r = sets ? 0 : error_nomem(err);
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		r = change_set(profile, i, key, from, to, &sets[i], err);
		changed |= r == 0 && sets[i] != i;
	}
	if (r < 0 || !changed)
		return r;
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].labels = sets[profile->samples[i].labels];
	return profile_aggregate(profile, err);
}

/* ---- hosts ---- */

static int add_host_of(struct profile *profile, uint32_t set, uint32_t *ret, struct error *err)
{
	const char *name = profile_label_value(profile, set, PROFILE_HOST_LABEL);
	struct profile_host host = {0};
	if (!name || !*name)
		return 0;
	int r = profile_add_cstring(profile, name, &host.name, err);
	return r < 0 ? r : profile_add_host(profile, &host, ret, err);
}

static int add_hosts_of_samples(struct profile *profile, struct error *err)
{
	_cleanup_(mem_freep) bool *seen = mem_zalloc_array(profile->label_set_count, sizeof(*seen));
	int r = seen ? 0 : error_nomem(err);
	for (size_t i = 0; r == 0 && i < profile->sample_count; i++) {
		uint32_t host, set = profile->samples[i].labels;
		if (!seen[set])
			r = add_host_of(profile, set, &host, err);
		seen[set] = true;
	}
	return r;
}

/* Threads, and counters of processes, that have none. */
static int settle_markers(struct profile *profile, uint32_t host, struct error *err)
{
	struct profile_markers *markers = profile->markers;
	for (size_t i = 1; i < markers->thread_count; i++)
		if (!markers->threads[i].host)
			markers->threads[i].host = host;
	for (size_t i = 1; i < markers->lifetime_count; i++)
		if (!markers->lifetimes[i].host)
			markers->lifetimes[i].host = host;
	for (size_t i = 1; i < markers->counter_count; i++) {
		struct profile_counter *counter = &markers->counters[i];
		if (!counter->host)
			counter->host = counter->thread ? markers->threads[counter->thread].host : host;
	}
	return profile_reindex_markers(profile, err);
}

/* Whether there is a sample, thread or counter that no host is known of. */
static bool has_homeless(const struct profile *profile)
{
	const struct profile_markers *markers = profile->markers;
	for (size_t i = 0; i < profile->sample_count; i++)
		if (!profile_label_value(profile, profile->samples[i].labels, PROFILE_HOST_LABEL))
			return true;
	for (size_t i = 1; markers && i < markers->thread_count; i++)
		if (!markers->threads[i].host)
			return true;
	for (size_t i = 1; markers && i < markers->lifetime_count; i++)
		if (!markers->lifetimes[i].host)
			return true;
	for (size_t i = 1; markers && i < markers->counter_count; i++)
		if (!markers->counters[i].host && !markers->counters[i].thread)
			return true;
	return false;
}

int profile_complete_hosts(struct profile *profile, const char *name, struct error *err)
{
	uint32_t key, value, host = 0;
	const char *of_all = profile_label_value(profile, profile->resource_labels, PROFILE_HOST_LABEL);
	int r = add_hosts_of_samples(profile, err);
	/* A file that says its only host in another way says that of its markers. */
	if (r == 0 && (!of_all || !*of_all) && profile_host_count(profile) == 1) {
		of_all = NULL;
		name = profile_string(profile, profile->markers->hosts[1].name);
	}
	bool wants_name = profile_host_count(profile) == 0 || has_homeless(profile);
	if (r == 0 && (!of_all || !*of_all) && name && *name && wants_name) {
		r = profile_add_cstring(profile, PROFILE_HOST_LABEL, &key, err);
		if (r == 0)
			r = profile_add_cstring(profile, name, &value, err);
		if (r == 0)
			r = change_set(profile, profile->resource_labels, key, 0, value, &profile->resource_labels, err);
	}
	if (r == 0)
		r = add_host_of(profile, profile->resource_labels, &host, err);
	return r < 0 || !host ? r : settle_markers(profile, host, err);
}

int profile_rename_host(struct profile *profile, uint32_t host, const char *name, struct error *err)
{
	struct profile_markers *markers = profile->markers;
	uint32_t key, to, from = markers->hosts[host].name;
	int r = profile_add_cstring(profile, PROFILE_HOST_LABEL, &key, err);
	if (r == 0)
		r = profile_add_cstring(profile, name, &to, err);
	if (r < 0 || from == to)
		return r;
	r = change_set(profile, profile->resource_labels, key, from, to, &profile->resource_labels, err);
	if (r == 0)
		r = change_samples(profile, key, from, to, err);
	if (r < 0)
		return r;
	for (size_t i = 1; i < markers->host_count; i++) {
		assert(markers->hosts[i].name != to);
		/* What another host was compared with is this one's clock still. */
		if (markers->hosts[i].reference == from)
			markers->hosts[i].reference = to;
	}
	markers->hosts[host].name = to;
	return profile_reindex_markers(profile, err);
}

/* ---- merging ---- */

static bool has_host(const struct profile *profile, const char *name)
{
	for (size_t i = 1; i <= profile_host_count(profile); i++)
		if (strcmp(profile_string(profile, profile->markers->hosts[i].name), name) == 0)
			return true;
	return false;
}

static int keep_apart(const struct profile *to, struct profile *from, uint32_t host, struct error *err)
{
	char name[NAME_MAX_BYTES + 16];
	const char *old = profile_string(from, from->markers->hosts[host].name);
	if (!has_host(to, old))
		return 0;
	for (unsigned number = 2;; number++) {
		snprintf(name, sizeof(name), "%.*s-%u", NAME_MAX_BYTES, old, number);
		if (!has_host(to, name) && !has_host(from, name))
			return profile_rename_host(from, host, name, err);
	}
}

int profile_merge_hosts(struct profile *to, struct profile *from, struct error *err)
{
	int r = 0;
	/* Names of hosts come from outside, and each is compared with all. */
	if (profile_host_count(to) + profile_host_count(from) > PROFILE_ALIGN_HOSTS_MAX)
		return error_set(err, -E2BIG, "together they have more than %d hosts, the limit", PROFILE_ALIGN_HOSTS_MAX);
	for (uint32_t i = 1; r == 0 && i <= profile_host_count(from); i++)
		r = keep_apart(to, from, i, err);
	if (r < 0 || from->sample_count > 0)
		return r < 0 ? r : profile_merge(to, from, false, err);
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	r = profile_copy_new(to, from, &copy, err);
	if (r == 0)
		r = profile_unite_comments(to, from, copy, err);
	return r < 0 ? r : profile_copy_markers(to, from, copy, err);
}
