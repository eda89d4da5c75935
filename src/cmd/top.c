/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick top: a live view in the terminal. A source (top.h) hands over samples; src/top has what is looked at and draws it; this
 * has the loop between them, the terminal and signals. All but the source is one thread, which waits for keys, for samples and
 * for signals at one place.
 */
#include "cmd/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "cmd/follow.h"
#include "terminal/keys.h"
#include "terminal/terminal.h"
#include "top/top.h"

#define FREQUENCY_DEFAULT_HZ 99
#define DELAY_OWN_NS	     NS_PER_S
#define DELAY_SERVER_NS	     (5 * NS_PER_S)
#define LENGTH_OWN_NS	     (10 * NS_PER_S)
#define LENGTH_SERVER_NS     (60 * NS_PER_S)
#define DELAY_LEAST_NS	     (100 * NS_PER_MS)
#define LENGTH_MOST_NS	     (600 * NS_PER_S)
#define SYMBOLS_WAIT_NS	     (5 * NS_PER_S)
#define LEADER_NICE	     (-10)
#define BATCH_LIMIT	     40
#define KEYS_MAX	     256       /* bytes of keys that are read at a time */
#define ESCAPE_MS	     50	       /* what follows an escape sooner belongs to it */
#define OUTPUT_MAX	     (4 * MIB) /* of one picture */

struct live {
	struct top_settings settings;
	struct top top;
	struct top_recent recent;
	struct top_facts facts;
	struct top_feed feed;
	struct top_sampler *sampler; /* one of the two */
	struct top_server *server;
	struct screen screen;
	char note[ERROR_MESSAGE_MAX + 64];
	const char *own_note;
	struct utsname machine;
	bool is_batch, has_ended;
	unsigned iterations, limit; /* 0 = any number, all */
	unsigned pictures;
	uint8_t keys[KEYS_MAX];
	size_t key_count;
	int wake_fd;
};

/* ---- signals ---- */

static int signal_fd = -1;
static volatile sig_atomic_t stop_signal, was_resized, shall_suspend;

static void wake(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));
	(void)n;
}

static void on_signal(int number)
{
	int saved = errno;
	if (number == SIGWINCH)
		was_resized = 1;
	else if (number == SIGTSTP)
		shall_suspend = 1;
	else if (stop_signal) { /* asked twice: do not wait for anything */
		terminal_leave();
		_exit(128 + number);
	} else
		stop_signal = number;
	wake(signal_fd);
	errno = saved;
}

static void catch_signals(int wake_fd, bool is_batch)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigemptyset(&action.sa_mask);
	signal_fd = wake_fd;
	/* The last two are of terminals. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals) - (is_batch ? 2 : 0); i++)
		sigaction(signals[i], &action, NULL);
}

/* ---- what is shown ---- */

static void set_clock(struct top_facts *facts)
{
	time_t now = (time_t)(time_now_ns() / NS_PER_S);
	struct tm local = {0};
	localtime_r(&now, &local);
	strftime(facts->clock, sizeof(facts->clock), "%H:%M:%S", &local);
}

static void read_feed_state(struct live *live)
{
	THREAD_LOCK_SCOPE(&live->feed.lock);
	live->has_ended = live->feed.has_ended;
	live->facts.note = live->own_note;
	if (live->feed.is_troubled) {
		snprintf(live->note, sizeof(live->note), "%s", live->feed.why.message);
		live->facts.note = live->note;
	}
}

/* Names are made short here, of what is new only. */
static int take_part(struct live *live, struct top_part *part, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = part->profile;
	size_t named;
	int r = part->replaces ? top_recent_clear(&live->recent, err) : 0;
	if (r == 0 && live->sampler && profile)
		r = top_sampler_symbolize(live->sampler, profile, 0, &named, &live->facts.pending, err);
	if (r == 0 && profile)
		r = render_shorten_names(profile, err);
	if (r == 0)
		r = top_recent_add(&live->recent, profile, &part->interval, err);
	live->facts.frequency_hz = part->frequency_hz;
	return r;
}

/* Binaries have been read since the samples came; a text that is printed once waits for them. */
static int name_rest(struct live *live, struct error *err)
{
	size_t named = 0;
	int r = 0;
	if (live->sampler)
		r = top_sampler_symbolize(live->sampler, live->recent.profile, live->is_batch ? SYMBOLS_WAIT_NS : 0, &named,
					  &live->facts.pending, err);
	return r < 0 || named == 0 ? r : render_shorten_names(live->recent.profile, err);
}

/* Everything that has come becomes the next picture, but while that is paused. *ret_new: something has. */
static int take_parts(struct live *live, bool *ret_new, struct error *err)
{
	struct top_part part;
	int r = 0;
	*ret_new = false;
	read_feed_state(live);
	if (live->top.is_paused && live->top.snapshot)
		return 0;
	while (r == 0 && top_feed_take(&live->feed, &part)) {
		*ret_new = true;
		r = take_part(live, &part, err);
	}
	if (r == 0 && *ret_new)
		r = name_rest(live, err);
	if (r < 0 || !*ret_new)
		return r;
	top_recent_sum(&live->recent, &live->facts.sum);
	set_clock(&live->facts);
	live->pictures++;
	return top_update(&live->top, live->recent.profile, &live->facts, err);
}

static bool is_over(const struct live *live)
{
	return stop_signal || live->has_ended || (live->iterations && live->pictures >= live->iterations);
}

/* Why the source has come to its end. */
static int end_of_feed(struct live *live, struct error *err)
{
	THREAD_LOCK_SCOPE(&live->feed.lock);
	if (!live->feed.has_failed || stop_signal)
		return 0;
	*err = live->feed.why;
	return err->code < 0 ? err->code : -EIO;
}

static void drain_wake(int fd)
{
	uint64_t count;
	ssize_t n = read(fd, &count, sizeof(count));
	(void)n;
}

/* ---- as text ---- */

static int print_picture(struct live *live, struct error *err)
{
	_cleanup_(buffer_release) struct buffer out = {.max = 64 * MIB};
	if (live->pictures > 1)
		buffer_append_byte(&out, '\n');
	if (top_print(&live->top, live->limit, &out) < 0)
		return error_nomem(err);
	return io_write(STDOUT_FILENO, out.data, out.len, "standard output", err);
}

/* The first picture of this machine shows a whole delay, as top's does not; of a server it is the first answer. */
static int run_batch(struct live *live, struct error *err)
{
	int r = 0;
	while (r == 0 && !is_over(live)) {
		struct pollfd wait = {.fd = live->wake_fd, .events = POLLIN};
		bool is_new;
		poll(&wait, 1, -1);
		drain_wake(live->wake_fd);
		r = take_parts(live, &is_new, err);
		if (r == 0 && is_new)
			r = print_picture(live, err);
	}
	return r < 0 ? r : end_of_feed(live, err);
}

/* ---- on the terminal ---- */

static int draw(struct live *live, struct error *err)
{
	_cleanup_(buffer_release) struct buffer out = {.max = OUTPUT_MAX};
	unsigned rows, columns;
	terminal_get_size(&rows, &columns);
	if (screen_resize(&live->screen, rows, columns) < 0)
		return error_nomem(err);
	live->top.facts.note = live->facts.note;
	top_draw(&live->top, &live->screen);
	if (screen_draw(&live->screen, &out) < 0)
		return error_nomem(err);
	int r = terminal_write(buffer_bytes(&out));
	return r < 0 ? error_set(err, r, "the terminal is gone") : 0;
}

static int suspend(struct live *live, struct error *err)
{
	shall_suspend = 0;
	int r = terminal_suspend(err);
	screen_forget(&live->screen);
	return r;
}

/* *ret_quit: the person wants to leave. */
static int do_key(struct live *live, uint32_t key, bool *ret_quit, struct error *err)
{
	enum top_action action;
	int r = top_key(&live->top, key, &action, err);
	if (r == 0 && action == TOP_SUSPEND)
		r = suspend(live, err);
	if (action == TOP_REPAINT)
		screen_forget(&live->screen);
	*ret_quit = action == TOP_QUIT;
	return r;
}

/* is_all: nothing more came for a while. */
static int do_keys(struct live *live, bool is_all, bool *ret_quit, struct error *err)
{
	size_t at = 0, len;
	uint32_t key;
	int r = 0;
	*ret_quit = false;
	while (r == 0 && !*ret_quit && at < live->key_count) {
		len = keys_decode((struct bytes){live->keys + at, live->key_count - at}, is_all, &key);
		if (len == 0)
			break;
		at += len;
		r = do_key(live, key, ret_quit, err);
	}
	live->key_count -= at;
	memmove(live->keys, live->keys + at, live->key_count);
	return r;
}

static int read_keys(struct live *live, struct error *err)
{
	ssize_t got = read(STDIN_FILENO, live->keys + live->key_count, sizeof(live->keys) - live->key_count);
	if (got > 0)
		live->key_count += (size_t)got;
	return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)) ? 0 : error_set(err, -EIO, "the terminal is gone");
}

/* One turn: waits for something, and does what is to be done. */
static int turn(struct live *live, bool *ret_quit, struct error *err)
{
	struct pollfd wait[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = live->wake_fd, .events = POLLIN}};
	int ready = poll(wait, 2, live->key_count ? ESCAPE_MS : -1), r = 0;
	bool is_new;
	if (wait[1].revents)
		drain_wake(live->wake_fd);
	if (shall_suspend)
		r = suspend(live, err);
	if (was_resized) {
		was_resized = 0;
		screen_forget(&live->screen);
	}
	if (r == 0 && ready > 0 && wait[0].revents)
		r = read_keys(live, err);
	if (r == 0)
		r = do_keys(live, ready == 0, ret_quit, err);
	if (r == 0)
		r = take_parts(live, &is_new, err);
	return r < 0 || *ret_quit ? r : draw(live, err);
}

static int run_screen(struct live *live, struct error *err)
{
	struct terminal_look look;
	bool quit = false;
	terminal_get_look(&look);
	live->screen.styles = top_styles(look.colours);
	live->screen.is_ascii = live->top.is_ascii = !look.is_utf8;
	live->top.colours = look.colours;
	terminal_hold_errors();
	int r = terminal_enter(err);
	if (r == 0)
		r = draw(live, err);
	while (r == 0 && !quit && !is_over(live))
		r = turn(live, &quit, err);
	terminal_leave();
	terminal_release_errors();
	return r < 0 ? r : end_of_feed(live, err);
}

/* ---- the source ---- */

static void set_default(int64_t *value, int64_t other)
{
	*value = *value ? *value : other;
}

static int start_server(struct live *live, const char *note, struct error *err)
{
	set_default(&live->settings.delay_ns, DELAY_SERVER_NS);
	set_default(&live->settings.length_ns, LENGTH_SERVER_NS);
	live->facts.where = remote_url(&live->settings.remote);
	live->facts.waiting = "asking the server ...";
	live->own_note = note;
	int r = top_server_check(&live->settings.remote, err);
	if (r == -ECONNREFUSED)
		return error_prefix(err, r, "no server (start one with 'wick up')");
	return r < 0 ? r : top_recent_init(&live->recent, live->settings.length_ns, err);
}

static int start_sampler(struct live *live, struct error *err)
{
	struct top_settings *settings = &live->settings;
	int64_t delay_ns = settings->delay_ns;
	set_default(&settings->delay_ns, DELAY_OWN_NS);
	int r = top_sampler_new(settings, &live->feed, &live->sampler, &live->own_note, err);
	if (r < 0) {
		settings->delay_ns = delay_ns;
		return r;
	}
	set_default(&settings->length_ns, LENGTH_OWN_NS);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	live->facts.cpus = cpus > 0 ? (unsigned)cpus : 0;
	live->facts.where = uname(&live->machine) == 0 ? live->machine.nodename : "";
	live->facts.waiting = "sampling ...";
	live->facts.has_losses = live->facts.has_cost = true;
	return top_recent_init(&live->recent, settings->length_ns, err);
}

/* Who may not sample is helped by a server that does, if there is one on this machine. */
static int fall_back(struct live *live, struct error *err)
{
	struct error why = *err;
	int r = live->settings.pids.count ? -EPERM
					  : start_server(live, "no privileges to sample: from the server instead", err);
	if (r == 0)
		return 0;
	return error_set(err, -EPERM,
			 "%.300s; or give your own processes with -p PID, or a server with --url URL (none at %.60s; 'wick up' "
			 "starts one)",
			 why.message, remote_url(&live->settings.remote));
}

static int open_source(struct live *live, struct error *err)
{
	int r = top_feed_init(&live->feed, live->wake_fd, err);
	if (r == 0 && live->settings.remote.url)
		return start_server(live, "", err);
	if (r == 0)
		r = start_sampler(live, err);
	return r == -EPERM ? fall_back(live, err) : r;
}

static int start_source(struct live *live, struct error *err)
{
	return live->sampler ? top_sampler_start(live->sampler, err)
			     : top_server_start(&live->settings, &live->feed, &live->server, err);
}

static int run(struct live *live, struct error *err)
{
	int r = live->is_batch ? 0 : terminal_open(err);
	if (r == -ENOTTY || r == -ENOTSUP)
		return error_set(err, r, "%.300s; use --batch for plain text", err->message);
	if (r < 0)
		return r;
	live->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (live->wake_fd < 0)
		return error_set_errno(err, -errno, "cannot make an event descriptor");
	catch_signals(live->wake_fd, live->is_batch);
	thread_lead(LEADER_NICE); /* on a machine that is overloaded is where people look */
	r = open_source(live, err);
	live->top.facts = live->facts;
	set_clock(&live->top.facts);
	if (r == 0)
		r = start_source(live, err);
	if (r == 0)
		r = live->is_batch ? run_batch(live, err) : run_screen(live, err);
	return r;
}

static void live_release(struct live *live)
{
	live->sampler = top_sampler_free(live->sampler);
	live->server = top_server_free(live->server);
	if (live->wake_fd >= 0)
		top_feed_release(&live->feed);
	top_release(&live->top);
	top_recent_release(&live->recent);
	screen_release(&live->screen);
	target_pids_release(&live->settings.pids);
	signal_fd = -1;
	fd_closep(&live->wake_fd);
}

/* ---- options ---- */

static int parse_pids(struct target_pids *pids, const struct option_list *list, struct error *err)
{
	int r = follow_parse(pids, list, err);
	for (size_t i = 0; i < pids->count && r == 0; i++)
		if (!target_process_lives(pids->items[i]))
			r = error_set(err, -ESRCH, "-p: no process %d", (int)pids->items[i]);
	return r;
}

static int check_usage(const struct live *live, const struct usage *usage, const struct operands *operands, bool samples)
{
	const struct top_settings *settings = &live->settings;
	if (operands->count > 1)
		return usage_error(usage, "expected one selector, got %zu; quote it for the shell", operands->count);
	if (settings->remote.url && samples)
		return usage_error(usage, "--url shows what a server has: it excludes -p, -F, --event and --runtimes");
	if (!settings->remote.url &&
	    (operands->count || settings->where.count || settings->remote.token_file || settings->remote.tenant))
		return usage_error(usage, "a selector, --where, --token-file and --tenant require --url");
	if (settings->delay_ns && settings->delay_ns < DELAY_LEAST_NS)
		return usage_error(usage, "--delay: less than 0.1 seconds");
	if (settings->length_ns > LENGTH_MOST_NS)
		return usage_error(usage, "--last: more than 10 minutes; use wick query for longer ranges");
	if (settings->delay_ns && settings->length_ns && settings->length_ns < settings->delay_ns)
		return usage_error(usage, "--last: shorter than --delay");
	return -1;
}

#define TOP_DESCRIPTION                                                                                                        \
	"Shows live where CPU time goes: functions, processes, threads, binaries, a call tree\n"                               \
	"and a flame graph of the last seconds. As root it samples this machine; with --url it\n"                              \
	"shows what a server has. Keys are those of htop; F1 lists them."
#define TOP_EXAMPLES                                                                                                           \
	"sudo wick top\nwick top -p 4242\nsudo wick top --batch -n 1 --view processes\nwick top --url http://127.0.0.1:7070 "  \
	"'process_cpu{host_name=\"web-1\"}'"

int cmd_top(int argc, char **argv)
{
	_cleanup_(live_release) struct live live = {.settings = {.agent = {.frequency_hz = 0}, .selector = "process_cpu"},
						    .own_note = "",
						    .limit = BATCH_LIMIT,
						    .wake_fd = -1};
	struct option_list pids = {0};
	const char *event = NULL, *runtimes = NULL, *filter = "";
	unsigned view = TOP_VIEW_FUNCTIONS;
	top_init(&live.top);
	live.facts = live.top.facts;
	const struct option_row options[] = {
		{'p', "pid", "PID", OPTION_LIST, &pids,
		 .help = "only this process, its children and what they fork; may be\nrepeated"},
		{'d', "delay", "SECONDS", OPTION_DURATION, &live.settings.delay_ns,
		 .help = "time between pictures: 2, 0.5 (default: 1; 5 with --url)"},
		{0, "last", "SECONDS", OPTION_DURATION, &live.settings.length_ns,
		 .help = "show the last seconds: 10, 1m (default: 10; 60 with --url)"},
		{'F', "frequency", "HZ", OPTION_UNSIGNED, &live.settings.agent.frequency_hz, 1, 10000,
		 .help = "samples per second and CPU (default: 99)"},
		EVENT_OPTION_ROW(&event),
		RUNTIMES_OPTION_ROW(&runtimes),
		{'v', "view", "VIEW", OPTION_CHOICE, &view, TOP_VIEW_FUNCTIONS, 0,
		 "functions, processes, threads, binaries, tree, flame", .help = "what to show first (default: functions)"},
		{'f', "filter", "TEXT", OPTION_TEXT, &filter, .help = "only lines with this text; a|b for either"},
		{0, "no-kernel", NULL, OPTION_FLAG, &live.top.choice.hides_kernel,
		 .help = "hide the kernel: its time counts for its callers"},
		INTERPRETERS_OPTION_ROW(&live.top.choice.shows_interpreters),
		{0, "machine", NULL, OPTION_FLAG, &live.top.is_of_machine, .help = "percent of all CPUs together, not of one"},
		{'b', "batch", NULL, OPTION_FLAG, &live.is_batch,
		 .help = "plain text, one picture after the other, without keys"},
		{'n', "iterations", "N", OPTION_UNSIGNED, &live.iterations, 1, 1000000000,
		 .help = "end after so many pictures"},
		{'l', "limit", "N", OPTION_UNSIGNED, &live.limit, 0, 1000000,
		 .help = "with --batch: lines of each table, 0 = all (default: 40)"},
		{0, "url", "URL", OPTION_TEXT, &live.settings.remote.url,
		 .help = "show what this server has, and do not sample"},
		{0, "token-file", "FILE", OPTION_TEXT, &live.settings.remote.token_file,
		 .help = "file with the server's token"},
		{0, "tenant", "NAME", OPTION_TEXT, &live.settings.remote.tenant, .help = "tenant on the server"},
		{0, "where", "MATCHERS", OPTION_LIST, &live.settings.where,
		 .help = "with --url: label matchers: 'service_name=\"shop\"'"},
		{0}};
	const struct usage usage = {.verb = "top",
				    .synopsis = "[-p PID] [-d SECONDS] [-F HZ] [--batch] [--url URL [SELECTOR]]",
				    .description = TOP_DESCRIPTION,
				    .options = options,
				    .examples = TOP_EXAMPLES};
	struct operands operands;
	struct error err = {0};
	OPTIONS_OR_RETURN(&usage, argc, argv, &operands);
	int status = check_usage(&live, &usage, &operands, pids.count || event || runtimes || live.settings.agent.frequency_hz);
	if (status >= 0)
		return status;
	if (parse_event(event, &live.settings.agent.cycles, &err) < 0 ||
	    parse_runtimes("--runtimes", runtimes, &live.settings.agent.no_runtimes, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	if (!live.settings.agent.frequency_hz)
		live.settings.agent.frequency_hz = FREQUENCY_DEFAULT_HZ;
	live.top.view = (enum top_view)view;
	live.settings.selector = operands.count ? operands.items[0] : live.settings.selector;
	snprintf(live.top.filter, sizeof(live.top.filter), "%s", filter);
	int r = parse_pids(&live.settings.pids, &pids, &err);
	if (r == 0)
		r = run(&live, &err);
	return r < 0 ? cmd_fail("top", &err) : EXIT_DONE;
}
