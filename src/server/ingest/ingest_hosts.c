/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profile says of its host goes to the store's table of hosts, and not to the labels of its series (store/hosts.h).
 *
 * Senders say it with each profile, as attributes of the resource that its entity "host" describes (format/otlp): so a profile
 * that waited in a spool, or comes to another server or through a collector, brings what was true when it was made, and nobody
 * has to remember what was sent to whom. It is some 270 bytes of a compressed request, and here a look at the table.
 *
 * Rejected: to send it with the polls of agents (control/protocol.h), which say what is true now, and of late profiles nothing;
 * to send it once and when it changes, since the one profile that has it may be lost, and a server that is new waits for the
 * next change; and a message of its own, which no other sender or collector knows.
 */
#include <errno.h>

#include "base/limits.h"
#include "base/time.h"
#include "profile/hosts.h"
#include "server/ingest/ingest_int.h"
#include "store/hosts.h"

/* As series have them. */
static int read_labels(const struct profile *profile, struct labels *ret_host, struct labels *ret_labels, struct error *err)
{
	struct profile only = *profile;
	int r = labels_of_sample(profile, 0, NULL, ret_host, err);
	if (r < 0)
		return r;
	only.resource_labels = 0;
	r = labels_of_sample(&only, profile->host_labels, NULL, ret_labels, err);
	return r < 0 ? r : labels_set(ret_labels, STORE_HOST_LABEL, "", err);
}

static bool has_key(const struct profile *profile, uint32_t label_set, uint32_t key)
{
	const struct profile_label_set *set = &profile->label_sets[label_set];
	return profile_has_key(profile->labels + set->first, set->count, key);
}

static int drop_from_resource(struct profile *profile, struct error *err)
{
	struct profile_label labels[2 * LIMIT_LABELS_PER_SERIES];
	const struct profile_label_set set = profile->label_sets[profile->resource_labels];
	size_t count = 0;
	for (uint32_t i = set.first; i < set.first + set.count && count < 2 * LIMIT_LABELS_PER_SERIES; i++)
		if (!has_key(profile, profile->host_labels, profile->labels[i].key))
			labels[count++] = profile->labels[i];
	return profile_add_label_set(profile, labels, count, &profile->resource_labels, err);
}

static void warn(struct ingest *ingest, const char *host, const char *why)
{
	uint64_t all;
	if (log_limit_add(&ingest->server->hosts_log, 1, &all))
		log_warn("ingest: labels of host '%.100s' are not kept: %s (%llu such profiles since the last such line)", host,
			 why, (unsigned long long)all);
}

int ingest_take_host(struct ingest *ingest, struct profile *profile, struct error *err)
{
	_cleanup_(labels_release) struct labels resource = {0};
	_cleanup_(labels_release) struct labels labels = {0};
	struct error why = {0};
	const struct profile_label_set *set = &profile->label_sets[profile->resource_labels];
	/* More labels than a series may have: whoever checks that says so. */
	if (!profile->host_labels || set->count > 2 * LIMIT_LABELS_PER_SERIES)
		return 0;
	if (!profile_label_value(profile, profile->resource_labels, PROFILE_HOST_LABEL))
		return 0; /* of no host that a series could name: they stay what they are */
	int r = read_labels(profile, &resource, &labels, &why);
	const char *host = r < 0 ? NULL : labels_get(&resource, STORE_HOST_LABEL);
	if (r == 0 && host && labels.count)
		r = store_note_host(ingest->tenant->store, host, &labels, profile->time_ns ? profile->time_ns : time_now_ns(),
				    &why);
	if (r > 0 || r == -E2BIG)
		warn(ingest, host ? host : "", why.message);
	else if (r < 0)
		return error_set(err, r, "%s", why.message);
	return drop_from_resource(profile, err);
}
