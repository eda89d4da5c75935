/* SPDX-License-Identifier: Apache-2.0 */
#include "store/hosts/host_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"

#define SHORT_BYTES MIB /* not worth writing anew */

int host_file_init(struct host_file *file, const char *directory, struct error *err)
{
	*file = (struct host_file){.fd = -1};
	int r = io_join_path(file->path, sizeof(file->path), directory, HOST_JOURNAL_NAME);
	return r < 0 ? error_set_errno(err, r, "%s", directory) : 0;
}

void host_file_release(struct host_file *file)
{
	file->fd = io_close(file->fd);
}

static int add_record(void *context, const char *host, const struct labels *labels, int64_t first_ns, int64_t last_ns,
		      struct error *err)
{
	int r = host_table_note(context, host, labels, first_ns, last_ns, NULL);
	return r == -ENOMEM ? error_nomem(err) : 0;
}

int host_file_read(struct host_file *file, struct host_table *table, struct buffer *ret_contents,
		   struct host_journal_result *ret, struct error *err)
{
	struct error why = {0};
	*ret = (struct host_journal_result){0};
	int r = io_read_file(file->path, HOST_JOURNAL_BYTES_MAX, ret_contents, &why);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	r = host_journal_read(buffer_bytes(ret_contents), add_record, table, ret, err);
	file->bytes = file->written_bytes = ret_contents->len;
	return r < 0 ? error_prefix(err, r, "%s", file->path) : 0;
}

int host_file_check(struct host_file *file, struct host_journal_result *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer contents = {0};
	_cleanup_(host_table_freep) struct host_table *table = NULL;
	int r = host_table_new(&table, err);
	return r < 0 ? r : host_file_read(file, table, &contents, ret, err);
}

int host_file_mend(struct host_file *file, const struct host_table *table, struct bytes contents, const char *quarantine,
		   char to[static PATH_MAX], struct error *err)
{
	char name[64];
	snprintf(name, sizeof(name), HOST_JOURNAL_NAME "-%lld", (long long)(time_now_ns() / NS_PER_MS));
	int r = io_make_dirs(quarantine, 0750, err);
	if (r == 0 && (r = io_join_path(to, PATH_MAX, quarantine, name)) < 0)
		error_set_errno(err, r, "%s", quarantine);
	if (r == 0)
		r = io_write_file(to, contents.data, contents.len, 0640, err);
	return r < 0 ? r : host_file_write(file, table, err);
}

static int write_run(void *context, const struct store_host *host, struct error *err)
{
	int r = host_journal_add(context, host->name, host->labels, host->first_ns, host->last_ns);
	return r < 0 ? error_set(err, r, "the table of hosts is too large to be written") : 0;
}

int host_file_write(struct host_file *file, const struct host_table *table, struct error *err)
{
	_cleanup_(buffer_release) struct buffer contents = {.max = HOST_JOURNAL_BYTES_MAX};
	file->fd = io_close(file->fd);
	int r = host_journal_begin(&contents);
	r = r < 0 ? error_nomem(err) : host_table_read(table, NULL, 0, INT64_MIN, INT64_MAX, write_run, &contents, err);
	if (r == 0)
		r = io_write_file(file->path, contents.data, contents.len, 0640, err);
	if (r < 0)
		return r;
	file->bytes = file->written_bytes = contents.len;
	file->fd = io_open(file->path, O_WRONLY | O_APPEND, 0, err);
	return file->fd < 0 ? file->fd : 0;
}

int host_file_append(struct host_file *file, const struct host_table *table, const char *host, const struct labels *labels,
		     int64_t time_ns, struct error *err)
{
	_cleanup_(buffer_release) struct buffer record = {.max = HOST_JOURNAL_BYTES_MAX};
	int r = host_journal_add(&record, host, labels, time_ns, time_ns);
	if (r < 0)
		return error_nomem(err);
	if (file->fd < 0 || file->bytes + record.len > HOST_JOURNAL_BYTES_MAX)
		r = host_file_write(file, table, err);
	if (r == 0)
		r = io_write(file->fd, record.data, record.len, file->path, err);
	if (r == 0)
		r = io_sync(file->fd, file->path, err);
	if (r < 0)
		file->fd = io_close(file->fd);
	else
		file->bytes += record.len;
	return r;
}

bool host_file_is_long(const struct host_file *file)
{
	return file->bytes > 2 * file->written_bytes + SHORT_BYTES;
}
