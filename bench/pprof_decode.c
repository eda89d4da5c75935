/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast profiles are decoded: pprof_decode FILE [ROUNDS]. The file may be compressed and in any format; decompression is
 * timed apart. Prints what the profile holds and MB/s (10^6 bytes a second of CPU time of one thread), the best of the rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/compress.h"
#include "format/format.h"

static int fail(const struct error *err)
{
	fprintf(stderr, "pprof_decode: %s\n", err->message);
	return 1;
}

static double best_rate(const struct format *format, struct bytes input, uint64_t rounds, struct error *err)
{
	struct format_options options = {.decompressed_max = LIMIT_PROFILE_FILE_BYTES};
	int64_t best = INT64_MAX;
	for (uint64_t i = 0; i < rounds; i++) {
		struct profile *profile = NULL;
		int64_t start = time_thread_cpu_ns();
		if (format->decode(input, &options, &profile, err) < 0)
			return -1;
		int64_t took = time_thread_cpu_ns() - start;
		if (i == 0)
			printf("%s: %zu bytes, %zu samples, %zu locations, %zu functions, %zu trie nodes, %zu strings\n",
			       format->name, input.len, profile->sample_count, profile->location_count - 1,
			       profile->function_count - 1, profile->stack_count - 1, profile->strings.count - 1);
		profile_free(profile);
		if (took < best)
			best = took;
	}
	return (double)input.len * 1000 / (double)(best ? best : 1);
}

int main(int argc, char **argv)
{
	struct error err = {0};
	struct buffer file, plain;
	uint64_t rounds = 5;
	if (argc < 2 || (argc > 2 && (text_parse_u64(argv[2], &rounds, &err) < 0 || rounds == 0))) {
		fprintf(stderr, "usage: pprof_decode FILE [ROUNDS]\n");
		return 2;
	}
	buffer_init(&file, LIMIT_PROFILE_FILE_BYTES);
	buffer_init(&plain, LIMIT_PROFILE_FILE_BYTES);
	if (io_read_file(argv[1], LIMIT_PROFILE_FILE_BYTES, &file, &err) < 0)
		return fail(&err);
	struct bytes input = buffer_bytes(&file);
	int64_t start = time_thread_cpu_ns();
	if (gzip_detect(input) && gzip_decompress(input, &plain, &err) < 0)
		return fail(&err);
	if (zstd_detect(input) && zstd_decompress(input, &plain, &err) < 0)
		return fail(&err);
	if (plain.len > 0) {
		printf("decompress: %.0f MB/s\n", (double)plain.len * 1000 / (double)(time_thread_cpu_ns() - start));
		input = buffer_bytes(&plain);
	}
	const struct format *format = format_detect(input);
	if (!format) {
		fprintf(stderr, "pprof_decode: %s: not a format that is known\n", argv[1]);
		return 1;
	}
	double rate = best_rate(format, input, rounds, &err);
	if (rate < 0)
		return fail(&err);
	printf("decode: %.0f MB/s (best of %llu)\n", rate, (unsigned long long)rounds);
	buffer_release(&file);
	buffer_release(&plain);
	return 0;
}
