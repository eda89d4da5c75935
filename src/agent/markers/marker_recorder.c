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
#include "agent/markers/marker_recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/markers/marker_recorder_int.h"
#include "agent/proc.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/thread.h"
#include "base/time.h"
#include "profile/merge.h"

#define ROOTS_MAX	     1024u
#define PROCESSES_MAX	     65536u
#define LEASE_NS	     (2 * NS_PER_S)
#define VISIT_MS	     20
#define VISIT_SOON_MS	     2
#define SCAN_NS		     (50 * NS_PER_MS)
#define SCAN_INTERVAL_MIN_NS (20 * NS_PER_MS)
#define SCAN_INTERVAL_MAX_NS (2 * NS_PER_S)
#define HANDOVER_NS	     (10 * NS_PER_S) /* from connecting to handing over; the process may have to wait for a CPU */
#define CALLERS_MAX	     1024u
#define ACCEPT_NS	     (NS_PER_S / 5)  /* of one round of handing over; who comes later waits for the next */
#define ACCEPT_END_NS	     (10 * NS_PER_S) /* of the last one */
#define BACKLOG		     4096
#define GONE_MAX	     4096u
#define FULL_ENOUGH	     (WICKMARK_RECORDS / 8)
/* Of a collector that runs all the time. A thread that was quiet may make 80,000 markers a second before any is lost. */
#define BEHIND_VISIT_MS			100
#define BEHIND_IDLE_MS			500 /* there is nothing to visit */
#define BEHIND_SCAN_NS			NS_PER_S
#define BACKGROUND_SCAN_INTERVAL_MIN_NS (NS_PER_S / 2)
#define BACKGROUND_SCAN_INTERVAL_MAX_NS (32 * NS_PER_S)
#define BEHIND_TEXT_BYTES		(32u * 1024 * 1024)
#define BEHIND_FILL			(WICKMARK_RECORDS / 64)

struct process {
	pid_t pid;
	uint64_t start;
	int64_t next_scan_ns, wait_ns;	  /* when to look again, and how long to wait then */
	bool seen, followed, was_counted; /* was_counted: as one whose file cannot be had */
};

struct inode {
	dev_t device;
	ino_t inode;
};

/* Who has connected, and not yet handed anything over. */
struct caller {
	int fd;
	int64_t until_ns;
};

struct marker_recorder {
	struct marker_clock clock;
	struct marker_output output;
	struct marker_file **files;
	size_t file_count, file_capacity;
	struct inode gone[GONE_MAX]; /* the last files that were let go */
	size_t gone_count;
	struct process *processes;
	size_t process_count, process_capacity;
	struct map64 by_pid; /* pid -> place in processes */
	pid_t roots[ROOTS_MAX];
	size_t root_count;
	struct caller *callers;
	size_t caller_count;
	bool all, has_thread, is_continuous;
	bool is_short; /* of descriptors: who calls has to wait until files were let go */
	uint32_t recorder_id;
	int socket, stop_fd;
	char name[48];
	int64_t scan_ns, begin_ns; /* begin_ns: of marker_recorder_begin_at() */
	pthread_t thread;
	pthread_mutex_t lock; /* held while the thread works, or another one takes: for all from clock to scan_ns, and result */
	int result;
	struct error problem;
};

/* ---- life ---- */

/* An abstract name: in no file system, and gone with us. Nobody else can guess it. */
static void listen_to_processes(struct marker_recorder *recorder)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t number = hash64_mix(hash64_secret() ^ (uint64_t)time_monotonic_ns());
	snprintf(recorder->name, sizeof(recorder->name), "wickmark-%d-%016llx", (int)getpid(), (unsigned long long)number);
	size_t len = strlen(recorder->name);
	memcpy(address.sun_path + 1, recorder->name, len);
	recorder->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (recorder->socket < 0 ||
	    bind(recorder->socket, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) <
		    0 ||
	    listen(recorder->socket, BACKLOG) < 0) {
		recorder->socket = io_close(recorder->socket);
		recorder->name[0] = 0;
	}
}

int marker_recorder_new(bool all, struct marker_recorder **ret, struct error *err)
{
	_cleanup_(marker_recorder_freep) struct marker_recorder *recorder = mem_zalloc(sizeof(*recorder));
	if (!recorder)
		return error_nomem(err);
	recorder->all = all;
	recorder->callers = mem_alloc_array(CALLERS_MAX, sizeof(*recorder->callers));
	if (!recorder->callers)
		return error_nomem(err);
	pthread_mutex_init(&recorder->lock, NULL);
	recorder->socket = recorder->stop_fd = -1;
	recorder->recorder_id = (uint32_t)hash64_mix(hash64_secret() ^ (uint64_t)time_monotonic_ns()) | 1u;
	recorder->recorder_id &= ~WICKMARK_GIVES_WAY;
	if (marker_clock_init(&recorder->clock) < 0)
		return error_nomem(err);
	int r = marker_output_init(&recorder->output, &recorder->clock, err);
	if (r < 0)
		return r;
	recorder->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (recorder->stop_fd < 0)
		return error_set_errno(err, -errno, "cannot create an eventfd");
	listen_to_processes(recorder);
	recorder->output.recorder_name = recorder->name;
	*ret = TAKE(recorder);
	return 0;
}

const char *marker_recorder_name(const struct marker_recorder *recorder)
{
	return recorder->name;
}

void marker_recorder_limit(struct marker_recorder *recorder, size_t max)
{
	recorder->output.max = max;
}

void marker_recorder_continuous(struct marker_recorder *recorder)
{
	recorder->is_continuous = recorder->output.is_continuous = true;
	recorder->recorder_id |= WICKMARK_GIVES_WAY;
	recorder->output.max = MARKER_RECORDER_CONTINUOUS_MAX;
	recorder->output.text_max = BEHIND_TEXT_BYTES;
}

int marker_recorder_follow(struct marker_recorder *recorder, pid_t pid, struct error *err)
{
	if (recorder->root_count == ROOTS_MAX)
		return error_set(err, -E2BIG, "more than %u processes to follow", ROOTS_MAX);
	recorder->roots[recorder->root_count++] = pid;
	return 0;
}

static void join_thread(struct marker_recorder *recorder)
{
	uint64_t one = 1;
	if (!recorder->has_thread)
		return;
	ssize_t n = write(recorder->stop_fd, &one, sizeof(one));
	(void)n;
	pthread_join(recorder->thread, NULL);
	recorder->has_thread = false;
}

struct marker_recorder *marker_recorder_free(struct marker_recorder *recorder)
{
	if (!recorder)
		return NULL;
	join_thread(recorder);
	for (size_t i = 0; i < recorder->file_count; i++) {
		marker_file_switch_off(recorder->files[i], recorder->recorder_id);
		marker_file_free(recorder->files[i]);
	}
	mem_free(recorder->files);
	for (size_t i = 0; i < recorder->caller_count; i++)
		io_close(recorder->callers[i].fd);
	mem_free(recorder->callers);
	mem_free(recorder->processes);
	map64_release(&recorder->by_pid);
	marker_output_release(&recorder->output);
	marker_clock_release(&recorder->clock);
	io_close(recorder->socket);
	io_close(recorder->stop_fd);
	pthread_mutex_destroy(&recorder->lock);
	return mem_free(recorder);
}

/* ---- files ---- */

static struct marker_file *find_file(struct marker_recorder *recorder, const struct stat *stat)
{
	for (size_t i = 0; i < recorder->file_count; i++)
		if (recorder->files[i]->device == stat->st_dev && recorder->files[i]->inode == stat->st_ino)
			return recorder->files[i];
	return NULL;
}

/* A process may be found, end and be let go before its announcement is looked at. */
static bool was_let_go(const struct marker_recorder *recorder, const struct stat *stat)
{
	for (size_t i = 0; i < GONE_MAX; i++)
		if (recorder->gone[i].inode == stat->st_ino && recorder->gone[i].device == stat->st_dev)
			return true;
	return false;
}

static uint64_t lease_until(void)
{
	return (uint64_t)(time_monotonic_ns() + LEASE_NS);
}

/* Positive returns of take_file(). */
enum { TAKE_REFUSED = 1, TAKE_BUSY = 2, TAKE_LATER = 3 };

static void count_taking(struct marker_recorder *recorder, int result)
{
	recorder->output.stats.refused += result == TAKE_REFUSED;
	recorder->output.stats.busy += result == TAKE_BUSY;
}

/* Takes the descriptor. A file that is found in a process may be another's: recorders map those that they read, and children of
 * a bare clone share their parent's. */
static int take_file(struct marker_recorder *recorder, int fd, pid_t pid, bool announced, struct error *err)
{
	struct stat stat;
	struct marker_file *file;
	struct error why = {0};
	if (fstat(fd, &stat) < 0 || find_file(recorder, &stat) || was_let_go(recorder, &stat)) {
		io_close(fd);
		return 0;
	}
	if (recorder->file_count == MARKER_RECORDER_FILES_MAX) {
		io_close(fd);
		return TAKE_REFUSED;
	}
	if (array_reserve(&recorder->files, &recorder->file_capacity, recorder->file_count + 1, MARKER_RECORDER_FILES_MAX) <
	    0) {
		io_close(fd);
		return error_nomem(err);
	}
	int r = marker_file_open(&recorder->output, fd, pid, &file, &why);
	if (r == -EBADMSG || r == -EAGAIN)
		return r == -EAGAIN && !announced ? TAKE_LATER : TAKE_REFUSED;
	if (r < 0) {
		*err = why;
		return r;
	}
	if (!announced && !marker_file_is_of(file, pid)) {
		marker_file_free(file);
		return 0;
	}
	if (!marker_file_lease(file, recorder->recorder_id, lease_until()) && !recorder->is_continuous) {
		marker_file_free(file);
		return TAKE_BUSY;
	}
	/* What announced itself may have waited longer than what was found: either may be that of the former program. */
	for (size_t i = 0; i < recorder->file_count; i++)
		if (recorder->files[i]->pid == pid)
			recorder->files[i]->is_in_doubt = file->is_in_doubt = true;
	recorder->files[recorder->file_count++] = file;
	recorder->output.stats.processes++;
	return 0;
}

/* ---- processes that announce themselves ---- */

/* Without one to spare the kernel would drop what it hands over, and what is under way is safe. */
static bool has_descriptors(struct marker_recorder *recorder, int any)
{
	int spare = fcntl(any, F_DUPFD_CLOEXEC, 0);
	recorder->is_short = spare < 0;
	io_close(spare);
	return !recorder->is_short;
}

/* There is room for one descriptor, so that the kernel hands over no more, whatever was sent. -EAGAIN: nothing was sent yet;
 * -1: nothing that could be one. */
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
	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -1;
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
	    rights->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
	return fd;
}

/* Takes what a process handed over. Positive if nothing was, so far. The kernel gives the sender's pid, in our namespace. */
static int hear_caller(struct marker_recorder *recorder, int from, struct error *err)
{
	struct ucred who;
	socklen_t size = sizeof(who);
	if (!has_descriptors(recorder, from))
		return 1;
	int fd = receive_file(from), r = 0;
	if (fd == -EAGAIN)
		return 1;
	if (fd >= 0 && getsockopt(from, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid > 0)
		r = take_file(recorder, fd, who.pid, true, err);
	else
		io_close(fd);
	count_taking(recorder, r);
	return r < 0 ? r : 0;
}

/* Some may connect without end and say nothing: the others have their turn, too. A process that has not handed its file over
 * yet has made no markers. */
static int hear_callers(struct marker_recorder *recorder, struct error *err)
{
	int64_t now_ns = time_monotonic_ns();
	size_t kept = 0;
	int r = 0;
	for (size_t i = 0; i < recorder->caller_count; i++) {
		struct caller *caller = &recorder->callers[i];
		int waits = r < 0 ? 0 : hear_caller(recorder, caller->fd, err);
		r = waits < 0 ? waits : r;
		if (waits > 0 && (now_ns < caller->until_ns || recorder->is_short))
			recorder->callers[kept++] = *caller;
		else
			io_close(caller->fd);
	}
	recorder->caller_count = kept;
	return r;
}

static void forget_first_caller(struct marker_recorder *recorder)
{
	io_close(recorder->callers[0].fd);
	memmove(recorder->callers, recorder->callers + 1, --recorder->caller_count * sizeof(*recorder->callers));
}

static int accept_processes(struct marker_recorder *recorder, int64_t at_most_ns, struct error *err)
{
	int from, r = hear_callers(recorder, err);
	int64_t until_ns = time_monotonic_ns() + at_most_ns;
	while (r >= 0 && !recorder->is_short && recorder->socket >= 0 && time_monotonic_ns() < until_ns) {
		from = accept4(recorder->socket, NULL, NULL, SOCK_CLOEXEC);
		if (from < 0) {
			recorder->is_short = errno == EMFILE || errno == ENFILE;
			break;
		}
		r = hear_caller(recorder, from, err);
		if (r <= 0) {
			io_close(from);
			continue;
		}
		if (recorder->caller_count == CALLERS_MAX)
			forget_first_caller(recorder);
		recorder->callers[recorder->caller_count++] = (struct caller){from, time_monotonic_ns() + HANDOVER_NS};
	}
	return r < 0 ? r : 0;
}

/* ---- processes that are found ---- */

static bool is_root(const struct marker_recorder *recorder, pid_t pid)
{
	for (size_t i = 0; i < recorder->root_count; i++)
		if (recorder->roots[i] == pid)
			return true;
	return false;
}

static struct process *find_process(struct marker_recorder *recorder, pid_t pid)
{
	uint64_t place;
	return map64_get(&recorder->by_pid, (uint64_t)pid, &place) ? &recorder->processes[place] : NULL;
}

static int see_process(struct marker_recorder *recorder, pid_t pid, int64_t now_ns, struct error *err)
{
	struct proc_stat stat;
	struct process *process = find_process(recorder, pid);
	if (process && process->next_scan_ns > now_ns) {
		process->seen = true;
		return 0;
	}
	if (!proc_read_stat(pid, 0, &stat))
		return 0;
	if (!process) {
		if (recorder->process_count == PROCESSES_MAX)
			return 0;
		if (array_reserve(&recorder->processes, &recorder->process_capacity, recorder->process_count + 1,
				  PROCESSES_MAX) < 0 ||
		    map64_put(&recorder->by_pid, (uint64_t)pid, recorder->process_count) < 0)
			return error_nomem(err);
		process = &recorder->processes[recorder->process_count++];
		*process = (struct process){.pid = pid};
	}
	if (process->start != stat.start_ticks)
		*process = (struct process){.pid = pid, .start = stat.start_ticks};
	process->seen = true;
	if (!process->followed) {
		const struct process *above = find_process(recorder, stat.parent);
		process->followed = recorder->all || is_root(recorder, pid) || (above && above->followed);
	}
	int64_t last_ns = recorder->is_continuous ? BACKGROUND_SCAN_INTERVAL_MAX_NS : SCAN_INTERVAL_MAX_NS;
	process->wait_ns = process->wait_ns	     ? process->wait_ns * 2
			   : recorder->is_continuous ? BACKGROUND_SCAN_INTERVAL_MIN_NS
						     : SCAN_INTERVAL_MIN_NS;
	if (process->wait_ns > last_ns)
		process->wait_ns = last_ns;
	process->next_scan_ns = now_ns + process->wait_ns;
	if (!process->followed)
		return 0;
	/* Also one that has been found: after exec it is another program. */
	int fd = marker_process_open_file(pid), r = fd < 0 ? 0 : take_file(recorder, fd, pid, false, err);
	if (r == TAKE_LATER) {
		process->wait_ns = 0;
		process->next_scan_ns = now_ns;
		return 0;
	}
	if (r > 0 && !process->was_counted) {
		process->was_counted = true;
		count_taking(recorder, r);
	}
	return r < 0 ? r : 0;
}

/* Those that are gone leave the table. */
static void forget_processes(struct marker_recorder *recorder)
{
	for (size_t i = 0; i < recorder->process_count;) {
		struct process *process = &recorder->processes[i];
		if (process->seen) {
			process->seen = false;
			i++;
			continue;
		}
		map64_remove(&recorder->by_pid, (uint64_t)process->pid);
		*process = recorder->processes[--recorder->process_count];
		if (i < recorder->process_count)
			map64_put(&recorder->by_pid, (uint64_t)process->pid, i);
	}
}

static int scan_processes(struct marker_recorder *recorder, struct error *err)
{
	int64_t now_ns = time_monotonic_ns();
	int r = 0;
	if (now_ns < recorder->scan_ns)
		return 0;
	recorder->scan_ns = now_ns + (recorder->is_continuous ? BEHIND_SCAN_NS : SCAN_NS);
	_cleanup_(dir_closep) DIR *processes = proc_open_processes();
	for (pid_t pid; r == 0 && (pid = proc_next(processes)) > 0;)
		if (pid != getpid())
			r = see_process(recorder, pid, now_ns, err);
	forget_processes(recorder);
	return r;
}

/* ---- visits ---- */

/* Of a process that has become another program: it cannot write what it no longer maps. */
static bool is_over(struct marker_file *file)
{
	char path[64];
	if (file->is_in_doubt && !marker_process_maps(file->pid, file->inode))
		return true;
	file->is_in_doubt = false;
	snprintf(path, sizeof(path), "/proc/%d", (int)file->pid);
	return access(path, F_OK) < 0;
}

/* Returns how long to wait for the next visit. */
static int visit_all(struct marker_recorder *recorder, int *ret_wait_ms, struct error *err)
{
	int r = marker_clock_tick(&recorder->clock) < 0 ? error_nomem(err) : 0;
	uint32_t fill = 0;
	size_t yielded = 0;
	for (size_t i = 0; r == 0 && i < recorder->file_count;) {
		struct marker_file *file = recorder->files[i];
		bool over = is_over(file);
		if (marker_file_lease(file, recorder->recorder_id, lease_until()))
			r = marker_file_drain(file, err);
		fill = file->is_held && file->fill > fill ? file->fill : fill;
		if (r == 0 && over) {
			r = file->is_held ? marker_file_finish(file, err) : 0;
			recorder->gone[recorder->gone_count++ % GONE_MAX] = (struct inode){file->device, file->inode};
			marker_file_free(file);
			recorder->files[i] = recorder->files[--recorder->file_count];
		} else {
			yielded += !file->is_held;
			i++;
		}
	}
	recorder->output.stats.yielded = yielded;
	*ret_wait_ms = fill > FULL_ENOUGH	  ? VISIT_SOON_MS
		       : !recorder->is_continuous ? VISIT_MS
		       : fill > BEHIND_FILL	  ? VISIT_MS
		       : recorder->file_count	  ? BEHIND_VISIT_MS
						  : BEHIND_IDLE_MS;
	return r;
}

static void *run(void *context)
{
	struct marker_recorder *recorder = context;
	struct pollfd polls[] = {{.fd = recorder->stop_fd, .events = POLLIN}, {.fd = recorder->socket, .events = POLLIN}};
	int r = 0, wait_ms = VISIT_MS;
	while (r == 0) {
		/* Without free descriptors, poll() would report the same connections again and again. */
		polls[1].fd = recorder->is_short ? -1 : recorder->socket;
		poll(polls, 2, wait_ms);
		if (polls[0].revents)
			break;
		pthread_mutex_lock(&recorder->lock);
		r = recorder->result;
		if (r == 0)
			r = accept_processes(recorder, ACCEPT_NS, &recorder->problem);
		if (r == 0)
			r = scan_processes(recorder, &recorder->problem);
		if (r == 0)
			r = visit_all(recorder, &wait_ms, &recorder->problem);
		recorder->result = r;
		pthread_mutex_unlock(&recorder->lock);
	}
	return NULL;
}

void marker_recorder_begin_at(struct marker_recorder *recorder, int64_t begin_ns)
{
	recorder->begin_ns = begin_ns;
}

int marker_recorder_start(struct marker_recorder *recorder, struct error *err)
{
	int r = marker_clock_begin(&recorder->clock, recorder->begin_ns) < 0 ? error_nomem(err) : 0;
	if (r == 0)
		r = thread_start(&recorder->thread, "markers", run, recorder, err);
	recorder->has_thread = r == 0;
	return r;
}

static int empty_file(struct marker_file *file, struct error *err)
{
	int r = marker_file_drain(file, err);
	return r < 0 ? r : marker_file_finish(file, err);
}

static int take(struct marker_recorder *recorder, struct profile **ret, struct error *err)
{
	struct profile *profile = NULL;
	int r = accept_processes(recorder, ACCEPT_NS, err);
	if (r == 0 && marker_clock_tick(&recorder->clock) < 0)
		r = error_nomem(err);
	for (size_t i = 0; r == 0 && i < recorder->file_count; i++)
		if (marker_file_lease(recorder->files[i], recorder->recorder_id, lease_until()))
			r = empty_file(recorder->files[i], err);
	if (r == 0)
		r = marker_output_renew(&recorder->output, &profile, err);
	marker_clock_renew(&recorder->clock);
	for (size_t i = 0; r == 0 && i < recorder->file_count; i++)
		r = marker_file_renew(recorder->files[i], profile, err);
	if (r < 0) {
		profile_free(profile);
		return r;
	}
	*ret = profile;
	return 0;
}

int marker_recorder_take(struct marker_recorder *recorder, struct profile **ret, struct error *err)
{
	THREAD_LOCK_SCOPE(&recorder->lock);
	if (recorder->result == 0)
		recorder->result = take(recorder, ret, &recorder->problem);
	int r = recorder->result;
	if (r < 0 && err)
		*err = recorder->problem;
	return r;
}

/* What has come up to now: processes that announced themselves and ended, the rings, and what is under way. */
static int take_rest(struct marker_recorder *recorder, struct error *err)
{
	int r = accept_processes(recorder, ACCEPT_END_NS, err);
	for (size_t i = 0; i < recorder->file_count; i++)
		marker_file_switch_off(recorder->files[i], recorder->recorder_id);
	if (r == 0 && marker_clock_tick(&recorder->clock) < 0)
		r = error_nomem(err);
	for (size_t i = 0; r == 0 && i < recorder->file_count; i++)
		if (recorder->files[i]->is_held)
			r = empty_file(recorder->files[i], err);
	return r;
}

/* Markers are often more than samples, and twice as many for a moment would be too many. */
static int unite(struct marker_recorder *recorder, struct profile **profile, struct error *err)
{
	struct profile *own = recorder->output.profile;
	if (profile_marker_count(own) + (own->markers ? own->markers->row_count : 0) > (*profile)->sample_count) {
		int r = profile_merge(own, *profile, false, err);
		if (r < 0)
			return r;
		profile_free(*profile);
		*profile = own;
		recorder->output.profile = NULL;
		return 0;
	}
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_copy_new(*profile, own, &copy, err);
	return r < 0 ? r : profile_copy_markers(*profile, own, copy, err);
}

int marker_recorder_stop(struct marker_recorder *recorder, struct profile **profile, struct error *err)
{
	join_thread(recorder);
	int r = recorder->result;
	if (r < 0)
		*err = recorder->problem;
	else
		r = take_rest(recorder, err);
	return r < 0 ? r : unite(recorder, profile, err);
}

void marker_recorder_get_stats(struct marker_recorder *recorder, struct marker_recorder_stats *ret)
{
	THREAD_LOCK_SCOPE(&recorder->lock);
	const struct marker_output *output = &recorder->output;
	const struct profile_markers *kept = output->profile ? output->profile->markers : NULL;
	*ret = output->stats;
	ret->waiting = kept ? kept->marker_count + kept->row_count : 0;
	ret->is_full =
		recorder->is_continuous && (ret->waiting > output->max / 2 || output->text_bytes > output->text_max / 2 ||
					    (kept && kept->value_count > output->values_max / 2));
}
