/* SPDX-License-Identifier: Apache-2.0 */
/* Which users of this machine may do what on a server without tokens. Essay at the top of local.c. */
#ifndef WICK_SERVER_CORE_LOCAL_H
#define WICK_SERVER_CORE_LOCAL_H

#include "base/error.h"
#include "server/core/permission.h"

#define LOCAL_USERS_MAX 64
/* `local.read`, `local.write`. */
enum local_rule {
	LOCAL_BY_KERNEL, /* everybody if the kernel lets everybody sample all processes, else owners */
	LOCAL_OWNERS,
	LOCAL_ANYBODY,
	LOCAL_RULES,
};
struct local_options {
	const char *data_directory; /* who owns it is an owner */
	const char *const *users;   /* further owners, names or numbers */
	size_t user_count;
	const char *user_list;	     /* more of them, separated by commas; NULL = none */
	unsigned invoker;	     /* who has called sudo; 0 = nobody, or root */
	unsigned agent;		     /* as whom the agent of `wick up` runs; 0 = nobody, or root */
	enum local_rule read, write; /* write: what profiles may be sent by; LOCAL_BY_KERNEL is LOCAL_ANYBODY there */
};
struct local_access {
	unsigned owners[LOCAL_USERS_MAX + 4]; /* root among them */
	size_t owner_count;
	unsigned agents[2]; /* who may do what an agent does; 0 = nobody */
	enum local_rule read, write;
	bool has_unknown; /* this user namespace knows some users only, and the others by one id: */
	unsigned unknown;
	char names[120];	   /* of the owners, for messages */
	const char *paranoid_path; /* tests point it elsewhere */
};
/* -EINVAL: no such user. */
int local_init(struct local_access *local, const struct local_options *options, struct error *err);
/* Whether it is everybody who may; then nobody need be asked who it is. */
bool local_is_for_anybody(const struct local_access *local, enum permission permission);
/* Whether the user may because it is an agent's. */
bool local_is_agent(const struct local_access *local, enum permission permission, unsigned uid);
bool local_is_owner(const struct local_access *local, unsigned uid);
/* Whether the id stands for all users that are not known here: then it is nobody's. */
bool local_is_unknown(const struct local_access *local, unsigned uid);
/* Why not, and what to do. problem: why it is not known who it is; NULL = it is, uid. */
void local_explain(const struct local_access *local, enum permission permission, unsigned uid, const char *problem, char *out,
		   size_t size);

#endif
