/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Firefox Profiler's processed format, which profiler.firefox.com saves and opens, and which samply writes
 * (https://github.com/firefox-devtools/profiler, docs-developer/CHANGELOG-formats.md). JSON, most often gzipped:
 *
 *   meta     version, start, sampling interval, categories ...
 *   libs     the binaries, with the ids that symbol servers know
 *   shared   stringArray, sources, funcTable, frameTable, stackTable, resourceTable, nativeSymbols
 *   threads  samples, each a row of stackTable (or null), a time since the start in milliseconds, and a weight; markers
 *
 * What is shared are tables: objects of columns, whose rows refer to each other by number.
 *
 * A stack is a frame and a prefix, as here; a frame is one function at one address, so that inlined calls are frames of their
 * own at the address of the call; a function (name, source, binary) is what the viewer adds up.
 *
 * Versions. A viewer refuses what is newer than itself and upgrades what is older, so 60 is written by default, which is from
 * 2025. What differs in the tables that matter here:
 *
 *   50   samples may have timeDeltas instead of time
 *   56   one stringArray for all threads            58   funcTable.source instead of .fileName, shared.sources
 *   60   tables are shared by all threads           61   sources.uuid is called id, and they have starts
 *   64   originalLocation, sourceLocationTable      66   stackTable.prefixOffset instead of .prefix
 *   70   frameTable.lib instead of resourceTable.lib
 *   71   frameTable.flags instead of null and .inlineDepth
 *   74   nativeSymbols.functionSize -1 instead of null
 *   75   funcTable.flags instead of null, .isJS and .relevantForJS
 *
 * What does not fit. A sample has one weight of three kinds (samples, milliseconds, bytes) and CPU time; values become the
 * one that their unit says. Samples need times: those of profiles that have none are put in a row, and the file says so.
 * Labels of samples have no place but those of threads and processes.
 */
#include "format/firefox/firefox_int.h"

#include <string.h>

#include "codec/json_tree.h"

const struct firefox_category firefox_categories[FIREFOX_CATEGORIES] = {
	[PROFILE_FRAME_UNKNOWN] = {"Other", "grey"},
	[PROFILE_FRAME_NATIVE] = {"User", "yellow"},
	[PROFILE_FRAME_KERNEL] = {"Kernel", "orange"},
	[PROFILE_FRAME_JIT] = {"JIT", "blue"},
	[PROFILE_FRAME_INTERPRETED] = {"Interpreter", "purple"},
};

/* meta names the version; it stands first in most files, but need not. */
static bool detect(struct bytes input)
{
	static const char member[] = "\"preprocessedProfileVersion\"";
	return json_looks_like_object(input) && memmem(input.data, input.len, member, strlen(member));
}

const struct format format_firefox = {
	.name = "firefox",
	.extensions = ".firefox.json .firefox",
	.description = "Firefox Profiler's processed format: profiler.firefox.com, samply",
	.holds = FORMAT_HOLDS_TIMES | FORMAT_HOLDS_THREADS | FORMAT_HOLDS_FILES | FORMAT_HOLDS_LINES | FORMAT_HOLDS_INLINES |
		 FORMAT_HOLDS_ADDRESSES | FORMAT_HOLDS_COMMENTS | FORMAT_HOLDS_FRAME_TYPES | FORMAT_HOLDS_MARKERS |
		 FORMAT_HOLDS_RESOURCE_LABELS,
	.detect = detect,
	.decode = firefox_decode,
	.write = firefox_write,
};
