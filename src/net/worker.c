/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads. Handlers may read disks and wait for fsync; the loop may not. Three lists under one lock: jobs that wait for
 * a thread (bounded: beyond it the server says 503 rather than grow a backlog that nobody waits for any more), jobs that a
 * thread has finished, and streams that have something to send. The loop is told once, when the last two stop being empty.
 */
#include <assert.h>
#include <errno.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "net/net_int.h"

static void jobs_init(struct net_jobs *jobs)
{
	*jobs = (struct net_jobs){.last = &jobs->first};
}

static void jobs_push(struct net_jobs *jobs, struct net_job *job)
{
	job->next = NULL;
	*jobs->last = job;
	jobs->last = &job->next;
	jobs->count++;
}

static struct net_job *jobs_pop(struct net_jobs *jobs)
{
	struct net_job *job = jobs->first;
	if (!job)
		return NULL;
	jobs->first = job->next;
	if (!jobs->first)
		jobs->last = &jobs->first;
	jobs->count--;
	return job;
}

static struct net_job *jobs_take_all(struct net_jobs *jobs)
{
	struct net_job *all = jobs->first;
	jobs_init(jobs);
	return all;
}

/* With the lock held: adds to what the loop collects. */
static void hand_over(struct net_workers *workers, struct net_jobs *list, struct net_job *job)
{
	bool told = workers->finished.first || workers->woken.first;
	jobs_push(list, job);
	if (!told)
		workers->notify(workers->context);
}

static void *work(void *context)
{
	struct net_workers *workers = context;
	pthread_mutex_lock(&workers->lock);
	for (;;) {
		struct net_job *job = jobs_pop(&workers->waiting);
		if (job) {
			pthread_mutex_unlock(&workers->lock);
			job->run(job);
			pthread_mutex_lock(&workers->lock);
			hand_over(workers, &workers->finished, job);
		} else if (workers->stopping) {
			break;
		} else {
			pthread_cond_wait(&workers->work, &workers->lock);
		}
	}
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

int workers_init(struct net_workers *workers, unsigned thread_count, void (*notify)(void *context), void *context,
		 struct error *err)
{
	*workers = (struct net_workers){.notify = notify, .context = context};
	jobs_init(&workers->waiting);
	jobs_init(&workers->finished);
	jobs_init(&workers->woken);
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->work, NULL);
	if (thread_count == 0)
		return 0;
	workers->threads = mem_zalloc_array(thread_count, sizeof(*workers->threads));
	int r = workers->threads ? 0 : error_nomem(err);
	while (r == 0 && workers->thread_count < thread_count) {
		r = thread_start(&workers->threads[workers->thread_count], "wick-http", work, workers, err);
		workers->thread_count += r == 0;
	}
	if (r < 0)
		workers_release(workers);
	return r;
}

void workers_release(struct net_workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->stopping = true;
	pthread_cond_broadcast(&workers->work);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->thread_count; i++)
		pthread_join(workers->threads[i], NULL);
	workers->thread_count = 0;
	workers->threads = mem_free(workers->threads);
	pthread_cond_destroy(&workers->work);
	pthread_mutex_destroy(&workers->lock);
}

int workers_submit(struct net_workers *workers, struct net_job *job, bool always)
{
	pthread_mutex_lock(&workers->lock);
	bool full = !always && workers->waiting.count >= NET_QUEUE_MAX;
	if (!full) {
		jobs_push(&workers->waiting, job);
		pthread_cond_signal(&workers->work);
		workers->out++;
	}
	pthread_mutex_unlock(&workers->lock);
	return full ? -EBUSY : 0;
}

void workers_wake(struct net_workers *workers, struct net_job *woken)
{
	pthread_mutex_lock(&workers->lock);
	hand_over(workers, &workers->woken, woken);
	pthread_mutex_unlock(&workers->lock);
}

/* The woken first: done() of a finished job may free what a woken one points to. */
void workers_collect(struct net_workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	struct net_job *woken = jobs_take_all(&workers->woken), *finished = jobs_take_all(&workers->finished), *next;
	pthread_mutex_unlock(&workers->lock);
	for (; woken; woken = next) {
		next = woken->next;
		woken->done(woken);
	}
	for (; finished; finished = next) {
		next = finished->next;
		workers->out--;
		finished->done(finished);
	}
}

void workers_run_here(struct net_workers *workers)
{
	assert(workers->thread_count == 0);
	struct net_job *job;
	while ((job = jobs_pop(&workers->waiting))) {
		job->run(job);
		jobs_push(&workers->finished, job);
	}
	workers_collect(workers);
}
