/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf.data, what `perf record` writes (tools/perf/Documentation/perf.data-file-format.txt and perf_event_open(2)).
 *
 *   a file                                              a pipe (perf record -o -)
 *   "PERFILE2", u64 104                                 "PERFILE2", u64 16
 *   u64 bytes of an entry of attrs                      records: the same, and those that stand for the header,
 *   attrs, data, event types: {u64 offset, u64 size}             HEADER_ATTR, HEADER_FEATURE ...
 *   256 bits: which features follow the data
 *   attrs: perf_event_attr, {offset, size} of its ids
 *   data: records
 *   {offset, size} of each feature, in the order of the bits: build-ids, host name, names of events, clock ...
 *
 *   a record   u32 type, u16 misc, u16 size (with these 8 bytes), then fields by type (perf_data_sample.c)
 *   COMPRESSED bytes of one zstd stream, which holds records, over all such records; a record may go on in the next
 *   AUXTRACE   and, in pipes, HEADER_TRACING_DATA are followed by bytes that their size does not count
 *
 * All numbers are in the order of the machine that recorded, which the magic shows. Version 1 (before Linux 3.9, perf of 2013)
 * has the magic "PERFFILE" on all machines; there the size of the header shows the order. Each processor has a buffer of its
 * own, which perf empties in turn, so records are in order by processor only. perf sorts them between two FINISHED_ROUND
 * records; all are sorted here, which needs no trust in those, and takes 16 bytes a record. Records without a time come first:
 * perf writes them before all others, to tell of processes that are there already.
 *
 * The values are "samples" and one for each event, of the sums of its periods (nanoseconds for cpu-clock and task-clock); where
 * there are several events the label "event" distinguishes them, and more than 31 share one value. Threads, processes, CPUs and
 * cgroups are labels. Times are those of the clock that was recorded with, since boot, unless the recording has how that
 * stood to the time of day (perf record -k CLOCK_MONOTONIC).
 *
 * Where the samples of one event have the counters of a group with them ({a,b}:S), each of the group has a sample.
 *
 * Copies of user stacks are unwound (perf_data_unwind.c).
 *
 * Left out, and said: fields of tracepoints, branch stacks, addresses and weights of memory samples,
 * hardware traces (AUX), stacks of virtual machines' guests.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "format/perf/perf_data_int.h"

static int note(const struct perf_reader *reader, const struct format_options *options, struct error *err)
{
	const struct perf_counts *counts = &reader->counts;
	struct buffer *notes = options ? options->notes : NULL;
	const struct format_left_out left_out[] = {
		{counts->lost_events, "events that were lost while recording"},
		{counts->lost_samples, "samples that were lost while recording"},
		{counts->strays, "samples that have the id of no event"},
		{counts->throttled, "times the kernel throttled sampling"},
		{counts->cut_stacks, "stacks: outermost frames beyond the depth limit"},
		{counts->stacks, "copies of stacks (--call-graph dwarf): user frames except the innermost"},
		{counts->short_copies, "stacks: outermost frames that the copy of the stack does not reach (perf record "
				       "--call-graph dwarf,BYTES)"},
		{counts->incomplete, "stacks: outermost frames that could not be unwound"},
		{counts->deferred, "user stacks that were recorded later than their samples"},
		{counts->raws, "samples: fields of tracepoints"},
		{counts->branches, "samples: branch stacks"},
		{counts->reads, "samples: values of counters"},
		{counts->memory, "samples: addresses, weights or sources of data"},
		{counts->aux_bytes, "bytes of hardware traces"},
		{counts->guests, "frames of virtual machines: symbols"},
	};
	int r = format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
	if (r < 0 || !notes)
		return r;
	if (counts->is_unfinished)
		buffer_append_string(notes, "the last records: perf record did not exit properly\n");
	if (!reader->has_clock && counts->samples)
		buffer_append_string(notes, "the time of day: times count from the boot of the machine (perf record -k "
					    "CLOCK_MONOTONIC records it)\n");
	return format_note_status(notes, err);
}

static void release(struct perf_reader *reader)
{
	buffer_release(&reader->plain);
	zstd_stream_release(&reader->zstd);
	reader->events = mem_free(reader->events);
	reader->places = mem_free(reader->places);
	map64_release(&reader->event_of_id);
	map64_release(&reader->build_ids);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	size_t plain_max = options && options->decompressed_max ? options->decompressed_max : LIMIT_PROFILE_INPUT_BYTES;
	struct perf_reader reader = {.input = input, .plain.max = plain_max};
	map64_init_guarded(&reader.event_of_id);
	map64_init_guarded(&reader.build_ids);
	int r = profile_new(&reader.profile, err);
	if (r == 0)
		r = perf_data_scan(&reader, err);
	if (r == 0)
		r = perf_data_build(&reader, options, err);
	if (r == 0)
		r = note(&reader, options, err);
	r = format_finish(r, reader.profile, ret);
	release(&reader);
	return r;
}

static bool detect(struct bytes input)
{
	return perf_data_is_magic(input);
}

const struct format format_perf_data = {
	.name = "perf.data",
	.extensions = ".perf.data .data",
	.description = "what perf record writes, to files and pipes",
	.detect = detect,
	.decode = decode,
};
