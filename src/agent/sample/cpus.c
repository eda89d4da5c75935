// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/cpus.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/io.h"

unsigned cpu_set_count(const struct cpu_set *set)
{
	unsigned count = 0;
	for (size_t i = 0; i < CPUS_MAX / 64; i++)
		count += (unsigned)__builtin_popcountll(set->words[i]);
	return count;
}

unsigned cpu_set_limit(const struct cpu_set *set)
{
	for (size_t i = CPUS_MAX / 64; i-- > 0;) {
		if (set->words[i])
			return (unsigned)(i * 64) + 64 - (unsigned)__builtin_clzll(set->words[i]);
	}
	return 0;
}

/* A number of at most 6 digits; false if there is none or a longer one. */
static bool scan_number(const char **at, unsigned *ret)
{
	unsigned value = 0, digits = 0;
	for (; isdigit((unsigned char)**at); (*at)++, digits++) {
		if (digits == 6)
			return false;
		value = value * 10 + (unsigned)(**at - '0');
	}
	*ret = value;
	return digits > 0;
}

int cpu_set_parse(const char *text, struct cpu_set *ret, struct error *err)
{
	struct cpu_set set = {0};
	const char *at = text;
	while (*at && *at != '\n') {
		unsigned first, last;
		if (!scan_number(&at, &first))
			return error_set(err, -EINVAL, "list of CPUs \"%.64s\": a number is missing or too long", text);
		last = first;
		if (*at == '-' && (at++, !scan_number(&at, &last)))
			return error_set(err, -EINVAL, "list of CPUs \"%.64s\": a range has no end", text);
		if (last < first)
			return error_set(err, -EINVAL, "list of CPUs \"%.64s\": a range runs backwards", text);
		if (last >= CPUS_MAX)
			return error_set(err, -ERANGE, "list of CPUs \"%.64s\": more than %u CPUs are not supported", text,
					 CPUS_MAX);
		for (unsigned cpu = first; cpu <= last; cpu++)
			set.words[cpu / 64] |= 1ull << (cpu % 64);
		if (*at == ',')
			at++;
		else if (*at && *at != '\n')
			return error_set(err, -EINVAL, "list of CPUs \"%.64s\": unexpected '%c'", text, *at);
	}
	*ret = set;
	return 0;
}

int cpu_set_read(const char *name, struct cpu_set *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 65536};
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", name);
	int r = io_read_file(path, text.max, &text, err);
	if (r < 0)
		return r;
	const char *list = buffer_string(&text);
	return list ? cpu_set_parse(list, ret, err) : error_nomem(err);
}

int cpu_limit_read(unsigned *ret, struct error *err)
{
	struct cpu_set possible;
	int r = cpu_set_read("possible", &possible, err);
	if (r == 0)
		*ret = cpu_set_limit(&possible);
	return r;
}
