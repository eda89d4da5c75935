// SPDX-License-Identifier: Apache-2.0
/* The worker: a process of its own, which has a socket, and what comes through it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "symbol/sandbox.h"
#include "symbol/worker.h"
#include "symbol/worker_protocol.h"

#define NICENESS	  5  /* storing profiles goes before naming what is in them */
#define DESCRIPTORS_SPARE 32 /* beside the files that are asked for */

/* Async-signal-safe. */
static void report_violation(int system_call)
{
	union worker_message message = {.broke = {.kind = WORKER_BROKE, .system_call = system_call}};
	worker_send(WORKER_SOCKET, &message, -1);
}

static void send_failure(int code, const char *text)
{
	union worker_message message = {.failed = {.kind = WORKER_FAILED, .code = code}};
	memcpy(message.failed.message, text, strnlen(text, sizeof(message.failed.message) - 1));
	worker_send(WORKER_SOCKET, &message, -1);
}

/* symbol_open_file: the parent's. */
static int ask_for_file(void *context, const struct symbol_file_request *request, int *ret_fd, struct error *err)
{
	union worker_message message = {.open = {.kind = WORKER_OPEN, .request = *request}};
	int fd;
	int r = worker_send(WORKER_SOCKET, &message, -1);
	if (r == 0)
		r = worker_receive(WORKER_SOCKET, &message, &fd);
	/* Nothing can be done without the parent, and nobody can receive an error. */
	if (r <= 0 || message.kind != WORKER_OPENED || (message.opened.code >= 0) != (fd >= 0))
		_exit(1);
	if (message.opened.code < 0)
		return error_set_errno(err, message.opened.code, "no such file");
	*ret_fd = fd;
	return message.opened.code;
}

/* If memory gets short on the machine, the worker is to be ended and not the server. May fail. */
static void offer_to_die(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "1000", 4);
	io_close(fd);
}

static int lock_in(const struct worker_begin *begin, struct error *err)
{
	struct sandbox_limits limits = {
		.memory_bytes = begin->memory_max_bytes,
		.output_bytes = begin->table_bytes_max,
		.cpu_s = begin->cpu_max_s,
		.descriptors = begin->files_max + DESCRIPTORS_SPARE,
		.on_violation = report_violation,
	};
	offer_to_die();
	/* Who starts it at a higher priority waits for it. */
	if (getpriority(PRIO_PROCESS, 0) >= 0)
		setpriority(PRIO_PROCESS, 0, NICENESS);
	int r = sandbox_enter(&limits, err);
	/* Who died before PR_SET_PDEATHSIG sends no signal. */
	if (r == 0 && getppid() != begin->parent_pid)
		_exit(1);
	return r;
}

static void build(const struct worker_begin *begin, int out_fd)
{
	struct symbol_build_options options = {
		.build_id = begin->build_id,
		.open_file = ask_for_file,
		.table_bytes_max = begin->table_bytes_max,
	};
	union worker_message message = {.done = {.kind = WORKER_DONE}};
	struct error err = {0};
	int r = symbol_build(&options, out_fd, &message.done.result, &err);
	if (r < 0)
		send_failure(r, err.message);
	else
		worker_send(WORKER_SOCKET, &message, -1);
}

int symbol_worker_main(void)
{
	union worker_message message;
	struct error err = {0};
	int out_fd;
	if (worker_receive(WORKER_SOCKET, &message, &out_fd) <= 0 || message.kind != WORKER_BEGIN ||
	    message.begin.version != WORKER_VERSION || out_fd < 0)
		return 1;
	struct worker_begin begin = message.begin;
	begin.build_id[sizeof(begin.build_id) - 1] = '\0';
	int r = lock_in(&begin, &err);
	if (r < 0)
		send_failure(-ENOSYS, err.message);
	else
		build(&begin, out_fd);
	/* The parent looks at this process once more before it ends it. Nothing is cleaned up: the kernel does. */
	worker_receive(WORKER_SOCKET, &message, NULL);
	_exit(0);
}
