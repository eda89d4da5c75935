/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold. */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "tests/sim/simulation.h"

/* ---- stacks ---- */

struct found {
	int64_t times[AGENTS_MAX][APPENDS_MAX][PARTS_MAX]; /* how often each is there */
	int64_t shared;
};

static void note_stack(const struct simulation *s, const char *when, const char *name, int64_t value, struct found *found)
{
	unsigned agent, number, part;
	if (!strcmp(name, "shared")) {
		found->shared += value;
		return;
	}
	if (sscanf(name, "%u.%u.%u", &agent, &number, &part) != 3 || agent >= s->agent_count ||
	    number >= s->agents[agent].count || part >= s->agents[agent].appends[number].parts)
		simulation_fail(s, "%s: nobody sent a stack '%s'", when, name);
	const struct append *append = &s->agents[agent].appends[number];
	if (append->state == APPEND_UNSENT)
		simulation_fail(s, "%s: %s is there before it was sent", when, name);
	int64_t times = value / append->values[part];
	if (value % append->values[part] || found->times[agent][number][part] || times < 1 ||
	    (times > 1 && !s->has_forgotten_ids))
		simulation_fail(s, "%s: %s has the value %" PRId64 ", and %" PRId64 " was sent", when, name, value,
				append->values[part]);
	found->times[agent][number][part] = times;
}

static void read_stacks(struct simulation *s, const char *when, struct found *found)
{
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct error err = {0};
	struct profile *into = NULL;
	if (profile_new(&into, &err) < 0 || store_merge(s->store, &select, NULL, into, NULL, &err) < 0)
		simulation_fail(s, "%s: a query failed: %s", when, err.message);
	for (size_t i = 0; i < into->sample_count; i++) {
		const struct profile_location *location = &into->locations[into->stacks[into->samples[i].stack].location];
		const struct profile_function *function = &into->functions[into->lines[location->line_first].function];
		note_stack(s, when, profile_string(into, function->name), into->values[i], found);
		s->rows++;
	}
	profile_free(into);
}

/* Whether retention or damage may have taken it. */
static bool may_be_gone(const struct simulation *s, const struct append *append)
{
	return s->is_flipped || append->deletion != DELETION_NONE ||
	       append->time_ns < (append->pod == RULE_POD ? s->rule_horizon_ns : s->retention_horizon_ns);
}

/* Returns the sum of what is there of an agent, and how many appends. */
static int64_t check_agent(const struct simulation *s, const char *when, unsigned agent, const struct found *found,
			   int64_t *ret_count)
{
	int64_t sum = 0;
	*ret_count = 0;
	for (unsigned number = 0; number < s->agents[agent].count; number++) {
		const struct append *append = &s->agents[agent].appends[number];
		int64_t there = found->times[agent][number][0];
		for (unsigned part = 0; part < append->parts; part++) {
			if (found->times[agent][number][part] != there)
				simulation_fail(s, "%s: not all %u samples of %u.%u are there", when, append->parts, agent,
						number);
			sum += there * append->values[part];
		}
		if (!there && append->state == APPEND_ACKNOWLEDGED && !may_be_gone(s, append))
			simulation_fail(s, "%s: %u.%u was acknowledged and is lost", when, agent, number);
		if (there && append->deletion == DELETION_DONE)
			simulation_fail(s, "%s: %u.%u was deleted and is there", when, agent, number);
		*ret_count += there;
	}
	return sum + *ret_count; /* of the shared stack */
}

/* ---- series ---- */

struct sums {
	struct simulation *s;
	const char *when;
	int64_t sums[AGENTS_MAX];
};

static int group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret, struct error *err)
{
	struct sums *sums = context;
	const char *agent = labels_get(labels, "agent");
	if (!agent || agent[0] < '0' || agent[0] >= '0' + (int)sums->s->agent_count)
		simulation_fail(sums->s, "%s: a series of agent %s", sums->when, agent ? agent : "nobody");
	*ret = (uint32_t)(agent[0] - '0');
	return 0;
}

static int on_point(void *context, uint32_t agent, uint64_t bucket, int64_t value, struct error *err)
{
	struct sums *sums = context;
	sums->sums[agent] += value;
	return 0;
}

/* Reads everything by stacks and by series. */
static void read_all(struct simulation *s, const char *when, struct found *found, struct sums *sums)
{
	struct store_grouping grouping = {.by = (const char *const[]){"agent"}, .by_count = 1, .group = group, .context = sums};
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct error err = {0};
	*found = (struct found){0};
	*sums = (struct sums){.s = s, .when = when};
	read_stacks(s, when, found);
	if (store_series(s->store, &select, &grouping, 0, on_point, sums, NULL, &err) < 0)
		simulation_fail(s, "%s: a query failed: %s", when, err.message);
}

void check_store(struct simulation *s, const char *when)
{
	struct found found;
	struct sums sums;
	int64_t count, total = 0;
	s->queries++;
	/* Damage is found by the first who reads it, and what it is in is gone from then on: the two readings would differ. */
	if (s->is_flipped)
		read_all(s, when, &found, &sums);
	read_all(s, when, &found, &sums);
	for (unsigned i = 0; i < s->agent_count; i++) {
		int64_t sum = check_agent(s, when, i, &found, &count);
		total += count;
		if (sum != sums.sums[i])
			simulation_fail(s, "%s: the stacks of agent %u have the sum %" PRId64 ", its series %" PRId64, when, i,
					sum, sums.sums[i]);
	}
	if (total != found.shared)
		simulation_fail(s, "%s: %" PRId64 " appends are there and %" PRId64 " of their shared samples", when, total,
				found.shared);
}

/* ---- what is set aside ---- */

void check_quarantine(struct simulation *s)
{
	char path[PATH_MAX];
	if (io_join_path(path, sizeof(path), s->directory, "quarantine") < 0)
		simulation_fail(s, "path");
	DIR *dir = opendir(path);
	struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		uint64_t number, offset;
		char segment[32];
		if (entry->d_name[0] == '.' || s->is_flipped)
			continue;
		if (sscanf(entry->d_name, "log-%" SCNu64 "-at-%" SCNu64 ".bin", &number, &offset) != 2)
			simulation_fail(s, "%s is set aside, and nothing was damaged", entry->d_name);
		snprintf(segment, sizeof(segment), "%08" PRIu64 ".log", number);
		if (!disk_was_torn(segment, offset))
			simulation_fail(s, "%s is set aside, and was not torn", entry->d_name);
	}
	if (dir)
		closedir(dir);
}

void check_problem(void *context, const char *message)
{
	struct simulation *s = context;
	simulation_log(s, "problem: %s", message);
	if (s->is_flipped && strstr(message, "would be stored twice"))
		s->has_forgotten_ids = true;
	/* A ghost's complaints; those about what this run did to the disk; what is set aside is checked by itself. */
	if (disk_is_dead() || s->is_flipped || disk_has_failed() || (s->is_full && strstr(message, "No space left")) ||
	    strstr(message, "set aside"))
		return;
	simulation_fail(s, "a complaint without a cause: %s", message);
}
