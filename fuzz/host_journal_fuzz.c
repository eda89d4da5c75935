/* SPDX-License-Identifier: Apache-2.0 */
/* The file of labels of hosts, with its checksums and without: what is read of it makes a table, and the table that is read of
 * what that writes is the same. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/hosts/host_journal.h"
#include "store/hosts/host_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_record(void *context, const char *host, const struct labels *labels, int64_t first_ns, int64_t last_ns,
		     struct error *err)
{
	if (!*host || !labels->count || first_ns > last_ns)
		abort();
	host_table_note(context, host, labels, first_ns, last_ns, NULL);
	return 0;
}

static int on_host(void *context, const struct store_host *host, struct error *err)
{
	if (host->from_ns >= host->to_ns || host->first_ns > host->last_ns)
		abort();
	return host_journal_add(context, host->name, host->labels, host->first_ns, host->last_ns);
}

/* The table of a file, as a file. */
static void read_and_write(struct bytes file, struct buffer *out)
{
	struct host_table *table;
	struct host_journal_result result;
	if (host_table_new(&table, NULL) < 0 || host_journal_begin(out) < 0)
		abort();
	if (host_journal_read(file, on_record, table, &result, NULL) == 0 &&
	    host_table_read(table, NULL, 0, INT64_MIN, INT64_MAX, on_host, out, NULL) < 0)
		abort();
	host_table_free(table);
}

/* Records with right checksums, of payloads that the input has: a length of two bytes each. */
static void make_records(const uint8_t *data, size_t size, struct buffer *out)
{
	host_journal_begin(out);
	while (size > 2) {
		uint64_t len = (uint64_t)data[0] | (uint64_t)data[1] << 8;
		uint8_t head[16] = {0xff, 0xfe, 'H', 'R', data[0], data[1]};
		data += 2;
		size -= 2;
		if (len > size)
			break;
		uint64_t check = hash64_seed(data, len, len);
		for (unsigned i = 0; i < 8; i++)
			head[8 + i] = (uint8_t)(check >> (8 * i));
		buffer_append(out, head, sizeof(head));
		buffer_append(out, data, len);
		data += len;
		size -= len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buffer made = {.max = SIZE_MAX}, first = {.max = SIZE_MAX}, second = {.max = SIZE_MAX};
	if (size && data[0] != 'W')
		make_records(data, size, &made);
	else
		buffer_append(&made, data, size);
	read_and_write(buffer_bytes(&made), &first);
	read_and_write(buffer_bytes(&first), &second);
	if (!bytes_equal(buffer_bytes(&first), buffer_bytes(&second)))
		abort();
	buffer_release(&made);
	buffer_release(&first);
	buffer_release(&second);
	return 0;
}
