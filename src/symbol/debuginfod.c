/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of debuginfod servers over libdebuginfod, which does HTTP and TLS, follows redirects, asks all servers at once and
 * keeps what it gets in a directory (debuginfod_cache.c). An HTTP client of our own would need none of the detours below, but
 * would have to learn TLS trust stores, proxies and the headers that servers expect of a client, and learn them again.
 *
 * What the library does and we have to live with (read in 0.188, Debian 12's):
 *
 *   - Its settings are environment variables, read anew in every call: DEBUGINFOD_URLS, _CACHE_PATH, _TIMEOUT, _MAXTIME,
 *     _MAXSIZE, _RETRY_LIMIT, _HEADERS_FILE; _VERBOSE and _PROGRESS when a client is made. setenv() is not safe beside getenv()
 *     of another thread, so debuginfod_new() sets them, once, and must be called before threads are started. There is one set
 *     of servers in a process. _MAXTIME, _HEADERS_FILE and _VERBOSE are the user's.
 *   - A retry goes on writing where the broken transfer stopped, which damages the file. So: _RETRY_LIMIT=0; whoever asks asks
 *     again.
 *   - A transfer that is cancelled, breaks off, or ends in any HTTP error but 406, is an -ENOENT like the honest 404, and
 *     leaves an empty file that says "there is none". Those that we can tell, because bytes had arrived or because we cancelled
 *     it, are made errors of their own, and their marks are removed. 5xx remains a miss.
 *   - It closes a descriptor twice: debuginfod_cache.c says how we keep it from that.
 *   - _TIMEOUT is a speed, 100 KiB in that time, and does not hold while connecting. The callback, which comes at least once a
 *     second, watches over progress.
 *   - _MAXSIZE costs 8 KiB of memory for good with every call, and lets pass what is compressed on the way or of unknown
 *     length. So it is not set: the callback looks at what is announced, and at the size of the file that is being written.
 *   - It returns what is in the cache, as long as it is not empty. Files are looked at before they are handed out, and those of
 *     another build-id are removed.
 *   - A client holds connections, which are worth keeping, and serves one thread at a time: a pool.
 *
 * Who answers last decides the code when there are several servers, so servers are taken as one: if none answers, nobody asks
 * for 1 s, then 2 s, up to 5 min, one thread trying at a time. Any answer ends that.
 *
 * What no server has is remembered in memory, bounded, for missing_ns, and in the library's marks, which survive a restart.
 * Two threads that want the same file share one transfer: the second waits and is served from the cache.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "symbol/debuginfod_int.h"

#define CACHE_BYTES_DEFAULT (4 * GIB)
#define FILE_BYTES_DEFAULT  (2 * GIB)
#define TIMEOUT_NS_DEFAULT  (30 * NS_PER_S)
#define MISSING_NS_DEFAULT  (55 * NS_PER_S) /* less than until a symbolizer looks again (SYMBOL_RETRY_NS_DEFAULT) */
#define BACKOFF_FIRST_NS    NS_PER_S
#define BACKOFF_MAX_NS	    (300 * NS_PER_S)
#define MISSES_MAX	    65536u
#define IDLE_CLIENTS_MAX    8u
#define MEASURE_NS	    (100 * NS_PER_MS) /* between looks at a file that is being written */
#define WAIT_NS		    (50 * NS_PER_MS)  /* between looks at `cancel`, for those who wait for another's transfer */
#define CLOCK_SLACK_NS	    (20 * NS_PER_MS)  /* times of files lag behind the clock by a tick */

/* ---- the library ---- */

typedef struct debuginfod_client debuginfod_client;
typedef int (*progress_function)(debuginfod_client *client, long a, long b);
struct library {
	debuginfod_client *(*begin)(void);
	void (*end)(debuginfod_client *client);
	int (*find_debuginfo)(debuginfod_client *client, const unsigned char *build_id, int build_id_len, char **path);
	int (*find_executable)(debuginfod_client *client, const unsigned char *build_id, int build_id_len, char **path);
	int (*find_source)(debuginfod_client *client, const unsigned char *build_id, int build_id_len, const char *filename,
			   char **path);
	void (*set_progressfn)(debuginfod_client *client, progress_function function);
	void (*set_user_data)(debuginfod_client *client, void *value);
	void *(*get_user_data)(debuginfod_client *client);
};

/* One in a process, as are its settings. */
static const char *library_name = DEBUGINFOD_LIBRARY;
static struct library library;
static bool library_missing;

void debuginfod_set_library(const char *name)
{
	library_name = name ? name : DEBUGINFOD_LIBRARY;
}

/* Never unloaded: the library registers things with libcurl that cannot be taken back. */
int debuginfod_load_library(struct error *err)
{
#ifdef WICK_STATIC
	library_missing = true;
	return error_set(err, -ENOSYS,
			 "debuginfod servers are configured but cannot be used: this wick is linked statically and loads no "
			 "libraries; use a package of your distribution, or unset DEBUGINFOD_URLS");
#endif
	void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		library_missing = true;
		return error_set(err, -ENOSYS,
				 "debuginfod servers are configured but cannot be used: %s; install the package "
				 "libdebuginfod1, or unset DEBUGINFOD_URLS",
				 dlerror());
	}
	const struct {
		const char *name;
		void **pointer;
	} symbols[] = {
		{"debuginfod_begin", (void **)&library.begin},
		{"debuginfod_end", (void **)&library.end},
		{"debuginfod_find_debuginfo", (void **)&library.find_debuginfo},
		{"debuginfod_find_executable", (void **)&library.find_executable},
		{"debuginfod_find_source", (void **)&library.find_source},
		{"debuginfod_set_progressfn", (void **)&library.set_progressfn},
		{"debuginfod_set_user_data", (void **)&library.set_user_data},
		{"debuginfod_get_user_data", (void **)&library.get_user_data},
	};
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		*symbols[i].pointer = dlsym(handle, symbols[i].name);
		if (!*symbols[i].pointer) {
			library_missing = true;
			return error_set(err, -ENOSYS, "%s has no %s; libdebuginfod1 0.178 or later is required", library_name,
					 symbols[i].name);
		}
	}
	library_missing = false;
	return 0;
}

static const char *const kind_names[] = {"debuginfo", "executable", "source"};

/* ---- state ---- */

struct flight {
	uint64_t key;
	struct flight *next;
};
struct debuginfod {
	uint64_t file_bytes_max, seed;
	int64_t timeout_ns, missing_ns, backoff_first_ns, backoff_max_ns;
	unsigned servers;

	pthread_mutex_t trim_lock; /* one thread cleans; taken before `lock` */
	pthread_mutex_t lock;	   /* everything below; never held during I/O */
	pthread_cond_t landed;	   /* a flight is over */
	struct debuginfod_cache cache;
	struct flight *flights; /* on the stacks of those who fetch */
	struct map64 misses;	/* key -> monotonic ns until which it counts, times four, plus enum miss */
	int64_t quiet_until_ns; /* monotonic: nobody is asked before */
	int64_t backoff_ns;	/* the last pause; 0 = servers answer */
	bool probing;		/* somebody finds out whether they answer again */
	debuginfod_client *idle[IDLE_CLIENTS_MAX];
	size_t idle_count;
	struct debuginfod_stats stats;
};

/* ---- making one ---- */

static int configure_library(const struct debuginfod *d, const char *urls, struct error *err)
{
	char timeout[32];
	snprintf(timeout, sizeof(timeout), "%lld", (long long)((d->timeout_ns + NS_PER_S - 1) / NS_PER_S));
	unsetenv("DEBUGINFOD_MAXSIZE");
	unsetenv("DEBUGINFOD_PROGRESS");
	if (setenv("DEBUGINFOD_URLS", urls, 1) < 0 || setenv("DEBUGINFOD_CACHE_PATH", d->cache.directory, 1) < 0 ||
	    setenv("DEBUGINFOD_TIMEOUT", timeout, 1) < 0 || setenv("DEBUGINFOD_RETRY_LIMIT", "0", 1) < 0)
		return error_nomem(err);
	return 0;
}

static unsigned count_words(const char *text)
{
	unsigned n = 0;
	while (*(text += strspn(text, " "))) {
		text += strcspn(text, " ");
		n++;
	}
	return n;
}

static int64_t or_default(int64_t value, int64_t fallback)
{
	return value > 0 ? value : fallback;
}

int debuginfod_new(const struct debuginfod_options *options, struct debuginfod **ret, struct error *err)
{
	const char *urls = options->urls ? options->urls : getenv("DEBUGINFOD_URLS");
	unsigned servers = urls ? count_words(urls) : 0;
	if (servers == 0) {
		*ret = NULL;
		return 0;
	}
	if (!options->directory)
		return error_set(err, -EINVAL, "debuginfod: a cache directory is required");
	_cleanup_(debuginfod_freep) struct debuginfod *d = mem_zalloc(sizeof(*d));
	if (!d)
		return error_nomem(err);
	d->cache.lock_fd = -1;
	d->servers = servers;
	d->file_bytes_max = options->file_bytes_max ? options->file_bytes_max : FILE_BYTES_DEFAULT;
	d->timeout_ns = or_default(options->timeout_ns, TIMEOUT_NS_DEFAULT);
	d->missing_ns = or_default(options->missing_ns, MISSING_NS_DEFAULT);
	debuginfod_set_backoff(d, BACKOFF_FIRST_NS, BACKOFF_MAX_NS);
	pthread_mutex_init(&d->trim_lock, NULL);
	pthread_mutex_init(&d->lock, NULL);
	thread_condition_init(&d->landed);
	if (getrandom(&d->seed, sizeof(d->seed), GRND_NONBLOCK) != sizeof(d->seed))
		d->seed = (uint64_t)time_now_ns();
	int r = debuginfod_load_library(err);
	if (r == 0)
		r = debuginfod_cache_open(&d->cache, options->directory,
					  options->bytes_max ? options->bytes_max : CACHE_BYTES_DEFAULT, d->missing_ns, err);
	if (r == 0)
		r = configure_library(d, urls, err);
	if (r < 0)
		return r;
	*ret = TAKE(d);
	return 0;
}

struct debuginfod *debuginfod_free(struct debuginfod *d)
{
	if (!d)
		return NULL;
	for (size_t i = 0; i < d->idle_count; i++)
		library.end(d->idle[i]);
	debuginfod_cache_close(&d->cache);
	map64_release(&d->misses);
	pthread_cond_destroy(&d->landed);
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->trim_lock);
	return mem_free(d);
}

void debuginfod_set_backoff(struct debuginfod *d, int64_t first_ns, int64_t max_ns)
{
	d->backoff_first_ns = first_ns;
	d->backoff_max_ns = max_ns;
}

/* ---- one file ---- */

enum transfer_end { END_BY_LIBRARY, END_CANCELLED, END_TOO_LARGE, END_STALLED };
struct transfer {
	struct debuginfod *debuginfod;
	enum debuginfod_kind kind;
	const char *build_id, *path;
	uint64_t key;
	const atomic_bool *cancel;

	bool asked;	  /* servers, not only the cache */
	bool arrived;	  /* bytes of the file */
	size_t forgotten; /* marks of misses that were removed because they had become too old */
	enum transfer_end end;
	uint64_t bytes;
	int64_t progress_ns, measured_ns;
};

static const char *kind_name(const struct transfer *t)
{
	return kind_names[t->kind];
}

/* The library's callback: a value other than 0 ends the transfer. `announced`: the size of a file that has begun to arrive. */
static int on_progress(debuginfod_client *client, long done, long announced)
{
	struct transfer *t = library.get_user_data(client);
	int64_t now = time_monotonic_ns();
	t->asked = true;
	t->arrived |= announced > 0;
	if (now - t->measured_ns >= MEASURE_NS) {
		uint64_t bytes = debuginfod_cache_unfinished(&t->debuginfod->cache, t->build_id, kind_name(t));
		if (bytes != t->bytes)
			t->progress_ns = now;
		t->bytes = bytes;
		t->arrived |= bytes > 0;
		t->measured_ns = now;
	}
	if (cancel_requested(t->cancel))
		t->end = END_CANCELLED;
	else if (t->bytes > t->debuginfod->file_bytes_max ||
		 (announced > 0 && (uint64_t)announced > t->debuginfod->file_bytes_max))
		t->end = END_TOO_LARGE;
	else if (now - t->progress_ns > t->debuginfod->timeout_ns)
		t->end = END_STALLED;
	return t->end != END_BY_LIBRARY;
}

/* Asks the library: a descriptor or its negative errno. */
static int call_library(struct transfer *t, debuginfod_client *client)
{
	const unsigned char *build_id = (const unsigned char *)t->build_id;
	t->progress_ns = t->measured_ns = time_monotonic_ns();
	library.set_user_data(client, t);
	library.set_progressfn(client, on_progress);
	switch (t->kind) {
	case DEBUGINFOD_EXECUTABLE: return library.find_executable(client, build_id, 0, NULL);
	case DEBUGINFOD_SOURCE: return library.find_source(client, build_id, 0, t->path, NULL);
	default: return library.find_debuginfo(client, build_id, 0, NULL);
	}
}

static debuginfod_client *take_client(struct debuginfod *d)
{
	pthread_mutex_lock(&d->lock);
	debuginfod_client *client = d->idle_count > 0 ? d->idle[--d->idle_count] : NULL;
	pthread_mutex_unlock(&d->lock);
	return client ? client : library.begin();
}

static void give_client(struct debuginfod *d, debuginfod_client *client)
{
	pthread_mutex_lock(&d->lock);
	bool kept = d->idle_count < IDLE_CLIENTS_MAX;
	if (kept)
		d->idle[d->idle_count++] = client;
	pthread_mutex_unlock(&d->lock);
	if (!kept)
		library.end(client);
}

static int missing(const struct transfer *t, struct error *err)
{
	return error_set(err, -ENOENT, "no debuginfod server has the %s of build-id %s%s%s", kind_name(t), t->build_id,
			 t->path ? ": " : "", t->path ? t->path : "");
}

static int too_large(const struct transfer *t, struct error *err)
{
	char text[TEXT_NUMBER_MAX];
	return error_set(err, -E2BIG, "debuginfod: the %s of build-id %s is larger than the limit of %s", kind_name(t),
			 t->build_id, text_format_size(t->debuginfod->file_bytes_max, text));
}

/* What the library's error means. Local errors are reported as they are; all others mean that no server responded. */
static int classify_error(const struct transfer *t, int code, struct error *err)
{
	if (t->end == END_CANCELLED)
		return error_set(err, -ECANCELED, "debuginfod: cancelled while fetching the %s of build-id %s", kind_name(t),
				 t->build_id);
	if (t->end == END_TOO_LARGE || code == -EFBIG)
		return too_large(t, err);
	if (t->end == END_STALLED)
		return error_set(err, -EHOSTUNREACH, "debuginfod: no progress for %lld s",
				 (long long)(t->debuginfod->timeout_ns / NS_PER_S));
	switch (code) {
	case -ENOENT:
		if (!t->arrived)
			return missing(t, err);
		return error_set(err, -EHOSTUNREACH, "debuginfod: the transfer of the %s of build-id %s was interrupted",
				 kind_name(t), t->build_id);
	case -ENAMETOOLONG:
	case -EINVAL: return missing(t, err); /* a path, build-id or URL that cannot be asked for */
	case -ENOMEM: return error_nomem(err);
	case -EIO:
	case -ENOSPC:
	case -EDQUOT:
	case -EACCES:
	case -EROFS:
	case -EMFILE:
	case -ENFILE: return error_set_errno(err, code, "debuginfod: cannot write to %s", t->debuginfod->cache.directory);
	default:
		error_set_errno(err, code, "debuginfod: no server responds");
		if (err)
			err->code = -EHOSTUNREACH;
		return -EHOSTUNREACH;
	}
}

static int wrong_answer(const struct transfer *t, const char *what, struct error *err)
{
	return error_set(err, -EBADMSG, "debuginfod: a server sent %s as the %s of build-id %s", what, kind_name(t),
			 t->build_id);
}

/* What a file is that is not the one asked for, for people. */
static void describe_wrong_file(int fd, const char *build_id, char *ret, size_t size)
{
	char text[256] = "";
	ssize_t len = io_pread(fd, text, sizeof(text) - 1, 0, "", NULL);
	const char *at = text + strspn(text, " \t\r\n");
	if (len < 0)
		snprintf(ret, size, "a file that cannot be read");
	else if (strncasecmp(at, "<!doctype html", 14) == 0 || strncasecmp(at, "<html", 5) == 0)
		snprintf(ret, size, "an HTML page");
	else if (len < SELFMAG || memcmp(text, ELFMAG, SELFMAG) != 0)
		snprintf(ret, size, "what is not an ELF file");
	else if (build_id[0])
		snprintf(ret, size, "a file of build-id %.128s", build_id);
	else
		snprintf(ret, size, "an ELF file without a build-id");
}

/* Is it what was asked for? Sources may be anything. A small file arrives whole before the callback can refuse it. */
static int check_file(const struct transfer *t, int fd, struct error *err)
{
	char build_id[BUILD_ID_HEX_MAX] = "", what[192];
	uint64_t size;
	if (io_file_size(fd, &size, kind_name(t), NULL) == 0 && size > t->debuginfod->file_bytes_max) {
		debuginfod_cache_remove(&t->debuginfod->cache, t->build_id, kind_name(t));
		return too_large(t, err);
	}
	if (t->kind == DEBUGINFOD_SOURCE)
		return 0;
	int r = build_id_read_fd(fd, build_id, NULL);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r == 0 && strcmp(build_id, t->build_id) == 0)
		return 0;
	describe_wrong_file(fd, r == 0 ? build_id : "", what, sizeof(what));
	debuginfod_cache_remove(&t->debuginfod->cache, t->build_id, kind_name(t));
	return wrong_answer(t, what, err);
}

/* Takes the descriptor over. */
static int accept_file(const struct transfer *t, int file, int *ret_fd, struct error *err)
{
	_cleanup_(fd_closep) int fd = file;
	int r = check_file(t, fd, err);
	if (r < 0)
		return r;
	/* When it was last used: the limit goes by that. */
	futimens(fd, (const struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}});
	*ret_fd = fd_take(&fd);
	return 0;
}

/* What is there is given out while no server answers, too. Sources are found by the library alone, which names them. */
static bool open_cached(const struct transfer *t, int *ret_fd)
{
	if (t->kind == DEBUGINFOD_SOURCE)
		return false;
	int fd = debuginfod_cache_get(&t->debuginfod->cache, t->build_id, kind_name(t));
	return fd >= 0 && accept_file(t, fd, ret_fd, NULL) == 0;
}

/* Cache or servers; the marks that the library left for the wrong reasons are removed. */
static int transfer_file(struct transfer *t, int *ret_fd, struct error *err)
{
	struct debuginfod *d = t->debuginfod;
	int64_t begun_ns = time_now_ns();
	int r = debuginfod_cache_prepare(&d->cache, err);
	if (r < 0)
		return r;
	t->forgotten = debuginfod_cache_forget(&d->cache, t->build_id, kind_name(t), 0, begun_ns - d->missing_ns);
	debuginfod_client *client = take_client(d);
	if (!client)
		return error_nomem(err);
	r = call_library(t, client);
	give_client(d, client);
	if (r >= 0)
		return accept_file(t, r, ret_fd, err);
	r = classify_error(t, r, err);
	if (r != -ENOENT)
		debuginfod_cache_forget(&d->cache, t->build_id, kind_name(t), begun_ns - CLOCK_SLACK_NS, INT64_MAX);
	return r;
}

/* ---- what is remembered ---- */

enum miss { MISS_ABSENT, MISS_TOO_LARGE, MISS_WRONG };

static uint64_t key_of(const struct debuginfod *d, enum debuginfod_kind kind, const char *build_id, const char *path)
{
	uint64_t key = hash64_seed(build_id, strlen(build_id), d->seed + (uint64_t)kind);
	return path ? hash64_seed(path, strlen(path), key) : key;
}

/* The lock is held. Which of them are forgotten when there are too many matters little: they are asked for again. */
static void remember_miss(struct debuginfod *d, uint64_t key, int result)
{
	enum miss why = result == -E2BIG ? MISS_TOO_LARGE : result == -EBADMSG ? MISS_WRONG : MISS_ABSENT;
	if (d->misses.count >= MISSES_MAX)
		map64_clear(&d->misses);
	map64_put(&d->misses, key, (uint64_t)(time_monotonic_ns() + d->missing_ns) * 4 + why);
}

static bool is_missing(struct debuginfod *d, uint64_t key, enum miss *ret_why)
{
	uint64_t value;
	if (!map64_get(&d->misses, key, &value))
		return false;
	if ((int64_t)(value / 4) <= time_monotonic_ns()) {
		map64_remove(&d->misses, key);
		return false;
	}
	*ret_why = (enum miss)(value % 4);
	return true;
}

/* The lock is held. Somebody may have emptied the directory, and then they are not counted any more. */
static void uncount_marks(struct debuginfod *d, size_t count)
{
	uint64_t bytes = (uint64_t)count * DEBUGINFOD_CACHE_FILE_COST;
	d->cache.bytes -= bytes < d->cache.bytes ? bytes : d->cache.bytes;
}

void debuginfod_forget(struct debuginfod *d, const char *build_id)
{
	if (!d || !build_id_is_valid(build_id))
		return;
	pthread_mutex_lock(&d->lock);
	for (size_t kind = 0; kind < DEBUGINFOD_SOURCE; kind++)
		map64_remove(&d->misses, key_of(d, (enum debuginfod_kind)kind, build_id, NULL));
	d->quiet_until_ns = 0;
	pthread_mutex_unlock(&d->lock);
	size_t forgotten = debuginfod_cache_forget(&d->cache, build_id, "", 0, INT64_MAX);
	pthread_mutex_lock(&d->lock);
	uncount_marks(d, forgotten);
	pthread_mutex_unlock(&d->lock);
}

/* ---- who may ask, and what became of it ---- */

static bool is_flying(const struct debuginfod *d, uint64_t key)
{
	for (const struct flight *f = d->flights; f; f = f->next)
		if (f->key == key)
			return true;
	return false;
}

/* 0: this thread fetches, its flight is listed. Otherwise the answer. The lock is held. */
static int take_off(struct transfer *t, struct flight *flight, struct error *err)
{
	struct debuginfod *d = t->debuginfod;
	enum miss why;
	while (is_flying(d, t->key)) {
		if (cancel_requested(t->cancel))
			return error_set(err, -ECANCELED, "debuginfod: cancelled while waiting for the %s of build-id %s",
					 kind_name(t), t->build_id);
		thread_wait_until(&d->landed, &d->lock, time_monotonic_ns() + WAIT_NS);
	}
	if (is_missing(d, t->key, &why)) {
		d->stats.missing_cached++;
		return why == MISS_TOO_LARGE ? too_large(t, err)
		       : why == MISS_WRONG   ? wrong_answer(t, "a wrong file", err)
					     : missing(t, err);
	}
	int64_t now = time_monotonic_ns();
	if (d->backoff_ns > 0 && (d->probing || now < d->quiet_until_ns)) {
		return error_set(err, -EHOSTUNREACH, "debuginfod: no server responded; the next attempt is in %lld s",
				 (long long)((d->quiet_until_ns > now ? d->quiet_until_ns - now : 0) / NS_PER_S + 1));
	}
	d->probing = d->backoff_ns > 0;
	*flight = (struct flight){.key = t->key, .next = d->flights};
	d->flights = flight;
	return 0;
}

static void count_found(struct debuginfod *d, const struct transfer *t, int fd)
{
	uint64_t size = 0;
	if (!t->asked) {
		d->stats.cache_hits++;
		return;
	}
	io_file_size(fd, &size, "", NULL);
	d->stats.found++;
	d->stats.bytes_fetched += size;
	d->cache.bytes += size + DEBUGINFOD_CACHE_FILE_COST;
}

static void count_missing(struct debuginfod *d, const struct transfer *t)
{
	if (!t->asked) {
		d->stats.missing_cached++;
		return;
	}
	d->stats.missing++;
	d->cache.bytes += DEBUGINFOD_CACHE_FILE_COST; /* the library's mark */
}

static void back_off(struct debuginfod *d, int64_t begun_ns)
{
	d->stats.failures++;
	/* One failure of several at the same time is one. */
	if (begun_ns < d->quiet_until_ns - d->backoff_ns)
		return;
	int64_t next = d->backoff_ns > 0 ? d->backoff_ns * 2 : d->backoff_first_ns;
	d->backoff_ns = next < d->backoff_max_ns ? next : d->backoff_max_ns;
	d->quiet_until_ns = time_monotonic_ns() + d->backoff_ns;
}

/* The flight is over; the lock is held. True when the cache has outgrown its limit. */
static bool land(const struct transfer *t, struct flight *flight, int result, int fd, int64_t begun_ns)
{
	struct debuginfod *d = t->debuginfod;
	struct flight **link = &d->flights;
	while (*link != flight)
		link = &(*link)->next;
	*link = flight->next;
	d->probing = false;
	d->stats.ns_total += (uint64_t)(time_monotonic_ns() - begun_ns);
	d->stats.requests += t->asked;
	uncount_marks(d, t->forgotten);
	if (result == 0)
		count_found(d, t, fd);
	else if (result == -ENOENT || result == -EBADMSG)
		count_missing(d, t);
	else if (result == -EHOSTUNREACH)
		back_off(d, begun_ns);
	else if (result != -ECANCELED)
		d->stats.failures++;
	/* The cache's own marks last as long as ours would. */
	if (t->asked && (result == -ENOENT || result == -E2BIG || result == -EBADMSG))
		remember_miss(d, t->key, result);
	if (t->asked && (result == 0 || result == -ENOENT || result == -E2BIG || result == -EBADMSG))
		d->backoff_ns = d->quiet_until_ns = 0;
	pthread_cond_broadcast(&d->landed);
	return d->cache.bytes > d->cache.bytes_max;
}

static void trim_cache(struct debuginfod *d)
{
	if (pthread_mutex_trylock(&d->trim_lock) != 0)
		return;
	struct debuginfod_cache counted = d->cache;
	if (debuginfod_cache_trim(&counted, NULL) == 0) {
		pthread_mutex_lock(&d->lock);
		d->cache.bytes = counted.bytes;
		pthread_mutex_unlock(&d->lock);
	}
	pthread_mutex_unlock(&d->trim_lock);
}

int debuginfod_fetch(struct debuginfod *d, enum debuginfod_kind kind, const char *build_id, const char *path,
		     const atomic_bool *cancel, int *ret_fd, bool *ret_cached, struct error *err)
{
	bool cached = true;
	struct transfer t = {.debuginfod = d, .kind = kind, .build_id = build_id, .path = path, .cancel = cancel};
	struct flight flight;
	if (!d)
		return error_set(err, -ENOENT, "no debuginfod server is configured");
	if (!build_id_is_valid(build_id) || (kind == DEBUGINFOD_SOURCE && (!path || path[0] != '/')))
		return missing(&t, err);
	if (kind != DEBUGINFOD_SOURCE)
		t.path = NULL;
	t.key = key_of(d, kind, build_id, t.path);
	bool found = open_cached(&t, ret_fd);
	pthread_mutex_lock(&d->lock);
	d->stats.cache_hits += found;
	int r = found ? 0 : take_off(&t, &flight, err);
	pthread_mutex_unlock(&d->lock);
	if (r == 0 && !found) {
		int fd = -1;
		int64_t begun_ns = time_monotonic_ns();
		r = transfer_file(&t, &fd, err);
		pthread_mutex_lock(&d->lock);
		bool full = land(&t, &flight, r, fd, begun_ns);
		pthread_mutex_unlock(&d->lock);
		if (full)
			trim_cache(d);
		cached = !t.asked;
		if (r == 0)
			*ret_fd = fd;
	}
	if (ret_cached)
		*ret_cached = cached;
	return r;
}

void debuginfod_get_stats(struct debuginfod *d, struct debuginfod_stats *ret)
{
	*ret = (struct debuginfod_stats){.library_missing = library_missing};
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	*ret = d->stats;
	ret->library_missing = library_missing;
	ret->servers = d->servers;
	ret->cache_bytes = d->cache.bytes;
	pthread_mutex_unlock(&d->lock);
}
