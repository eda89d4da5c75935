/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that holds the table of hosts, hosts.journal in the directory of the store.
 *
 *   file     "WICKHST1", then records
 *   record   mark    4 bytes  ff fe 'H' 'R'
 *            length  4 bytes  of the payload, little-endian
 *            check   8 bytes  XXH3-64 of the payload, with the length as seed, little-endian
 *            payload          protobuf: 1 host  2 first_ns  3 last_ns  4 labels { 1 name  2 value }
 *
 * What is news is appended and synced before the profile that says it is acknowledged. Now and then the file is written anew,
 * beside the old one and renamed over it, with a record for each run of the table; that is when times of last profiles, which
 * are no news, get there. The table is made by reading all records in order, in either case.
 *
 * A record says all that there is to say, with names in full: one that is damaged takes no other with it. Its mark cannot occur
 * in texts, which are UTF-8, so that the next record is found by its mark. Rejected: the store's log (its records go when a
 * block is cut, and these must outlive blocks) and one file written anew for each change, which is a thousand times the whole
 * table when a thousand agents start.
 */
#include "store/hosts/host_journal.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/protobuf.h"

#define MAGIC	     "WICKHST"
#define VERSION	     '1'
#define HEADER_BYTES 8u
#define RECORD_BYTES 16u
/* Labels and a name at their limits, with some room for later fields. */
#define PAYLOAD_MAX ((LIMIT_HOST_LABELS + 1) * (LIMIT_LABEL_NAME_BYTES + LIMIT_LABEL_VALUE_BYTES + 64))
static const uint8_t mark[4] = {0xff, 0xfe, 'H', 'R'};

static void put_number(uint8_t *to, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_number(const uint8_t *from, size_t bytes)
{
	uint64_t value = 0;
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)from[i] << (8 * i);
	return value;
}

int host_journal_begin(struct buffer *out)
{
	buffer_append(out, MAGIC, HEADER_BYTES - 1);
	return buffer_append_byte(out, VERSION);
}

int host_journal_add(struct buffer *out, const char *host, const struct labels *labels, int64_t first_ns, int64_t last_ns)
{
	static const uint8_t blank[RECORD_BYTES];
	size_t at = out->len, label;
	buffer_append(out, blank, sizeof(blank));
	pb_write_string(out, 1, host);
	pb_write_varint(out, 2, (uint64_t)first_ns);
	pb_write_varint(out, 3, (uint64_t)last_ns);
	for (size_t i = 0; i < labels->count; i++) {
		pb_begin(out, 4, &label);
		pb_write_string(out, 1, labels->items[i].name);
		pb_write_string(out, 2, labels->items[i].value);
		pb_end(out, label);
	}
	int r = buffer_status(out);
	if (r < 0)
		return r;
	size_t len = out->len - at - RECORD_BYTES;
	uint8_t *head = out->data + at;
	memcpy(head, mark, sizeof(mark));
	put_number(head + 4, len, 4);
	put_number(head + 8, hash64_seed(head + RECORD_BYTES, len, len), 8);
	return 0;
}

/* ---- reading ---- */

/* The whole record at this place, or the bytes that it would need, with an empty payload. */
static bool find_record(struct bytes file, size_t at, struct bytes *ret, size_t *ret_size)
{
	*ret_size = RECORD_BYTES;
	if (file.len - at < RECORD_BYTES || memcmp(file.data + at, mark, sizeof(mark)) != 0)
		return false;
	uint64_t len = get_number(file.data + at + 4, 4);
	if (len > PAYLOAD_MAX)
		return false;
	*ret_size = RECORD_BYTES + (size_t)len;
	if (file.len - at < *ret_size)
		return false;
	*ret = (struct bytes){file.data + at + RECORD_BYTES, (size_t)len};
	return hash64_seed(ret->data, ret->len, len) == get_number(file.data + at + 8, 8);
}

static bool is_text(struct bytes text, size_t max)
{
	return text.len <= max && text_is_utf8(text) && !memchr(text.data, 0, text.len);
}

static int read_label(struct pb_cursor cursor, struct labels *labels, struct error *err)
{
	char name[LIMIT_LABEL_NAME_BYTES] = "", value[LIMIT_LABEL_VALUE_BYTES + 1] = "";
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		char *to = field.number == 1 ? name : value;
		size_t max = field.number == 1 ? sizeof(name) - 1 : sizeof(value) - 1;
		if (field.number > 2)
			continue;
		if (field.wire != PB_BYTES || !is_text(field.bytes, max))
			return error_set(err, -EBADMSG, "a label is malformed");
		memcpy(to, field.bytes.data, field.bytes.len);
		to[field.bytes.len] = '\0';
	}
	return r < 0 ? r : labels_set(labels, name, value, err);
}

struct record {
	char host[LIMIT_LABEL_VALUE_BYTES + 1];
	int64_t first_ns, last_ns;
	struct labels labels;
};

static int read_payload(struct bytes payload, struct record *ret, struct error *err)
{
	struct pb_cursor cursor = pb_open(payload);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		bool is_number = field.number == 2 || field.number == 3;
		if (field.number > 4)
			continue;
		if (field.wire != (is_number ? PB_VARINT : PB_BYTES) ||
		    (field.number == 1 && !is_text(field.bytes, sizeof(ret->host) - 1)))
			return error_set(err, -EBADMSG, "field %u is malformed", field.number);
		if (field.number == 1) {
			memcpy(ret->host, field.bytes.data, field.bytes.len);
			ret->host[field.bytes.len] = '\0';
		} else if (is_number) {
			*(field.number == 2 ? &ret->first_ns : &ret->last_ns) = (int64_t)field.value;
		} else {
			r = read_label(pb_open_nested(&cursor, field.bytes), &ret->labels, err);
			if (r < 0)
				return r;
		}
	}
	if (r == 0 && (!ret->host[0] || !ret->labels.count || ret->first_ns > ret->last_ns))
		r = error_set(err, -EBADMSG, "a record is not complete");
	return r;
}

/* A record whose bytes are right and whose content is not says that another program wrote it: damage, too. */
static int take_record(struct bytes payload, host_journal_record on_record, void *context, struct record *record,
		       struct error *err)
{
	struct error own = {0};
	*record = (struct record){0};
	int r = read_payload(payload, record, &own);
	if (r == 0)
		r = on_record(context, record->host, &record->labels, record->first_ns, record->last_ns, err);
	else if (r == -ENOMEM)
		error_nomem(err);
	else
		r = -EBADMSG;
	labels_release(&record->labels);
	return r;
}

/* Where the next whole record begins; the end of the file if there is none. */
static size_t next_record(struct bytes file, size_t at)
{
	struct bytes payload;
	size_t size;
	while (at < file.len) {
		const uint8_t *found = memmem(file.data + at, file.len - at, mark, sizeof(mark));
		if (!found)
			break;
		at = (size_t)(found - file.data);
		if (find_record(file, at, &payload, &size))
			return at;
		at++;
	}
	return file.len;
}

static bool is_zero(struct bytes bytes)
{
	for (size_t i = 0; i < bytes.len; i++)
		if (bytes.data[i])
			return false;
	return true;
}

/* Whether what is left of the file is a record that was being written: it would be longer, or its bytes never got there. */
static bool is_torn(struct bytes file, size_t at, size_t size)
{
	size_t left = file.len - at, marked = left < sizeof(mark) ? left : sizeof(mark);
	return (left < size && memcmp(file.data + at, mark, marked) == 0) || is_zero(bytes_skip(file, at));
}

static int read_records(struct bytes file, size_t at, host_journal_record on_record, void *context,
			struct host_journal_result *ret, struct error *err)
{
	struct record *record = mem_alloc(sizeof(*record)); /* too large for a stack */
	int r = record ? 0 : error_nomem(err);
	while (r == 0 && at < file.len) {
		struct bytes payload;
		size_t size, from = at;
		bool whole = find_record(file, at, &payload, &size);
		r = whole ? take_record(payload, on_record, context, record, err) : -EBADMSG;
		if (r == 0) {
			at += size;
			ret->records++;
			ret->whole_bytes = at;
			continue;
		}
		if (r != -EBADMSG)
			break;
		r = 0;
		at = next_record(file, whole ? at + size : at + 1);
		if (at == file.len && !whole && is_torn(file, from, size))
			ret->cut_bytes = file.len - from;
		else
			ret->damaged_bytes += at - from;
	}
	mem_free(record);
	return r;
}

int host_journal_read(struct bytes file, host_journal_record on_record, void *context, struct host_journal_result *ret,
		      struct error *err)
{
	size_t at = HEADER_BYTES;
	*ret = (struct host_journal_result){0};
	if (file.len < HEADER_BYTES) {
		ret->cut_bytes = file.len;
		return 0;
	}
	if (memcmp(file.data, MAGIC, HEADER_BYTES - 1) != 0) {
		at = next_record(file, 0);
		ret->damaged_bytes = at;
	} else if (file.data[HEADER_BYTES - 1] > VERSION) {
		return error_set(err, -ENOTSUP, HOST_JOURNAL_NAME " is of version %d, newer than this program's %d",
				 file.data[HEADER_BYTES - 1] - '0', VERSION - '0');
	}
	ret->whole_bytes = at;
	return read_records(file, at, on_record, context, ret, err);
}
