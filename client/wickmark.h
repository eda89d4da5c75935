/* SPDX-License-Identifier: MIT */
/*
 * Markers: what a program is doing, on the time line of a profile that `wick record` makes.
 *
 *     static struct wickmark_site step = WICKMARK_SITE("Engine", "step", {"rows", "Rows", WICKMARK_INTEGER});
 *     ...
 *     uint64_t begun = wickmark_begin();
 *     uint64_t rows = run_step();
 *     wickmark_end(&step, begun, WICKMARK_VALUES(wickmark_integer(rows)));
 *
 * Markers are on while somebody records the process, and cost a load and a branch while nobody does. A marker is 32 bytes in a
 * ring of its thread in shared memory: no system call, no allocation, no lock. If the recorder does not keep up markers are
 * dropped, and the recording says how many.
 *
 * All functions may be called from any thread at any time, also when the library could not set itself up (no memfd, a file size
 * limit): they do nothing then. In a signal handler a marker may be dropped, and nothing that takes a text may be called. A
 * child made by fork() has markers of its own; vfork() and exec need nothing. Texts are UTF-8 of up to 4096 bytes; what is
 * longer is cut. Linux only; other systems compile to nothing that does anything.
 */
#ifndef WICKMARK_H
#define WICKMARK_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* How a value is shown; the numbers are part of the ABI. */
enum wickmark_format {
	WICKMARK_STRING = 0, /* from wickmark_intern() */
	WICKMARK_INTEGER = 1,
	WICKMARK_DECIMAL = 2,
	WICKMARK_PERCENTAGE = 3, /* 1.0 = 100 % */
	WICKMARK_DURATION = 4,	 /* nanoseconds, as an integer */
	WICKMARK_BYTES = 5,	 /* as an integer */
};

enum wickmark_what {
	WICKMARK_MARKERS = 0,
	WICKMARK_COUNTER_LEVEL = 1,  /* how much there is */
	WICKMARK_COUNTER_EVENTS = 2, /* how many there were since the value before */
};

struct wickmark_field {
	const char *key, *label; /* label: for people; NULL = the key */
	enum wickmark_format format;
};
#define WICKMARK_FIELDS_MAX 13

/* A place that makes markers. Static: it must outlive its last marker. Members are the library's business but for the first
 * ones. */
struct wickmark_site {
	const char *category, *name;
	struct wickmark_field fields[WICKMARK_FIELDS_MAX]; /* up to the first without a key */
	uint32_t what;					   /* enum wickmark_what */
	const char *unit, *color;			   /* of a counter: "bytes"; NULL = none */
	uint32_t id;
};
#define WICKMARK_SITE(category, name, ...)                                                                                     \
	{                                                                                                                      \
		category, name, {__VA_ARGS__}, WICKMARK_MARKERS, NULL, NULL, 0                                                 \
	}
#define WICKMARK_COUNTER(category, name, what, unit)                                                                           \
	{                                                                                                                      \
		category, name, {{NULL, NULL, WICKMARK_STRING}}, what, unit, NULL, 0                                           \
	}

/* What else a marker carries; NULL = nothing, and all zero is nothing, too. */
struct wickmark_details {
	const uint64_t *values; /* of the site's fields, in their order */
	uint32_t value_count;
	uint32_t name; /* from wickmark_intern(), instead of the site's; 0 = the site's */
	uint64_t flow; /* markers of one flow belong together, of whatever threads, processes and hosts; 0 = none */
	uint32_t flow_ends;
};
/* A details of values alone, for the last argument of the functions below. */
#ifndef __cplusplus
#define WICKMARK_VALUES(...)                                                                                                   \
	(&(struct wickmark_details){.values = (const uint64_t[]){__VA_ARGS__},                                                 \
				    .value_count = sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)})
#endif
static inline uint64_t wickmark_integer(int64_t value)
{
	return (uint64_t)value;
}
static inline uint64_t wickmark_decimal(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}
static inline uint64_t wickmark_text(uint32_t interned)
{
	return interned;
}

/* Private to the functions below. */
extern const uint32_t *wickmark_switch;
uint64_t wickmark_clock_slow(void);
extern uint32_t wickmark_clock_is_tsc;
void wickmark_emit(struct wickmark_site *site, uint32_t kind, uint64_t time, uint64_t number,
		   const struct wickmark_details *details);

/* Whether somebody records. */
static inline int wickmark_on(void)
{
	return (int)__builtin_expect(__atomic_load_n(wickmark_switch, __ATOMIC_RELAXED) != 0, 0);
}

/* Now, in ticks of a clock that is the library's choice. */
static inline uint64_t wickmark_now(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(wickmark_clock_is_tsc != 0, 1))
		return __builtin_ia32_rdtsc();
#endif
	return wickmark_clock_slow();
}

/* A span: the time between the two on one thread; spans nest. begin returns 0 when off, and end does nothing with that. */
static inline uint64_t wickmark_begin(void)
{
	return wickmark_on() ? wickmark_now() : 0;
}
static inline void wickmark_end(struct wickmark_site *site, uint64_t begun, const struct wickmark_details *details)
{
	if (__builtin_expect(begun != 0, 0))
		wickmark_emit(site, 2, begun, wickmark_now() - begun, details);
}

/* A moment. */
static inline void wickmark_instant(struct wickmark_site *site, const struct wickmark_details *details)
{
	if (wickmark_on())
		wickmark_emit(site, 1, wickmark_now(), 0, details);
}

/* A span that may end on another thread, or overlap with others: the two find each other by site and id. Number them: threads
 * are read one after the other, so of an id that is soon used again, as addresses are, the ends may stay apart. */
static inline void wickmark_async_begin(struct wickmark_site *site, uint64_t id, const struct wickmark_details *details)
{
	if (wickmark_on())
		wickmark_emit(site, 3, wickmark_now(), id, details);
}
static inline void wickmark_async_end(struct wickmark_site *site, uint64_t id, const struct wickmark_details *details)
{
	if (wickmark_on())
		wickmark_emit(site, 4, wickmark_now(), id, details);
}

/* A value of a counter, at this time; the site is a WICKMARK_COUNTER(). */
static inline void wickmark_count(struct wickmark_site *site, double value)
{
	if (wickmark_on()) {
		uint64_t bits = wickmark_decimal(value);
		struct wickmark_details details = {&bits, 1, 0, 0, 0};
		wickmark_emit(site, 5, wickmark_now(), 0, &details);
	}
}

/* A span that is known also while it lasts, and also if it began before anybody recorded: a connection, a job, a phase. Costs
 * some ten nanoseconds when off. There is room for 1024 at a time; 0 = there was none. details: only name and the first value.
 */
uint32_t wickmark_long_begin(struct wickmark_site *site, const struct wickmark_details *details);
void wickmark_long_end(uint32_t handle);

/* A text for details.name and wickmark_text(). Takes a lock; the same text is stored once, 1 MiB in all. 0 = no room. */
uint32_t wickmark_intern(const char *text);

/* The full name of this thread: the kernel keeps 15 bytes. */
void wickmark_thread_name(const char *name);

/* For other languages: a site made at run time, that lives as long as the process, of which there can be 2048 in all. fields:
 * "rows:integer,peer:string" or NULL; formats are those of enum wickmark_format in lower case. Equal ones are one. NULL = no
 * room, or fields is not of that form. */
struct wickmark_site *wickmark_site_new(const char *category, const char *name, const char *fields);
struct wickmark_site *wickmark_counter_new(const char *category, const char *name, uint32_t what, const char *unit);
/* The inline functions above as functions. */
int wickmark_is_on(void);
uint64_t wickmark_time(void); /* wickmark_begin() */
void wickmark_mark(struct wickmark_site *site, uint32_t kind, uint64_t number, const struct wickmark_details *details);

#pragma GCC visibility pop
#ifdef __cplusplus
}
/* A span of the scope: { wickmark_scope span(&site); ... } */
struct wickmark_scope {
	struct wickmark_site *site;
	uint64_t begun;
	explicit wickmark_scope(struct wickmark_site *of) : site(of), begun(wickmark_begin())
	{
	}
	~wickmark_scope()
	{
		wickmark_end(site, begun, nullptr);
	}
	wickmark_scope(const wickmark_scope &) = delete;
	wickmark_scope &operator=(const wickmark_scope &) = delete;
};
#endif

#endif
