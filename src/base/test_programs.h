/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests that ask programs of others: those of the distribution come first, wherever else PATH has one of that name, because
 * what they print differs by version. Folders in WICK_TEST_PATH come before those. tests/lib.inc does the same for scripts.
 */
#ifndef WICK_BASE_TEST_PROGRAMS_H
#define WICK_BASE_TEST_PROGRAMS_H

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Before main(): whatever a test starts, by whatever call, is found this way. */
static __attribute__((constructor)) void test_programs_prefer(void)
{
	static const char *const settings[] = {"GOROOT",	   "GOTOOLDIR",	   "GOFLAGS",	 "JAVA_TOOL_OPTIONS",
					       "JDK_JAVA_OPTIONS", "NODE_OPTIONS", "PYTHONHOME", "PYTHONPATH"};
	const char *first = getenv("WICK_TEST_PATH"), *last = getenv("PATH");
	char path[16 * 1024], java[256] = "";
	glob_t found;
	if (glob("/usr/lib/jvm/java-[0-9]*-openjdk-*/bin/java", 0, NULL, &found) == 0)
		snprintf(java, sizeof(java), "%.*s:", (int)strlen(found.gl_pathv[found.gl_pathc - 1]) - 5,
			 found.gl_pathv[found.gl_pathc - 1]);
	globfree(&found);
	snprintf(path, sizeof(path), "%s%s%s/usr/sbin:/usr/bin:/sbin:/bin:%s", first ? first : "", first && first[0] ? ":" : "",
		 java, last ? last : "");
	setenv("PATH", path, 1);
	setenv("GOENV", "off", 1);
	setenv("GOTOOLCHAIN", "local", 1);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		unsetenv(settings[i]);
}

/* Whether a program is installed; says where it is, and which version. */
static inline __attribute__((unused)) bool test_program_is_there(const char *name)
{
	char command[512];
	int status = -1;
	snprintf(command, sizeof(command),
		 "path=$(command -v %s) && echo \"uses $path: $(%s %s 2>/dev/null </dev/null | grep -m 1 '[0-9]')\"", name,
		 name, strcmp(name, "go") == 0 ? "version" : "--version");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

#endif
