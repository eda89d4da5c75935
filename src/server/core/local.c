/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users of this machine.
 *
 * A server without tokens listens on loopback only, which every user of the machine reaches: also daemons, and whoever has
 * logged in by ssh and forwards a port. What is in its data, all processes of all users, is what the kernel shows to those who
 * may sample them (perf_event_open(2)): to root, and to others if kernel.perf_event_paranoid is 0 or less. So the same may read
 * here. To change something takes the owner of the data, who could do it in the directory as well.
 *
 *   owners    root, the user that owns the data directory, the server's own, who has called `sudo wick up`, and `local.users`
 *   read      owners, and everybody if the kernel lets everybody; `local.read`
 *   write     profiles are sent by programs of all users: everybody; `local.write`
 *   agents    the user `wick-agent`, which the packages make, and that of the agent of `wick up`: send profiles, poll, upload
 *             debug information
 *   others    owners: recordings, uploads of debug information, saved queries, snapshots, settings, deletes
 *
 * In a user namespace that knows some users only (PrivateUsers= of systemd), all others have one id, that of nobody. It is as
 * good as none then, whoever owns the data. But where the packages' agent is installed it has that id, too: so all who have it
 * may do what agents do, unless even profiles are for owners only. Whoever may send profiles can make up a host already.
 *
 * Who a client is, net/peer_user.c finds out. With tokens, or certificates of clients, these say it and nothing here counts;
 * with --insecure beyond loopback nothing is checked at all.
 *
 * Rejected: a secret in the link that `wick up` prints. It would have to be in every link that somebody keeps or sends to
 * himself, and in every script that calls the API, on a machine that has one user.
 */
#include "server/core/local.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/privilege/user.h"
#include "base/text.h"
#include "server/server.h"

#define PARANOID_PATH "/proc/sys/kernel/perf_event_paranoid"
#define UID_MAP_PATH  "/proc/self/uid_map"
#define OVERFLOW_PATH "/proc/sys/kernel/overflowuid"
#define UID_OVERFLOW  65534u

_Static_assert((int)LOCAL_RULES == SERVER_LOCAL_RULES, "server.h");
const char *const server_local_rule_names[LOCAL_RULES] = {"kernel", "owner", "anyone"};

bool local_is_unknown(const struct local_access *local, unsigned uid)
{
	return local->has_unknown && uid == local->unknown;
}

bool local_is_owner(const struct local_access *local, unsigned uid)
{
	if (local_is_unknown(local, uid))
		return false;
	for (size_t i = 0; i < local->owner_count; i++)
		if (local->owners[i] == uid)
			return true;
	return uid == 0;
}

bool local_is_agent(const struct local_access *local, enum permission permission, unsigned uid)
{
	if (!(permission_roles(permission) & ROLE_AGENT))
		return false;
	if (local_is_unknown(local, uid)) /* any of them may be the packages' agent */
		return local->agents[0] && local->write != LOCAL_OWNERS;
	return uid && (uid == local->agents[0] || uid == local->agents[1]);
}

static void add_owner(struct local_access *local, unsigned uid)
{
	size_t len = strlen(local->names);
	if (local->owner_count && local_is_owner(local, uid))
		return;
	local->owners[local->owner_count++] = uid;
	struct user user;
	user_of((uid_t)uid, &user);
	snprintf(local->names + len, sizeof(local->names) - len, "%s%s%s", len ? ", " : "", isdigit(user.name[0]) ? "uid " : "",
		 user.name);
}

static int add_named(struct local_access *local, const char *name, struct error *err)
{
	struct user user;
	if (user_find(name, &user, NULL) < 0)
		return error_set(err, -EINVAL, "local users: there is no user '%.64s' on this machine", name);
	add_owner(local, (unsigned)user.uid);
	return 0;
}

static int add_list(struct local_access *local, const char *list, struct error *err)
{
	char name[128];
	int r = 0;
	while (*list && r == 0) {
		size_t len = strcspn(list, ",");
		if (len >= sizeof(name) || local->owner_count >= LOCAL_USERS_MAX)
			return error_set(err, -EINVAL, "local users: a name is too long, or there are more than %d",
					 LOCAL_USERS_MAX);
		snprintf(name, sizeof(name), "%.*s", (int)len, list);
		r = len ? add_named(local, name, err) : 0;
		list += len + (list[len] == ',');
	}
	return r;
}

/* One line that maps all ids to themselves: "0 0 4294967295". What cannot be read is taken for less. */
static bool knows_all_users(void)
{
	char text[256];
	unsigned long first, outside, count;
	return io_read_text(UID_MAP_PATH, text, sizeof(text)) > 0 &&
	       sscanf(text, "%lu %lu %lu", &first, &outside, &count) == 3 && first == 0 && count >= UINT32_MAX;
}

static unsigned overflow_uid(void)
{
	char text[32];
	uint64_t uid;
	if (io_read_text(OVERFLOW_PATH, text, sizeof(text)) <= 0)
		return UID_OVERFLOW;
	text[strcspn(text, "\n")] = '\0';
	return text_parse_u64(text, &uid, NULL) == 0 ? (unsigned)uid : UID_OVERFLOW;
}

int local_init(struct local_access *local, const struct local_options *options, struct error *err)
{
	struct stat info;
	*local = (struct local_access){.read = options->read, .write = options->write, .paranoid_path = PARANOID_PATH};
	local->unknown = overflow_uid();
	local->has_unknown = !knows_all_users();
	if (options->user_count > LOCAL_USERS_MAX)
		return error_set(err, -EINVAL, "local.users: at most %d users", LOCAL_USERS_MAX);
	add_owner(local, 0);
	add_owner(local, geteuid());
	if (options->data_directory && stat(options->data_directory, &info) == 0)
		add_owner(local, info.st_uid);
	if (options->invoker)
		add_owner(local, options->invoker);
	struct user agent;
	local->agents[0] = user_find(AGENT_USER, &agent, NULL) == 0 ? (unsigned)agent.uid : 0;
	local->agents[1] = options->agent;
	int r = 0;
	for (size_t i = 0; i < options->user_count && r == 0; i++)
		r = add_named(local, options->users[i], err);
	return r < 0 || !options->user_list ? r : add_list(local, options->user_list, err);
}

/* Whether the kernel lets everybody sample all processes. */
static bool kernel_is_open(const struct local_access *local)
{
	char text[32];
	char *end;
	if (!local->paranoid_path || io_read_text(local->paranoid_path, text, sizeof(text)) <= 0)
		return false;
	long level = strtol(text, &end, 10);
	return end != text && level <= 0;
}

bool local_is_for_anybody(const struct local_access *local, enum permission permission)
{
	switch (permission_local(permission)) {
	case LOCAL_NEED_NOTHING: return true;
	case LOCAL_NEED_READ: return local->read == LOCAL_ANYBODY || (local->read == LOCAL_BY_KERNEL && kernel_is_open(local));
	case LOCAL_NEED_WRITE: return local->write != LOCAL_OWNERS;
	case LOCAL_NEED_OWNER: break;
	}
	return false;
}

void local_explain(const struct local_access *local, enum permission permission, unsigned uid, const char *problem, char *out,
		   size_t size)
{
	char who[160];
	enum local_need need = permission_local(permission);
	const char *what = need == LOCAL_NEED_READ ? "read" : need == LOCAL_NEED_WRITE ? "send profiles" : "change this";
	if (problem)
		snprintf(who, sizeof(who), "it cannot be determined which user this connection is of (%.80s)", problem);
	else
		snprintf(who, sizeof(who), "user id %u may not do this", uid);
	snprintf(out, size,
		 "%s: this server has no tokens, so only %s may %s. Use it as one of them, have the user listed in "
		 "local.users%s of "
		 "its configuration, or give it tokens (wick token create)",
		 who, local->names, what,
		 need == LOCAL_NEED_READ    ? " or local.read set to anyone"
		 : need == LOCAL_NEED_WRITE ? " or local.write set to anyone"
					    : "");
}
