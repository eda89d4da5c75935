// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/likely.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/text.h"

#define FIRST_LINE_BYTES 512
#define BLANKS		 " \t"

/* With versions and variants behind them: python3.11, java, node20, beam.smp, php-fpm8.2, luajit-2.1. */
static bool has_likely_name(const char *path)
{
	static const char *const names[] = {"python", "pypy", "ruby", "perl",	"php", "node", "nodejs", "java",
					    "lua",    "beam", "erl",  "elixir", "iex", "mix",  "npm",	 "npx"};
	const char *name = text_base_name(path);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);
		if (strncmp(name, names[i], len) == 0 && !(name[len] >= 'a' && name[len] <= 'z'))
			return true;
	}
	return text_starts_with(name, "luajit");
}

/* What a script's first line says: "#!/usr/bin/env -S python3 -u". */
static bool has_likely_interpreter(char *line)
{
	char *rest = NULL, *word = strtok_r(line + 2, BLANKS, &rest);
	if (!word)
		return false;
	if (strcmp(text_base_name(word), "env") != 0)
		return has_likely_name(word);
	do {
		word = strtok_r(NULL, BLANKS, &rest);
	} while (word && (word[0] == '-' || strchr(word, '=')));
	return word && has_likely_name(word);
}

static bool is_likely_script(const char *path)
{
	char line[FIRST_LINE_BYTES] = "";
	_cleanup_(fd_closep) int fd = io_open_regular(path, NULL);
	ssize_t len = fd < 0 ? -1 : io_pread(fd, line, sizeof(line) - 1, 0, path, NULL);
	if (len < 2 || line[0] != '#' || line[1] != '!')
		return false;
	line[strcspn(line, "\n")] = 0;
	return has_likely_interpreter(line);
}

static bool is_likely_file(const char *path)
{
	char real[PATH_MAX];
	if (has_likely_name(path) || is_likely_script(path))
		return true;
	return realpath(path, real) && has_likely_name(real);
}

bool runtime_is_likely_in_command(const char *command)
{
	char path[PATH_MAX];
	const char *at = getenv("PATH");
	if (strchr(command, '/') || !at)
		return is_likely_file(command);
	while (*at) {
		size_t len = strcspn(at, ":");
		int n = snprintf(path, sizeof(path), "%.*s/%s", (int)len, at, command);
		if (n > 0 && (size_t)n < sizeof(path) && access(path, X_OK) == 0)
			return is_likely_file(path);
		at += len + (at[len] == ':');
	}
	return has_likely_name(command);
}

bool runtime_is_likely_in_process(pid_t pid)
{
	char link[40], path[PATH_MAX];
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	if (len <= 0)
		return false;
	path[len] = 0;
	return has_likely_name(path);
}
