/* SPDX-License-Identifier: Apache-2.0 */
/* wick open: a profile in a browser. What is served, to whom, is in server/viewer/local_viewer.h. */
#include "cmd/open.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "cmd/cmd.h"
#include "cmd/convert.h"
#include "server/viewer/local_viewer.h"
#include "symbol/symbol.h"
#include "symbol/worker.h"

#define PAGE_BYTES_MAX (1 * GIB)

extern char **environ;

int open_check(const struct open_options *options, struct error *err)
{
	int r = local_viewer_check_listen(options->listen, err);
	return r < 0 ? error_prefix(err, r, "--listen") : 0;
}

static bool has_desktop(void)
{
	const char *x11 = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
	return (x11 && *x11) || (wayland && *wayland);
}

/* In a session of its own, for Ctrl-C is not meant for it; without our way to take closed pipes. Returns an errno. */
static int spawn_apart(char *const argv[])
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	pid_t pid;
	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		for (int fd = 0; fd <= 2; fd++)
			posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
		sigemptyset(&defaults);
		sigaddset(&defaults, SIGPIPE);
		posix_spawnattr_setsigdefault(&attributes, &defaults);
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
		r = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* Nothing waits for it: it may be the browser itself, and last as long. */
void open_browser(const char *verb, const char *link)
{
	char *const argv[] = {(char *)(uintptr_t) "xdg-open", (char *)(uintptr_t)link, NULL};
	int r = spawn_apart(argv);
	if (r != 0)
		cmd_printf(stderr, "wick %s: cannot start a browser: cannot run xdg-open: %s\n", verb, strerror(r));
}

/* A browser is not run as root unless asked for. */
static void start_browser(enum browser browser, struct local_viewer *viewer, const char *verb)
{
	if (browser == BROWSER_AUTO)
		browser = has_desktop() && geteuid() != 0 ? BROWSER_PROFILER : BROWSER_NONE;
	if (browser == BROWSER_NONE)
		return;
	const char *link = browser == BROWSER_PAGE ? local_viewer_page_link(viewer) : local_viewer_profiler_link(viewer);
	open_browser(verb, local_viewer_link_once(viewer, link));
}

int open_serve(const struct open_options *options, const char *verb, const struct profile *profile, const char *title,
	       struct error *err)
{
	/* In a process of its own: files may be anybody's. */
	static const struct symbol_worker_options worker = {.program = "/proc/self/exe"};
	struct symbolizer_options symbols = {
		.worker = &worker, .own_files = true, .file_cache_directory = symbol_cache_directory()};
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = NULL;
	_cleanup_(local_viewer_freep) struct local_viewer *viewer = NULL;
	_cleanup_(buffer_release) struct buffer page = {.max = PAGE_BYTES_MAX};
	int r = html_write(profile, title, &page, err);
	if (r == 0)
		r = symbolizer_new(&symbols, &symbolizer, err);
	struct local_viewer_options opening = {
		.listen = options->listen, .profile = profile, .page = buffer_bytes(&page), .symbolizer = symbolizer};
	if (r == 0)
		r = local_viewer_new(&opening, &viewer, err);
	if (r < 0)
		return r;
	signals_install(local_viewer_stop, viewer, false);
	fprintf(stderr,
		"wick %s: served on this machine until Ctrl-C; anyone with a link can read the profile\n"
		"  page:             %s\n"
		"  Firefox Profiler: %s\n",
		verb, local_viewer_page_link(viewer), local_viewer_profiler_link(viewer));
	start_browser(options->browser, viewer, verb);
	r = local_viewer_run(viewer, err);
	if (r == 0 && signals_interrupted() == SIGTERM)
		r = 1;
	signals_reset();
	return r;
}

int cmd_open(int argc, char **argv)
{
	struct inputs_options how = {0};
	struct open_options open = {0};
	char help[FROM_HELP_MAX];
	const struct option_row options[] = {
		LISTEN_OPTION_ROW(&open.listen),
		BROWSER_OPTION_ROW(&open.browser),
		FROM_OPTION_ROW(&how.format, inputs_from_help(help)),
		{0, "sample-type", "TYPE", OPTION_TEXT, &how.sample_type,
		 .help = "sample type to show in Firefox Profiler if there are\nseveral (default: the profile's default)"},
		DURING_OPTION_ROW(&how.during),
		SPANS_OPTION_ROW(&how.spans),
		SYMBOLS_OPTION_ROW(&how.symbols),
		{'q', "quiet", NULL, OPTION_FLAG, &how.quiet, .help = "do not report what was dropped from the inputs"},
		{0}};
	const struct usage usage = {
		.verb = "open",
		.synopsis = "IN... [--listen ADDR:PORT] [--browser WHERE] [--from FORMAT]",
		.description =
			"Shows a profile in a browser, in the local viewer or in Firefox Profiler, with source code and\n"
			"disassembly. Serves this machine only, until Ctrl-C. Reads the formats of convert; several\n"
			"inputs are merged.",
		.options = options,
		.examples = "wick open wick.pb.gz\nwick open perf.data --browser page\nwick open profile.json.gz --listen "
			    "127.0.0.1:3000"};
	struct operands inputs;
	OPTIONS_OR_RETURN(&usage, argc, argv, &inputs);
	if (inputs.count == 0)
		return usage_error(&usage, "no input file");
	struct error err = {0};
	if (open_check(&open, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = inputs_read(&inputs, &how, &profile, &err);
	if (!r)
		r = open_serve(&open, "open", profile, inputs.items[0], &err);
	return r < 0 ? cmd_fail("open", &err) : EXIT_DONE;
}
