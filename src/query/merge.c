/* SPDX-License-Identifier: Apache-2.0 */
/* The merged profile of a selection: read from the store, then named. Symbols are resolved last, and only for the locations
 * that are left, because naming costs more than reading. */
#include <errno.h>

#include "base/time.h"
#include "query/query_int.h"

int query_merge(struct store *store, struct symbolizer *symbolizer, const struct query *query, struct profile **ret,
		struct query_stats *stats, struct error *err)
{
	struct query_stats unused = {0};
	if (!stats)
		stats = &unused;
	int64_t started = time_monotonic_ns();
	_cleanup_(query_scan_release) struct query_scan scan;
	int r = query_scan_init(&scan, query, err);
	if (r)
		return r;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	r = profile_new(&profile, err);
	if (r)
		return r;
	int64_t parsed = time_monotonic_ns();
	stats->parse_ns = (uint64_t)(parsed - started);

	r = store_merge(store, &scan.select, profile, &stats->read, err);
	int check = query_scan_check(&scan, true, err); /* says more than the store can about several types */
	if (r || check)
		return check ? check : r;
	int64_t read = time_monotonic_ns();
	stats->read_ns = (uint64_t)(read - parsed);

	if (symbolizer) {
		r = symbolizer_resolve(symbolizer, profile, &stats->locations_resolved, &stats->locations_unresolved, err);
		if (r)
			return r;
		stats->symbolize_ns = (uint64_t)(time_monotonic_ns() - read);
	}
	*ret = profile;
	profile = NULL;
	return 0;
}
