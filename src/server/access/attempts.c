/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing delays for wrong tokens.
 *
 * A delay that holds back the answer holds a connection and, for whoever has many of them, delays nothing. So the answer comes
 * at once, and it is the address that waits: after some wrong tokens, what it sends is not looked at for 1 s, then 2 s, 4 s ...
 * a minute at most, and answered 429 with Retry-After. A right token does not end that, or a guesser who has one could go on
 * guessing; a quarter of an hour without a wrong one does.
 *
 * An address is that of a gateway as often as that of a machine: one with a wrong token must not shut out the others behind it.
 * So whoever used the very same token from this address within the last hour is let through; it proves nothing to a guesser,
 * who would have to know it. Those behind it who come for the first time wait with the guesser.
 *
 * Memory is fixed: sets of four entries each, found by a hash with a secret, of which the one that was used longest ago makes
 * room. Who has so many addresses that entries are lost has as many that start anew.
 */
#include "server/access/attempts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/time.h"

#define WAYS	  4u
#define FAIL_SETS 1024u
#define SEEN_SETS 4096u

struct failure {
	uint64_t peer;
	int64_t last_ns, until_ns;
	uint32_t count; /* 0 = free */
};
struct seen {
	uint64_t key; /* of address and token */
	int64_t last_ns;
};
struct attempts {
	pthread_mutex_t lock;
	uint64_t seed;
	struct failure failures[FAIL_SETS][WAYS];
	struct seen seen[SEEN_SETS][WAYS];
};

struct attempts *attempts_new(void)
{
	struct attempts *attempts = mem_zalloc(sizeof(*attempts));
	if (!attempts)
		return NULL;
	pthread_mutex_init(&attempts->lock, NULL);
	attempts->seed = hash64_secret();
	return attempts;
}

struct attempts *attempts_free(struct attempts *attempts)
{
	if (attempts)
		pthread_mutex_destroy(&attempts->lock);
	return mem_free(attempts);
}

static uint64_t key_of(const struct attempts *attempts, uint64_t peer, const uint8_t hash[static TOKEN_HASH_BYTES])
{
	uint64_t key = hash64_seed(hash, TOKEN_HASH_BYTES, attempts->seed ^ hash64_mix(peer));
	return key ? key : 1;
}

static struct failure *find_failure(struct attempts *attempts, uint64_t peer, bool add, int64_t now_ns)
{
	struct failure *set = attempts->failures[hash64_seed(&peer, sizeof(peer), attempts->seed) % FAIL_SETS], *oldest = set;
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].count && set[i].peer == peer) {
			if (now_ns - set[i].last_ns > ATTEMPTS_FORGET_S * NS_PER_S)
				set[i] = (struct failure){.peer = peer};
			return set[i].count || add ? &set[i] : NULL;
		}
		if (set[i].last_ns < oldest->last_ns)
			oldest = &set[i];
	}
	if (!add)
		return NULL;
	*oldest = (struct failure){.peer = peer};
	return oldest;
}

static struct seen *find_seen(struct attempts *attempts, uint64_t key, bool add)
{
	struct seen *set = attempts->seen[key % SEEN_SETS], *oldest = set;
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].key == key)
			return &set[i];
		if (set[i].last_ns < oldest->last_ns)
			oldest = &set[i];
	}
	if (!add)
		return NULL;
	*oldest = (struct seen){.key = key};
	return oldest;
}

static bool is_recent(const struct seen *seen, int64_t now_ns)
{
	return seen && seen->last_ns && now_ns - seen->last_ns < ATTEMPTS_LOGIN_S * NS_PER_S;
}

int64_t attempts_wait_ns(struct attempts *attempts, uint64_t peer, const uint8_t hash[static TOKEN_HASH_BYTES], int64_t now_ns)
{
	if (!attempts)
		return 0;
	THREAD_LOCK_SCOPE(&attempts->lock);
	const struct failure *failure = find_failure(attempts, peer, false, now_ns);
	if (!failure || failure->until_ns <= now_ns ||
	    is_recent(find_seen(attempts, key_of(attempts, peer, hash), false), now_ns))
		return 0;
	return failure->until_ns - now_ns;
}

void attempts_failed(struct attempts *attempts, uint64_t peer, int64_t now_ns)
{
	if (!attempts)
		return;
	THREAD_LOCK_SCOPE(&attempts->lock);
	struct failure *failure = find_failure(attempts, peer, true, now_ns);
	int64_t delay_s = 0;
	failure->last_ns = now_ns;
	failure->count++;
	if (failure->count >= ATTEMPTS_FREE) {
		unsigned doublings = failure->count - ATTEMPTS_FREE;
		delay_s = doublings < 6 ? 1 << doublings : ATTEMPTS_DELAY_MAX_S;
	}
	failure->until_ns = now_ns + (delay_s < ATTEMPTS_DELAY_MAX_S ? delay_s : ATTEMPTS_DELAY_MAX_S) * NS_PER_S;
}

bool attempts_succeeded(struct attempts *attempts, uint64_t peer, const uint8_t hash[static TOKEN_HASH_BYTES], int64_t now_ns)
{
	if (!attempts)
		return false;
	THREAD_LOCK_SCOPE(&attempts->lock);
	struct seen *seen = find_seen(attempts, key_of(attempts, peer, hash), true);
	bool is_login = !is_recent(seen, now_ns);
	seen->last_ns = now_ns;
	return is_login;
}
