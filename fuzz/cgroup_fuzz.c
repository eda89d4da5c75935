/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of control groups: an id is whole or it is not there, and no label holds what cannot stand in a name. */
#include <stdlib.h>
#include <string.h>

#include "agent/process/context.h"
#include "base/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t hex_digits(const char *text)
{
	return strspn(text, "0123456789abcdef");
}

static void check_unit(const char *unit)
{
	size_t len = strlen(unit);
	if (len >= CONTEXT_UNIT_MAX || (len && !strchr(unit, '.')) || strchr(unit, '/'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct context context;
	char *path = mem_strndup((const char *)data, size);

	if (!path)
		return 0;
	context_of_cgroup(path, &context);
	size_t id = strlen(context.container_id), uid = strlen(context.pod_uid);
	if (id && !(id == 64 && hex_digits(context.container_id) == 64) &&
	    !(id > 33 && hex_digits(context.container_id) == 32 && context.container_id[32] == '-'))
		abort();
	if (uid && !(uid == 32 && hex_digits(context.pod_uid) == 32) && !(uid == 36 && context.pod_uid[8] == '-'))
		abort();
	if (id && context.container_name[0])
		abort();
	if (context.container_runtime[0] && !id && !context.container_name[0])
		abort();
	check_unit(context.unit);
	check_unit(context.slice);
	check_unit(context.user_unit);
	check_unit(context.user_slice);
	mem_free(path);
	return 0;
}
