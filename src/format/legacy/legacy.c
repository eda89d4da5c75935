/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles from before pprof's protocol buffers, as `go tool pprof` reads them (google/pprof, profile/legacy_profile.go and
 * legacy_java_profile.go; gperftools, docs/cpuprofile-fileformat.html, src/profiledata.cc, src/malloc_extension.cc).
 *
 *   CPU          words of 32 or 64 bits, of either byte order: 0, 3, 0 (1 = Java), period in microseconds, 0;
 *                then samples: count, depth, addresses leaf first; at the end 0, 1, 0; then the text of /proc/PID/maps
 *   heap         "heap profile: N: BYTES [N: BYTES] @ heap_v2/RATE", then "N: BYTES [N: BYTES] @ 0xADDRESS ..."; the numbers in
 *                brackets are of all allocations. growth, fragmentation: the same with "@ growthz"
 *   counts       Go: "NAME profile: total N", then "N @ 0xADDRESS ..."
 *   threads      "--- threadz N ---", then "--- Thread ID (name: NAME/ID) stack: ---" and addresses
 *   contention   "--- contentionz 1 ---" (Go: "--- mutex:", "--- contention:"), "cycles/second = N", "sampling period = N",
 *                then "DELAY COUNT @ 0xADDRESS ..."
 *   Java         as heap and contention, with attributes "format = java"; addresses are ids, named below by
 *                "0xADDRESS NAME (FILE:LINE)"
 *
 * Text formats end with "MAPPED_LIBRARIES:" and the text of /proc/PID/maps. Addresses of callers (in some formats all
 * addresses) are where calls return to; one less is in the call.
 *
 * Which files are accepted, and what the numbers become, is google/pprof's choice, odd as it may be: heap samples are scaled by
 * the chance that they had to be taken, the two frames of the signal handler that gperftools leaves behind the leaf are taken
 * out where nearly all samples have them, mappings are joined where they touch, and the program's comes first.
 *
 * The formats have addresses only. Names come from binaries: `wick convert --symbols always`.
 */
#include "format/legacy/legacy_int.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"

#define HEAD_BYTES_MAX (64 * KIB) /* of comments before a header */

/* ---- lines ---- */

bool legacy_is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

struct bytes legacy_trim(struct bytes text)
{
	while (text.len > 0 && legacy_is_space(text.data[text.len - 1]))
		text.len--;
	while (text.len > 0 && legacy_is_space(text.data[0]))
		text = bytes_skip(text, 1);
	return text;
}

bool legacy_is_comment(struct bytes line)
{
	line = legacy_trim(line);
	return line.len == 0 || line.data[0] == '#';
}

bool scan_text(struct legacy_scan *scan, const char *text)
{
	if (!bytes_start_with(scan->rest, text))
		return false;
	scan->rest = bytes_skip(scan->rest, strlen(text));
	return true;
}

void scan_blanks(struct legacy_scan *scan)
{
	while (scan->rest.len > 0 && scan->rest.data[0] == ' ')
		scan->rest = bytes_skip(scan->rest, 1);
}

bool scan_digits(struct legacy_scan *scan, struct bytes *ret)
{
	size_t len = 0;
	while (len < scan->rest.len && text_is_digit(scan->rest.data[len]))
		len++;
	*ret = (struct bytes){scan->rest.data, len};
	scan->rest = bytes_skip(scan->rest, len);
	return len > 0;
}

static bool number_of(struct bytes digits, unsigned base, bool is_negative, int64_t *ret)
{
	uint64_t value = 0;
	if (digits.len == 0)
		return false;
	for (size_t i = 0; i < digits.len; i++) {
		int digit = text_hex_digit(digits.data[i]);
		if (digit < 0 || digit >= (int)base || __builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit, &value))
			return false;
	}
	if (value > (uint64_t)INT64_MAX + is_negative)
		return false;
	*ret = is_negative ? (int64_t)(0 - value) : (int64_t)value;
	return true;
}

bool legacy_number(struct bytes digits, int64_t *ret)
{
	bool is_negative = bytes_start_with(digits, "-");
	return number_of(bytes_skip(digits, is_negative), 10, is_negative, ret);
}

bool legacy_any_number(struct bytes text, int64_t *ret)
{
	bool is_negative = bytes_start_with(text, "-");
	unsigned base = 10;
	text = bytes_skip(text, is_negative || bytes_start_with(text, "+"));
	if (bytes_start_with(text, "0x") || bytes_start_with(text, "0X")) {
		text = bytes_skip(text, 2);
		base = 16;
	} else if (text.len > 1 && text.data[0] == '0') {
		base = 8;
	}
	return number_of(text, base, is_negative, ret);
}

bool legacy_hex(struct bytes digits, uint64_t *ret)
{
	uint64_t value = 0;
	for (size_t i = 0; i < digits.len; i++) {
		int digit = text_hex_digit(digits.data[i]);
		if (digit < 0 || value >> 60)
			return false;
		value = value << 4 | (uint64_t)digit;
	}
	*ret = value;
	return digits.len > 0;
}

size_t legacy_find_number(struct bytes text, size_t from, bool is_signed)
{
	for (size_t at = from; at < text.len; at++) {
		if (!text_is_digit(text.data[at]) || (at > 0 && text_is_digit(text.data[at - 1])))
			continue;
		return is_signed && at > from && text.data[at - 1] == '-' ? at - 1 : at;
	}
	return text.len;
}

int64_t legacy_clamp(double value)
{
	if (!(value > -0x1p63))
		return INT64_MIN;
	return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

/* A sample of size S appears with a chance of 1 - exp(-S / rate). */
void legacy_scale_heap(int64_t rate, int64_t *count, int64_t *size)
{
	if (*count == 0 || *size == 0) {
		*count = *size = 0;
		return;
	}
	if (rate <= 1)
		return;
	double average = (double)*size / (double)*count, scale = 1 / (1 - exp(-average / (double)rate));
	*count = legacy_clamp((double)*count * scale);
	*size = legacy_clamp((double)*size * scale);
}

/* ---- samples ---- */

int legacy_begin_sample(struct legacy *legacy, const int64_t *values, size_t count, struct error *err)
{
	struct legacy_sample sample = {.first = legacy->frame_count};
	memcpy(sample.values, values, count * sizeof(*values));
	int r = array_push(&legacy->samples, &legacy->sample_count, &legacy->sample_capacity, LIMIT_PROFILE_ENTITIES, sample);
	if (r == -E2BIG)
		return error_set(err, r, "more than %u samples, the limit", LIMIT_PROFILE_ENTITIES);
	return r < 0 ? error_nomem(err) : 0;
}

int legacy_add_frame(struct legacy *legacy, uint64_t address, struct error *err)
{
	struct legacy_sample *sample = &legacy->samples[legacy->sample_count - 1];
	uint64_t number;
	if (sample->count == LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "sample %zu: the stack is deeper than %d frames, the limit",
				 legacy->sample_count - 1, LIMIT_STACK_DEPTH);
	if (!map64_get(&legacy->number_of_address, address, &number)) {
		number = legacy->address_count;
		int r = array_push(&legacy->addresses, &legacy->address_count, &legacy->address_capacity,
				   LIMIT_PROFILE_ENTITIES, (struct legacy_address){.address = address});
		if (r == -E2BIG)
			return error_set(err, r, "more than %u addresses, the limit", LIMIT_PROFILE_ENTITIES);
		if (r < 0 || map64_put(&legacy->number_of_address, address, number) < 0)
			return error_nomem(err);
	}
	if (array_push(&legacy->frames, &legacy->frame_count, &legacy->frame_capacity, SIZE_MAX, (uint32_t)number) < 0)
		return error_nomem(err);
	sample->count++;
	return 0;
}

int legacy_add_frames(struct legacy *legacy, struct bytes text, size_t returns_from, struct error *err)
{
	int r = 0;
	for (size_t at = 0; r == 0 && at + 2 < text.len;) {
		size_t len = 0;
		uint64_t address;
		const uint8_t *digits = text.data + at + 2;
		while (at + 2 + len < text.len && (text_is_digit(digits[len]) || (digits[len] >= 'a' && digits[len] <= 'f')))
			len++;
		if (text.data[at] != '0' || text.data[at + 1] != 'x' || len == 0) {
			at++;
			continue;
		}
		if (!legacy_hex((struct bytes){digits, len}, &address))
			return error_set(err, -EBADMSG, "an address has more than 64 bits");
		r = legacy_add_frame(legacy, address - (legacy->samples[legacy->sample_count - 1].count >= returns_from), err);
		at += 2 + len;
	}
	return r;
}

uint64_t legacy_frame(const struct legacy *legacy, const struct legacy_sample *sample, size_t depth)
{
	return legacy->addresses[legacy->frames[sample->first + depth]].address;
}

void legacy_drop_frame(struct legacy *legacy, struct legacy_sample *sample, size_t depth)
{
	uint32_t *frames = legacy->frames + sample->first;
	sample->count--;
	memmove(frames + depth, frames + depth + 1, (sample->count - depth) * sizeof(*frames));
}

void legacy_drop_doubled_leaves(struct legacy *legacy)
{
	for (size_t i = 0; i < legacy->sample_count; i++) {
		struct legacy_sample *sample = &legacy->samples[i];
		if (sample->count > 1 && legacy_frame(legacy, sample, 0) == legacy_frame(legacy, sample, 1) + 1)
			legacy_drop_frame(legacy, sample, 1);
	}
}

/* ---- the profile ---- */

static int add_mappings(struct legacy *legacy, uint32_t *ids, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < legacy->mapping_count; i++) {
		const struct legacy_mapping *from = &legacy->mappings[i];
		struct profile_mapping mapping = {.start = from->start,
						  .limit = from->limit,
						  .offset = from->offset,
						  .file_name = from->file,
						  .build_id = from->build_id};
		r = profile_add_mapping(legacy->profile, &mapping, &ids[i], err);
	}
	return r;
}

static int add_location(struct legacy *legacy, const struct legacy_address *from, const uint32_t *mapping_ids, uint32_t *ret,
			struct error *err)
{
	struct profile_line line = {.function = from->function, .line = from->line};
	/* Java's addresses are ids, which mean nothing elsewhere. */
	struct profile_location location = {.address = legacy->is_java ? 0 : from->address};
	if (from->mapping)
		location.mapping = mapping_ids[from->mapping - 1];
	if (location.mapping && location.address) {
		uint32_t file = legacy->profile->mappings[location.mapping].file_name;
		bool is_kernel = format_is_kernel_file(profile_string_bytes(legacy->profile, file));
		location.frame_type = is_kernel ? PROFILE_FRAME_KERNEL : PROFILE_FRAME_NATIVE;
	}
	return profile_add_location(legacy->profile, &location, &line, from->function != 0, ret, err);
}

static int add_sample(struct legacy *legacy, const struct legacy_sample *from, uint32_t bytes_key, const uint32_t *mapping_ids,
		      uint32_t *location_ids, struct error *err)
{
	struct profile_sample sample = {0};
	uint32_t locations[LIMIT_STACK_DEPTH];
	int r = 0;
	for (size_t i = 0; r == 0 && i < from->count; i++) {
		uint32_t number = legacy->frames[from->first + i];
		if (!location_ids[number])
			r = add_location(legacy, &legacy->addresses[number], mapping_ids, &location_ids[number], err);
		locations[i] = location_ids[number];
	}
	if (r == 0)
		r = profile_add_stack_leaf_first(legacy->profile, locations, from->count, &sample.stack, err);
	if (r == 0 && from->block_bytes) {
		struct profile_label label = {.key = bytes_key, .number = from->block_bytes};
		r = profile_add_label_set(legacy->profile, &label, 1, &sample.labels, err);
	}
	return r < 0 ? r : profile_add_sample(legacy->profile, &sample, from->values, err);
}

static int build(struct legacy *legacy, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *mapping_ids = mem_zalloc_array(legacy->mapping_count + 1, sizeof(*mapping_ids));
	_cleanup_(mem_freep) uint32_t *location_ids = mem_zalloc_array(legacy->address_count + 1, sizeof(*location_ids));
	uint32_t bytes_key = 0;
	if (!mapping_ids || !location_ids)
		return error_nomem(err);
	int r = profile_add_cstring(legacy->profile, "bytes", &bytes_key, err);
	if (r == 0)
		r = add_mappings(legacy, mapping_ids, err);
	for (size_t i = 0; r == 0 && i < legacy->sample_count; i++)
		r = add_sample(legacy, &legacy->samples[i], bytes_key, mapping_ids, location_ids, err);
	return r;
}

/* ---- which one ---- */

/* Frames of whoever measured, which `go tool pprof` and `wick report` leave out once they have names. */
#define ALLOCATOR_FRAMES                                                                                                       \
	"(tc_|do_|__libc_|__)?(malloc|calloc|realloc|c?free|p?valloc|memalign|posix_memalign|new|delete|newarray|deletearray)" \
	"(_nothrow|_pages|_no_errno)?|do_memalign|tcmalloc::.*|malloc_zone_[a-z]+|runtime\\..*|operator "                      \
	"(new|delete)(\\[\\])?|"                                                                                               \
	"__builtin_(vec_)?(new|delete)|.*alloc(ator)?::allocate|_M_allocate|DoSampledAllocation"
#define KEPT_FRAMES "runtime\\.(panic|reflectcall|call[0-9]*)"
#define LOCK_FRAMES                                                                                                            \
	"(base::)?(RecordLockProfileData|SubmitMutexProfileData|SubmitSpinLockProfileData).*|"                                 \
	"(base::)?(Mutex|MutexLock|SpinLock|SpinLockHolder)::(AwaitCommon|(Slow|Reader)?Unlock|~MutexLock|~SpinLockHolder).*"
#define PROFILER_FRAMES "ProfileData::Add|(ProfileData|CpuProfiler)::prof_handler|__pthread_sighandler|__restore(_rt)?"

enum dropped_frames { FRAMES_OF_PROFILER, FRAMES_OF_ALLOCATOR, FRAMES_OF_LOCK };
static int set_dropped_frames(struct profile *profile, enum dropped_frames frames, struct error *err)
{
	static const char *const dropped[] = {PROFILER_FRAMES, ALLOCATOR_FRAMES, LOCK_FRAMES};
	int r = profile_add_cstring(profile, dropped[frames], &profile->drop_frames, err);
	return r < 0 || frames != FRAMES_OF_ALLOCATOR ? r
						      : profile_add_cstring(profile, KEPT_FRAMES, &profile->keep_frames, err);
}

/* By the name of the first value. */
static enum dropped_frames frames_of(const struct profile *profile)
{
	struct bytes name = {0};
	if (profile->sample_type_count > 0)
		name = profile_string_bytes(profile, profile->sample_types[0].type);
	if (bytes_equal_string(name, "contentions"))
		return FRAMES_OF_LOCK;
	bool is_heap = name.len >= 7 && memcmp(name.data + name.len - 7, "objects", 7) == 0;
	return is_heap ? FRAMES_OF_ALLOCATOR : FRAMES_OF_PROFILER;
}

/* The kinds, in the order in which they are looked for. */
enum kind { KIND_NONE, KIND_CPU, KIND_HEAP, KIND_COUNTS, KIND_THREADS, KIND_CONTENTION, KIND_JAVA };

static const struct {
	const char *name;
	int (*read)(struct legacy *legacy, struct bytes input, struct error *err);
} kinds[] = {
	[KIND_NONE] = {NULL, NULL},
	[KIND_CPU] = {"CPU", legacy_read_cpu},
	[KIND_HEAP] = {"heap", legacy_read_heap},
	[KIND_COUNTS] = {"count", legacy_read_counts},
	[KIND_THREADS] = {"thread", legacy_read_threads},
	[KIND_CONTENTION] = {"contention", legacy_read_contention},
	[KIND_JAVA] = {"Java", legacy_read_java},
};

/* Words 0, 3 (or more), 0. Protocol buffers never start with a zero byte, a little-endian one always does. */
static bool is_cpu(struct bytes input)
{
	for (size_t word = 4; word <= 8; word += 4) {
		if (input.len < 5 * word)
			return false;
		uint64_t first = 0, little = 0, big = 0;
		for (size_t i = 0; i < word; i++) {
			first |= input.data[i];
			little |= (uint64_t)input.data[word + i] << (8 * i);
			big = big << 8 | input.data[word + i];
		}
		if (first == 0 && ((little >= 3 && little <= 16) || (big >= 3 && big <= 16)))
			return true;
	}
	return false;
}

static bool is_count_header(struct bytes line)
{
	static const char text[] = " profile: total ";
	const uint8_t *at = memmem(line.data, line.len, text, sizeof(text) - 1);
	size_t name = at ? (size_t)(at - line.data) : 0;
	if (name == 0 || memchr(line.data, ' ', name) || memchr(line.data, '\t', name))
		return false;
	struct legacy_scan scan = {bytes_skip(line, name + sizeof(text) - 1)};
	struct bytes digits;
	return scan_digits(&scan, &digits) && scan.rest.len == 0;
}

/* Java's have the same first line as C++'s, and attributes of their own. */
static bool has_java_attributes(struct bytes rest)
{
	for (unsigned lines = 0; rest.len > 0 && lines < 8; lines++) {
		struct bytes line = bytes_take_line(&rest);
		struct bytes trimmed = legacy_trim(line);
		if (bytes_start_with(trimmed, "format") || bytes_start_with(trimmed, "resolution"))
			return true;
	}
	return false;
}

static enum kind text_kind(struct bytes input)
{
	struct bytes rest = {input.data, input.len < HEAD_BYTES_MAX ? input.len : HEAD_BYTES_MAX};
	struct bytes line = {input.data, 0};
	bool is_first = true;
	while (rest.len > 0 && legacy_is_comment(line = bytes_take_line(&rest)))
		is_first = false;
	line = legacy_trim(line);
	if (text_has_controls(line))
		return KIND_NONE;
	if (is_first && memmem(line.data, line.len, "heap profile:", 13))
		return KIND_HEAP;
	if (is_count_header(line))
		return KIND_COUNTS;
	if (bytes_start_with(line, "--- threadz ") || bytes_start_with(line, "--- Thread "))
		return KIND_THREADS;
	if (is_first && (bytes_start_with(line, "--- mutex:") || bytes_start_with(line, "--- contention:")))
		return KIND_CONTENTION;
	if (is_first && bytes_start_with(line, "--- contentionz "))
		return has_java_attributes(rest) ? KIND_JAVA : KIND_CONTENTION;
	return is_first && bytes_equal_string(line, "--- heapz 1 ---") ? KIND_JAVA : KIND_NONE;
}

static enum kind kind_of(struct bytes input)
{
	return is_cpu(input) ? KIND_CPU : text_kind(input);
}

const char *legacy_kind(struct bytes input)
{
	return kinds[kind_of(input)].name;
}

static int note(const struct legacy *legacy, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{legacy->counts.cut_stacks, "stacks: frames beyond the end of the file, which is truncated"},
		{legacy->counts.unread_lines, "lines between the samples and the mappings"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

static int decode(struct legacy *legacy, struct bytes input, const struct format_options *options, struct error *err)
{
	enum kind kind = kind_of(input);
	if (kind == KIND_NONE)
		return error_set(err, -EBADMSG, "not a profile of gperftools or Go's older formats");
	int r = profile_new(&legacy->profile, err);
	if (r == 0)
		r = kinds[kind].read(legacy, input, err);
	if (r < 0)
		return error_prefix(err, r, "%s profile of gperftools' format", kinds[kind].name);
	r = legacy_place_addresses(legacy, err);
	if (r == 0)
		r = set_dropped_frames(legacy->profile, frames_of(legacy->profile), err);
	if (r == 0)
		r = build(legacy, err);
	return r < 0 ? r : note(legacy, options, err);
}

int legacy_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct legacy legacy = {0};
	map64_init_guarded(&legacy.number_of_address);
	int r = decode(&legacy, input, options, err);
	r = format_finish(r, legacy.profile, ret);
	map64_release(&legacy.number_of_address);
	mem_free(legacy.addresses);
	mem_free(legacy.frames);
	mem_free(legacy.samples);
	mem_free(legacy.mappings);
	return r;
}
