/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kallsyms_path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *kallsyms_path(void)
{
	static _Thread_local char path[PATH_MAX];
	const char *runtime = getenv("RUNTIME_DIRECTORY");
	if (runtime && *runtime == '/' && snprintf(path, sizeof(path), "%s/kallsyms", runtime) < (int)sizeof(path) &&
	    access(path, R_OK) == 0)
		return path;
	return "/proc/kallsyms";
}
