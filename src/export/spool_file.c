/* SPDX-License-Identifier: Apache-2.0 */
#include "export/spool_file.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/text.h"

#define MAGIC	    "WICKSPL\x01"
#define DAMAGED_MAX 16

struct header {
	char magic[8];
	uint64_t payload_bytes, checksum;
	uint64_t created_ns, samples;
	uint32_t profiles, tenant_bytes;
	uint64_t zero, header_checksum;
};
_Static_assert(sizeof(struct header) == SPOOL_HEADER_BYTES, "the header is written as it is in memory");

/* Of tenant and payload, which lie apart when they are written. */
static uint64_t checksum(struct bytes tenant, struct bytes payload)
{
	return hash64_seed(payload.data, payload.len, hash64(tenant.data, tenant.len));
}

int spool_record_head(const struct spool_meta *meta, struct bytes payload, struct buffer *out, struct error *err)
{
	struct bytes tenant = bytes_of_string(meta->tenant);
	if (payload.len > SPOOL_RECORD_MAX)
		return error_set(err, -E2BIG, "a record of %zu bytes is too large for the spool", payload.len);
	struct header header = {.payload_bytes = htole64(payload.len),
				.checksum = htole64(checksum(tenant, payload)),
				.created_ns = htole64((uint64_t)meta->created_ns),
				.samples = htole64(meta->samples),
				.profiles = htole32(meta->profiles),
				.tenant_bytes = htole32((uint32_t)tenant.len)};
	memcpy(header.magic, MAGIC, sizeof(header.magic));
	header.header_checksum = htole64(hash64(&header, offsetof(struct header, header_checksum)));
	buffer_append(out, &header, sizeof(header));
	return buffer_append(out, tenant.data, tenant.len) < 0 ? error_nomem(err) : 0;
}

int spool_record_check(struct bytes bytes, uint64_t file_size, struct spool_meta *ret, size_t *ret_tenant_len,
		       struct error *err)
{
	struct header header;
	if (bytes.len < sizeof(header))
		return error_set(err, -EBADMSG, "shorter than a header");
	memcpy(&header, bytes.data, sizeof(header));
	if (memcmp(header.magic, MAGIC, sizeof(header.magic) - 1) != 0)
		return error_set(err, -EBADMSG, "not a spool record");
	if (header.magic[7] != MAGIC[7])
		return error_set(err, -EBADMSG, "unknown version %u", (unsigned)header.magic[7]);
	if (le64toh(header.header_checksum) != hash64(&header, offsetof(struct header, header_checksum)))
		return error_set(err, -EBADMSG, "its header is damaged");
	uint64_t payload = le64toh(header.payload_bytes);
	uint32_t tenant = le32toh(header.tenant_bytes);
	if (payload > SPOOL_RECORD_MAX || tenant > SPOOL_TENANT_MAX)
		return error_set(err, -EBADMSG, "the lengths in its header exceed the limits");
	if (file_size != SPOOL_HEADER_BYTES + tenant + payload)
		return error_set(err, -EBADMSG, "has %llu bytes instead of %llu", (unsigned long long)file_size,
				 (unsigned long long)(SPOOL_HEADER_BYTES + tenant + payload));
	*ret = (struct spool_meta){.created_ns = (int64_t)le64toh(header.created_ns),
				   .samples = le64toh(header.samples),
				   .profiles = le32toh(header.profiles)};
	*ret_tenant_len = tenant;
	return 0;
}

int spool_record_parse(struct bytes file, struct spool_meta *ret, struct bytes *ret_payload, struct error *err)
{
	size_t tenant_len;
	struct header header;
	int r = spool_record_check(file, file.len, ret, &tenant_len, err);
	if (r < 0)
		return r;
	memcpy(&header, file.data, sizeof(header));
	struct bytes tenant = {file.data + SPOOL_HEADER_BYTES, tenant_len};
	struct bytes payload = {tenant.data + tenant_len, file.len - SPOOL_HEADER_BYTES - tenant_len};
	if (checksum(tenant, payload) != le64toh(header.checksum) || memchr(tenant.data, 0, tenant_len))
		return error_set(err, -EBADMSG, "its contents are damaged");
	memcpy(ret->tenant, tenant.data, tenant_len);
	ret->tenant[tenant_len] = '\0';
	*ret_payload = payload;
	return 0;
}

/* ---- files ---- */

int spool_file_path(char out[SPOOL_PATH_MAX], const char *directory, uint64_t number)
{
	char name[32];
	snprintf(name, sizeof(name), "%020llu.rec", (unsigned long long)number);
	return io_join_path(out, SPOOL_PATH_MAX, directory, name);
}

bool spool_file_number(const char *name, uint64_t *ret)
{
	char digits[21];
	snprintf(digits, sizeof(digits), "%s", name);
	return strlen(digits) == 20 && strcmp(name + 20, ".rec") == 0 && text_parse_u64(digits, ret, NULL) == 0;
}

bool spool_file_is_temporary(const char *name)
{
	char record[32];
	uint64_t number;
	size_t len = strlen(name);
	if (len < 5 || len - 4 >= sizeof(record) || strcmp(name + len - 4, ".tmp") != 0)
		return false;
	memcpy(record, name, len - 4);
	record[len - 4] = '\0';
	return spool_file_number(record, &number);
}

bool spool_directory_is_ours(const char *directory)
{
	uint64_t number;
	bool ours = true, has_lock = false;
	_cleanup_(dir_closep) DIR *open = opendir(directory);
	for (const struct dirent *entry; open && (entry = readdir(open));) {
		const char *name = entry->d_name;
		bool is_lock = strcmp(name, "lock") == 0 && entry->d_type == DT_REG;
		has_lock |= is_lock;
		ours = ours && (is_lock || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "damaged") == 0 ||
				spool_file_number(name, &number) || spool_file_is_temporary(name));
	}
	return ours && has_lock;
}

static int write_temporary(const char *path, const struct spool_meta *meta, struct bytes payload, bool sync, struct error *err)
{
	_cleanup_(buffer_release) struct buffer head = {.max = SPOOL_HEADER_BYTES + SPOOL_TENANT_MAX};
	int r = spool_record_head(meta, payload, &head, err);
	if (r < 0)
		return r;
	_cleanup_(fd_closep) int fd = io_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, err);
	if (fd < 0)
		return fd;
	r = io_write(fd, head.data, head.len, path, err);
	if (r == 0)
		r = io_write(fd, payload.data, payload.len, path, err);
	return r == 0 && sync ? io_sync(fd, path, err) : r;
}

/* A file whose name may not last is none. */
static int sync_name(const char *path, struct error *err)
{
	char directory[SPOOL_PATH_MAX];
	snprintf(directory, sizeof(directory), "%s", path);
	char *slash = strrchr(directory, '/');
	if (slash)
		*slash = '\0';
	int r = io_sync_dir(slash ? directory : ".", err);
	if (r < 0)
		io_unlink(path, NULL);
	return r;
}

int spool_file_write(const char *path, const struct spool_meta *meta, struct bytes payload, const char *same, bool sync,
		     struct error *err)
{
	char temporary[SPOOL_PATH_MAX];
	if (same && *same && link(same, path) == 0)
		return sync ? sync_name(path, err) : 0;
	if (snprintf(temporary, sizeof(temporary), "%s.tmp", path) >= (int)sizeof(temporary))
		return error_set(err, -ENAMETOOLONG, "the path %.200s is too long", path);
	int r = write_temporary(temporary, meta, payload, sync, err);
	if (r == 0)
		r = io_rename(temporary, path, err);
	if (r < 0)
		io_unlink(temporary, NULL);
	return r == 0 && sync ? sync_name(path, err) : r;
}

static size_t count_files(const char *directory)
{
	size_t count = 0;
	_cleanup_(dir_closep) DIR *open = opendir(directory);
	for (const struct dirent *entry; open && (entry = readdir(open));)
		count += entry->d_name[0] != '.';
	return count;
}

void spool_file_set_aside(const char *directory, const char *path)
{
	char damaged[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX];
	int r = io_join_path(damaged, sizeof(damaged), directory, "damaged");
	if (r == 0)
		r = io_make_dirs(damaged, 0700, NULL);
	if (r == 0)
		r = io_join_path(to, sizeof(to), damaged, text_base_name(path));
	if (r < 0 || count_files(damaged) >= DAMAGED_MAX || io_rename(path, to, NULL) < 0)
		io_unlink(path, NULL);
}
