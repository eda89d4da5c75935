/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/record_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "base/map.h"
#include "base/text.h"

#define CPUINFO_BYTES_MAX (8u * 1024 * 1024)
#define FIELD_DIGITS_MAX  9

/* ---- command lines ---- */

static bool is_plain(struct bytes argument)
{
	for (size_t i = 0; i < argument.len; i++) {
		uint8_t c = argument.data[i];
		if (c <= ' ' || c == 0x7f || strchr("'\"\\$`*?[]{}()<>|&;!#~", c))
			return false;
	}
	return argument.len > 0;
}

static void append_argument(struct buffer *out, struct bytes argument)
{
	if (out->len)
		buffer_append_byte(out, ' ');
	if (is_plain(argument)) {
		buffer_append(out, argument.data, argument.len);
		return;
	}
	buffer_append_byte(out, '\'');
	for (size_t i = 0; i < argument.len; i++) {
		if (argument.data[i] == '\'')
			buffer_append_string(out, "'\\'");
		buffer_append_byte(out, argument.data[i]);
	}
	buffer_append_byte(out, '\'');
}

static int cut(struct buffer *out)
{
	int r = buffer_status(out);
	if (r == 0 && out->len > RECORD_ARGUMENTS_MAX) {
		out->len = text_cut(buffer_bytes(out), RECORD_ARGUMENTS_MAX - strlen(" ..."));
		buffer_append_string(out, " ...");
		r = buffer_status(out);
	}
	return r;
}

int record_join_arguments(const char *const *arguments, struct buffer *out)
{
	for (size_t i = 0; arguments[i] && out->len <= RECORD_ARGUMENTS_MAX && buffer_status(out) == 0; i++)
		append_argument(out, bytes_of_string(arguments[i]));
	return cut(out);
}

int record_read_arguments(pid_t pid, struct buffer *out)
{
	_cleanup_(buffer_release) struct buffer text = {.max = RECORD_ARGUMENTS_MAX + 1};
	_cleanup_(fd_closep) int fd = -1;
	char path[64];
	uint8_t part[4096];
	ssize_t got = 0;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && text.len <= RECORD_ARGUMENTS_MAX && (got = read(fd, part, sizeof(part))) > 0) {
		size_t room = text.max - text.len;
		buffer_append(&text, part, (size_t)got < room ? (size_t)got : room);
	}
	if (buffer_status(&text) < 0)
		return -ENOMEM;
	for (size_t at = 0; at < text.len;) {
		const uint8_t *end = memchr(text.data + at, '\0', text.len - at);
		size_t len = end ? (size_t)(end - text.data) - at : text.len - at;
		append_argument(out, (struct bytes){text.data + at, len});
		at += len + 1;
	}
	return cut(out);
}

/* ---- the machine ---- */

/* The value of "key<tabs>: value" in a line. */
static bool read_field(struct bytes line, const char *key, struct bytes *ret)
{
	size_t len = strlen(key);
	const uint8_t *colon = line.len ? memchr(line.data, ':', line.len) : NULL;
	if (!colon || line.len < len || memcmp(line.data, key, len) != 0)
		return false;
	for (const uint8_t *c = line.data + len; c < colon; c++)
		if (*c != ' ' && *c != '\t')
			return false;
	const uint8_t *from = colon + 1, *end = line.data + line.len;
	while (from < end && *from == ' ')
		from++;
	while (end > from && end[-1] == ' ')
		end--;
	*ret = (struct bytes){from, (size_t)(end - from)};
	return true;
}

static bool read_number(struct bytes line, const char *key, uint64_t *ret)
{
	struct bytes value;
	uint64_t number = 0;
	if (!read_field(line, key, &value) || value.len == 0 || value.len > FIELD_DIGITS_MAX)
		return false;
	for (size_t i = 0; i < value.len; i++) {
		if (value.data[i] < '0' || value.data[i] > '9')
			return false;
		number = 10 * number + (value.data[i] - '0');
	}
	*ret = number;
	return true;
}

uint32_t record_count_cores(struct bytes cpuinfo)
{
	_cleanup_(map64_release) struct map64 cores = {0};
	uint64_t package = 0, core;
	while (cpuinfo.len) {
		struct bytes line = bytes_take_line(&cpuinfo);
		/* A package comes before its core. */
		if (read_number(line, "physical id", &package) || !read_number(line, "core id", &core))
			continue;
		if (map64_put(&cores, package << 32 | core, 1) < 0)
			return 0;
	}
	return (uint32_t)cores.count;
}

struct bytes record_cpu_name(struct bytes cpuinfo)
{
	struct bytes name;
	while (cpuinfo.len)
		if (read_field(bytes_take_line(&cpuinfo), "model name", &name))
			return name;
	return (struct bytes){0};
}

int record_describe_machine(struct profile *profile, struct profile_machine *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer cpuinfo = {.max = CPUINFO_BYTES_MAX};
	struct utsname names;
	char system[sizeof(names.sysname) + sizeof(names.release) + sizeof(names.machine) + 3];
	int r = 0;
	if (io_read_file("/proc/cpuinfo", CPUINFO_BYTES_MAX, &cpuinfo, NULL) < 0)
		buffer_clear(&cpuinfo);
	long logical = sysconf(_SC_NPROCESSORS_ONLN);
	ret->logical_cpus = logical > 0 ? (uint32_t)logical : 0;
	ret->physical_cpus = record_count_cores(buffer_bytes(&cpuinfo));
	r = profile_add_bytes(profile, record_cpu_name(buffer_bytes(&cpuinfo)), &ret->cpu_name, err);
	if (r < 0 || uname(&names) != 0)
		return r;
	snprintf(system, sizeof(system), "%s %s %s", names.sysname, names.release, names.machine);
	return profile_add_cstring(profile, system, &ret->system, err);
}
