// SPDX-License-Identifier: Apache-2.0
/* Rings and the table of chains, written here as the BPF program writes them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>

#include "agent/chains.h"
#include "agent/sample/sampler.h"
#include "base/alloc.h"
#include "base/test_fixture.h"

#define RING_BYTES 16384u

struct fixture {
	struct abi_ring *shared;
	struct sample_ring ring;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *fixture)
{
	fixture->shared = mem_zalloc(sizeof(struct abi_ring) + RING_BYTES + ABI_SLACK_BYTES);
	fixture->ring = (struct sample_ring){.shared = fixture->shared, .mask = RING_BYTES - 1};
	return 0;
}

static void fixture_release(struct fixture *fixture)
{
	mem_free(fixture->shared);
}

static void *next_record(struct abi_ring *ring)
{
	return ring->data + (ring->head & (RING_BYTES - 1));
}

static bool write_sample(struct abi_ring *ring, uint64_t time, uint64_t chain)
{
	struct abi_sample *sample = next_record(ring);
	if (ring->head - ring->tail + sizeof(*sample) > RING_BYTES)
		return false;
	*sample = (struct abi_sample){.header = {ABI_RECORD_SAMPLE, sizeof(*sample)}, .time_ns = time, .user_chain = chain};
	ring->head += sizeof(*sample);
	return true;
}

static bool write_chain(struct abi_ring *ring, uint64_t hash, unsigned count)
{
	struct abi_chain *chain = next_record(ring);
	uint32_t bytes = ABI_CHAIN_FIXED_BYTES + 8 * count;
	if (ring->head - ring->tail + bytes > RING_BYTES)
		return false;
	chain->header = (struct abi_header){ABI_RECORD_CHAIN, bytes};
	chain->hash = hash;
	for (unsigned i = 0; i < count; i++)
		chain->frames[i] = hash * 1000 + i;
	ring->head += bytes;
	return true;
}

/* Many times around the ring, with records that cross its end; every chain and every sample comes out once, in order. */
static void test_records_come_out_as_they_went_in(void **state)
{
	struct fixture *fixture = *state;
	struct sample_ring *ring = &fixture->ring;
	const struct abi_chain *chain;
	const struct abi_sample *sample;
	uint64_t written = 0, read = 0, chains_written = 0, chains_read = 0;

	srand(1);
	for (int round = 0; round < 2000; round++) {
		for (int i = rand() % 60; i > 0; i--) {
			if (rand() % 3 == 0)
				chains_written += write_chain(fixture->shared, chains_written + 1, 1 + (unsigned)rand() % 126);
			else
				written += write_sample(fixture->shared, written + 1, chains_written);
		}
		sample_ring_open(ring);
		while ((chain = sample_ring_scan_chain(ring))) {
			unsigned count = (chain->header.bytes - ABI_CHAIN_FIXED_BYTES) / 8;
			assert_int_equal(chain->hash, ++chains_read);
			assert_int_equal(chain->frames[count - 1], chains_read * 1000 + count - 1);
		}
		/* Not always to the end: the rest is not due yet. */
		uint64_t until = rand() % 2 ? written : read + (written - read) / 2;
		while ((sample = sample_ring_peek(ring)) && sample->time_ns <= until) {
			assert_int_equal(sample->time_ns, ++read);
			assert_true(sample->user_chain <= chains_read);
			sample_ring_advance(ring);
		}
		sample_ring_release(ring);
	}
	assert_true(written > 20000 && chains_written > 5000);
	sample_ring_open(ring);
	while (sample_ring_peek(ring)) {
		read++;
		sample_ring_advance(ring);
	}
	assert_int_equal(read, written);
	assert_int_equal(chains_read, chains_written);
}

/* Whatever lies in the ring, reading ends and stays inside. */
static void test_damage_empties_the_ring(void **state)
{
	struct fixture *fixture = *state;
	struct sample_ring *ring = &fixture->ring;

	srand(2);
	for (int round = 0; round < 3000; round++) {
		for (size_t i = 0; i < RING_BYTES + ABI_SLACK_BYTES; i += 1 + (size_t)rand() % 200)
			fixture->shared->data[i] = (uint8_t)(rand() % 4 ? rand() % 3 : rand());
		fixture->shared->head += (uint64_t)rand() % (2 * RING_BYTES) / 8 * 8;
		sample_ring_open(ring);
		while (sample_ring_scan_chain(ring))
			;
		while (sample_ring_peek(ring))
			sample_ring_advance(ring);
		assert_true(ring->tail == ring->head && ring->scanned == ring->head);
		sample_ring_release(ring);
	}
}

static struct abi_chain *make_chain(uint64_t hash, unsigned count)
{
	static struct abi_chain chain;
	chain.header = (struct abi_header){ABI_RECORD_CHAIN, ABI_CHAIN_FIXED_BYTES + 8 * count};
	chain.hash = hash;
	for (unsigned i = 0; i < count; i++)
		chain.frames[i] = hash + i;
	return &chain;
}

static bool has_chain(const struct chains *chains, uint64_t hash, unsigned count)
{
	const uint64_t *frames;
	size_t found;
	return chains_find(chains, hash, &frames, &found) && found == count && frames[count - 1] == hash + count - 1;
}

static void test_chains_live_for_two_epochs(void **state)
{
	struct chains chains = {.frames_max = 4000};

	assert_int_equal(chains_add(&chains, make_chain(1, 126)), 0);
	assert_int_equal(chains_add(&chains, make_chain(1, 126)), 0);
	assert_int_equal(chains.tables[0].count, 126);
	assert_false(chains_turn(&chains)); /* a quarter of what makes it due */
	for (uint64_t i = 2; i < 5; i++)
		assert_int_equal(chains_add(&chains, make_chain(i, 126)), 0);
	assert_true(chains_turn(&chains));
	assert_int_equal(chains.tables[0].epoch, 1);
	assert_true(has_chain(&chains, 1, 126) && has_chain(&chains, 4, 126));
	assert_int_equal(chains_add(&chains, make_chain(1, 126)), 0); /* sent again in the new epoch */
	for (uint64_t i = 10; i < 13; i++)
		assert_int_equal(chains_add(&chains, make_chain(i, 126)), 0);
	assert_true(chains_turn(&chains));
	assert_true(has_chain(&chains, 1, 126) && has_chain(&chains, 12, 126));
	assert_false(has_chain(&chains, 4, 126));
	chains_release(&chains);
}

static void test_chains_are_bounded(void **state)
{
	struct chains chains = {.frames_max = 1000};

	for (uint64_t i = 1; i <= 20; i++)
		assert_int_equal(chains_add(&chains, make_chain(i * 1000, 100)), 0);
	assert_int_equal(chains.dropped, 10);
	assert_true(has_chain(&chains, 10000, 100));
	assert_false(has_chain(&chains, 11000, 100));
	chains_release(&chains);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_records_come_out_as_they_went_in),
		FIXTURE_TEST(test_damage_empties_the_ring),
		cmocka_unit_test(test_chains_live_for_two_epochs),
		cmocka_unit_test(test_chains_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
