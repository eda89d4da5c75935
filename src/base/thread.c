// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/time.h"

#define NAME_SIZE 16 /* TASK_COMM_LEN of Linux */

static _Thread_local bool leads;
static _Thread_local int nice_before; /* it led */

struct start {
	void *(*run)(void *);
	void *context;
	bool follows;
	int nice;
	char name[NAME_SIZE];
};

static void *enter(void *argument)
{
	struct start start = *(struct start *)argument;
	mem_free(argument);
	/* By the thread itself, so that it never runs under its parent's name. */
	pthread_setname_np(pthread_self(), start.name);
	if (start.follows)
		setpriority(PRIO_PROCESS, 0, start.nice); /* of this thread, in Linux */
	return start.run(start.context);
}

void thread_lead(int nice)
{
	int before = getpriority(PRIO_PROCESS, 0);
	if (before <= nice || setpriority(PRIO_PROCESS, 0, nice) < 0)
		return;
	if (!leads)
		nice_before = before;
	leads = true;
}

/* The signals of a fault are always delivered to the thread that caused it; blocking them would only bypass the handler.
 * SIGPROF comes from the timer of the thread's own CPU time (control/self_sampler.h). */
static void fill_blocked_signals(sigset_t *set)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
	sigfillset(set);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(set, faults[i]);
}

int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *context, struct error *err)
{
	struct start *start = mem_alloc(sizeof(*start));
	if (!start)
		return error_nomem(err);
	start->run = run;
	start->context = context;
	start->follows = leads;
	start->nice = nice_before;
	snprintf(start->name, sizeof(start->name), "%s", name);

	sigset_t blocked, before;
	fill_blocked_signals(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	pthread_t thread;
	int code = pthread_create(&thread, NULL, enter, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code) {
		mem_free(start);
		return error_set_errno(err, -code, "cannot start thread %s", name);
	}
	*ret_thread = thread;
	return 0;
}

void thread_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

bool thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns)
{
	const struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
	return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}
