/* SPDX-License-Identifier: Apache-2.0 */
#include "server/core/forward.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "profile/type.h"
#include "server/core/server_int.h"

#define FINISH_NS (3 * NS_PER_S)

struct forward {
	struct exporter *exporter;
	size_t count;
	struct selector *selectors[EXPORT_TARGETS_MAX]; /* NULL = everything */
	struct server *server;
};

static void write_log(void *context, enum log_level level, const char *text)
{
	log_write(level, "forward: %s", text);
}

/* From what that tenant may see: who reads the target may be another. */
static int symbolize(void *context, const char *name, struct profile *profile, const atomic_bool *cancel, struct error *err)
{
	struct forward *forward = context;
	struct symbolizer_want want = {.wait_ns = 20 * NS_PER_S, .cancel = cancel};
	struct tenant *tenant;
	int r = tenant_by_name(forward->server, *name ? name : NULL, false, &tenant, err);
	/* Of one that is no more there are no names. */
	return r == -ENOENT ? 0 : r < 0 ? r : symbolizer_resolve(tenant->symbolizer, profile, 1, &want, NULL, err);
}

int forward_open(struct server *server, struct forward **ret, struct error *err)
{
	const struct server_options *options = &server->options;
	char directory[PATH_BYTES_MAX];
	*ret = NULL;
	if (!options->forward_count)
		return 0;
	struct forward *forward = mem_zalloc(sizeof(*forward));
	if (!forward)
		return error_nomem(err);
	forward->count = options->forward_count;
	forward->server = server;
	int r = io_join_path(directory, sizeof(directory), server->data_directory, "forward");
	for (size_t i = 0; i < forward->count && r == 0; i++)
		if (options->forward[i].selector)
			r = selector_parse(options->forward[i].selector, &forward->selectors[i], err);
	struct exporter_options exporter = {.targets = options->forward,
					    .target_count = forward->count,
					    .directory = directory,
					    .durable = true,
					    .no_host_files = options->no_host_files,
					    .log = write_log,
					    .symbolize = symbolize,
					    .context = forward};
	if (r == 0)
		r = exporter_new(&exporter, &forward->exporter, err);
	if (r < 0) {
		forward_close(forward);
		return error_prefix(err, r, "forward");
	}
	*ret = forward;
	return 0;
}

struct forward *forward_close(struct forward *forward)
{
	if (!forward)
		return NULL;
	if (forward->exporter)
		exporter_finish(forward->exporter, FINISH_NS);
	exporter_free(forward->exporter);
	for (size_t i = 0; i < forward->count; i++)
		selector_free(forward->selectors[i]);
	return mem_free(forward);
}

/* ---- what goes where ---- */

/* Of the label sets that samples have, those of which a series is selected. */
struct selection {
	bool *sets;
	size_t selected, all;
};

static bool matches(const struct selector *selector, const struct profile *profile, const char *name,
		    const struct labels *labels)
{
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		struct profile_type type;
		profile_type_of(profile, i, name, &type);
		if (selector_matches(selector, &type, labels))
			return true;
	}
	return false;
}

static int select_sets(const struct selector *selector, const struct profile *profile, const char *name,
		       const struct labels *base, struct selection *ret, struct error *err)
{
	_cleanup_(mem_freep) bool *seen = mem_zalloc_array(profile->label_set_count, sizeof(*seen));
	ret->sets = mem_zalloc_array(profile->label_set_count, sizeof(*ret->sets));
	if (!seen || !ret->sets)
		return error_nomem(err);
	/* One without samples is of the labels that the profile has itself. */
	size_t count = profile->sample_count ? profile->sample_count : 1;
	for (size_t i = 0; i < count; i++) {
		uint32_t set = profile->sample_count ? profile->samples[i].labels : 0;
		_cleanup_(labels_release) struct labels labels = {0};
		if (seen[set])
			continue;
		seen[set] = true;
		int r = labels_of_sample(profile, set, base, &labels, err);
		if (r < 0)
			return r;
		ret->sets[set] = matches(selector, profile, name, &labels);
		ret->selected += ret->sets[set];
		ret->all++;
	}
	return 0;
}

/* What the copy says beside what the profile says itself. */
static int more_labels(const struct profile *profile, const char *name, const struct labels *labels, struct labels *ret,
		       struct error *err)
{
	struct profile_type guessed, given;
	*ret = (struct labels){0};
	int r = labels ? labels_copy(ret, labels, err) : 0;
	profile_type_of(profile, 0, NULL, &guessed);
	profile_type_of(profile, 0, name, &given);
	if (r == 0 && strcmp(guessed.name, given.name) != 0)
		r = labels_set(ret, FORWARD_NAME_LABEL, given.name, err);
	return r;
}

static int push(struct forward *forward, const struct profile *profile, const bool *sets, const char *tenant,
		const struct labels *more, uint64_t targets, struct error *err)
{
	_cleanup_(profile_freep) struct profile *copy = NULL;
	/* One without a time is of now: it may wait, and be sent twice, which only a time shows. */
	bool plain = !sets && !more->count && profile->time_ns;
	int r = plain ? 0 : export_copy_profile(profile, sets, more, &copy, err);
	if (copy && !copy->time_ns)
		copy->time_ns = time_now_ns();
	return r < 0 ? r : exporter_push(forward->exporter, copy ? copy : profile, tenant, targets, err);
}

static int forward_all(struct forward *forward, const struct profile *profile, const char *tenant, const char *name,
		       const struct labels *labels, struct error *err)
{
	_cleanup_(labels_release) struct labels more = {0};
	uint64_t whole = 0;
	int failed = 0, r = more_labels(profile, name, labels, &more, err);
	for (size_t i = 0; i < forward->count && r == 0; i++) {
		struct selection selection = {0};
		if (!forward->selectors[i]) {
			whole |= 1ull << i;
			continue;
		}
		r = select_sets(forward->selectors[i], profile, name, labels, &selection, err);
		if (r == 0 && selection.selected == selection.all)
			whole |= 1ull << i;
		else if (r == 0 && selection.selected)
			failed = push(forward, profile, selection.sets, tenant, &more, 1ull << i, err);
		mem_free(selection.sets);
	}
	if (r == 0 && whole)
		r = push(forward, profile, NULL, tenant, &more, whole, err);
	return r < 0 ? r : failed;
}

void forward_profile(struct forward *forward, const struct profile *profile, const char *tenant, const char *name,
		     const struct labels *labels)
{
	struct error err = {0};
	if (!forward || (!profile->sample_count && !profile_has_gauge(profile, name)))
		return;
	if (forward_all(forward, profile, tenant, name, labels, &err) < 0)
		log_warn("forward: %s", err.message);
}

size_t forward_get_stats(struct forward *forward, struct export_stats *ret, size_t max)
{
	return forward ? exporter_get_stats(forward->exporter, ret, max) : 0;
}

const char *forward_take_name(struct profile *profile)
{
	const char *name = profile_label_value(profile, profile->resource_labels, FORWARD_NAME_LABEL);
	struct profile_label labels[LIMIT_LABELS_PER_SERIES];
	const struct profile_label_set *set = &profile->label_sets[profile->resource_labels];
	size_t count = 0;
	uint32_t without;
	if (!name || set->count > LIMIT_LABELS_PER_SERIES)
		return NULL;
	for (uint32_t i = set->first; i < set->first + set->count; i++)
		if (strcmp(profile_string(profile, profile->labels[i].key), FORWARD_NAME_LABEL) != 0)
			labels[count++] = profile->labels[i];
	if (profile_add_label_set(profile, labels, count, &without, NULL) < 0)
		return NULL;
	profile->resource_labels = without;
	return profile_label_value(profile, without, FORWARD_NAME_LABEL) ? NULL : name;
}
