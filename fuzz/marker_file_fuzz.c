/* SPDX-License-Identifier: Apache-2.0 */
/* Shared files of programs that make markers: whatever stands in them, what comes out is a sound profile. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/markers/marker_recorder_int.h"
#include "must.h"
#include "profile/merge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next bytes of the input, and where in the file they go. */
static void put(int fd, const uint8_t **data, size_t *size, uint64_t at, size_t len)
{
	if (len > *size)
		len = *size;
	must(pwrite(fd, *data, len, (off_t)at) == (ssize_t)len);
	*data += len;
	*size -= len;
}

static int make_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create(WICKMARK_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(fd >= 0 && ftruncate(fd, (off_t)WICKMARK_FILE_BYTES) == 0);
	bool sound = size && *data & 1;
	put(fd, &data, &size, 0, sizeof(struct wickmark_header));
	/* Most inputs should pass the check of the header. */
	uint64_t magic = WICKMARK_MAGIC;
	uint32_t abi_and_clock[] = {WICKMARK_ABI, sound ? WICKMARK_CLOCK_MONOTONIC : WICKMARK_CLOCK_TSC};
	must(pwrite(fd, &magic, sizeof(magic), 0) == sizeof(magic));
	must(pwrite(fd, abi_and_clock, sizeof(abi_and_clock), 8) == sizeof(abi_and_clock));
	put(fd, &data, &size, WICKMARK_AT_THREADS, 2 * sizeof(struct wickmark_thread));
	put(fd, &data, &size, WICKMARK_AT_SITES, 3 * sizeof(struct wickmark_site_entry));
	put(fd, &data, &size, WICKMARK_AT_STRINGS, 256);
	put(fd, &data, &size, WICKMARK_AT_LONGS, 2 * sizeof(struct wickmark_long));
	put(fd, &data, &size, WICKMARK_AT_RINGS, 64 * sizeof(struct wickmark_record));
	put(fd, &data, &size, WICKMARK_AT_RINGS + WICKMARK_RING_BYTES, size);
	must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	return fd;
}

static void check_profile(const struct profile *profile)
{
	struct profile *merged;
	must(profile_new(&merged, NULL) == 0 && profile_merge(merged, profile, false, NULL) == 0);
	must(profile_marker_count(merged) == profile_marker_count(profile));
	profile_free(merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct marker_clock clock;
	struct marker_output output;
	struct marker_file *file;
	must(marker_clock_init(&clock) == 0 && marker_output_init(&output, &clock, NULL) == 0);
	/* The times of an input are its own, so the recording is as long as time. */
	clock.begin_ns = 0;
	output.max = data && size % 2 ? 10000 : 50; /* downsampled, or not */
	if (marker_file_open(&output, make_file(data, size), getpid(), &file, NULL) == 0) {
		for (int i = 0; i < 2; i++) {
			clock.end_ns = INT64_MAX;
			must(marker_file_drain(file, NULL) == 0);
		}
		must(marker_file_finish(file, NULL) == 0);
		marker_file_free(file);
	}
	check_profile(output.profile);
	marker_output_release(&output);
	marker_clock_release(&clock);
	return 0;
}
