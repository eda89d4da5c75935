/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: the first byte chooses what the rest is.
 *   0  a segment as it is
 *   1  the payload of a record
 *   2  patches (offset, byte) to a valid segment of a few records: damage behind valid checksums' backs
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 0)
		replay((struct bytes){data + 1, size - 1});
	else if (data[0] == 1)
		decode((struct bytes){data + 1, size - 1});
	else
		patched(data + 1, size - 1);
	return 0;
}
