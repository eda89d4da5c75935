/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: whose data, and which store (tenant.c). */
#ifndef WICK_SERVER_CORE_TENANT_H
#define WICK_SERVER_CORE_TENANT_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/net.h"
#include "server/core/counters.h"
#include "server/server.h"
#include "store/store.h"

struct server;
struct recordings;     /* recordings.h */
struct marker_batches; /* marker_batches.h */
struct agents;	       /* agents.h */
struct snapshots;      /* snapshots.h */
struct symbolizer;     /* symbol/symbol.h */

#define TENANT_HEADER	"x-scope-orgid"
#define TENANT_DEFAULT	"anonymous" /* what the tenant without a name is called */
#define TENANT_NAME_MAX 150
struct bucket {
	double tokens; /* below 0: debt */
	int64_t filled_ns;
};
struct tenant {
	char name[TENANT_NAME_MAX + 1];
	bool is_default;
	struct server_limits limits;
	struct store *_Atomic store;			       /* NULL until opened, then for ever */
	struct recordings *recordings;			       /* opened with the store */
	struct marker_batches *batches;			       /* the same; markers that agents send all the time */
	struct agents *agents;				       /* how they are; in memory only */
	struct symbols_scope *symbols;			       /* whose uploads it may see; opened with the store */
	struct symbolizer *symbolizer;			       /* likewise */
	struct snapshots *snapshots;			       /* opened with the store */
	struct snapshots *adhoc;			       /* likewise: profiles in files, pyroscope/adhoc.c */
	pthread_mutex_t open_lock, bucket_lock, settings_lock; /* settings_lock: pyroscope/settings.c, rules.c */
	struct bucket bytes, samples;			       /* bucket_lock */
	uint64_t queries_seen;				       /* the watch thread's: so many when it looked last, */
	int64_t active_ns;				       /* and the last time that there were more */
	struct server_counters counters;
};

int tenants_open(struct server *server, struct error *err);
void tenants_close(struct server *server);
/* Which one the request is about: what access control has chosen for its caller, or what its header says; NULL = neither. The
 * only way to find out, so that nobody is asked for data of a tenant that its caller may not use. */
const char *tenant_name_of_request(const struct net_request *request);
/* -EBADMSG a bad name, -ENOENT none of that name unless `create`, -EDQUOT too many. The tenant's store is open. */
int tenant_of_request(struct server *server, const struct net_request *request, bool create, struct tenant **ret,
		      struct error *err);
/* The same by name; NULL is the default tenant. */
int tenant_by_name(struct server *server, const char *name, bool create, struct tenant **ret, struct error *err);
/* Whether what is a tenant's by name, NULL being the default one, is that of the request: there may be nothing stored for it
 * yet. Without tenants everything is everybody's. */
bool tenant_owns(const struct server *server, const struct net_request *request, const char *name);
/* net_server_options.fair_key, .fair_group */
uint64_t tenant_fair_key(void *context, const struct net_request *request);
uint64_t tenant_fair_group(void *context, const struct net_request *request);
/* A file of the tenant's directory. */
int tenant_path(const struct server *server, const struct tenant *tenant, const char *name, char *out, size_t size,
		struct error *err);
/* An array of those that there are now, to be freed; 0 and NULL without memory. */
size_t tenants_snapshot(struct server *server, struct tenant ***ret);

#endif
