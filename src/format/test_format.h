/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of this folder's tests: test data, programs to compare with, and a profile as text. */
#ifndef WICK_FORMAT_TEST_FORMAT_H
#define WICK_FORMAT_TEST_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/test_programs.h"
#include "base/text.h"
#include "format/format_int.h"

#define HELPER static inline __attribute__((unused))

/* The path of a test data file; skips the test if there is no test data. */
HELPER const char *data_path(const char *name)
{
	static char path[2048];
	const char *dir = getenv("WICK_TEST_DATA");
	if (!dir)
		dir = "../shared/data";
	if (access(dir, R_OK) != 0) {
		printf("skipped: there is no test data in %s\n", dir);
		skip();
	}
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

HELPER struct buffer read_data(const char *name)
{
	struct buffer file;
	struct error err = {0};
	buffer_init(&file, LIMIT_PROFILE_FILE_BYTES);
	if (io_read_file(data_path(name), file.max, &file, &err) < 0)
		fail_msg("%s", err.message);
	return file;
}

/* The standard output of a shell command; NULL when it fails. The caller frees. */
HELPER char *output_of(const char *command)
{
	struct buffer out;
	int ends[2], status;
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close(ends[1]);
	char block[64 * 1024];
	ssize_t len;
	while ((len = io_read(ends[0], block, sizeof(block), "pipe", NULL)) > 0)
		assert_int_equal(buffer_append(&out, block, (size_t)len), 0);
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	char *text = status == 0 ? strdup(buffer_string(&out)) : NULL;
	buffer_release(&out);
	return text;
}

HELPER void need_program(const char *name)
{
	if (!test_program_is_there(name)) {
		printf("skipped: %s is not installed\n", name);
		skip();
	}
}

/* Fails the test with the decoder's message. */
HELPER struct profile *decode_or_fail(const struct format *format, struct bytes input, const char *name)
{
	struct format_options options = {.input_name = name, .decompressed_max = LIMIT_PROFILE_FILE_BYTES};
	struct profile *profile = NULL;
	struct error err = {0};
	if (format_decode(format, input, &options, &profile, &err) < 0)
		fail_msg("%s", err.message);
	return profile;
}

HELPER struct buffer encode_or_fail(const struct format *format, const struct profile *profile)
{
	struct format_options options = {0};
	struct buffer out;
	struct error err = {0};
	buffer_init(&out, LIMIT_PROFILE_FILE_BYTES);
	if (format_encode(format, profile, &options, &out, &err) < 0)
		fail_msg("%s", err.message);
	return out;
}

/* A copy whose end is the end of a heap block, so that the sanitizer sees reads beyond it. */
HELPER uint8_t *exact_copy(struct bytes bytes)
{
	uint8_t *copy = malloc(bytes.len ? bytes.len : 1);
	assert_non_null(copy);
	if (bytes.len > 0)
		memcpy(copy, bytes.data, bytes.len);
	return copy;
}

/* ---- a profile as text: equal profiles give equal text whatever their ids ---- */

HELPER void dump_location(const struct profile *profile, uint32_t id, struct buffer *out)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	buffer_printf(out, " [t%u %s0x%llx", location->frame_type, location->folded ? "folded " : "",
		      (unsigned long long)location->address);
	if (location->mapping)
		buffer_printf(out, " in %s %s %llx-%llx+%llx", profile_string(profile, mapping->file_name),
			      profile_string(profile, mapping->build_id), (unsigned long long)mapping->start,
			      (unsigned long long)mapping->limit, (unsigned long long)mapping->offset);
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct profile_line *line = &profile->lines[location->line_first + i];
		const struct profile_function *function = &profile->functions[line->function];
		buffer_printf(out, " %s|%s|%s:%lld %lld:%lld", profile_string(profile, function->name),
			      profile_string(profile, function->system_name), profile_string(profile, function->file_name),
			      (long long)function->start_line, (long long)line->line, (long long)line->column);
	}
	buffer_append_string(out, "]");
}

HELPER void dump_labels(const struct profile *profile, uint32_t set, struct buffer *out)
{
	for (uint32_t i = 0; i < profile->label_sets[set].count; i++) {
		const struct profile_label *label = &profile->labels[profile->label_sets[set].first + i];
		buffer_printf(out, " %s=%s/%lld/%s", profile_string(profile, label->key), profile_string(profile, label->value),
			      (long long)label->number, profile_string(profile, label->unit));
	}
}

/* One sample a line, sorted. */
HELPER void dump_samples(const struct profile *profile, struct buffer *out)
{
	char **lines = calloc(profile->sample_count + 1, sizeof(*lines));
	uint32_t stack[LIMIT_STACK_DEPTH];
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		struct buffer line;
		buffer_init(&line, 64 * MIB);
		size_t depth = profile_stack_locations(profile, sample->stack, stack, LIMIT_STACK_DEPTH);
		for (size_t f = 0; f < depth; f++)
			dump_location(profile, stack[f], &line);
		buffer_append_string(&line, " {");
		dump_labels(profile, sample->labels, &line);
		buffer_printf(&line, " } @%lld", (long long)sample->time_ns);
		for (size_t b = 0; b < 16; b++)
			buffer_printf(&line, "%02x", profile->links[sample->link].trace_id[b]);
		for (size_t v = 0; v < profile->sample_type_count; v++)
			buffer_printf(&line, " %lld", (long long)profile->values[i * profile->sample_type_count + v]);
		lines[i] = strdup(buffer_string(&line));
		buffer_release(&line);
	}
	qsort(lines, profile->sample_count, sizeof(*lines), text_compare);
	for (size_t i = 0; i < profile->sample_count; i++) {
		buffer_printf(out, "%s\n", lines[i]);
		free(lines[i]);
	}
	free(lines);
}

/* The caller frees. */
HELPER char *dump_profile(const struct profile *profile)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	for (size_t i = 0; i < profile->sample_type_count; i++)
		buffer_printf(&out, "type %s/%s\n", profile_string(profile, profile->sample_types[i].type),
			      profile_string(profile, profile->sample_types[i].unit));
	buffer_printf(&out, "period %s/%s %lld time %lld duration %lld\n", profile_string(profile, profile->period_type.type),
		      profile_string(profile, profile->period_type.unit), (long long)profile->period,
		      (long long)profile->time_ns, (long long)profile->duration_ns);
	buffer_append_string(&out, "resource");
	dump_labels(profile, profile->resource_labels, &out);
	buffer_printf(&out, "\ndrop %s keep %s default %s doc %s\n", profile_string(profile, profile->drop_frames),
		      profile_string(profile, profile->keep_frames), profile_string(profile, profile->default_sample_type),
		      profile_string(profile, profile->doc_url));
	for (size_t i = 0; i < profile->comment_count; i++)
		buffer_printf(&out, "comment %s\n", profile_string(profile, profile->comments[i]));
	dump_samples(profile, &out);
	char *text = strdup(buffer_string(&out));
	buffer_release(&out);
	return text;
}

HELPER void assert_profiles_equal(const struct profile *a, const struct profile *b)
{
	char *left = dump_profile(a), *right = dump_profile(b);
	if (strcmp(left, right) != 0) {
		size_t at = 0;
		while (left[at] == right[at])
			at++;
		size_t from = at > 80 ? at - 80 : 0;
		fail_msg("profiles differ at %zu:\n  ...%.200s\n  ...%.200s", at, left + from, right + from);
	}
	free(left);
	free(right);
}

/* ---- verdicts ---- */

/* Calls `check` for each line "FILE TAB VERDICT TAB why" of a VERDICTS.tsv. */
HELPER void for_each_verdict(const char *dir, void (*check)(const char *path, const char *name, const char *verdict))
{
	char path[512];
	snprintf(path, sizeof(path), "%s/VERDICTS.tsv", dir);
	struct buffer file = read_data(path);
	size_t count = 0;
	char *rest = (char *)(uintptr_t)buffer_string(&file), *line;
	assert_non_null(rest);
	while ((line = strsep(&rest, "\n"))) {
		char *name = strsep(&line, "\t"), *verdict = strsep(&line, "\t");
		if (!verdict)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		check(path, name, verdict);
		count++;
	}
	assert_true(count >= 16);
	buffer_release(&file);
}

/* ---- damaged input, and no memory ---- */

#define DAMAGED_ROUNDS 3000

struct random {
	uint64_t state;
};
HELPER uint64_t random_next(struct random *random)
{
	random->state ^= random->state << 13;
	random->state ^= random->state >> 7;
	random->state ^= random->state << 17;
	return random->state;
}

/* A copy of the input cut short or with some bytes changed, the same on every run; the caller frees. */
HELPER struct bytes damage(struct bytes input, size_t round, struct random *random)
{
	struct bytes damaged = input;
	if (round % 8 == 0)
		damaged.len = random_next(random) % (input.len + 1);
	uint8_t *copy = exact_copy(damaged);
	size_t changes = round % 8 == 0 ? 0 : 1 + random_next(random) % 4;
	for (size_t c = 0; c < changes; c++) {
		uint64_t bits = random_next(random);
		copy[bits % damaged.len] = (uint8_t)(bits >> 32);
	}
	return (struct bytes){copy, damaged.len};
}

#define RANDOM_START ((struct random){88172645463325252ull})

HELPER void try_damaged(struct bytes input, size_t rounds, void (*try)(struct bytes damaged))
{
	struct random random = RANDOM_START;
	for (size_t i = 0; i < rounds; i++) {
		struct bytes damaged = damage(input, i, &random);
		try(damaged);
		free((void *)(uintptr_t)damaged.data);
	}
}

/* Detects and decodes damaged input, and encodes what comes of it if the format is written, too. */
HELPER void check_damaged(const struct format *format, struct bytes input)
{
	struct random random = RANDOM_START;
	for (size_t i = 0; i < DAMAGED_ROUNDS; i++) {
		struct bytes damaged = damage(input, i, &random);
		struct profile *profile = NULL;
		format->detect(damaged);
		if (format->decode(damaged, NULL, &profile, NULL) == 0 && format_is_written(format)) {
			struct buffer out = encode_or_fail(format, profile);
			buffer_release(&out);
		}
		profile_free(profile);
		free((void *)(uintptr_t)damaged.data);
	}
}

/* The same with the n-th allocation failing, for each n that there is. */
HELPER void check_no_memory(const struct format *format, struct bytes input)
{
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		struct profile *profile = NULL;
		struct buffer out;
		buffer_init(&out, SIZE_MAX);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = format->decode(input, NULL, &profile, NULL);
		if (r == 0 && format_is_written(format))
			r = format_encode(format, profile, NULL, &out, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		if (reached)
			assert_int_equal(out.len, 0);
		buffer_release(&out);
		profile_free(profile);
	}
}

#endif
