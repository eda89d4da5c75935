/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/record_host.h"

#include <errno.h>
#include <sys/utsname.h>

#include "base/time.h"
#include "profile/hosts.h"

int record_host(struct profile *profile, struct error *err)
{
	struct utsname machine;
	struct profile_host host = {.bound_ns = time_wall_bound_ns()};
	uint32_t id;
	int r = profile_complete_hosts(profile, uname(&machine) == 0 ? machine.nodename : NULL, err);
	/* A label may have given it another name. */
	if (r < 0 || host.bound_ns < 0 || profile_host_count(profile) != 1)
		return r;
	host.name = profile->markers->hosts[1].name;
	r = profile_add_cstring(profile, "UTC", &host.reference, err);
	if (r == 0)
		r = profile_add_cstring(profile, "wall clock", &host.method, err);
	return r < 0 ? r : profile_add_host(profile, &host, &id, err);
}
