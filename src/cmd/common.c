/* SPDX-License-Identifier: Apache-2.0 */
/* What several verbs need: tokens, labels, the data directory, signals. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/cmd.h"

int parse_event(const char *text, bool *ret_cycles, struct error *err)
{
	*ret_cycles = text && strcmp(text, "cycles") == 0;
	if (*ret_cycles || !text || strcmp(text, "cpu-clock") == 0)
		return 0;
	return error_set(err, -EINVAL, "--event: '%.40s' must be cpu-clock or cycles", text);
}

int parse_runtimes(const char *option, const char *text, uint32_t *ret_no_runtimes, struct error *err)
{
	int r = agent_parse_runtimes(text, ret_no_runtimes, err);
	return r < 0 ? error_prefix(err, r, "%s", option) : 0;
}

static int parse_chance(const char *text, uint32_t *ret, struct error *err)
{
	char number[32];
	size_t len = strlen(text), percent = len && text[len - 1] == '%';
	double share = 0;

	snprintf(number, sizeof(number), "%.*s", (int)(len - percent), text);
	int r = len - percent < sizeof(number) ? text_parse_double(number, &share, NULL) : -EINVAL;
	share /= percent ? 100 : 1;
	if (r < 0 || !(share >= 1e-6 && share <= 1))
		return error_set(err, -EINVAL,
				 "--off-cpu: '%.40s' is not a share between 0.0001%% and 100%%, nor a duration; write 1%%, 1ms "
				 "or 1%%,1ms",
				 text);
	*ret = share < 1 ? (uint32_t)(share * 0x1p32) : UINT32_MAX;
	return 0;
}

/* Only a duration has a unit. */
static bool is_duration(const char *text)
{
	return *text >= '0' && *text <= '9' && strpbrk(text, "numshdw") != NULL;
}

int parse_off_cpu(const char *text, uint32_t *ret_chance, int64_t *ret_least_ns, struct error *err)
{
	char part[64];

	*ret_chance = 0;
	*ret_least_ns = 0;
	if (!text)
		return 0;
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		snprintf(part, sizeof(part), "%.*s", len < sizeof(part) ? (int)len : (int)sizeof(part) - 1, at);
		bool duration = is_duration(part);
		if (duration ? *ret_least_ns : *ret_chance)
			return error_set(err, -EINVAL, "--off-cpu: '%.40s' gives the same setting twice", text);
		int r = duration ? time_parse_duration(part, ret_least_ns, err) : parse_chance(part, ret_chance, err);
		if (r < 0)
			return duration ? error_prefix(err, r, "--off-cpu") : r;
		at += len;
		if (!*at)
			break;
	}
	if (!*ret_chance)
		*ret_chance = UINT32_MAX;
	return 0;
}

int parse_budget(const char *text, double *ret_share, struct error *err)
{
	double percent = 0;

	if (text && (text_parse_double(text, &percent, NULL) < 0 || !(percent >= 0 && percent <= 10000)))
		return error_set(err, -EINVAL, "--budget: '%.40s' is not a percentage; write 0.5, or 0 for no limit", text);
	*ret_share = text ? percent / 100 : AGENT_BUDGET_DEFAULT;
	return 0;
}

int parse_labels(const char *option, const struct option_list *list, struct labels *ret, struct error *err)
{
	*ret = (struct labels){0};
	for (size_t i = 0; i < list->count; i++) {
		int r = labels_parse_pair(ret, list->items[i], err);
		if (r < 0) {
			labels_release(ret);
			return error_prefix(err, r, "%s", option);
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
				 "neither XDG_DATA_HOME nor HOME is set; give the data directory with --data DIR");
	return len < (int)size ? 0
			       : error_set(err, -ENAMETOOLONG, "the path of the home directory is too long; use --data DIR");
}

const char *unwind_cache_directory(void)
{
	const char *given = getenv("WICK_CACHE");
	if (given)
		return *given ? given : NULL;
	given = getenv("CACHE_DIRECTORY"); /* of a systemd unit */
	if (given && *given == '/' && !strchr(given, ':'))
		return given;
	return geteuid() == 0 ? "/var/cache/wick" : NULL;
}

const char *symbol_cache_directory(void)
{
	static char directory[PATH_MAX];
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *given = unwind_cache_directory();
	int len = -1;
	if (given)
		len = snprintf(directory, sizeof(directory), "%s/symbols", given);
	else if (getenv("WICK_CACHE")) /* empty */
		return NULL;
	else if (cache && *cache == '/')
		len = snprintf(directory, sizeof(directory), "%s/wick/symbols", cache);
	else if (home && *home == '/')
		len = snprintf(directory, sizeof(directory), "%s/.cache/wick/symbols", home);
	return len > 0 && len < (int)sizeof(directory) ? directory : NULL;
}

static const int stop_signals[] = {SIGINT, SIGTERM};
#define STOP_SIGNALS (sizeof(stop_signals) / sizeof(stop_signals[0]))

/* As signals_prepare() found them. */
static struct sigaction inherited_actions[STOP_SIGNALS];
static sigset_t inherited_mask;
static bool is_prepared;

void signals_prepare(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t set;
	sigemptyset(&action.sa_mask);
	sigemptyset(&set);
	for (size_t i = 0; i < STOP_SIGNALS; i++) {
		sigaction(stop_signals[i], &action, &inherited_actions[i]);
		sigaddset(&set, stop_signals[i]);
	}
	sigprocmask(SIG_UNBLOCK, &set, &inherited_mask);
	is_prepared = true;
}

void signals_give_back(void)
{
	for (size_t i = 0; is_prepared && i < STOP_SIGNALS; i++)
		sigaction(stop_signals[i], &inherited_actions[i], NULL);
	if (is_prepared)
		sigprocmask(SIG_SETMASK, &inherited_mask, NULL);
}

static void (*volatile stop_function)(void *context);
static void *volatile stop_context;
static volatile sig_atomic_t interrupted; /* the first signal */

static void on_signal(int number)
{
	int saved = errno;
	if (number != SIGCHLD && interrupted)
		_exit(128 + number); /* asked twice: do not wait for anything */
	if (number != SIGCHLD)
		interrupted = number;
	if (stop_function)
		stop_function(stop_context);
	errno = saved;
}

static void set_action(int number, void (*handler)(int number), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
	sigemptyset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

void signals_install(void (*stop)(void *context), void *context, bool on_child)
{
	stop_context = context;
	stop_function = stop;
	set_action(SIGINT, on_signal, SA_RESTART);
	set_action(SIGTERM, on_signal, SA_RESTART);
	if (on_child)
		set_action(SIGCHLD, on_signal, SA_RESTART);
}

void signals_reset(void)
{
	set_action(SIGINT, SIG_DFL, 0);
	set_action(SIGTERM, SIG_DFL, 0);
	set_action(SIGCHLD, SIG_DFL, 0);
	stop_function = NULL;
	interrupted = 0;
}

static void (*volatile reload_function)(void *context);
static void *volatile reload_context;

static void on_reload(int number)
{
	int saved = errno;
	reload_function(reload_context);
	errno = saved;
}

void signals_install_reload(void (*reload)(void *context), void *context)
{
	reload_context = context;
	reload_function = reload;
	set_action(SIGHUP, on_reload, SA_RESTART);
}

int signals_interrupted(void)
{
	return interrupted;
}

bool terminal_is_interactive(void)
{
	return isatty(STDERR_FILENO) == 1;
}

void cmd_print_harmless(FILE *out, const char *text, int width)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = SIZE_MAX};
	if (text_append_harmless(&safe, bytes_of_string(text ? text : "")) == 0)
		fwrite(safe.data, 1, safe.len, out);
	for (int len = (int)text_width(buffer_bytes(&safe)); len < width; len++)
		fputc(' ', out);
}

void cmd_print_harmless_bytes(FILE *out, struct bytes text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = SIZE_MAX};
	if (text_append_harmless(&safe, text) == 0)
		fwrite(safe.data, 1, safe.len, out);
}

static void print_lines(FILE *out, struct bytes text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = SIZE_MAX};
	if (text_append_harmless_lines(&safe, text) == 0)
		fwrite(safe.data, 1, safe.len, out);
}

void cmd_printf(FILE *out, const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	va_start(arguments, format);
	int len = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (len < 0)
		return;
	print_lines(out, (struct bytes){(const uint8_t *)text, (size_t)len});
	free(text);
}

int cmd_write(const char *path, struct bytes text, struct error *err)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = SIZE_MAX};
	fflush(stdout);
	if (strcmp(path, "-") != 0 || !isatty(STDOUT_FILENO))
		return io_write_file(path, text.data, text.len, 0644, err);
	int r = text_append_harmless_lines(&safe, text);
	return r < 0 ? error_nomem(err) : io_write_file(path, safe.data, safe.len, 0644, err);
}
