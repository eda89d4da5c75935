// SPDX-License-Identifier: Apache-2.0
/*
 * The parent of a worker.
 *
 * A worker is this program once more, not a fork of it: the server has threads, whose locks a fork would copy in whatever state
 * they are, and it holds everybody's profiles, of which a parser that was taken over would have a copy. It gets an empty
 * environment, /dev/null three times, a socket, and nothing else. One worker builds one table; a pool of them, reused, would
 * save 2 ms of some hundreds, and carry what one file did over to the next.
 *
 * The parent believes nothing that the worker says: messages are checked (worker_protocol.c), requests counted, and the table
 * is checked when it is loaded. It kills the worker before it looks at the result, so that nothing changes behind its back.
 * Processor time, memory and output are limited by the kernel (sandbox.c), time on the clock here.
 */
#include "symbol/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "symbol/table.h"
#include "symbol/worker_int.h"

#define MEMORY_DEFAULT	(2 * GIB)
#define CPU_DEFAULT_NS	(120 * NS_PER_S)
#define WALL_DEFAULT_NS (300 * NS_PER_S)
#define FILES_DEFAULT	4096u
#define CANCEL_POLL_MS	20

/* ---- starting ---- */

/* Signals as they are when a program starts: threads of ours block them all, and ignore SIGPIPE. */
static int set_signals(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	int r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return r;
}

/* The socket first: it may be any descriptor of ours, 0 to 2 included. */
static int set_descriptors(posix_spawn_file_actions_t *actions, int socket)
{
	int r = posix_spawn_file_actions_adddup2(actions, socket, WORKER_SOCKET);
	for (int fd = 0; r == 0 && fd < WORKER_SOCKET; fd++)
		r = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, WORKER_SOCKET + 1);
	return r;
}

static int spawn(const char *program, int socket, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		char name[] = "wick", verb[] = SYMBOL_WORKER_VERB;
		char *arguments[] = {name, verb, NULL}, *environment[] = {NULL};
		r = set_signals(&attributes);
		if (r == 0)
			r = set_descriptors(&actions, socket);
		if (r == 0)
			r = posix_spawn(ret_pid, program, &actions, &attributes, arguments, environment);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int start(const struct symbol_worker_options *limits, int *ret_socket, pid_t *ret_pid, struct error *err)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set_errno(err, -errno, "cannot create a socket for a worker");
	int r = spawn(limits->program, ends[1], ret_pid);
	io_close(ends[1]);
	if (r < 0) {
		io_close(ends[0]);
		return error_set_errno(err, r, "cannot start %s as a worker", limits->program);
	}
	*ret_socket = ends[0];
	return 0;
}

/* ---- talking ---- */

static bool is_request_valid(const struct symbol_file_request *request)
{
	return request->kind < SYMBOL_FILE_KINDS && memchr(request->build_id, 0, sizeof(request->build_id)) &&
	       memchr(request->name, 0, sizeof(request->name)) &&
	       (!request->build_id[0] || build_id_is_valid(request->build_id));
}

/* Returns whether the conversation goes on. */
static bool answer(struct worker_conversation *c, const struct symbol_file_request *request)
{
	union worker_message reply = {.opened = {.kind = WORKER_OPENED, .code = -EMFILE}};
	int fd = -1;
	if (!is_request_valid(request)) {
		c->ending = WORKER_ENDED_NONSENSE;
		return false;
	}
	if (c->requests++ >= c->limits.files_max + WORKER_REFUSED_MAX) {
		c->ending = WORKER_ENDED_REQUESTS;
		return false;
	}
	if (c->requests <= c->limits.files_max)
		reply.opened.code = c->open_file(c->context, request, &fd, NULL);
	int r = worker_send(c->socket, &reply, reply.opened.code >= 0 ? fd : -1);
	if (reply.opened.code >= 0)
		io_close(fd);
	/* It does not read what it asked for; or is gone, which is seen next. */
	if (r == -EAGAIN)
		c->ending = WORKER_ENDED_NONSENSE;
	return r != -EAGAIN;
}

/* Returns whether the conversation goes on. */
static bool take_message(struct worker_conversation *c)
{
	int r = worker_receive(c->socket, &c->last, NULL);
	if (r <= 0) {
		c->ending = r == 0 ? WORKER_ENDED_SILENT : WORKER_ENDED_NONSENSE;
		return false;
	}
	switch (c->last.kind) {
	case WORKER_OPEN: return answer(c, &c->last.open.request);
	case WORKER_DONE:
		c->ending = WORKER_ENDED_DONE;
		worker_clean_text(c->last.done.result.problem, sizeof(c->last.done.result.problem));
		return false;
	case WORKER_FAILED:
		c->ending = WORKER_ENDED_FAILED;
		worker_clean_text(c->last.failed.message, sizeof(c->last.failed.message));
		return false;
	case WORKER_BROKE: c->ending = WORKER_ENDED_BROKE; return false;
	default: c->ending = WORKER_ENDED_NONSENSE; return false;
	}
}

static int poll_timeout_ms(const struct worker_conversation *c, int64_t left_ns)
{
	int64_t ms = left_ns / NS_PER_MS + 1;
	return c->limits.cancel && ms > CANCEL_POLL_MS ? CANCEL_POLL_MS : ms > INT_MAX ? INT_MAX : (int)ms;
}

void worker_converse(struct worker_conversation *c)
{
	int64_t left_ns = c->limits.wall_max_ns;
	bool goes_on = true;
	while (goes_on) {
		struct pollfd poll_fd = {.fd = c->socket, .events = POLLIN};
		if (cancel_requested(c->limits.cancel)) {
			c->ending = WORKER_ENDED_CANCELED;
			return;
		}
		if (left_ns <= 0) {
			c->ending = WORKER_ENDED_LATE;
			return;
		}
		int64_t before = time_monotonic_ns();
		int n = poll(&poll_fd, 1, poll_timeout_ms(c, left_ns));
		left_ns -= time_monotonic_ns() - before;
		/* The time that an answer takes is the parent's. */
		if (n > 0)
			goes_on = take_message(c);
	}
}

/* ---- ending ---- */

/* What rusage says includes the parent's own peak: a child that shares its memory until exec inherits that. 0 when /proc is not
 * there. */
static uint64_t read_memory_peak(pid_t pid)
{
	char path[64], text[4096];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	io_read_text(path, text, sizeof(text));
	const char *line = strstr(text, "\nVmHWM:");
	return line ? strtoull(line + strlen("\nVmHWM:"), NULL, 10) * KIB : 0;
}

struct remains {
	int status;
	bool is_status_known;
	uint64_t memory_peak_bytes, cpu_ns;
};

static uint64_t timeval_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_usec * 1000;
}

/* Kills even what seems to be gone: a closed socket is not a dead process. One that died before keeps its own status. */
static struct remains reap(pid_t pid)
{
	struct remains remains = {.memory_peak_bytes = read_memory_peak(pid)};
	struct rusage usage = {0};
	pid_t r;
	kill(pid, SIGKILL);
	do {
		r = wait4(pid, &remains.status, 0, &usage);
	} while (r < 0 && errno == EINTR);
	remains.is_status_known = r == pid;
	remains.cpu_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
	if (!remains.memory_peak_bytes)
		remains.memory_peak_bytes = (uint64_t)usage.ru_maxrss * KIB;
	return remains;
}

static int too_much_memory(const struct symbol_worker_options *limits, struct error *err)
{
	char size[TEXT_NUMBER_MAX];
	return error_set(err, -ENOMEM, "the worker needed more than %s of memory",
			 text_format_size(limits->memory_max_bytes, size));
}

static int too_much_time(int64_t limit_ns, const char *of, struct error *err)
{
	char duration[TIME_TEXT_MAX];
	return error_set(err, -ETIME, "the worker needed more than %s%s", time_format_duration(limit_ns, duration), of);
}

static int too_large_table(uint64_t bytes_max, struct error *err)
{
	char size[TEXT_NUMBER_MAX];
	return error_set(err, -E2BIG, "its table is larger than %s", text_format_size(bytes_max, size));
}

/* It ended without a word. */
static int explain_death(const struct symbol_worker_options *limits, const struct remains *remains, uint64_t bytes_max,
			 struct error *err)
{
	if (!remains->is_status_known)
		return error_set(err, -EFAULT, "the worker ended for an unknown reason");
	if (WIFEXITED(remains->status))
		return error_set(err, -EFAULT, "the worker exited with status %d and without a result",
				 WEXITSTATUS(remains->status));
	int signal_number = WTERMSIG(remains->status);
	if (signal_number == SIGXCPU || (signal_number == SIGKILL && remains->cpu_ns >= (uint64_t)limits->cpu_max_ns))
		return too_much_time(limits->cpu_max_ns, " of CPU time", err);
	if (signal_number == SIGXFSZ)
		return too_large_table(bytes_max, err);
	if (signal_number == SIGSYS)
		return error_set(err, -EPERM, "the worker violated its sandbox");
	if (signal_number == SIGKILL)
		return error_set(err, -EFAULT,
				 "the worker was killed (signal 9): the machine or its cgroup may be short of memory");
	const char *description = sigdescr_np(signal_number);
	return error_set(err, -EFAULT, "the worker crashed with signal %d (%s)%s", signal_number,
			 description ? description : "unknown",
			 signal_number == SIGBUS ? "; a file that is truncated while it is read can cause that" : "");
}

/* The worker's own words. Codes that are the parent's to give mean nothing from it. */
static int explain_failure(const struct symbol_worker_options *limits, const struct worker_failed *failed, uint64_t bytes_max,
			   struct error *err)
{
	switch (failed->code) {
	case -ENOMEM: return too_much_memory(limits, err);
	case -EFBIG: return too_large_table(bytes_max, err);
	case -ENOENT:
	case -EINVAL:
	case -ENOEXEC:
	case -EBADMSG:
	case -E2BIG:
	case -ENOTSUP:
	case -ENOSYS:
	case -ENOSPC:
	case -EIO:
		return error_set(err, failed->code, "%s",
				 failed->message[0] ? failed->message : strerrordesc_np(-failed->code));
	}
	return error_set(err, -EIO, "the worker failed with error %d: %s", failed->code, failed->message);
}

static int explain(const struct worker_conversation *c, const struct remains *remains, uint64_t bytes_max, struct error *err)
{
	switch (c->ending) {
	case WORKER_ENDED_DONE: return 0;
	case WORKER_ENDED_FAILED: return explain_failure(&c->limits, &c->last.failed, bytes_max, err);
	case WORKER_ENDED_BROKE:
		return error_set(err, -EPERM, "the worker violated its sandbox (system call %d)", c->last.broke.system_call);
	case WORKER_ENDED_SILENT: return explain_death(&c->limits, remains, bytes_max, err);
	case WORKER_ENDED_NONSENSE: return error_set(err, -EPERM, "the worker violated its sandbox (malformed message)");
	case WORKER_ENDED_REQUESTS:
		return error_set(err, -EPERM, "the worker violated its sandbox (more than %" PRIu64 " files requested)",
				 c->limits.files_max + WORKER_REFUSED_MAX);
	case WORKER_ENDED_LATE: return too_much_time(c->limits.wall_max_ns, "", err);
	case WORKER_ENDED_CANCELED: return error_set(err, -ECANCELED, "canceled");
	}
	assert(!"unknown ending");
	return -EFAULT;
}

/* ---- */

static struct symbol_worker_options fill_in(const struct symbol_worker_options *given)
{
	struct symbol_worker_options limits = *given;
	if (!limits.memory_max_bytes)
		limits.memory_max_bytes = MEMORY_DEFAULT;
	if (!limits.cpu_max_ns)
		limits.cpu_max_ns = CPU_DEFAULT_NS;
	if (!limits.wall_max_ns)
		limits.wall_max_ns = WALL_DEFAULT_NS;
	if (!limits.files_max)
		limits.files_max = FILES_DEFAULT;
	return limits;
}

static int send_begin(const struct worker_conversation *c, const char *build_id, uint64_t bytes_max, int out_fd)
{
	union worker_message message = {.begin = {
						.kind = WORKER_BEGIN,
						.version = WORKER_VERSION,
						.parent_pid = getpid(),
						.memory_max_bytes = c->limits.memory_max_bytes,
						.table_bytes_max = bytes_max,
						.cpu_max_s = (uint64_t)((c->limits.cpu_max_ns + NS_PER_S - 1) / NS_PER_S),
						.files_max = c->limits.files_max,
					}};
	size_t len = strlen(build_id);
	if (len >= sizeof(message.begin.build_id))
		return -EINVAL;
	memcpy(message.begin.build_id, build_id, len + 1);
	return worker_send(c->socket, &message, out_fd);
}

int symbol_worker_build(const struct symbol_worker_options *worker, const struct symbol_build_options *options, int out_fd,
			struct symbol_build_result *ret, struct error *err)
{
	struct worker_conversation c = {
		.limits = fill_in(worker),
		.open_file = options->open_file,
		.context = options->context,
	};
	uint64_t bytes_max = options->table_bytes_max ? options->table_bytes_max : SYMBOL_TABLE_BYTES_MAX;
	pid_t pid;
	int r = start(&c.limits, &c.socket, &pid, err);
	if (r < 0)
		return r;
	r = send_begin(&c, options->build_id, bytes_max, out_fd);
	/* A worker that is gone already is explained like one that goes later. */
	if (r == 0 || r == -EPIPE || r == -ECONNRESET)
		worker_converse(&c);
	else
		error_set_errno(err, r, "cannot send a worker its job");
	struct remains remains = reap(pid);
	io_close(c.socket);
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return r;
	r = explain(&c, &remains, bytes_max, err);
	uint64_t size;
	if (r == 0)
		r = io_file_size(out_fd, &size, "a new symbol table", err);
	if (r < 0)
		return r;
	*ret = c.last.done.result;
	ret->table_bytes = size;
	ret->memory_peak_bytes = remains.memory_peak_bytes;
	ret->cpu_ns = remains.cpu_ns;
	return 0;
}
