// SPDX-License-Identifier: Apache-2.0
/*
 * The reading side of the rings described in bpf/abi.h.
 *
 * Chains are taken in a pass of their own, before any sample: CPU A may see in the kernel's `seen` table that CPU B has sent a
 * chain, and its sample may carry an earlier time than B's, since times are taken at the start of the program. A pass over
 * everything that is published by the time the heads are read finds every chain that any due sample refers to.
 */

#include "agent/sample/sampler.h"

static const struct abi_header *record_at(struct sample_ring *ring, uint64_t position)
{
	const struct abi_header *header = (const void *)(ring->shared->data + (position & ring->mask));
	uint64_t left = ring->head - position, smallest = sizeof(struct abi_sample), largest = sizeof(struct abi_sample);

	if (position >= ring->head)
		return NULL;
	if (header->kind == ABI_RECORD_CHAIN) {
		smallest = ABI_CHAIN_FIXED_BYTES + sizeof(uint64_t);
		largest = sizeof(struct abi_chain);
	}
	if (header->kind == ABI_RECORD_TAIL) {
		smallest = ABI_TAIL_FIXED_BYTES;
		largest = sizeof(struct abi_tail);
	}
	if (header->kind < ABI_RECORD_SAMPLE || header->kind > ABI_RECORD_TAIL)
		return NULL;
	if (header->bytes < smallest || header->bytes > largest || header->bytes % 8 || header->bytes > left)
		return NULL;
	return header;
}

void sample_ring_open(struct sample_ring *ring)
{
	ring->head = __atomic_load_n(&ring->shared->head, __ATOMIC_ACQUIRE);
	if (ring->head - ring->tail > ring->mask + 1) /* never by the kernel's rules */
		ring->tail = ring->head;
	if (ring->scanned < ring->tail)
		ring->scanned = ring->tail;
}

const struct abi_chain *sample_ring_scan_chain(struct sample_ring *ring)
{
	const struct abi_header *header;

	while ((header = record_at(ring, ring->scanned))) {
		ring->scanned += header->bytes;
		if (header->kind == ABI_RECORD_CHAIN)
			return (const void *)header;
	}
	ring->scanned = ring->head;
	return NULL;
}

static void sample_ring_keep(struct sample_ring *ring, const struct abi_header *header)
{
	ring->last_tail = (const void *)header;
	ring->last_tail_at = ring->tail;
}

const struct abi_sample *sample_ring_peek(struct sample_ring *ring)
{
	const struct abi_header *header;

	while ((header = record_at(ring, ring->tail))) {
		if (header->kind == ABI_RECORD_SAMPLE)
			return (const void *)header;
		if (header->kind == ABI_RECORD_TAIL)
			sample_ring_keep(ring, header);
		ring->tail += header->bytes;
	}
	ring->tail = ring->head;
	return NULL;
}

const struct abi_tail *sample_ring_tail(const struct sample_ring *ring)
{
	const struct abi_tail *tail = ring->last_tail;

	return tail && tail->stack_bytes <= tail->header.bytes - ABI_TAIL_FIXED_BYTES ? tail : NULL;
}

void sample_ring_advance(struct sample_ring *ring)
{
	const struct abi_header *header = record_at(ring, ring->tail);

	ring->tail = header ? ring->tail + header->bytes : ring->head;
	ring->last_tail = NULL;
}

/* A tail whose sample is not due yet stays, with it. */
void sample_ring_release(struct sample_ring *ring)
{
	if (ring->last_tail)
		ring->tail = ring->last_tail_at;
	ring->last_tail = NULL;
	__atomic_store_n(&ring->shared->tail, ring->tail, __ATOMIC_RELEASE);
}
