/* SPDX-License-Identifier: Apache-2.0 */
/* What several verbs need: tokens, labels, the data directory, signals. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "cmd/cmd.h"

#define TOKEN_BYTES_MAX 1024

int read_token(const char *path, char **ret, struct error *err)
{
	struct stat info;
	if (stat(path, &info) < 0)
		return error_set_errno(err, -errno, "cannot read the token file %s", path);
	if (S_ISREG(info.st_mode) && (info.st_mode & 027)) /* its group may read, as services' credentials are shared */
		return error_set(err, -EACCES, "the token file %s can be read or changed by others; run: chmod 600 %s", path,
				 path);
	_cleanup_(buffer_release) struct buffer file = {0};
	int r = io_read_file(path, TOKEN_BYTES_MAX, &file, err);
	if (r)
		return r;
	const char *text = buffer_string(&file);
	if (!text)
		return error_nomem(err);
	text += strspn(text, " \t\r\n");
	size_t len = strcspn(text, " \t\r\n");
	if (len < 8)
		return error_set(err, -EINVAL, "the token in %s is shorter than 8 characters", path);
	*ret = mem_strndup(text, len);
	return *ret ? 0 : error_nomem(err);
}

int parse_event(const char *text, bool *ret_cycles, struct error *err)
{
	*ret_cycles = text && strcmp(text, "cycles") == 0;
	if (*ret_cycles || !text || strcmp(text, "cpu-clock") == 0)
		return 0;
	return error_set(err, -EINVAL, "--event: '%.40s' is neither cpu-clock nor cycles", text);
}

int parse_labels(const struct option_list *list, struct labels *ret, struct error *err)
{
	labels_init(ret);
	for (size_t i = 0; i < list->count; i++) {
		int r = labels_parse_pair(ret, list->items[i], err);
		if (r) {
			labels_release(ret);
			return error_prefix(err, r, "--label");
		}
	}
	return 0;
}

int default_data_directory(char *out, size_t size, struct error *err)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int len;
	if (geteuid() == 0)
		len = snprintf(out, size, "/var/lib/wick");
	else if (data && *data == '/')
		len = snprintf(out, size, "%s/wick", data);
	else if (home && *home == '/')
		len = snprintf(out, size, "%s/.local/share/wick", home);
	else
		return error_set(err, -ENOENT,
				 "neither XDG_DATA_HOME nor HOME is set; say where to keep the data with --data DIR");
	return len < (int)size ? 0
			       : error_set(err, -ENAMETOOLONG, "the path of the home directory is too long; use --data DIR");
}

const char *unwind_cache_directory(void)
{
	const char *given = getenv("WICK_CACHE");
	if (given)
		return *given ? given : NULL;
	return geteuid() == 0 ? "/var/cache/wick" : NULL;
}

static void (*volatile stop_function)(void *context);
static void *volatile stop_context;
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	int saved = errno;
	if (number != SIGCHLD && interrupted++)
		_exit(128 + number); /* asked twice: do not wait for anything */
	if (stop_function)
		stop_function(stop_context);
	errno = saved;
}

void signals_install(void (*stop)(void *context), void *context, bool on_child)
{
	stop_context = context;
	stop_function = stop;
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (on_child)
		sigaction(SIGCHLD, &action, NULL);
}

bool signals_interrupted(void)
{
	return interrupted != 0;
}

bool terminal_is_interactive(void)
{
	return isatty(STDERR_FILENO) == 1;
}
