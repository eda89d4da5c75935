/* SPDX-License-Identifier: MIT */
/*
 * libwickmark: the writing side of wickmark_abi.h.
 *
 * The shared file is made before main() runs, so that a recorder which comes later finds it. Everything that a marker needs is
 * in there or in a few words of thread-local storage. What takes a lock is done once: a site's entry, a text.
 *
 * Signals. A handler may interrupt a marker halfway. `busy` says so; the handler's marker is then counted as lost.
 *
 * Fork. The child gets a file of its own at the same address, with the sites and texts of its parent, whose numbers the program
 * has in its variables. pthread_atfork() sees to that; a child of a bare clone system call shares its parent's file until it
 * calls exec, and should make no markers.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "wickmark.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "wickmark_abi.h"

#define TEXT_SLOTS	 16384u /* a power of two, more than there can be sites and some texts */
#define SITES_MADE	 WICKMARK_SITES
#define LEASE_CHECK_MASK 255u		/* records between two looks at the lease */
#define GRANT_NS	 10000000000ull /* until the recorder has taken over */
#define PATIENCE_NS	 1000000000ull	/* with a recorder to which many processes tell something at once */
#define RETRY_AFTER	 1024u		/* markers between two looks for a thread's entry */

struct thread_self {
	struct wickmark_thread *thread;
	struct wickmark_record *ring;
	uint64_t head, tail;
	uint32_t busy, over, waiting;
	int32_t tid;
	char name[WICKMARK_NAME_BYTES];
};
static __thread struct thread_self self __attribute__((tls_model("initial-exec")));

static const uint32_t switch_off;
const uint32_t *wickmark_switch = &switch_off;
uint32_t wickmark_clock_is_tsc;

static struct wickmark_header *shared; /* NULL = could not be set up */
static int shared_fd = -1;
static struct stat shared_stat;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_end;
static uint32_t texts[TEXT_SLOTS]; /* offsets of strings, by hash; under the lock */
static uint32_t text_count;
static struct wickmark_site made[SITES_MADE]; /* by wickmark_site_new(); under the lock */
static uint32_t made_count;
static struct sockaddr_un recorder; /* whom new processes tell; no family = nobody */
static socklen_t recorder_len;

#define LOAD(at)	   __atomic_load_n((at), __ATOMIC_RELAXED)
#define STORE(at, value)   __atomic_store_n((at), (value), __ATOMIC_RELAXED)
#define COUNT(at)	   __atomic_fetch_add((at), 1, __ATOMIC_RELAXED)
#define PUBLISH(at, value) __atomic_store_n((at), (value), __ATOMIC_RELEASE)

static struct wickmark_thread *threads_of(struct wickmark_header *header)
{
	return (struct wickmark_thread *)((char *)header + WICKMARK_AT_THREADS);
}
static struct wickmark_site_entry *sites_of(struct wickmark_header *header)
{
	return (struct wickmark_site_entry *)((char *)header + WICKMARK_AT_SITES);
}
static char *strings_of(struct wickmark_header *header)
{
	return (char *)header + WICKMARK_AT_STRINGS;
}
static struct wickmark_long *longs_of(struct wickmark_header *header)
{
	return (struct wickmark_long *)((char *)header + WICKMARK_AT_LONGS);
}

/* ---- clocks ---- */

static uint64_t monotonic_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t wickmark_clock_slow(void)
{
#if defined(__x86_64__)
	if (wickmark_clock_is_tsc)
		return __builtin_ia32_rdtsc();
#endif
	return monotonic_ns();
}

/* Up to size - 1 bytes of a small file. */
static size_t read_small(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

/* The processor promises a steady counter, and the kernel, which watches it, believes that. */
static uint32_t tsc_is_steady(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;
	char source[64];
	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
		return 0;
	read_small("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof(source));
	return !strcmp(source, "tsc\n") || !strcmp(source, "kvm-clock\n") || !strncmp(source, "hyperv_clocksource_tsc", 22);
#else
	return 0;
#endif
}

/* ---- the shared file ---- */

/* A new file, mapped anywhere; NULL if that cannot be. */
static struct wickmark_header *map_new(int *ret_fd)
{
	struct rlimit limit;
	/* Beyond this limit the kernel sends a signal that ends the process. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < WICKMARK_FILE_BYTES)
		return NULL;
	int fd = (int)syscall(SYS_memfd_create, WICKMARK_NAME, 3u /* MFD_CLOEXEC | MFD_ALLOW_SEALING */);
	if (fd < 0)
		return NULL;
	void *at = MAP_FAILED;
	if (ftruncate(fd, (off_t)WICKMARK_FILE_BYTES) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		at = mmap(NULL, WICKMARK_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (at == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	madvise(at, WICKMARK_FILE_BYTES, MADV_DONTDUMP);
	struct wickmark_header *header = at;
	header->abi = WICKMARK_ABI;
	header->clock = wickmark_clock_is_tsc ? WICKMARK_CLOCK_TSC : WICKMARK_CLOCK_MONOTONIC;
	header->file_bytes = WICKMARK_FILE_BYTES;
	header->pid = getpid();
	header->string_bytes = 4; /* 0 is no string */
	PUBLISH(&header->magic, WICKMARK_MAGIC);
	*ret_fd = fd;
	return header;
}

static void set_recorder(const char *name, size_t len)
{
	recorder.sun_family = AF_UNIX;
	memset(recorder.sun_path, 0, sizeof(recorder.sun_path));
	memcpy(recorder.sun_path + 1, name, len); /* an abstract name: there is no file */
	recorder_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/* One that is full of what others told it, or that many descriptors are under way to, is only busy. */
static int is_busy(int error)
{
	return error == EAGAIN || error == EINTR || error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM;
}

/* 0, or an errno. */
static int tell_recorder(int to, const struct msghdr *message)
{
	struct timeval patience = {.tv_usec = PATIENCE_NS / 1000 / 4};
	uint64_t until_ns = monotonic_ns() + PATIENCE_NS;
	int connected = 0;
	setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	for (;;) {
		if (!connected && connect(to, (struct sockaddr *)&recorder, recorder_len) == 0)
			connected = 1;
		if (connected && sendmsg(to, message, MSG_NOSIGNAL) > 0)
			return 0;
		int error = errno;
		if (!is_busy(error) || monotonic_ns() > until_ns)
			return error;
		if (error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM)
			nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
}

/* Hands the file to a recorder that waits for it, which is quicker than to be found: the process may end soon. */
static void notify_recorder(int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	uint32_t abi = WICKMARK_ABI;
	struct iovec data = {&abi, sizeof(abi)};
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	if (!recorder.sun_family)
		return;
	int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (to < 0)
		return;
	memset(&control, 0, sizeof(control));
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &fd, sizeof(int));
	int error = tell_recorder(to, &message);
	if (!error) {
		shared->lease_ns = monotonic_ns() + GRANT_NS;
		PUBLISH(&shared->enabled, 1);
	} else if (!is_busy(error)) {
		recorder.sun_family = 0; /* gone; nobody will ever listen under this name again */
	}
	close(to);
}

static void end_thread(void *entry)
{
	self.over = 1;
	self.thread = NULL;
	PUBLISH(&((struct wickmark_thread *)entry)->state, WICKMARK_ENDED);
}

/* Who records the parent, which need not be who started it. */
static void find_recorder(const struct wickmark_header *header)
{
	char name[WICKMARK_RECORDER_BYTES + 1] = "";
	if (!LOAD(&header->enabled))
		return;
	memcpy(name, header->recorder_name, WICKMARK_RECORDER_BYTES);
	if (name[0])
		set_recorder(name, strlen(name));
}

static void before_fork(void)
{
	self.busy++;
	pthread_mutex_lock(&lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
	self.busy--;
}

/* Only this thread is left; what the others were doing is in the parent's file. */
static void after_fork_child(void)
{
	struct wickmark_header *old = shared, *new;
	struct stat now;
	int fd = -1, saved = errno;
	pthread_mutex_unlock(&lock);
	self.thread = NULL;
	self.busy = self.over = self.waiting = 0;
	self.tid = 0;
	if (!old)
		return;
	/* The number may be another file's by now: programs close what they do not know. */
	if (fstat(shared_fd, &now) == 0 && now.st_dev == shared_stat.st_dev && now.st_ino == shared_stat.st_ino)
		close(shared_fd);
	new = map_new(&fd);
	if (new) {
		new->site_count = old->site_count;
		new->string_bytes = old->string_bytes;
		memcpy(sites_of(new), sites_of(old), new->site_count * sizeof(struct wickmark_site_entry));
		memcpy(strings_of(new), strings_of(old), new->string_bytes);
		find_recorder(old);
		new->recorder = old->recorder;
		new->lease_ns = old->lease_ns;
		new->enabled = old->enabled;
	}
	if (!new || mremap(new, WICKMARK_FILE_BYTES, WICKMARK_FILE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, old) == MAP_FAILED) {
		if (new)
			munmap(new, WICKMARK_FILE_BYTES);
		if (fd >= 0)
			close(fd);
		shared = NULL;
		shared_fd = -1;
		wickmark_switch = &switch_off;
	} else {
		shared_fd = fd;
		fstat(fd, &shared_stat);
		notify_recorder(fd);
	}
	errno = saved;
}

__attribute__((constructor)) static void begin(void)
{
	const char *name = secure_getenv("WICKMARK_RECORDER");
	wickmark_clock_is_tsc = tsc_is_steady();
	if (pthread_key_create(&thread_end, end_thread) != 0 ||
	    pthread_atfork(before_fork, after_fork_parent, after_fork_child) != 0)
		return;
	shared = map_new(&shared_fd);
	if (!shared)
		return;
	fstat(shared_fd, &shared_stat);
	size_t len = name ? strlen(name) : 0;
	if (len > 0 && len < sizeof(recorder.sun_path)) {
		set_recorder(name, len);
		notify_recorder(shared_fd);
	}
	wickmark_switch = &shared->enabled;
}

/* ---- texts and sites; all under the lock ---- */

static uint32_t *text_slot(const char *text, uint32_t len)
{
	uint32_t hash = 2166136261u;
	for (uint32_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)text[i]) * 16777619u;
	for (uint32_t at = hash;; at++) {
		uint32_t *slot = &texts[at % TEXT_SLOTS], have;
		if (!*slot)
			return slot;
		memcpy(&have, strings_of(shared) + *slot, sizeof(have));
		if (have == len && memcmp(strings_of(shared) + *slot + 4, text, len) == 0)
			return slot;
	}
}

static uint32_t add_text(const char *text, size_t size)
{
	uint32_t len = size < WICKMARK_STRING_MAX ? (uint32_t)size : WICKMARK_STRING_MAX, at = shared->string_bytes;
	if (len == 0)
		return 0;
	while (len < size && len > WICKMARK_STRING_MAX - 4 && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--; /* not within a character */
	uint32_t *slot = text_slot(text, len), bytes = (4 + len + 3) & ~3u;
	if (*slot)
		return *slot;
	if (bytes > WICKMARK_STRING_BYTES - at || text_count >= TEXT_SLOTS / 2) {
		COUNT(&shared->lost_strings);
		return 0;
	}
	memcpy(strings_of(shared) + at, &len, sizeof(len));
	memcpy(strings_of(shared) + at + 4, text, len);
	PUBLISH(&shared->string_bytes, at + bytes);
	*slot = at;
	text_count++;
	return at;
}

static uint32_t add_string(const char *text)
{
	return text ? add_text(text, strlen(text)) : 0;
}

static uint32_t register_site(struct wickmark_site *site)
{
	pthread_mutex_lock(&lock);
	uint32_t id = LOAD(&site->id), count = shared->site_count;
	if (!id && count < WICKMARK_SITES) {
		struct wickmark_site_entry *entry = &sites_of(shared)[count];
		entry->category = add_string(site->category);
		entry->name = add_string(site->name);
		entry->color = add_string(site->color);
		entry->unit = add_string(site->unit);
		entry->what = site->what;
		entry->field_count = 0;
		for (uint32_t i = 0; i < WICKMARK_FIELDS_MAX && site->fields[i].key; i++) {
			struct wickmark_site_field *field = &entry->fields[entry->field_count++];
			field->key = add_string(site->fields[i].key);
			field->label = add_string(site->fields[i].label);
			field->format = site->fields[i].format;
		}
		PUBLISH(&shared->site_count, count + 1);
		id = count + 1;
		PUBLISH(&site->id, id);
	}
	pthread_mutex_unlock(&lock);
	return id;
}

uint32_t wickmark_intern(const char *text)
{
	if (!shared || !text)
		return 0;
	self.busy++;
	pthread_mutex_lock(&lock);
	uint32_t id = add_string(text);
	pthread_mutex_unlock(&lock);
	self.busy--;
	return id;
}

/* ---- threads ---- */

/* Field 22 of /proc/thread-self/stat; the name in field 2 may hold anything. */
static uint64_t start_of_thread(void)
{
	char text[1024];
	read_small("/proc/thread-self/stat", text, sizeof(text));
	const char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static int32_t own_tid(void)
{
	if (!self.tid)
		self.tid = (int32_t)syscall(SYS_gettid);
	return self.tid;
}

static void write_name(struct wickmark_thread *thread)
{
	uint32_t changes = thread->name_changes;
	STORE(&thread->name_changes, changes | 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(thread->name, self.name, sizeof(thread->name));
	PUBLISH(&thread->name_changes, (changes | 1) + 1);
}

/* While nobody records, nobody frees the entries of threads that ended: one whose ring is empty is as good as free. */
static int takes(struct wickmark_thread *thread)
{
	uint32_t state = LOAD(&thread->state);
	if (state == WICKMARK_ENDED && (LOAD(&shared->enabled) || LOAD(&thread->head) != LOAD(&thread->tail)))
		return 0;
	return (state == WICKMARK_FREE || state == WICKMARK_ENDED) &&
	       __atomic_compare_exchange_n(&thread->state, &state, WICKMARK_CLAIMED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static struct wickmark_thread *find_free(void)
{
	for (uint32_t i = 0; i < WICKMARK_THREADS; i++) {
		struct wickmark_thread *thread = &threads_of(shared)[i];
		uint32_t count = LOAD(&shared->thread_count);
		if (!takes(thread))
			continue;
		while (count <= i && !__atomic_compare_exchange_n(&shared->thread_count, &count, i + 1, 0, __ATOMIC_RELEASE,
								  __ATOMIC_RELAXED))
			;
		return thread;
	}
	return NULL;
}

/* Gives this thread a ring; the first marker of a thread, or its name, which profilers show without markers too. */
static int claim(void)
{
	int saved = errno;
	if (self.waiting > 0) {
		self.waiting--;
		return 0;
	}
	struct wickmark_thread *thread = self.over ? NULL : find_free();
	if (!thread) {
		self.waiting = RETRY_AFTER;
		return 0;
	}
	if (!self.name[0])
		prctl(PR_GET_NAME, self.name);
	thread->tid = own_tid();
	thread->start = start_of_thread();
	thread->lost = 0;
	write_name(thread);
	self.ring = (struct wickmark_record *)((char *)shared + WICKMARK_AT_RINGS +
					       (size_t)(thread - threads_of(shared)) * WICKMARK_RING_BYTES);
	self.head = thread->head;
	self.tail = LOAD(&thread->tail);
	self.thread = thread;
	thread->generation++;
	PUBLISH(&thread->state, WICKMARK_ACTIVE);
	pthread_setspecific(thread_end, thread);
	errno = saved;
	return 1;
}

void wickmark_thread_name(const char *name)
{
	if (!shared || !name)
		return;
	size_t len = strlen(name);
	if (len >= sizeof(self.name))
		len = sizeof(self.name) - 1;
	while (len > sizeof(self.name) - 5 && ((unsigned char)name[len] & 0xc0) == 0x80)
		len--;
	self.busy++;
	memset(self.name, 0, sizeof(self.name));
	memcpy(self.name, name, len);
	if (self.thread)
		write_name(self.thread);
	else if (!self.over && name[0])
		claim();
	self.busy--;
}

/* ---- markers ---- */

/* A recorder that is gone no longer prolongs its lease. */
static void check_lease(void)
{
	if (monotonic_ns() > LOAD(&shared->lease_ns))
		STORE(&shared->enabled, 0);
}

/* The values behind the first, the flow and the name, each 8 bytes, into `more`. */
static uint32_t lay_out(const struct wickmark_details *details, uint32_t values, struct wickmark_record *record,
			uint64_t more[WICKMARK_FIELDS_MAX + 2])
{
	uint32_t count = 0;
	for (uint32_t i = 1; i < values; i++)
		more[count++] = details->values[i];
	if (details->flow) {
		record->flags |= (uint8_t)(WICKMARK_HAS_FLOW | (details->flow_ends ? WICKMARK_FLOW_ENDS : 0));
		more[count++] = details->flow;
	}
	if (details->name) {
		record->flags |= WICKMARK_HAS_NAME;
		more[count++] = details->name;
	}
	return count;
}

static void put(struct wickmark_record *record, const struct wickmark_details *details)
{
	uint64_t more[WICKMARK_FIELDS_MAX + 2];
	uint32_t extra = 0, records;
	if (details) {
		uint32_t values = details->value_count < WICKMARK_FIELDS_MAX ? details->value_count : WICKMARK_FIELDS_MAX;
		record->value_count = (uint8_t)values;
		record->value = values ? details->values[0] : 0;
		extra = lay_out(details, values, record, more);
	}
	record->more = (uint8_t)((extra + WICKMARK_VALUES_MORE - 1) / WICKMARK_VALUES_MORE);
	records = 1u + record->more;
	uint64_t head = self.head;
	if (__builtin_expect(head + records - self.tail > WICKMARK_RECORDS, 0)) {
		self.tail = __atomic_load_n(&self.thread->tail, __ATOMIC_ACQUIRE);
		/* A tail that is nowhere in the ring is no place to go by. */
		if (head - self.tail > WICKMARK_RECORDS || head + records - self.tail > WICKMARK_RECORDS) {
			STORE(&self.thread->lost, self.thread->lost + 1);
			check_lease();
			return;
		}
	}
	self.ring[head % WICKMARK_RECORDS] = *record;
	for (uint32_t i = 0; i < extra; i += WICKMARK_VALUES_MORE) {
		uint32_t n = extra - i < WICKMARK_VALUES_MORE ? extra - i : WICKMARK_VALUES_MORE;
		memcpy(&self.ring[(head + 1 + i / WICKMARK_VALUES_MORE) % WICKMARK_RECORDS], more + i, n * sizeof(*more));
	}
	self.head = head + records;
	PUBLISH(&self.thread->head, self.head);
	if (__builtin_expect((head & LEASE_CHECK_MASK) + records > LEASE_CHECK_MASK, 0))
		check_lease();
}

void wickmark_emit(struct wickmark_site *site, uint32_t kind, uint64_t time, uint64_t number,
		   const struct wickmark_details *details)
{
	if (__builtin_expect(!shared || !site, 0))
		return;
	if (__builtin_expect(self.busy, 0)) {
		if (self.thread)
			STORE(&self.thread->lost, self.thread->lost + 1);
		return;
	}
	self.busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	uint32_t id = __atomic_load_n(&site->id, __ATOMIC_ACQUIRE);
	if (__builtin_expect(!id, 0) && !(id = register_site(site))) {
		COUNT(&shared->lost_sites);
	} else if (__builtin_expect(!self.thread, 0) && !claim()) {
		COUNT(&shared->lost_threads);
	} else {
		struct wickmark_record record = {.time = time, .number = number, .site = (uint16_t)id, .kind = (uint8_t)kind};
		put(&record, details);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	self.busy = 0;
}

/* ---- long spans ---- */

uint32_t wickmark_long_begin(struct wickmark_site *site, const struct wickmark_details *details)
{
	uint32_t id;
	if (!shared || !site || self.busy)
		return 0;
	self.busy = 1;
	if (!(id = LOAD(&site->id)))
		id = register_site(site);
	uint32_t handle = 0;
	for (uint32_t i = 0; id && i < WICKMARK_LONGS && !handle; i++) {
		struct wickmark_long *entry = &longs_of(shared)[i];
		uint64_t none = 0;
		if (LOAD(&entry->start) ||
		    !__atomic_compare_exchange_n(&entry->start, &none, UINT64_MAX, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		entry->site = id;
		entry->name = details ? details->name : 0;
		entry->value = details && details->value_count ? details->values[0] : 0;
		entry->value_count = details && details->value_count;
		entry->tid = own_tid();
		uint32_t count = LOAD(&shared->long_count);
		while (count <= i &&
		       !__atomic_compare_exchange_n(&shared->long_count, &count, i + 1, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		PUBLISH(&entry->start, wickmark_now());
		handle = i + 1;
	}
	if (!handle)
		COUNT(&shared->lost_longs);
	self.busy = 0;
	return handle;
}

void wickmark_long_end(uint32_t handle)
{
	if (!shared || handle == 0 || handle > WICKMARK_LONGS)
		return;
	struct wickmark_long *entry = &longs_of(shared)[handle - 1];
	uint64_t start = LOAD(&entry->start), value = entry->value;
	uint32_t id = entry->site;
	struct wickmark_details details = {&value, entry->value_count, entry->name, 0, 0};
	if (!start || start == UINT64_MAX)
		return;
	PUBLISH(&entry->start, 0);
	if (!wickmark_on())
		return;
	struct wickmark_site site = {.id = id};
	wickmark_emit(&site, WICKMARK_KIND_SPAN, start, wickmark_now() - start, &details);
}

/* ---- for other languages ---- */

static int same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* A copy that lives as long as the process; in the shared strings, which end with no NUL, there is none to point at. */
static const char *keep(const char *text)
{
	return text ? strdup(text) : NULL;
}

static const char *const format_names[] = {"string", "integer", "decimal", "percentage", "duration", "bytes"};

/* "rows:integer,peer:string"; keys are cut out of a copy that stays. */
static int parse_fields(char *text, struct wickmark_field *fields)
{
	uint32_t count = 0;
	while (text && *text) {
		char *end = strchr(text, ','), *colon;
		if (end)
			*end++ = 0;
		colon = strchr(text, ':');
		if (!colon || colon == text || count == WICKMARK_FIELDS_MAX)
			return -1;
		*colon++ = 0;
		uint32_t format = 0, known = sizeof(format_names) / sizeof(format_names[0]);
		while (format < known && strcmp(format_names[format], colon) != 0)
			format++;
		if (format == known)
			return -1;
		fields[count].key = text;
		fields[count++].format = (enum wickmark_format)format;
		text = end;
	}
	return 0;
}

static int same_site(const struct wickmark_site *a, const struct wickmark_site *b)
{
	if (!same_text(a->category, b->category) || !same_text(a->name, b->name) || !same_text(a->unit, b->unit) ||
	    a->what != b->what)
		return 0;
	for (uint32_t i = 0; i < WICKMARK_FIELDS_MAX; i++)
		if (!same_text(a->fields[i].key, b->fields[i].key) || a->fields[i].format != b->fields[i].format)
			return 0;
	return 1;
}

/* wanted's fields point into `own`, which is freed unless the site is new. */
static struct wickmark_site *make_site(struct wickmark_site *wanted, char *own)
{
	struct wickmark_site *found = NULL;
	self.busy++;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < made_count && !found; i++)
		if (same_site(&made[i], wanted))
			found = &made[i];
	if (found) {
		free(own);
	} else if (made_count < SITES_MADE) {
		found = &made[made_count++];
		*found = *wanted;
		found->category = keep(wanted->category);
		found->name = keep(wanted->name);
		found->unit = keep(wanted->unit);
	} else {
		free(own);
	}
	pthread_mutex_unlock(&lock);
	self.busy--;
	return found;
}

struct wickmark_site *wickmark_site_new(const char *category, const char *name, const char *fields)
{
	struct wickmark_site wanted = {.category = category, .name = name};
	char *own = fields ? strdup(fields) : NULL;
	if ((fields && !own) || parse_fields(own, wanted.fields) < 0) {
		free(own);
		return NULL;
	}
	return make_site(&wanted, own);
}

struct wickmark_site *wickmark_counter_new(const char *category, const char *name, uint32_t what, const char *unit)
{
	struct wickmark_site wanted = {.category = category, .name = name, .what = what, .unit = unit};
	return make_site(&wanted, NULL);
}

int wickmark_is_on(void)
{
	return wickmark_on();
}

uint64_t wickmark_time(void)
{
	return wickmark_begin();
}

void wickmark_mark(struct wickmark_site *site, uint32_t kind, uint64_t number, const struct wickmark_details *details)
{
	if (!wickmark_on() || (kind == WICKMARK_KIND_SPAN && !number))
		return;
	uint64_t now = wickmark_now();
	if (kind == WICKMARK_KIND_SPAN) /* number: when it began */
		wickmark_emit(site, kind, number, now - number, details);
	else
		wickmark_emit(site, kind, now, number, details);
}
