/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes markers of every kind, for tests; the first argument says what it does:
 *
 *   all          waits until somebody records, then makes some of each kind and ends
 *   spin MS      spans for that long, whether or not somebody records
 *   flood N      N instants as fast as it goes
 *   pour N       N instants, a thousand each 20 ms, which a collector keeps up with
 *   each N       N of each kind in 100 rounds of 30 ms, which a recorder keeps up with for N up to 10,000,
 *                though it gets no CPU for a third of a second
 *   threads N    N threads one after the other, with names, each with a span
 *   fork N       N children, each with a span
 *   exec N       execs itself N times, with a span before each
 *   kill         spans until it is killed by its own hand, after a hundred
 *   killed N     N children, 64 at a time, that are killed by their own hand after ten spans each
 *   killed-programs N  the same after an exec
 *   workers N    N threads with names, each with spans and instants that carry its thread id, until they are
 *                killed
 *   long         a span that is under way at the end, which it prints that it has begun; waits for a byte on its input
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wickmark.h"

static struct wickmark_site step =
	WICKMARK_SITE("Engine", "step", {"rows", "Rows", WICKMARK_INTEGER}, {"peer", NULL, WICKMARK_STRING},
		      {"share", "Share", WICKMARK_PERCENTAGE}, {"took", NULL, WICKMARK_DURATION},
		      {"size", NULL, WICKMARK_BYTES}, {"ratio", NULL, WICKMARK_DECIMAL});
static struct wickmark_site inner = WICKMARK_SITE("Engine", "inner", {NULL, NULL, WICKMARK_STRING});
static struct wickmark_site tick = WICKMARK_SITE("Clock", "tick", {"number", NULL, WICKMARK_INTEGER});
static struct wickmark_site request = WICKMARK_SITE("Net", "request", {"id", NULL, WICKMARK_INTEGER});
static struct wickmark_site job = WICKMARK_SITE("Jobs", "job", {"id", NULL, WICKMARK_INTEGER});
static struct wickmark_site queue = WICKMARK_COUNTER("Queue", "queued", WICKMARK_COUNTER_LEVEL, "count");

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* MARKER_RECORDER_WAIT_MS is for who expects none. */
static int wait_for_recorder(void)
{
	const char *text = getenv("MARKS_WAIT_MS");
	long wait_ms = text ? strtol(text, NULL, 10) : 120000;
	for (long ms = 0; ms < wait_ms && !wickmark_on(); ms += 10)
		sleep_ms(10);
	return wickmark_on();
}

static volatile unsigned long sink;
static void work(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i * i;
}

static void *answer(void *argument)
{
	wickmark_thread_name("a thread with a name of more than fifteen bytes");
	wickmark_instant(&tick, &(struct wickmark_details){.flow = 42, .flow_ends = 1});
	wickmark_async_end(&request, 7, NULL);
	return argument;
}

static void one_of_each(void)
{
	pthread_t thread;
	uint64_t outer = wickmark_begin(), within = wickmark_begin();
	work(100000);
	wickmark_end(&inner, within, NULL);
	uint64_t values[] = {wickmark_integer(-5),   wickmark_text(wickmark_intern("nëighbour")),
			     wickmark_decimal(0.25), wickmark_integer(1500000),
			     wickmark_integer(4096), wickmark_decimal(1.5)};
	wickmark_end(&step, outer,
		     &(struct wickmark_details){
			     .values = values, .value_count = 6, .name = wickmark_intern("named step"), .flow = 42});
	wickmark_instant(&tick, WICKMARK_VALUES(wickmark_integer(3)));
	wickmark_async_begin(&request, 7, WICKMARK_VALUES(wickmark_integer(7)));
	if (pthread_create(&thread, NULL, answer, NULL) == 0)
		pthread_join(thread, NULL);
	for (int i = 0; i < 10; i++) {
		wickmark_count(&queue, i * i);
		sleep_ms(2);
	}
	uint32_t handle = wickmark_long_begin(&job, WICKMARK_VALUES(wickmark_integer(11)));
	work(1000000);
	wickmark_long_end(handle);
}

/* As many system calls and allocations of its own for any N: they stand outside of the inner loop. */
static void many_of_each(long count)
{
	uint32_t text = wickmark_intern("a text"), name = wickmark_intern("a name");
	for (long round = 0; round < 100; round++) {
		for (long i = 0; i < count / 100; i++) {
			uint64_t id = (uint64_t)(round * count + i), begun = wickmark_begin();
			uint64_t values[] = {id, wickmark_text(text), wickmark_decimal(0.5), id, id, wickmark_decimal(1.5)};
			wickmark_async_begin(&request, id, NULL);
			wickmark_instant(&tick, WICKMARK_VALUES(id));
			wickmark_count(&queue, (double)i);
			wickmark_async_end(&request, id, NULL);
			wickmark_end(
				&step, begun,
				&(struct wickmark_details){.values = values, .value_count = 6, .name = name, .flow = id + 1});
		}
		sleep_ms(30);
	}
}

static void *named(void *number)
{
	char name[64];
	snprintf(name, sizeof(name), "worker number %ld of this program", (long)number);
	wickmark_thread_name(name);
	uint64_t begun = wickmark_begin();
	work(20000);
	wickmark_end(&inner, begun, NULL);
	return NULL;
}

static void threads(long count)
{
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (long i = 0; i < count; i++) {
		pthread_t thread;
		if (pthread_create(&thread, &small, named, (void *)i) == 0)
			pthread_join(thread, NULL);
	}
}

static void *work_on(void *number)
{
	char name[64];
	snprintf(name, sizeof(name), "worker number %ld of this program", (long)number);
	wickmark_thread_name(name);
	for (;;) {
		uint64_t begun = wickmark_begin();
		work(200000);
		wickmark_end(&inner, begun, NULL);
		wickmark_instant(&tick, WICKMARK_VALUES(wickmark_integer(syscall(SYS_gettid))));
		sleep_ms(8); /* four of them take a fifth of a CPU from other tests */
	}
	return NULL;
}

static void workers(long count)
{
	for (long i = 1; i < count; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, work_on, (void *)i) != 0)
			exit(1);
	}
	wickmark_long_begin(&job, NULL);
	work_on(NULL);
}

static void children(long count)
{
	for (long i = 0; i < count; i++) {
		if (fork() == 0) {
			uint64_t begun = wickmark_begin();
			work(20000);
			wickmark_end(&inner, begun, NULL);
			_exit(0);
		}
		while (wait(NULL) > 0)
			;
	}
}

#define KILLED_AT_ONCE 64
#define KILLED_MARKERS 10

static void mark_and_die(void)
{
	for (int i = 0; i < KILLED_MARKERS && wickmark_on(); i++) {
		uint64_t begun = wickmark_begin();
		wickmark_end(&inner, begun, NULL);
	}
	raise(SIGKILL);
}

/* program: NULL = they go on as they are, else they become that one. */
static int killed(long count, const char *program)
{
	int alive = 0;
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (pid == 0 && program)
			execl("/proc/self/exe", program, "die", NULL);
		if (pid == 0)
			mark_and_die();
		if (++alive == KILLED_AT_ONCE && wait(NULL) > 0)
			alive--;
	}
	while (wait(NULL) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	long n = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	uint64_t begun;
	if (strcmp(what, "workers") == 0)
		workers(n);
	if (strcmp(what, "die") == 0)
		mark_and_die();
	if (strcmp(what, "spin") != 0 && !wait_for_recorder())
		return 3;
	if (strcmp(what, "all") == 0) {
		one_of_each();
	} else if (strcmp(what, "flood") == 0) {
		for (long i = 0; i < n; i++)
			wickmark_instant(&tick, WICKMARK_VALUES(wickmark_integer(i)));
	} else if (strcmp(what, "pour") == 0) {
		for (long i = 0; i < n; i++) {
			wickmark_instant(&tick, WICKMARK_VALUES(wickmark_integer(i)));
			if (i % 1000 == 999)
				sleep_ms(20);
		}
	} else if (strcmp(what, "each") == 0) {
		many_of_each(n);
	} else if (strcmp(what, "threads") == 0) {
		threads(n);
	} else if (strcmp(what, "fork") == 0) {
		children(n);
	} else if (strcmp(what, "exec") == 0) {
		char left[32];
		begun = wickmark_begin();
		work(2000000);
		wickmark_end(&inner, begun, NULL);
		snprintf(left, sizeof(left), "%ld", n - 1);
		if (n > 1)
			execl("/proc/self/exe", argv[0], "exec", left, NULL);
	} else if (strcmp(what, "kill") == 0) {
		for (int i = 0; i < 100; i++) {
			begun = wickmark_begin();
			work(200000);
			wickmark_end(&inner, begun, NULL);
		}
		raise(SIGKILL);
	} else if (strcmp(what, "killed") == 0 || strcmp(what, "killed-programs") == 0) {
		return killed(n, strcmp(what, "killed") == 0 ? NULL : argv[0]);
	} else if (strcmp(what, "long") == 0) {
		char byte;
		wickmark_long_begin(&job, NULL);
		puts("begun");
		fflush(stdout);
		if (read(0, &byte, 1) < 0)
			return 1;
	} else {
		for (long i = 0; i < n; i++) {
			begun = wickmark_begin();
			work(100000);
			wickmark_end(&inner, begun, NULL);
			sleep_ms(1);
		}
	}
	return 0;
}
