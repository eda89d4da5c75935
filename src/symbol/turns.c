/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of builds: several symbolizers share how many worker processes there are at once. Turns are given in the order in which
 * they were asked for, and each symbolizer chooses what it builds when its turn comes; so one that has much to do does not keep
 * another from its first table for longer than the builds that run already. Rejected: one queue for all, in which the newest
 * request goes first: whoever asks most often would go first.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "symbol/symbol_int.h"

/* On the stack of who waits. */
struct waiter {
	bool has_turn;
	struct waiter *next;
};

struct build_turns {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned free;
	struct waiter *first, **end; /* who waits; free is 0 then */
};

int build_turns_new(unsigned count, struct build_turns **ret, struct error *err)
{
	struct build_turns *turns = mem_zalloc(sizeof(*turns));
	if (!turns)
		return error_nomem(err);
	pthread_mutex_init(&turns->lock, NULL);
	pthread_cond_init(&turns->changed, NULL);
	turns->free = count;
	turns->end = &turns->first;
	*ret = turns;
	return 0;
}

struct build_turns *build_turns_free(struct build_turns *turns)
{
	if (!turns)
		return NULL;
	pthread_mutex_destroy(&turns->lock);
	pthread_cond_destroy(&turns->changed);
	return mem_free(turns);
}

/* With the lock held. */
static void give(struct build_turns *turns)
{
	struct waiter *first = turns->first;
	if (!first) {
		turns->free++;
		return;
	}
	turns->first = first->next;
	if (!turns->first)
		turns->end = &turns->first;
	first->has_turn = true;
	pthread_cond_broadcast(&turns->changed);
}

static void leave(struct build_turns *turns, struct waiter *waiter)
{
	struct waiter **at = &turns->first;
	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
	if (!*at)
		turns->end = at;
}

bool build_turns_take(struct build_turns *turns, const atomic_bool *stop)
{
	struct waiter waiter = {0};
	if (!turns)
		return true;
	pthread_mutex_lock(&turns->lock);
	if (turns->free) {
		turns->free--;
		waiter.has_turn = true;
	} else {
		*turns->end = &waiter;
		turns->end = &waiter.next;
		while (!waiter.has_turn && !cancel_requested(stop))
			pthread_cond_wait(&turns->changed, &turns->lock);
		if (!waiter.has_turn)
			leave(turns, &waiter);
	}
	pthread_mutex_unlock(&turns->lock);
	return waiter.has_turn;
}

void build_turns_give(struct build_turns *turns)
{
	if (!turns)
		return;
	pthread_mutex_lock(&turns->lock);
	give(turns);
	pthread_mutex_unlock(&turns->lock);
}

void build_turns_wake(struct build_turns *turns)
{
	if (!turns)
		return;
	pthread_mutex_lock(&turns->lock);
	pthread_cond_broadcast(&turns->changed);
	pthread_mutex_unlock(&turns->lock);
}
