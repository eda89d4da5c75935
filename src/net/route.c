/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the handler. The path decides first, the method afterwards: with "POST /ingest" and "GET /" + "*" (the page) a GET of
 * /ingest is 405, not the page, which would puzzle whoever looks for a mistake in a URL. A table has some fifty rows and a
 * comparison mostly ends at the second byte, so a scan it is.
 */
#include <stdio.h>
#include <string.h>

#include "net/net_int.h"

/* Length of the match, -1 for none. An exact path beats a prefix of the same length. */
static long match_len(const char *pattern, const char *path)
{
	size_t len = strlen(pattern);
	if (len > 0 && pattern[len - 1] == '*')
		return strncmp(path, pattern, len - 1) ? -1 : (long)(2 * (len - 1));
	return strcmp(path, pattern) ? -1 : (long)(2 * len + 1);
}

static bool method_matches(const char *allowed, const char *method)
{
	if (!allowed || !strcmp(allowed, method))
		return true;
	return !strcmp(method, "HEAD") && !strcmp(allowed, "GET");
}

int route_find(const struct net_route *routes, const char *method, const char *path, const struct net_route **ret, char *allow,
	       size_t allow_size)
{
	long best = -1;
	for (const struct net_route *route = routes; route->path; route++) {
		long len = match_len(route->path, path);
		best = len > best ? len : best;
	}
	if (best < 0)
		return 404;
	size_t used = 0;
	allow[0] = '\0';
	for (const struct net_route *route = routes; route->path; route++) {
		if (match_len(route->path, path) != best)
			continue;
		if (method_matches(route->method, method)) {
			*ret = route;
			return 0;
		}
		int n = snprintf(allow + used, allow_size - used, "%s%s", used ? ", " : "", route->method);
		if (n > 0 && (size_t)n < allow_size - used)
			used += (size_t)n;
		else
			allow[used] = '\0';
	}
	return 405;
}
