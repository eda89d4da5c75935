/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hosts are: labels of hosts by time, beside the series.
 *
 * The CPU model of a host, its kernel, its zone are the same for all of its series. As labels of series they would be stored
 * with each of them, and whenever one changed, all series of the host would be new ones. So they are in a table of their own,
 * by host and time, and queries join it: a series is of the host that its label host_name says.
 *
 * A profile that comes in says what its host is (note); from its time on these labels hold, until a later profile of the host
 * says something else. What a host was before the first such profile is not known, and its first labels are taken for it. So
 * the order in which profiles come in does not matter: each says what was at its own time.
 */
#ifndef WICK_STORE_HOSTS_H
#define WICK_STORE_HOSTS_H

#include "store/store.h"

#define STORE_HOST_LABEL "host_name" /* of series: whose they are */

/* Labels of a host, and when they held: from_ns <= time < to_ns, whole milliseconds; INT64_MIN and INT64_MAX where there is no
 * other before, or after. */
struct store_host {
	const char *name;
	int64_t from_ns, to_ns;
	int64_t first_ns, last_ns; /* times of the first and the last profile that said so */
	const struct labels *labels;
};

/*
 * A profile of that time says that the host has these labels. It is on disk when this returns, if it is news.
 *
 * Positive: it was not taken, because of a limit (base/limits.h, LIMIT_HOST*) or because its time is out of bounds, as that of
 * samples would be; err says which. The profile itself is as good.
 */
#define STORE_HOST_REFUSED 1
int store_note_host(struct store *store, const char *host, const struct labels *labels, int64_t time_ns, struct error *err);

/*
 * Calls on_host for all labels that held in the range, host by host and by rising time within one; not for hosts without any of
 * the labels of these names. name_count 0 = all labels. What it gets has the labels asked for only, and lives during the call,
 * in which the store must not be called.
 */
typedef int (*store_on_host)(void *context, const struct store_host *host, struct error *err);
int store_read_hosts(struct store *store, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
		     store_on_host on_host, void *context, struct error *err);

/* All that the store knows, as the file that a local store keeps it in (store/hosts/host_journal.h). */
int store_copy_hosts(struct store *store, struct buffer *ret, struct error *err);

#endif
