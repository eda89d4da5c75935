/* SPDX-License-Identifier: Apache-2.0 */
#include "server/core/permission.h"

#include <stdio.h>
#include <string.h>

const char *const role_names[ROLE_COUNT] = {"agent", "write", "read", "record", "admin"};

struct permission_row {
	const char *name;
	unsigned roles;
	bool is_for_all_tenants, changes;
	enum local_need local;
};
#define READERS (ROLE_READ | ROLE_RECORD | ROLE_ADMIN)
#define WRITERS (ROLE_AGENT | ROLE_WRITE | ROLE_ADMIN)
#define ANYBODY (READERS | WRITERS)
static const struct permission_row rows[PERMIT_COUNT] = {
	[0] = {"none", 0, true, true, LOCAL_NEED_OWNER},
	[PERMIT_OPEN] = {"open", ANYBODY, false, false, LOCAL_NEED_NOTHING},
	[PERMIT_READ] = {"read", READERS, false, false, LOCAL_NEED_READ},
	[PERMIT_READ_SERVER] = {"read server", READERS, true, false, LOCAL_NEED_READ},
	[PERMIT_WRITE] = {"write", WRITERS, false, true, LOCAL_NEED_WRITE},
	[PERMIT_UPLOAD] = {"upload", WRITERS, false, true, LOCAL_NEED_OWNER},
	[PERMIT_AGENT] = {"agent", ROLE_AGENT | ROLE_ADMIN, false, true, LOCAL_NEED_OWNER},
	[PERMIT_RECORD] = {"record", ROLE_RECORD | ROLE_ADMIN, false, true, LOCAL_NEED_OWNER},
	[PERMIT_ADMIN] = {"admin", ROLE_ADMIN, false, true, LOCAL_NEED_OWNER},
	[PERMIT_ADMIN_SERVER] = {"admin server", ROLE_ADMIN, true, true, LOCAL_NEED_OWNER},
};

static const struct permission_row *row_of(enum permission permission)
{
	return &rows[(unsigned)permission < PERMIT_COUNT ? permission : 0];
}

const char *permission_name(enum permission permission)
{
	return row_of(permission)->name;
}

unsigned permission_roles(enum permission permission)
{
	return row_of(permission)->roles;
}

bool permission_is_for_all_tenants(enum permission permission)
{
	return row_of(permission)->is_for_all_tenants;
}

bool permission_changes(enum permission permission)
{
	return row_of(permission)->changes;
}

enum local_need permission_local(enum permission permission)
{
	return row_of(permission)->local;
}

unsigned role_parse(const char *name)
{
	for (unsigned i = 0; i < ROLE_COUNT; i++)
		if (strcmp(role_names[i], name) == 0)
			return 1u << i;
	return 0;
}

const char *roles_format(unsigned roles, char out[static ROLES_TEXT_MAX])
{
	size_t len = 0;
	out[0] = '\0';
	for (unsigned i = 0; i < ROLE_COUNT; i++)
		if (roles & 1u << i)
			len += (size_t)snprintf(out + len, ROLES_TEXT_MAX - len, "%s%s", len ? ", " : "", role_names[i]);
	return out;
}
