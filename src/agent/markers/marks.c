/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the processes that make markers, and visiting them.
 *
 * Processes come in two ways. Those that were started with our name in their environment connect to a socket and hand their
 * file over before main() runs. Others are found in /proc: each new process is looked at soon after it appears and then ever
 * more rarely, since the library may be loaded late.
 *
 * One visit prolongs the lease and empties the rings. Visits are 20 ms apart, 2 ms when a ring was more than an eighth full. A
 * process that has ended is visited once more, and let go.
 *
 * A collector that runs all the time has a number with WICKMARK_GIVES_WAY. A recorder without it takes the lease from it by
 * writing its own number; the collector sees that at its next visit, keeps the file, leaves the rings alone, and tries for the
 * lease at every visit, which it gets when the recorder switches off or its lease runs out. The alternative, that the recorder
 * asks and waits, would cost a process that ends at once its markers. The price is that both may copy the same few records in
 * the visit in which it happens.
 */
#include "agent/markers/marks.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/markers/marks_int.h"
#include "agent/proc.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/thread.h"
#include "base/time.h"
#include "profile/merge.h"

#define ROOTS_MAX     1024u
#define PROCESSES_MAX 65536u
#define LEASE_NS      (2 * NS_PER_S)
#define VISIT_MS      20
#define VISIT_SOON_MS 2
#define SCAN_NS	      (50 * NS_PER_MS)
#define LOOK_FIRST_NS (20 * NS_PER_MS)
#define LOOK_LAST_NS  (2 * NS_PER_S)
#define HANDOVER_US   50000
#define ACCEPT_NS     (NS_PER_S / 5) /* of one round of handing over; who comes later waits for the next */
#define ACCEPT_END_NS (5 * NS_PER_S) /* of the last one */
#define BACKLOG	      4096
#define GONE_MAX      256u
#define FULL_ENOUGH   (WICKMARK_RECORDS / 8)
/* Of a collector that runs all the time. A thread that was quiet may make 80,000 markers a second before any is lost. */
#define BEHIND_VISIT_MS	     100
#define BEHIND_IDLE_MS	     500 /* there is nothing to visit */
#define BEHIND_SCAN_NS	     NS_PER_S
#define BEHIND_LOOK_FIRST_NS (NS_PER_S / 2)
#define BEHIND_LOOK_LAST_NS  (32 * NS_PER_S)
#define BEHIND_TEXT_BYTES    (32u * 1024 * 1024)
#define BEHIND_FILL	     (WICKMARK_RECORDS / 64)

struct process {
	pid_t pid;
	uint64_t start;
	int64_t look_ns, wait_ns;	  /* when to look again, and how long to wait then */
	bool seen, followed, was_counted; /* was_counted: as one whose file cannot be had */
};

struct inode {
	dev_t device;
	ino_t inode;
};

struct marks {
	struct marks_clock clock;
	struct marks_output output;
	struct marks_file **files;
	size_t file_count, file_capacity;
	struct inode gone[GONE_MAX]; /* the last files that were let go */
	size_t gone_count;
	struct process *processes;
	size_t process_count, process_capacity;
	struct map64 by_pid; /* pid -> place in processes */
	pid_t roots[ROOTS_MAX];
	size_t root_count;
	bool all, has_thread, is_continuous;
	uint32_t recorder;
	int socket, stop_fd;
	char name[48];
	int64_t scan_ns, begin_ns; /* begin_ns: of marks_begin_at() */
	pthread_t thread;
	pthread_mutex_t lock; /* held while the thread works, or another one takes: for all from clock to scan_ns, and result */
	int result;
	struct error problem;
};

/* ---- life ---- */

/* An abstract name: in no file system, and gone with us. Nobody else can guess it. */
static void listen_to_processes(struct marks *marks)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t number = hash64_mix(hash64_secret() ^ (uint64_t)time_monotonic_ns());
	snprintf(marks->name, sizeof(marks->name), "wickmark-%d-%016llx", (int)getpid(), (unsigned long long)number);
	size_t len = strlen(marks->name);
	memcpy(address.sun_path + 1, marks->name, len);
	marks->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (marks->socket < 0 ||
	    bind(marks->socket, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) <
		    0 ||
	    listen(marks->socket, BACKLOG) < 0) {
		marks->socket = io_close(marks->socket);
		marks->name[0] = 0;
	}
}

int marks_new(bool all, struct marks **ret, struct error *err)
{
	_cleanup_(marks_freep) struct marks *marks = mem_zalloc(sizeof(*marks));
	if (!marks)
		return error_nomem(err);
	marks->all = all;
	pthread_mutex_init(&marks->lock, NULL);
	marks->socket = marks->stop_fd = -1;
	marks->recorder = (uint32_t)hash64_mix(hash64_secret() ^ (uint64_t)time_monotonic_ns()) | 1u;
	marks->recorder &= ~WICKMARK_GIVES_WAY;
	if (marks_clock_init(&marks->clock) < 0)
		return error_nomem(err);
	int r = marks_output_init(&marks->output, &marks->clock, err);
	if (r < 0)
		return r;
	marks->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (marks->stop_fd < 0)
		return error_set_errno(err, -errno, "cannot create an eventfd");
	listen_to_processes(marks);
	*ret = TAKE(marks);
	return 0;
}

const char *marks_recorder_name(const struct marks *marks)
{
	return marks->name;
}

void marks_limit(struct marks *marks, size_t max)
{
	marks->output.max = max;
}

void marks_continuous(struct marks *marks)
{
	marks->is_continuous = marks->output.is_continuous = true;
	marks->recorder |= WICKMARK_GIVES_WAY;
	marks->output.max = MARKS_CONTINUOUS_MAX;
	marks->output.text_max = BEHIND_TEXT_BYTES;
}

int marks_follow(struct marks *marks, pid_t pid, struct error *err)
{
	if (marks->root_count == ROOTS_MAX)
		return error_set(err, -E2BIG, "more than %u processes to follow", ROOTS_MAX);
	marks->roots[marks->root_count++] = pid;
	return 0;
}

static void join_thread(struct marks *marks)
{
	uint64_t one = 1;
	if (!marks->has_thread)
		return;
	ssize_t n = write(marks->stop_fd, &one, sizeof(one));
	(void)n;
	pthread_join(marks->thread, NULL);
	marks->has_thread = false;
}

struct marks *marks_free(struct marks *marks)
{
	if (!marks)
		return NULL;
	join_thread(marks);
	for (size_t i = 0; i < marks->file_count; i++) {
		marks_file_switch_off(marks->files[i], marks->recorder);
		marks_file_free(marks->files[i]);
	}
	mem_free(marks->files);
	mem_free(marks->processes);
	map64_release(&marks->by_pid);
	marks_output_release(&marks->output);
	marks_clock_release(&marks->clock);
	io_close(marks->socket);
	io_close(marks->stop_fd);
	pthread_mutex_destroy(&marks->lock);
	return mem_free(marks);
}

/* ---- files ---- */

static struct marks_file *find_file(struct marks *marks, const struct stat *stat)
{
	for (size_t i = 0; i < marks->file_count; i++)
		if (marks->files[i]->device == stat->st_dev && marks->files[i]->inode == stat->st_ino)
			return marks->files[i];
	return NULL;
}

/* A process may be found, end and be let go before its announcement is looked at. */
static bool was_let_go(const struct marks *marks, const struct stat *stat)
{
	for (size_t i = 0; i < GONE_MAX; i++)
		if (marks->gone[i].inode == stat->st_ino && marks->gone[i].device == stat->st_dev)
			return true;
	return false;
}

static uint64_t lease_until(void)
{
	return (uint64_t)(time_monotonic_ns() + LEASE_NS);
}

/* Positive returns of take_file(). */
enum { TAKE_REFUSED = 1, TAKE_BUSY = 2 };

static void count_taking(struct marks *marks, int result)
{
	marks->output.stats.refused += result == TAKE_REFUSED;
	marks->output.stats.busy += result == TAKE_BUSY;
}

/* Takes the descriptor. A file that is found in a process may be another's: recorders map those that they read, and children of
 * a bare clone share their parent's. */
static int take_file(struct marks *marks, int fd, pid_t pid, bool announced, struct error *err)
{
	struct stat stat;
	struct marks_file *file;
	struct error why = {0};
	if (fstat(fd, &stat) < 0 || find_file(marks, &stat) || was_let_go(marks, &stat)) {
		io_close(fd);
		return 0;
	}
	if (marks->file_count == MARKS_FILES_MAX) {
		io_close(fd);
		return TAKE_REFUSED;
	}
	if (array_reserve(&marks->files, &marks->file_capacity, marks->file_count + 1, MARKS_FILES_MAX) < 0) {
		io_close(fd);
		return error_nomem(err);
	}
	int r = marks_file_open(&marks->output, fd, pid, &file, &why);
	if (r == -EBADMSG)
		return TAKE_REFUSED;
	if (r < 0) {
		*err = why;
		return r;
	}
	if (!announced && !marks_file_is_of(file, pid)) {
		marks_file_free(file);
		return 0;
	}
	if (!marks_file_lease(file, marks->recorder, lease_until()) && !marks->is_continuous) {
		marks_file_free(file);
		return TAKE_BUSY;
	}
	for (size_t i = 0; i < marks->file_count; i++)
		marks->files[i]->is_replaced |= marks->files[i]->pid == pid;
	marks->files[marks->file_count++] = file;
	marks->output.stats.processes++;
	return 0;
}

/* ---- processes that announce themselves ---- */

/* There is room for one descriptor, so that the kernel hands over no more, whatever was sent. */
static int receive_file(int from)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	uint32_t abi = 0;
	struct iovec data = {&abi, sizeof(abi)};
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_LEN(sizeof(int))};
	int fd = -1;
	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) < 0)
		return -1;
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
	    rights->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
	return fd;
}

/* Who it is the kernel tells, in our numbers. Some may connect without end and say nothing: the others have their turn, too. */
static int accept_processes(struct marks *marks, int64_t at_most_ns, struct error *err)
{
	int from, r = 0;
	int64_t until_ns = time_monotonic_ns() + at_most_ns;
	while (r >= 0 && marks->socket >= 0 && time_monotonic_ns() < until_ns &&
	       (from = accept4(marks->socket, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct ucred who;
		socklen_t size = sizeof(who);
		struct timeval patience = {.tv_usec = HANDOVER_US};
		setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		int fd = receive_file(from);
		r = 0;
		if (fd >= 0 && getsockopt(from, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid > 0)
			r = take_file(marks, fd, who.pid, true, err);
		else
			io_close(fd);
		count_taking(marks, r);
		io_close(from);
	}
	return r < 0 ? r : 0;
}

/* ---- processes that are found ---- */

static bool is_root(const struct marks *marks, pid_t pid)
{
	for (size_t i = 0; i < marks->root_count; i++)
		if (marks->roots[i] == pid)
			return true;
	return false;
}

static struct process *find_process(struct marks *marks, pid_t pid)
{
	uint64_t place;
	return map64_get(&marks->by_pid, (uint64_t)pid, &place) ? &marks->processes[place] : NULL;
}

static int see_process(struct marks *marks, pid_t pid, int64_t now_ns, struct error *err)
{
	pid_t parent = 0;
	uint64_t start;
	struct process *process = find_process(marks, pid);
	if (process && process->look_ns > now_ns) {
		process->seen = true;
		return 0;
	}
	if (!marks_read_process(pid, &parent, &start))
		return 0;
	if (!process) {
		if (marks->process_count == PROCESSES_MAX)
			return 0;
		if (array_reserve(&marks->processes, &marks->process_capacity, marks->process_count + 1, PROCESSES_MAX) < 0 ||
		    map64_put(&marks->by_pid, (uint64_t)pid, marks->process_count) < 0)
			return error_nomem(err);
		process = &marks->processes[marks->process_count++];
		*process = (struct process){.pid = pid};
	}
	if (process->start != start)
		*process = (struct process){.pid = pid, .start = start};
	process->seen = true;
	if (!process->followed) {
		const struct process *above = find_process(marks, parent);
		process->followed = marks->all || is_root(marks, pid) || (above && above->followed);
	}
	int64_t last_ns = marks->is_continuous ? BEHIND_LOOK_LAST_NS : LOOK_LAST_NS;
	process->wait_ns = process->wait_ns	  ? process->wait_ns * 2
			   : marks->is_continuous ? BEHIND_LOOK_FIRST_NS
						  : LOOK_FIRST_NS;
	if (process->wait_ns > last_ns)
		process->wait_ns = last_ns;
	process->look_ns = now_ns + process->wait_ns;
	if (!process->followed)
		return 0;
	/* Also one that has been found: after exec it is another program. */
	int fd = marks_open_of_process(pid), r = fd < 0 ? 0 : take_file(marks, fd, pid, false, err);
	if (r > 0 && !process->was_counted) {
		process->was_counted = true;
		count_taking(marks, r);
	}
	return r < 0 ? r : 0;
}

/* Those that are gone leave the table. */
static void forget_processes(struct marks *marks)
{
	for (size_t i = 0; i < marks->process_count;) {
		struct process *process = &marks->processes[i];
		if (process->seen) {
			process->seen = false;
			i++;
			continue;
		}
		map64_remove(&marks->by_pid, (uint64_t)process->pid);
		*process = marks->processes[--marks->process_count];
		if (i < marks->process_count)
			map64_put(&marks->by_pid, (uint64_t)process->pid, i);
	}
}

static int scan_processes(struct marks *marks, struct error *err)
{
	int64_t now_ns = time_monotonic_ns();
	int r = 0;
	if (now_ns < marks->scan_ns)
		return 0;
	marks->scan_ns = now_ns + (marks->is_continuous ? BEHIND_SCAN_NS : SCAN_NS);
	_cleanup_(dir_closep) DIR *processes = proc_open_processes();
	for (pid_t pid; r == 0 && (pid = proc_next(processes)) > 0;)
		if (pid != getpid())
			r = see_process(marks, pid, now_ns, err);
	forget_processes(marks);
	return r;
}

/* ---- visits ---- */

static bool is_over(const struct marks_file *file)
{
	char path[64];
	if (file->is_replaced)
		return true;
	snprintf(path, sizeof(path), "/proc/%d", (int)file->pid);
	return access(path, F_OK) < 0;
}

/* Returns how long to wait for the next visit. */
static int visit_all(struct marks *marks, int *ret_wait_ms, struct error *err)
{
	int r = marks_clock_tick(&marks->clock) < 0 ? error_nomem(err) : 0;
	uint32_t fill = 0;
	size_t yielded = 0;
	for (size_t i = 0; r == 0 && i < marks->file_count;) {
		struct marks_file *file = marks->files[i];
		bool over = is_over(file);
		if (marks_file_lease(file, marks->recorder, lease_until()))
			r = marks_file_drain(file, err);
		fill = file->is_held && file->fill > fill ? file->fill : fill;
		if (r == 0 && over) {
			r = file->is_held ? marks_file_finish(file, err) : 0;
			marks->gone[marks->gone_count++ % GONE_MAX] = (struct inode){file->device, file->inode};
			marks_file_free(file);
			marks->files[i] = marks->files[--marks->file_count];
		} else {
			yielded += !file->is_held;
			i++;
		}
	}
	marks->output.stats.yielded = yielded;
	*ret_wait_ms = fill > FULL_ENOUGH      ? VISIT_SOON_MS
		       : !marks->is_continuous ? VISIT_MS
		       : fill > BEHIND_FILL    ? VISIT_MS
		       : marks->file_count     ? BEHIND_VISIT_MS
					       : BEHIND_IDLE_MS;
	return r;
}

static void *run(void *context)
{
	struct marks *marks = context;
	struct pollfd polls[] = {{.fd = marks->stop_fd, .events = POLLIN}, {.fd = marks->socket, .events = POLLIN}};
	int r = 0, wait_ms = VISIT_MS;
	while (r == 0) {
		poll(polls, 2, wait_ms);
		if (polls[0].revents)
			break;
		pthread_mutex_lock(&marks->lock);
		r = marks->result;
		if (r == 0)
			r = accept_processes(marks, ACCEPT_NS, &marks->problem);
		if (r == 0)
			r = scan_processes(marks, &marks->problem);
		if (r == 0)
			r = visit_all(marks, &wait_ms, &marks->problem);
		marks->result = r;
		pthread_mutex_unlock(&marks->lock);
	}
	return NULL;
}

void marks_begin_at(struct marks *marks, int64_t begin_ns)
{
	marks->begin_ns = begin_ns;
}

int marks_start(struct marks *marks, struct error *err)
{
	int r = marks_clock_begin(&marks->clock, marks->begin_ns) < 0 ? error_nomem(err) : 0;
	if (r == 0)
		r = thread_start(&marks->thread, "markers", run, marks, err);
	marks->has_thread = r == 0;
	return r;
}

static int empty_file(struct marks_file *file, struct error *err)
{
	int r = marks_file_drain(file, err);
	return r < 0 ? r : marks_file_finish(file, err);
}

static int take(struct marks *marks, struct profile **ret, struct error *err)
{
	struct profile *profile = NULL;
	int r = accept_processes(marks, ACCEPT_NS, err);
	if (r == 0 && marks_clock_tick(&marks->clock) < 0)
		r = error_nomem(err);
	for (size_t i = 0; r == 0 && i < marks->file_count; i++)
		if (marks_file_lease(marks->files[i], marks->recorder, lease_until()))
			r = empty_file(marks->files[i], err);
	if (r == 0)
		r = marks_output_renew(&marks->output, &profile, err);
	marks_clock_renew(&marks->clock);
	for (size_t i = 0; r == 0 && i < marks->file_count; i++)
		r = marks_file_renew(marks->files[i], profile, err);
	if (r < 0) {
		profile_free(profile);
		return r;
	}
	*ret = profile;
	return 0;
}

int marks_take(struct marks *marks, struct profile **ret, struct error *err)
{
	pthread_mutex_lock(&marks->lock);
	if (marks->result == 0)
		marks->result = take(marks, ret, &marks->problem);
	int r = marks->result;
	if (r < 0 && err)
		*err = marks->problem;
	pthread_mutex_unlock(&marks->lock);
	return r;
}

/* What has come up to now: processes that announced themselves and ended, the rings, and what is under way. */
static int take_rest(struct marks *marks, struct error *err)
{
	int r = accept_processes(marks, ACCEPT_END_NS, err);
	for (size_t i = 0; i < marks->file_count; i++)
		marks_file_switch_off(marks->files[i], marks->recorder);
	if (r == 0 && marks_clock_tick(&marks->clock) < 0)
		r = error_nomem(err);
	for (size_t i = 0; r == 0 && i < marks->file_count; i++)
		if (marks->files[i]->is_held)
			r = empty_file(marks->files[i], err);
	return r;
}

/* Markers are often more than samples, and twice as many for a moment would be too many. */
static int unite(struct marks *marks, struct profile **profile, struct error *err)
{
	struct profile *own = marks->output.profile;
	if (profile_marker_count(own) + (own->markers ? own->markers->row_count : 0) > (*profile)->sample_count) {
		int r = profile_merge(own, *profile, false, err);
		if (r < 0)
			return r;
		profile_free(*profile);
		*profile = own;
		marks->output.profile = NULL;
		return 0;
	}
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_copy_new(*profile, own, &copy, err);
	return r < 0 ? r : profile_copy_markers(*profile, own, copy, err);
}

int marks_stop(struct marks *marks, struct profile **profile, struct error *err)
{
	join_thread(marks);
	int r = marks->result;
	if (r < 0)
		*err = marks->problem;
	else
		r = take_rest(marks, err);
	return r < 0 ? r : unite(marks, profile, err);
}

void marks_get_stats(struct marks *marks, struct marks_stats *ret)
{
	pthread_mutex_lock(&marks->lock);
	const struct marks_output *output = &marks->output;
	const struct profile_markers *kept = output->profile ? output->profile->markers : NULL;
	*ret = output->stats;
	ret->waiting = kept ? kept->marker_count + kept->row_count : 0;
	ret->is_full = marks->is_continuous && (ret->waiting > output->max / 2 || output->text_bytes > output->text_max / 2 ||
						(kept && kept->value_count > output->values_max / 2));
	pthread_mutex_unlock(&marks->lock);
}
