/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: the first byte chooses what the rest is.
 *   0  a segment as it is
 *   1  the payload of a record of versions 1 to 3
 *   2  patches (offset, byte) to a valid segment of a few records: damage behind valid checksums' backs
 *   3  payloads of records since version 4, as of one segment: each a byte by how much the sequence rises, two bytes of length,
 *      and the payload without its chain, which is made right
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/head/head.h"
#include "store/head/log.h"
#include "store/head/record.h"

static void decode(struct bytes payload)
{
	struct record record;
	struct buffer again;
	bool repaired;
	if (record_decode(payload, &record, NULL) < 0)
		return;
	/* What decodes can be encoded, and decodes again. */
	struct store_append_options options = record_options(&record);
	buffer_init(&again, RECORD_BYTES_MAX);
	if (record_encode(record.profile, &options, &again, &repaired, NULL) < 0)
		abort();
	record_release(&record);
	if (record_decode(buffer_bytes(&again), &record, NULL) < 0)
		abort();
	record_release(&record);
	buffer_release(&again);
}

static int on_record(void *context, uint64_t sequence, struct bytes payload, struct error *err)
{
	uint64_t *last = context;
	if (sequence <= *last)
		abort();
	*last = sequence;
	if (delta_version(payload) < DELTA_VERSION)
		decode(payload);
	return 0;
}

static void replay(struct bytes segment)
{
	uint64_t last = 0;
	struct log_replay replay = {.on_record = on_record, .context = &last};
	struct log_replay_result result;
	log_replay_bytes(segment, &replay, &result, NULL);
}

/* Header and records of log.c, written out by hand. */
static size_t put_record(uint8_t *out, uint64_t salt, uint64_t sequence, const char *payload)
{
	uint32_t words[4] = {0x43455257u, (uint32_t)strlen(payload), 0, 0};
	uint64_t hash = hash64_seed(payload, strlen(payload), salt);
	memcpy(out, words, 16);
	memcpy(out + 16, &sequence, 8);
	memcpy(out + 24, &hash, 8);
	hash = hash64_seed(out, 32, salt);
	memcpy(out + 32, &hash, 8);
	memcpy(out + 40, payload, strlen(payload));
	return 40 + strlen(payload);
}

static void patched(const uint8_t *data, size_t size)
{
	static const char *const payloads[] = {"a", "", "some longer payload with WREC in it", "z"};
	uint8_t bytes[1024] = "WICKLOG\n\1";
	uint64_t salt = 1234567, first = 1;
	size_t len = LOG_SEGMENT_HEADER_SIZE;
	memcpy(bytes + 16, &salt, 8);
	memcpy(bytes + 24, &first, 8);
	uint64_t hash = hash64(bytes, 32);
	memcpy(bytes + 32, &hash, 8);
	memcpy(bytes + 40, bytes, 40);
	for (size_t i = 0; i < 4; i++)
		len += put_record(bytes + len, salt, i + 1, payloads[i]);
	for (size_t i = 0; i + 3 <= size; i += 3)
		bytes[(data[i] | data[i + 1] << 8) % len] ^= data[i + 2];
	if (size % 3)
		len -= data[size - 1] % len;
	uint8_t *exact = malloc(len);
	memcpy(exact, bytes, len);
	replay((struct bytes){exact, len});
	free(exact);
}

/* ---- records that refer to earlier ones ---- */

static struct head *new_head(void)
{
	struct head *head;
	if (head_new(SIZE_MAX, &head, NULL) < 0)
		abort();
	return head;
}

/* What a head has can be written, and read as the same. */
static void write_again(struct head *head)
{
	static const uint8_t none[STORE_ID_SIZE];
	const struct delta_mark start = delta_start();
	struct delta_mark to;
	struct delta_reader reader;
	struct buffer payload;
	struct head_batch batch = {.count = head->count, .processes = head->processes.end};
	buffer_init(&payload, RECORD_BYTES_MAX);
	if (!delta_limit(head, &start, RECORD_BYTES_MAX, &to))
		abort();
	head->end = (struct head_end){0}; /* all rows are new */
	int r = delta_encode(head, &start, &to, &batch, none, &payload, NULL);
	head->end = (struct head_end){.samples = batch.count, .processes = batch.processes};
	delta_reader_init(&reader, new_head());
	if (r < 0 || delta_reader_begin(&reader, 1, NULL) < 0 || delta_read(&reader, 1, buffer_bytes(&payload), NULL) < 0)
		abort();
	if (reader.head->count != head->count || reader.head->pool->stack_count != head->pool->stack_count ||
	    reader.lost_rows || (head->count && memcmp(reader.head->values, head->values, head->count * sizeof(*head->values))))
		abort();
	head_free(reader.head);
	delta_reader_release(&reader);
	buffer_release(&payload);
}

/* Where a payload's chain is, or past its end. */
static size_t chain_of(struct bytes payload)
{
	size_t at = 0, flags = payload.len > 1 ? payload.data[1] : 0;
	for (int numbers = 0; numbers < 2 && at < payload.len; numbers++)
		while (at < payload.len && payload.data[at++] & 0x80)
			continue;
	at += flags & 1 ? STORE_ID_SIZE : 0;
	while (at < payload.len && payload.data[at++] & 0x80)
		continue;
	return at;
}

static void read_deltas(const uint8_t *data, size_t size)
{
	struct delta_reader reader;
	uint64_t sequence = 0;
	delta_reader_init(&reader, new_head());
	if (delta_reader_begin(&reader, 1, NULL) < 0)
		abort();
	while (size >= 3) {
		size_t len = data[1] | (size_t)data[2] << 8;
		sequence += 1 + data[0] % 3;
		len = len > size - 3 ? size - 3 : len;
		uint8_t *exact = malloc(len + 8);
		size_t chain = chain_of((struct bytes){data + 3, len});
		if (!exact)
			abort();
		chain = chain > len ? len : chain;
		memcpy(exact, data + 3, chain);
		for (unsigned i = 0; i < 8; i++)
			exact[chain + i] = (uint8_t)(reader.chain >> 8 * i);
		memcpy(exact + chain + 8, data + 3 + chain, len - chain);
		delta_read(&reader, sequence, (struct bytes){exact, len + 8}, NULL);
		free(exact);
		data += 3 + len;
		size -= 3 + len;
	}
	write_again(reader.head);
	head_free(reader.head);
	delta_reader_release(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 0)
		replay((struct bytes){data + 1, size - 1});
	else if (data[0] == 1)
		decode((struct bytes){data + 1, size - 1});
	else if (data[0] == 3)
		read_deltas(data + 1, size - 1);
	else
		patched(data + 1, size - 1);
	return 0;
}
