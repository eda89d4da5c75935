/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "server/core/tenant.h"

int tenant_name_check(const char *name, struct error *err)
{
	size_t len = strlen(name);
	if (len == 0 || len > TENANT_NAME_MAX)
		return error_set(err, -EBADMSG, "X-Scope-OrgID: a tenant's name must have 1 to %d characters", TENANT_NAME_MAX);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return error_set(err, -EBADMSG, "X-Scope-OrgID: '%s' is not a valid tenant name", name);
	for (const char *at = name; *at; at++)
		if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
		      strchr("!-_.*'()", *at)))
			return error_set(err, -EBADMSG,
					 "X-Scope-OrgID: a tenant's name may contain letters, digits and !-_.*'() only");
	return 0;
}
