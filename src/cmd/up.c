/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick up: agent, server and page on this machine, with nothing to configure.
 *
 * Two processes. The server is forked first and gives up all privileges: it faces the network and parses what comes from it,
 * and the binaries whose symbols are shown. The parent is the agent and keeps the few capabilities that sampling needs. They
 * talk over the server's port like any agent and server, and over a link for what only makes sense on one machine
 * (control/link.h). The agent's end closes the link, which is how the server learns that it is over; the server's end is seen
 * as SIGCHLD.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/config.h"
#include "base/alloc.h"
#include "base/descriptors.h"
#include "base/io.h"
#include "cmd/agent_options.h"
#include "cmd/cmd.h"
#include "cmd/service/service.h"
#include "cmd/store_options.h"
#include "control/link.h"
#include "daemon/collector.h"
#include "export/export.h"
#include "server/server.h"

struct up {
	struct server_options server;
	struct collector_options collector;
	char *token;
	struct labels labels, host_labels;
	struct agent_config config;
	struct export_config targets;
	char directory[4096];
	struct service_arguments service_arguments;
	struct service service, agent_service;
	pid_t server_pid;
	int link_fds[2], status_fds[2];
	char address[ERROR_MESSAGE_MAX];
	struct collector *running;
};

/* What the server's process says once: an address, or why there is none. */
struct server_status {
	int code;
	char text[ERROR_MESSAGE_MAX];
};

static void report_status(int fd, int code, const char *text)
{
	struct server_status status = {.code = code};
	snprintf(status.text, sizeof(status.text), "%s", text);
	io_write(fd, &status, sizeof(status), "the status pipe", NULL);
}

static void stop_server(void *context)
{
	server_stop(context);
}

/* The server's process from fork to exit. Ctrl-C reaches the whole process group: the server waits for the agent's last
 * profiles instead. */
static int server_process(struct up *up)
{
	struct error err = {0};
	prctl(PR_SET_NAME, "wick-server");
	signal(SIGINT, SIG_IGN);
	io_close(up->link_fds[1]);
	io_close(up->status_fds[0]);
	int r = service_server_enter(&up->service, &up->server, &err);
	_cleanup_(server_freep) struct server *server = NULL;
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* becoming another user undoes it */
	up->server.link_fd = up->link_fds[0];
	mem_return_large();
	if (!r)
		r = server_new(&up->server, &server, &err);
	if (r < 0) {
		report_status(up->status_fds[1], r, err.message);
		return EXIT_FAILED;
	}
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigaction(SIGTERM, &action, NULL);
	signals_install(stop_server, server, false);
	signal(SIGINT, SIG_IGN);
	report_status(up->status_fds[1], 0, server_address(server));
	io_close(up->status_fds[1]);
	return server_run(server, &err) < 0 ? cmd_fail("up", &err) : EXIT_DONE;
}

static int start_server(struct up *up, struct error *err)
{
	int r = link_new(up->link_fds, err);
	if (r < 0)
		return r;
	if (pipe2(up->status_fds, O_CLOEXEC) < 0)
		return error_set_errno(err, -errno, "cannot create a pipe");
	fflush(NULL);
	up->server_pid = fork();
	if (up->server_pid < 0)
		return error_set_errno(err, -errno, "cannot start the server process");
	if (up->server_pid == 0) {
		int status = server_process(up);
		fflush(NULL);
		_exit(status);
	}
	up->link_fds[0] = io_close(up->link_fds[0]);
	up->status_fds[1] = io_close(up->status_fds[1]);
	struct server_status status = {0};
	ssize_t len = io_read(up->status_fds[0], &status, sizeof(status), "the status pipe", NULL);
	up->status_fds[0] = io_close(up->status_fds[0]);
	if (len != sizeof(status))
		return error_set(err, -EPIPE, "the server process ended before it was ready");
	status.text[sizeof(status.text) - 1] = 0;
	if (status.code)
		return error_set(err, status.code, "%s", status.text);
	snprintf(up->address, sizeof(up->address), "%s", status.text);
	return 0;
}

static void introduce(const struct up *up, struct collector *collector)
{
	char kept[96];
	struct agent_stats stats;
	collector_get_stats(collector, &stats);
	store_arguments_describe(&up->server, kept, sizeof(kept));
	cmd_printf(stderr, "wick %s is profiling this machine\n\n", WICK_VERSION);
	cmd_printf(stderr, "  page      http://%s\n", up->address);
	cmd_printf(stderr, "  sampling  all processes, user and kernel code, %u times per second on %llu CPUs (%s)\n",
		   stats.frequency_hz, (unsigned long long)stats.cpus_online, stats.event);
	cmd_printf(stderr, "  data      %s, %s\n", up->server.data_directory, kept);
	cmd_printf(stderr, "  processes agent %d (user %s, six capabilities), server %d (user %s, none)\n", (int)getpid(),
		   up->agent_service.user.name, (int)up->server_pid, up->service.user.name);
	fprintf(stderr, "  stop      Ctrl-C\n\nThe first samples appear within a few seconds.\n");
}

static int wait_for_server(struct up *up, struct error *err)
{
	int status = 0;
	up->link_fds[1] = io_close(up->link_fds[1]); /* its end is the server's sign to finish */
	while (waitpid(up->server_pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set_errno(err, -errno, "cannot wait for the server");
	up->server_pid = 0;
	if (WIFSIGNALED(status))
		return error_set(err, -EPIPE, "the server was killed by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status) ? error_set(err, -EPIPE, "the server failed; its message is above") : 0;
}

/* At a signal. That of a child may be of another one: recorders of requested recordings are processes of ours, too. */
static void stop_collector(void *context)
{
	const struct up *up = context;
	siginfo_t ended = {0};
	if (signals_interrupted() ||
	    (waitid(P_PID, (id_t)up->server_pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid))
		collector_stop(up->running);
}

/* The user that is given is the server's. */
static int prepare(struct up *up, struct error *err)
{
	struct service_arguments arguments = {.user = up->config.user,
					      .no_sandbox = up->service_arguments.no_sandbox || up->config.no_sandbox};
	int r = service_server_prepare(&up->service_arguments, &up->server, &up->service, err);
	if (r == 0)
		r = service_agent_prepare(&arguments, &up->service.user, &up->collector, &up->agent_service, err);
	if (r == 0)
		up->server.local_agent = (unsigned)up->agent_service.user.uid;
	return r;
}

/* Whoever called sudo is the one who opens the page. */
static void note_invoker(struct up *up)
{
	struct user user;
	if (user_find_sudo(&user))
		up->server.local_invoker = (unsigned)user.uid;
}

static int run_up(struct up *up, struct error *err)
{
	note_invoker(up);
	int r = prepare(up, err);
	descriptors_raise(); /* both have it */
	if (!r)
		r = start_server(up, err);
	if (!r)
		r = service_agent_enter(&up->agent_service, err);
	if (r < 0)
		return r;
	char url[ERROR_MESSAGE_MAX + 8];
	snprintf(url, sizeof(url), "http://%s", up->address);
	up->collector.url = url;
	up->collector.token = up->token;
	up->collector.link_fd = up->link_fds[1];
	up->collector.agent.labels = &up->labels;
	up->collector.host_labels = &up->host_labels;
	_cleanup_(collector_freep) struct collector *collector = NULL;
	r = collector_new(&up->collector, &collector, err);
	if (r < 0)
		return r;
	up->running = collector;
	signals_install(stop_collector, up, true);
	stop_collector(up); /* it may have ended already */
	introduce(up, collector);
	r = collector_run(collector, err);
	int status = wait_for_server(up, r < 0 ? NULL : err);
	if (!r && !status && !signals_interrupted())
		return error_set(err, -EPIPE, "the server exited unexpectedly");
	return r < 0 ? r : status;
}

static void up_release(struct up *up)
{
	io_close(up->link_fds[1]);
	if (up->server_pid > 0)
		waitpid(up->server_pid, NULL, 0);
	labels_release(&up->labels);
	labels_release(&up->host_labels);
	export_config_release(&up->targets);
	agent_config_release(&up->config);
	mem_free(up->token);
}

/* The agent's half of the settings; where to send is not one of them here. */
static int configure_agent(struct up *up, const char *file, const char *event, const struct option_list *labels,
			   struct error *err)
{
	int r = file ? agent_config_load(file, &up->config, err) : 0;
	if (!r && (up->config.server || up->config.token_file || up->config.tenant))
		r = error_set(err, -EINVAL,
			      "%s: '%s' does not apply to wick up, whose agent sends to its own server; remove it", file,
			      up->config.server	      ? "server"
			      : up->config.token_file ? "token_file"
						      : "tenant");
	if (!r)
		r = read_targets(&up->config, file, &(struct option_list){0}, &up->targets, err);
	up->collector.targets = up->targets.targets;
	up->collector.target_count = up->targets.count;
	apply_spool_config(&up->config, NULL, &up->collector);
	up->collector.no_remote_record = up->config.no_remote_record;
	up->collector.markers |= up->config.markers;
	return r < 0 ? r : apply_agent_config(&up->config, event, labels, &up->collector.agent, &up->labels, err);
}

int cmd_up(int argc, char **argv)
{
	_cleanup_(up_release) struct up up = {.link_fds = {-1, -1}, .status_fds = {-1, -1}};
	struct store_arguments arguments = {0};
	struct option_list labels = {0}, host_labels = {0};
	const char *event = NULL, *runtimes = NULL, *config_file = NULL, *off_cpu = NULL, *budget = NULL;
	const struct option_row options[] = {
		STORE_OPTION_ROWS(&arguments),
		FREQUENCY_OPTION_ROWS(&up.collector.agent),
		EVENT_OPTION_ROW(&event),
		OFF_CPU_OPTION_ROW(&off_cpu),
		BUDGET_OPTION_ROW(&budget),
		RUNTIMES_OPTION_ROW(&runtimes),
		UNWIND_MEMORY_OPTION_ROW(&up.collector.agent.heap_mib),
		{0, "markers", NULL, OPTION_FLAG, &up.collector.markers,
		 .help = "collect the markers of all programs continuously"},
		{0, "label", "K=V", OPTION_LIST, &labels, .help = "label added to everything that is sampled; may be repeated"},
		HOST_LABEL_OPTION_ROW(&host_labels),
		{0, "agent-config", "FILE", OPTION_TEXT, &config_file,
		 .help = "the agent's labels and relabel_configs (YAML), see\nwick-agent(1); options here take precedence"},
		SERVICE_OPTION_ROWS(&up.service_arguments, "of the server: the data's owner, who\ncalled sudo, wick, nobody"),
		{0}};
	const struct usage usage = {
		.verb = "up",
		.synopsis = "[--data DIR] [--listen ADDR:PORT] [-F HZ]",
		.description = "Profiles this machine: samples every process continuously, stores the profiles, and serves\na "
			       "web UI that shows where the CPU time goes. Needs root (or the capabilities listed by\nwick "
			       "agent --help); the server half runs without privileges.",
		.options = options,
		.environment = true,
		.examples = "sudo wick up\nsudo wick up --data /srv/wick -F 97 --label env=test"};
	OPTIONS_OR_RETURN(&usage, argc, argv, NULL);
	struct error err = {0};
	if (parse_event(event, &up.collector.agent.cycles, &err) < 0 ||
	    parse_runtimes("--runtimes", runtimes, &up.collector.agent.no_runtimes, &err) < 0 ||
	    parse_budget(budget, &up.collector.agent.budget, &err) < 0 ||
	    parse_off_cpu(off_cpu, &up.collector.agent.off_cpu_chance, &up.collector.agent.off_cpu_least_ns, &err) < 0)
		return usage_error(&usage, "%s", err.message);
	server_options_init(&up.server);
	up.server.write_page = html_write;
	int r = store_arguments_apply(&arguments, &up.server, &up.token, &err);
	if (!r && !up.server.data_directory) {
		r = default_data_directory(up.directory, sizeof(up.directory), &err);
		up.server.data_directory = up.directory;
	}
	if (!r)
		r = configure_agent(&up, config_file, event, &labels, &err);
	if (!r)
		r = apply_host_labels(&up.config, &host_labels, &up.host_labels, &err);
	if (!r && !runtimes)
		r = parse_runtimes("runtimes", up.config.runtimes, &up.collector.agent.no_runtimes, &err);
	if (!r)
		r = run_up(&up, &err);
	return r < 0 ? cmd_fail("up", &err) : EXIT_DONE;
}
