/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/time.h"

#define LARGE (16 * BUDGET_PIECE) /* what a work had at a time, from which on the heaps are trimmed after it */
#define SLACK (4 * BUDGET_PIECE)  /* what is taken of the pool and not used, before some goes back */

_Thread_local struct budget *budget_of_thread;
_Thread_local unsigned budget_polls;

struct budget *budget_enter(struct budget *budget)
{
	struct budget *before = budget_of_thread;
	budget_of_thread = budget;
	return before;
}

static void end_for(struct budget *budget, enum budget_end reason)
{
	enum budget_end open = BUDGET_OPEN;
	atomic_compare_exchange_strong(&budget->end, &open, reason);
}

static bool is_over(enum budget_end end)
{
	return end == BUDGET_CANCELLED || end == BUDGET_LATE;
}

bool budget_look(void)
{
	struct budget *budget = budget_of_thread;
	if (!budget)
		return false;
	if (cancel_requested(budget->cancel))
		end_for(budget, BUDGET_CANCELLED);
	else if (budget->deadline_ns && time_monotonic_ns() >= budget->deadline_ns)
		end_for(budget, BUDGET_LATE);
	return is_over(budget->end);
}

/* ---- the pool ---- */

static bool pool_take(struct budget_pool *pool, size_t bytes)
{
	size_t used = atomic_load(&pool->used);
	do {
		if (pool->max_bytes && (used > pool->max_bytes || bytes > pool->max_bytes - used))
			return false;
	} while (!atomic_compare_exchange_weak(&pool->used, &used, used + bytes));
	return true;
}

static size_t whole_pieces(int64_t bytes)
{
	return bytes <= 0 ? 0 : ((size_t)bytes + BUDGET_PIECE - 1) / BUDGET_PIECE * BUDGET_PIECE;
}

/* Threads of one budget may be here at a time: each adds what it has taken by itself. */
static bool take_for(struct budget *budget, int64_t used)
{
	size_t want = whole_pieces(used), taken = atomic_load(&budget->taken);
	while (want > taken) {
		if (!pool_take(budget->pool, want - taken))
			return false;
		if (atomic_compare_exchange_strong(&budget->taken, &taken, want))
			return true;
		atomic_fetch_sub(&budget->pool->used, want - taken); /* `taken` is what another thread made it */
		taken = atomic_load(&budget->taken);
	}
	return true;
}

static void give_back(struct budget *budget, size_t keep)
{
	size_t taken = atomic_load(&budget->taken);
	if (taken > keep && atomic_compare_exchange_strong(&budget->taken, &taken, keep))
		atomic_fetch_sub(&budget->pool->used, taken - keep);
}

void budget_keep(struct budget *budget, size_t bytes)
{
	budget->used = (int64_t)bytes;
	if (budget->pool)
		give_back(budget, whole_pieces((int64_t)bytes));
}

void budget_release(struct budget *budget)
{
	budget_keep(budget, 0);
	if (atomic_exchange(&budget->peak, 0) >= (int64_t)LARGE)
		mem_trim();
}

/* ---- bytes ---- */

bool budget_charge(struct budget *budget, size_t bytes)
{
	if (is_over(budget->end) || (++budget_polls % BUDGET_POLLS == 0 && budget_look()))
		return false;
	int64_t used = atomic_fetch_add(&budget->used, (int64_t)bytes) + (int64_t)bytes, peak = budget->peak;
	size_t max = budget->max_bytes;
	bool is_spent = max && used > 0 && (uint64_t)used > max;
	if (is_spent || (budget->pool && !take_for(budget, used))) {
		atomic_fetch_sub(&budget->used, (int64_t)bytes);
		end_for(budget, is_spent ? BUDGET_SPENT : BUDGET_POOL_SPENT);
		return false;
	}
	while (used > peak && !atomic_compare_exchange_weak(&budget->peak, &peak, used))
		;
	return true;
}

void budget_add(struct budget *budget, size_t bytes)
{
	int64_t used = atomic_fetch_add(&budget->used, (int64_t)bytes) + (int64_t)bytes;
	if (budget->pool)
		take_for(budget, used);
}

void budget_credit(struct budget *budget, size_t bytes)
{
	int64_t used = atomic_fetch_sub(&budget->used, (int64_t)bytes) - (int64_t)bytes;
	size_t keep = whole_pieces(used) + BUDGET_PIECE;
	if (budget->pool && atomic_load_explicit(&budget->taken, memory_order_relaxed) > keep + SLACK)
		give_back(budget, keep);
}

size_t budget_used(void)
{
	int64_t used = budget_of_thread ? budget_of_thread->used : 0;
	return used > 0 ? (size_t)used : 0;
}

size_t budget_left(void)
{
	size_t max = budget_of_thread ? budget_of_thread->max_bytes : 0, used = budget_used();
	return !max ? SIZE_MAX : used >= max ? 0 : max - used;
}

size_t budget_narrow(size_t max_bytes)
{
	struct budget *budget = budget_of_thread;
	size_t before = budget ? budget->max_bytes : 0;
	if (before > max_bytes)
		budget->max_bytes = max_bytes ? max_bytes : 1;
	return before;
}

void budget_widen(size_t before)
{
	if (budget_of_thread)
		budget_of_thread->max_bytes = before;
}

bool budget_forgive(void)
{
	struct budget *budget = budget_of_thread;
	enum budget_end end = budget ? budget->end : BUDGET_OPEN;
	return (end == BUDGET_SPENT || end == BUDGET_POOL_SPENT) &&
	       atomic_compare_exchange_strong(&budget->end, &end, BUDGET_OPEN);
}

void budget_give_up(enum budget_end reason)
{
	if (budget_of_thread)
		end_for(budget_of_thread, reason);
}

bool budget_has_ended(void)
{
	return budget_of_thread && (budget_of_thread->end != BUDGET_OPEN || budget_look());
}
