/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of what was scraped: honor_labels, metric_relabel_configs and sample_limit, as Prometheus has them for metrics.
 *
 * A sample's labels are the target's and its own. Where both have one, the target's wins and the sample's becomes
 * exported_NAME, so that a program cannot pass for another one; with honor_labels the sample's wins. Then the rules see all of
 * them, and __name__, which is the profile's ("memory"), so that a rule can be about one kind of profile. What they drop is not
 * stored. sample_limit counts what is left, and fails the scrape as a whole: a part would be a wrong profile.
 *
 * This comes after the differences of counters: rules that change must not look like a program that was restarted.
 *
 * Each set that is changed gets the target's labels too: a program that has a set for each sample would make its profile many
 * times as large, so there is a limit to them.
 *
 * Most profiles have no label of their own that the target has too, and no rules: for those nothing is done here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "server/scrape/scrape_int.h"

#define EXPORTED "exported_"
#define DROPPED	 UINT32_MAX

static const char *name_of(const struct profile *profile, const struct profile_label *label,
			   char out[static LIMIT_LABEL_NAME_BYTES])
{
	label_name_sanitize(profile_string_bytes(profile, label->key), out);
	return out;
}

static bool is_number(const struct profile_label *label)
{
	return label->value == 0;
}

static bool has_conflict(const struct scrape_target *target, const struct profile *profile)
{
	char name[LIMIT_LABEL_NAME_BYTES];
	for (size_t i = 0; i < profile->label_count; i++)
		if (!is_number(&profile->labels[i]) && labels_get(&target->labels, name_of(profile, &profile->labels[i], name)))
			return true;
	return false;
}

/* "exported_NAME", or with more of the prefix if there is such a label as well. */
static int put_exported(struct relabel_set *set, const char *name, const char *value, struct error *err)
{
	char next[2 * LIMIT_LABEL_NAME_BYTES];
	size_t prefix = 0, len = strlen(name);
	do {
		if (prefix + strlen(EXPORTED) + len >= LIMIT_LABEL_NAME_BYTES)
			return error_set(err, -E2BIG,
					 "label %.60s exists in the target and in the profile, and is too long to be renamed",
					 name);
		memcpy(next + prefix, EXPORTED, strlen(EXPORTED));
		prefix += strlen(EXPORTED);
		memcpy(next + prefix, name, len + 1);
	} while (*relabel_set_get(set, next));
	const char *copy = arena_strndup(&set->arena, next, prefix + len);
	if (!copy)
		return error_nomem(err);
	relabel_set_put(set, copy, value);
	return 0;
}

/* The target's labels and a set's own. */
static int fill(const struct scrape_target *target, const struct profile *profile, struct profile_label_set own,
		struct relabel_set *set, struct error *err)
{
	char name[LIMIT_LABEL_NAME_BYTES];
	int r = 0;
	for (size_t i = 0; i < target->labels.count; i++)
		relabel_set_put(set, target->labels.items[i].name, target->labels.items[i].value);
	/* First those that are nobody else's: the new names of the others must not be theirs. */
	for (unsigned pass = 0; pass < 2 && r == 0; pass++)
		for (uint32_t i = 0; i < own.count && r == 0; i++) {
			const struct profile_label *label = &profile->labels[own.first + i];
			if (is_number(label))
				continue;
			bool conflicts = labels_get(&target->labels, name_of(profile, label, name));
			const char *copy = arena_strndup(&set->arena, name, strlen(name));
			if (!copy)
				return error_nomem(err);
			if (conflicts && pass == 1 && !target->job->honor_labels)
				r = put_exported(set, copy, profile_string(profile, label->value), err);
			else if (conflicts ? pass == 1 : pass == 0)
				relabel_set_put(set, copy, profile_string(profile, label->value));
		}
	relabel_set_put(set, "__name__", target->profile->name);
	return r;
}

/* Under the rules' lock: matching uses memory of theirs. Positive if they drop the set. */
static int apply_rules(const struct scrape_target *target, struct relabel_set *set, struct error *err)
{
	struct scrape_job *job = target->job;
	int r = 0;
	if (job->sample_relabel) {
		THREAD_LOCK_SCOPE(&job->sample_relabel_lock);
		r = relabel_run(job->sample_relabel, set, err);
	}
	relabel_set_remove_hidden(set);
	return r;
}

static int add_set(struct profile *profile, const struct relabel_set *set, struct profile_label_set own, uint32_t *ret,
		   struct error *err)
{
	struct profile_label labels[RELABEL_LABELS_MAX + LIMIT_LABELS_PER_SERIES];
	size_t count = 0;
	int r = 0;
	for (size_t i = 0; i < set->count && r == 0; i++) {
		struct profile_label *label = &labels[count++];
		*label = (struct profile_label){0};
		r = profile_add_cstring(profile, set->items[i].name, &label->key, err);
		if (r == 0)
			r = profile_add_cstring(profile, set->items[i].value, &label->value, err);
	}
	for (uint32_t i = 0; i < own.count; i++)
		if (is_number(&profile->labels[own.first + i]))
			labels[count++] = profile->labels[own.first + i];
	return r < 0 ? r : profile_add_label_set(profile, labels, count, ret, err);
}

static int change_set(const struct scrape_target *target, struct profile *profile, uint32_t id, uint32_t *ret,
		      struct error *err)
{
	struct profile_label_set own = profile->label_sets[id];
	struct relabel_set set;
	if (own.count > LIMIT_LABELS_PER_SERIES)
		return error_set(err, -E2BIG, "a sample has %u labels; the limit is %d", own.count, LIMIT_LABELS_PER_SERIES);
	relabel_set_init(&set);
	int r = fill(target, profile, own, &set, err);
	if (r == 0)
		r = apply_rules(target, &set, err);
	if (r > 0)
		*ret = DROPPED;
	else if (r == 0)
		r = add_set(profile, &set, own, ret, err);
	relabel_set_release(&set);
	return r < 0 ? r : 0;
}

/* Gives samples their new sets, without those that were dropped. */
static void move_samples(struct profile *profile, const uint32_t *sets)
{
	size_t kept = 0, types = profile->sample_type_count;
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t labels = sets[profile->samples[i].labels];
		if (labels == DROPPED)
			continue;
		profile->samples[kept] = profile->samples[i];
		profile->samples[kept].labels = labels;
		memmove(profile->values + kept * types, profile->values + i * types, types * sizeof(*profile->values));
		kept++;
	}
	profile->sample_count = kept;
}

static int change_sets(const struct scrape_target *target, struct profile *profile, struct error *err)
{
	size_t count = profile->label_set_count;
	_cleanup_(mem_freep) uint32_t *sets = mem_zalloc_array(count, sizeof(*sets));
	_cleanup_(mem_freep) bool *used = mem_zalloc_array(count, sizeof(*used));
	if (!sets || !used)
		return error_nomem(err);
	size_t used_count = 0;
	int r = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		used_count += !used[profile->samples[i].labels];
		used[profile->samples[i].labels] = true;
	}
	if (used_count > SCRAPE_LABEL_SETS_MAX)
		return error_set(err, -E2BIG,
				 "the samples have more than %d different sets of labels, the limit when labels change",
				 SCRAPE_LABEL_SETS_MAX);
	for (size_t i = 0; i < count && r == 0; i++)
		if (used[i])
			r = change_set(target, profile, (uint32_t)i, &sets[i], err);
	if (r == 0)
		move_samples(profile, sets);
	return r;
}

/* What a profile without samples is stored under: the target's labels after the rules, none if they drop it. */
static int change_base(const struct scrape_target *target, struct labels *base, struct error *err)
{
	struct relabel_set set;
	relabel_set_init(&set);
	for (size_t i = 0; i < target->labels.count; i++)
		relabel_set_put(&set, target->labels.items[i].name, target->labels.items[i].value);
	relabel_set_put(&set, "__name__", target->profile->name);
	int r = apply_rules(target, &set, err);
	for (size_t i = 0; i < set.count && r == 0; i++) {
		char name[LIMIT_LABEL_NAME_BYTES];
		label_name_sanitize(bytes_of_string(set.items[i].name), name);
		r = labels_set(base, name, set.items[i].value, err);
	}
	relabel_set_release(&set);
	return r;
}

int scrape_label_samples(const struct scrape_target *target, struct profile *profile, struct labels *ret_base,
			 struct error *err)
{
	const struct scrape_job *job = target->job;
	bool had_samples = profile->sample_count > 0;
	bool changes = job->sample_relabel || (!job->honor_labels && has_conflict(target, profile));
	*ret_base = (struct labels){0};
	int r = changes ? 0 : labels_copy(ret_base, &target->labels, err);
	if (r == 0 && changes)
		r = had_samples ? change_sets(target, profile, err) : change_base(target, ret_base, err);
	if (r == 0 && had_samples && profile->sample_count == 0)
		return 1;
	if (r == 0 && job->samples_max && profile->sample_count > job->samples_max)
		r = error_set(err, -E2BIG, "the profile has %zu samples; sample_limit allows %u", profile->sample_count,
			      job->samples_max);
	if (r < 0)
		labels_release(ret_base);
	return r;
}
