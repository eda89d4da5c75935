/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of jobs in which clients take turns.
 *
 * Jobs have a group (a tenant) and a key (an address). Groups take turns; within a group its keys do; within a key the oldest
 * job comes first. So whoever queues a thousand jobs delays the first job of another by one. When the queue is full, the
 * newcomer takes the place of the last job of whoever has most in it, unless that is himself: a queue that one client has
 * filled is open to all others.
 *
 * Not thread-safe: worker.c has the lock. Memory is taken once, for as many different keys as there may be; what comes beyond
 * that (jobs that may not be refused) waits in a list of its own, which goes first.
 */
#ifndef WICK_NET_FAIR_H
#define WICK_NET_FAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_job;
struct net_jobs {
	struct net_job *first, **last;
	size_t count;
};
void jobs_init(struct net_jobs *jobs);
void jobs_push(struct net_jobs *jobs, struct net_job *job);
struct net_job *jobs_pop(struct net_jobs *jobs);      /* NULL = empty */
struct net_job *jobs_pop_last(struct net_jobs *jobs); /* the newest that need not run; NULL = none */
struct net_job *jobs_take_all(struct net_jobs *jobs); /* a list by `next` */

#define FAIR_BUCKETS 512
struct fair_flow; /* the jobs of a key of a group */
struct fair_group;
struct fair_queue {
	struct fair_flow *flows, *free_flows, *flow_table[FAIR_BUCKETS];
	struct fair_group *groups, *free_groups, *group_table[FAIR_BUCKETS];
	size_t flows_used, groups_used, capacity;
	struct fair_group *turn; /* of a ring; NULL = empty */
	struct net_jobs extra;
	size_t count; /* of all jobs */
};
int fair_init(struct fair_queue *queue, size_t capacity); /* different keys at most; -ENOMEM */
void fair_release(struct fair_queue *queue);
void fair_push(struct fair_queue *queue, struct net_job *job);
/* The next job of which may_run() holds; NULL = none. */
struct net_job *fair_pop(struct fair_queue *queue, bool (*may_run)(const void *context, const struct net_job *job),
			 const void *context);
/* The last job of whoever has most, if that is more than `newcomer`'s client would have with it; NULL otherwise, and if all of
 * them must run. */
struct net_job *fair_displace(struct fair_queue *queue, const struct net_job *newcomer);

#endif
