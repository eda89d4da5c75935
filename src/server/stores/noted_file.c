/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stores/noted_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/text.h"
#include "codec/gzip_note.h"
#include "codec/json.h"

#define TORN_ENDING ".torn"

bool noted_text(const json_t *note, const char *name, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(note, name));
	snprintf(out, size, "%s", text ? text : "");
	return text && strlen(text) < size;
}

bool noted_number(const json_t *note, const char *name, int64_t least, int64_t most, int64_t *ret)
{
	const json_t *value = json_object_get(note, name);
	*ret = json_integer_value(value);
	return json_is_integer(value) && *ret >= least && *ret <= most;
}

static int torn(const struct noted_form *form, struct error *err, const char *why)
{
	return error_set(err, -EBADMSG, "%s: %s", form->torn, why);
}

static struct noted_content content_of(struct bytes rest)
{
	struct noted_content content = {.bytes = rest.len};
	struct hash128 hash = hash128(rest.data, rest.len);
	snprintf(content.hash, sizeof(content.hash), "%016llx%016llx", (unsigned long long)hash.high,
		 (unsigned long long)hash.low);
	return content;
}

int noted_write_header(const struct noted_form *form, void *of, struct bytes gzip, struct buffer *out, struct bytes *ret_rest,
		       struct error *err)
{
	_cleanup_(buffer_release) struct buffer note = {.max = NOTED_HEADER_MAX - GZIP_NOTE_HEADER(0)};
	int r = gzip_note_skip(gzip, ret_rest, err);
	if (r < 0)
		return error_prefix(err, r, "%s", form->torn);
	*(struct noted_content *)((char *)of + form->content) = content_of(*ret_rest);
	struct json_writer json = {.out = &note};
	json_begin_object(&json);
	json_member_int(&json, "version", 1);
	form->write(&json, of);
	json_end_object(&json);
	r = json_finish(&json, err);
	return r < 0 ? r : gzip_note_write(buffer_bytes(&note), out, err);
}

int noted_read_header(const struct noted_form *form, struct bytes begin, void *ret, size_t *ret_header, struct error *err)
{
	struct bytes note;
	int64_t version;
	int r = gzip_note_read(begin, &note, ret_header, err);
	if (r < 0)
		return error_prefix(err, r, "%s", form->torn);
	_cleanup_(json_decrefp) json_t *root = json_loadb((const char *)note.data, note.len, JSON_REJECT_DUPLICATES, NULL);
	if (noted_number(root, "version", 1, 1, &version) && form->read(root, ret))
		return 0;
	return torn(form, err, "its header is malformed");
}

int noted_check(const struct noted_form *form, struct bytes whole, void *ret, struct error *err)
{
	struct bytes begin = {whole.data, whole.len < NOTED_HEADER_MAX ? whole.len : NOTED_HEADER_MAX};
	const struct noted_content *content = (const struct noted_content *)((char *)ret + form->content);
	size_t header;
	int r = noted_read_header(form, begin, ret, &header, err);
	if (r < 0)
		return r;
	if (whole.len - header != content->bytes)
		return torn(form, err, "its size has changed");
	struct noted_content found = content_of(bytes_skip(whole, header));
	return strcmp(found.hash, content->hash) == 0 ? 0 : torn(form, err, "its contents have changed");
}

int noted_look(const struct noted_form *form, const char *path, void *ret, uint64_t *ret_size, struct error *err)
{
	const struct noted_content *content = (const struct noted_content *)((char *)ret + form->content);
	const char *name = text_base_name(path);
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY | O_NOFOLLOW, 0, err);
	_cleanup_(mem_freep) uint8_t *begin = mem_alloc(NOTED_HEADER_MAX);
	uint64_t size;
	size_t header;
	if (fd < 0 || !begin)
		return fd < 0 ? fd : error_nomem(err);
	int r = io_file_size(fd, &size, name, err);
	ssize_t len = r < 0 ? r : io_pread(fd, begin, NOTED_HEADER_MAX, 0, name, err);
	if (len < 0)
		return (int)len;
	r = noted_read_header(form, (struct bytes){begin, (size_t)len}, ret, &header, err);
	if (r < 0)
		return r;
	if (header + content->bytes != size)
		return error_set(err, -EBADMSG, "it has %llu bytes instead of %llu", (unsigned long long)size,
				 (unsigned long long)(header + content->bytes));
	*ret_size = size;
	return 0;
}

int noted_put(const char *path, struct bytes header, struct bytes rest, struct error *err)
{
	_cleanup_(io_output_freep) struct io_output *output = NULL;
	int r = io_output_open(path, 0640, &output, err);
	if (r == 0)
		r = io_output_write(output, header.data, header.len, err);
	if (r == 0)
		r = io_output_write(output, rest.data, rest.len, err);
	return r < 0 ? r : io_output_finish(output, err);
}

/* ---- directories ---- */

void problems_report(const struct store_problems *problems, const char *text)
{
	if (problems->report)
		problems->report(problems->context, text);
}

void noted_set_aside(const struct store_problems *problems, const char *path, const char *why)
{
	char aside[PATH_MAX], text[PATH_MAX + ERROR_MESSAGE_MAX];
	snprintf(text, sizeof(text), "%s: %s; it is set aside as *" TORN_ENDING, path, why);
	problems_report(problems, text);
	if (snprintf(aside, sizeof(aside), "%s" TORN_ENDING, path) < (int)sizeof(aside))
		io_rename(path, aside, NULL);
}

void noted_remove(const struct store_problems *problems, const char *path)
{
	struct error err = {0};
	if (io_unlink(path, &err) < 0)
		problems_report(problems, err.message);
}

int noted_load(const char *path, int (*load)(void *context, const char *name, struct error *err), void *context,
	       struct error *err)
{
	const struct dirent *entry;
	char below[PATH_MAX];
	int r = io_make_dirs(path, 0750, err);
	_cleanup_(dir_closep) DIR *directory = r == 0 ? opendir(path) : NULL;
	if (r == 0 && !directory)
		r = error_set_errno(err, -errno, "cannot list %s", path);
	while (r == 0 && (entry = readdir(directory))) {
		if (text_ends_with(entry->d_name, NOTED_ENDING))
			r = load(context, entry->d_name, err);
		else if (text_ends_with(entry->d_name, ".tmp") && io_join_path(below, sizeof(below), path, entry->d_name) == 0)
			io_unlink(below, NULL); /* a crash left it */
	}
	return r;
}
