/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of `perf script` (tools/perf/builtin-script.c of the kernel's sources): what is left of a recording when the machine
 * that it was made on is gone, since the names are in it.
 *
 *   COMM  PID/TID [CPU] SECONDS.FRACTION:  PERIOD EVENT: [ADDRESS NAME+0xOFFSET (FILE)]
 *   <tab>ADDRESS NAME+0xOFFSET (FILE)        the leaf first
 *     SOURCE:LINE                            of the frame before, with -F +srcline
 *   (an empty line)
 *
 * Which fields there are is up to -F; the text does not tell. Names of threads hold blanks and digits, so the line is read from
 * the time, which is easily told, or else from what looks like PID/TID, [CPU] or EVENT:, to both sides. One number alone is the
 * thread's, as in perf's default. Frames that were inlined have "(inlined)" for a file, and come before the one that they are
 * inlined into, with the same address. Lines of comment hold the recording's command and host (--header); lines of other
 * records than samples (--show-mmap-events ...) are left out, except that lost samples are counted.
 *
 * What comes of it: a value "samples", and one for each event with the sums of its periods, where there are any (nanoseconds
 * for clocks); a sample of several events also has the label "event". Times are those of perf's clock, which as a
 * rule counts from the start of the machine. Addresses are as perf writes them: in a call chain relative to the file, alone on
 * the line of the sample as they were in memory.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/time.h"
#include "format/format_int.h"

#define TOKENS_MAX	20 /* of a sample's line that are looked at: a thread's name is 15 bytes */
#define INLINED_MAX	1024
#define DETECT_MAX	(64 * 1024)
#define ADDRESS_COLUMNS 16 /* that perf pads addresses to */

/* ---- lines ---- */

struct head {
	struct bytes comm, event;
	int64_t pid, tid, cpu, period, time_ns;
	bool has_pid, has_tid, has_cpu, has_period, has_time;
	struct bytes rest; /* behind the event: a frame, or what a tracepoint says */
};

struct tokens {
	struct bytes items[TOKENS_MAX];
	size_t count;
};

static bool is_blank(uint8_t byte)
{
	return byte == ' ' || byte == '\t' || byte == '\r';
}

static struct bytes trim(struct bytes text)
{
	while (text.len > 0 && is_blank(text.data[0]))
		text = (struct bytes){text.data + 1, text.len - 1};
	while (text.len > 0 && is_blank(text.data[text.len - 1]))
		text.len--;
	return text;
}

/* The first word; *text becomes what follows it. */
static struct bytes next_word(struct bytes *text)
{
	size_t from = 0, to;
	while (from < text->len && is_blank(text->data[from]))
		from++;
	for (to = from; to < text->len && !is_blank(text->data[to]); to++)
		;
	struct bytes word = {text->data + from, to - from};
	*text = (struct bytes){text->data + to, text->len - to};
	return word;
}

static void split(struct bytes line, struct tokens *ret)
{
	ret->count = 0;
	while (ret->count < TOKENS_MAX) {
		struct bytes word = next_word(&line);
		if (word.len == 0)
			return;
		ret->items[ret->count++] = word;
	}
}

/* Decimal digits, at least one, of at most 18; -1 for "-1", which perf has for what it does not know. */
static bool parse_number(struct bytes text, int64_t *ret)
{
	int64_t value = 0;
	if (text.len == 2 && memcmp(text.data, "-1", 2) == 0) {
		*ret = -1;
		return true;
	}
	if (text.len == 0 || text.len > 18)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		value = value * 10 + (text.data[i] - '0');
	}
	*ret = value;
	return true;
}

/* "PID/TID" */
static bool parse_ids(struct bytes text, int64_t *pid, int64_t *tid)
{
	const uint8_t *slash = text.len ? memchr(text.data, '/', text.len) : NULL;
	return slash && parse_number((struct bytes){text.data, (size_t)(slash - text.data)}, pid) &&
	       parse_number((struct bytes){slash + 1, (size_t)(text.data + text.len - slash - 1)}, tid);
}

/* "74462.194780:", with 6 or 9 digits behind the point */
static bool parse_time(struct bytes text, int64_t *ret_ns)
{
	const uint8_t *point = text.len ? memchr(text.data, '.', text.len) : NULL;
	int64_t seconds, fraction;
	if (!point || text.data[text.len - 1] != ':')
		return false;
	struct bytes digits = {point + 1, (size_t)(text.data + text.len - 1 - point - 1)};
	if (digits.len == 0 || digits.len > 9 || !parse_number(digits, &fraction) || fraction < 0 ||
	    !parse_number((struct bytes){text.data, (size_t)(point - text.data)}, &seconds) || seconds < 0)
		return false;
	for (size_t i = digits.len; i < 9; i++)
		fraction *= 10;
	return !__builtin_mul_overflow(seconds, NS_PER_S, ret_ns) && !__builtin_add_overflow(*ret_ns, fraction, ret_ns);
}

/* "[003]" */
static bool parse_cpu(struct bytes text, int64_t *ret)
{
	return text.len > 2 && text.data[0] == '[' && text.data[text.len - 1] == ']' &&
	       parse_number((struct bytes){text.data + 1, text.len - 2}, ret);
}

static bool is_event(struct bytes text)
{
	return text.len > 1 && text.data[text.len - 1] == ':' && text.data[0] != ':' && text.data[0] != '[' &&
	       text.data[0] != '(';
}

/* Which word is the first behind the ids; 0 if the line has nothing to tell it by. */
static size_t find_anchor(const struct tokens *tokens, bool indented)
{
	int64_t a, b;
	for (size_t i = 0; i < tokens->count; i++)
		if (parse_time(tokens->items[i], &a))
			return i > 0 && parse_cpu(tokens->items[i - 1], &b) ? i - 1 : i;
	for (size_t i = 0; i < tokens->count; i++)
		if (parse_ids(tokens->items[i], &a, &b) || (i > 0 && parse_cpu(tokens->items[i], &a)))
			return parse_cpu(tokens->items[i], &a) ? i : i + 1;
	for (size_t i = 1; i + 1 < tokens->count; i++)
		if (parse_number(tokens->items[i], &a) &&
		    (is_event(tokens->items[i + 1]) ||
		     (i + 2 < tokens->count && parse_number(tokens->items[i + 1], &b) && is_event(tokens->items[i + 2]))))
			return i + 1;
	/* "COMM TID" alone */
	if (!indented && tokens->count > 1 && parse_number(tokens->items[tokens->count - 1], &a))
		return tokens->count;
	return 0;
}

/* Where a word ends, to the end of the line. */
static struct bytes behind(struct bytes line, struct bytes word)
{
	const uint8_t *end = word.data + word.len;
	return (struct bytes){end, (size_t)(line.data + line.len - end)};
}

/* An address that perf has padded, as it does for a frame on the line of its sample. */
static bool is_padded_address(struct bytes rest)
{
	uint64_t address;
	size_t before = rest.len;
	struct bytes word = next_word(&rest);
	return format_parse_address(word, &address) && before - rest.len >= ADDRESS_COLUMNS;
}

static void read_values(struct bytes line, const struct tokens *tokens, size_t at, struct head *ret)
{
	ret->rest = at > 0 ? behind(line, tokens->items[at - 1]) : line;
	if (at < tokens->count && (ret->has_cpu = parse_cpu(tokens->items[at], &ret->cpu)))
		ret->rest = behind(line, tokens->items[at++]);
	if (at < tokens->count && (ret->has_time = parse_time(tokens->items[at], &ret->time_ns)))
		ret->rest = behind(line, tokens->items[at++]);
	bool more = at + 1 < tokens->count;
	if (at < tokens->count && parse_number(tokens->items[at], &ret->period) &&
	    (more ? is_event(tokens->items[at + 1]) : !is_padded_address(ret->rest))) {
		ret->has_period = true;
		ret->rest = behind(line, tokens->items[at++]);
	}
	if (at < tokens->count && is_event(tokens->items[at])) {
		ret->event = tokens->items[at];
		ret->event.len--;
		ret->rest = behind(line, tokens->items[at]);
	}
}

/* A sample's first line. False if it is none. */
static bool parse_head(struct bytes line, struct head *ret)
{
	struct tokens tokens;
	bool indented = line.len > 0 && is_blank(line.data[0]);
	int64_t time;
	*ret = (struct head){0};
	if (line.len == 0 || line.data[0] == '\t')
		return false;
	split(line, &tokens);
	size_t anchor = find_anchor(&tokens, indented), ids = anchor;
	if (anchor == 0 && !(tokens.count > 0 && parse_time(tokens.items[0], &time)))
		return false;
	if (anchor > 0 && parse_ids(tokens.items[anchor - 1], &ret->pid, &ret->tid))
		ret->has_pid = ret->has_tid = true, ids--;
	else if (anchor > 0 && parse_number(tokens.items[anchor - 1], &ret->tid))
		ret->has_tid = true, ids--;
	if (ids > 0) {
		struct bytes last = tokens.items[ids - 1];
		ret->comm = (struct bytes){tokens.items[0].data, (size_t)(last.data + last.len - tokens.items[0].data)};
	}
	read_values(line, &tokens, anchor, ret);
	return true;
}

struct frame {
	uint64_t address;
	bool has_address;
	struct bytes name, file; /* empty = not told */
};

/* "(FILE)" at the end, where FILE may hold parentheses of its own that match, such as those of "(deleted)". */
static struct bytes take_file(struct bytes *text)
{
	size_t at = format_find_parentheses(*text);
	if (at == SIZE_MAX || (at > 0 && !is_blank(text->data[at - 1])))
		return (struct bytes){0};
	struct bytes file = {text->data + at + 1, text->len - at - 2};
	*text = trim((struct bytes){text->data, at});
	return file;
}

/* Takes "+0x1f" off. */
static struct bytes without_offset(struct bytes name)
{
	size_t at = name.len;
	while (at > 0 && ((name.data[at - 1] >= '0' && name.data[at - 1] <= '9') ||
			  (name.data[at - 1] >= 'a' && name.data[at - 1] <= 'f')))
		at--;
	if (at < name.len && at >= 4 && memcmp(name.data + at - 3, "+0x", 3) == 0)
		name.len = at - 3;
	return name;
}

static bool parse_frame(struct bytes line, struct frame *ret)
{
	struct bytes rest = line = trim(line);
	*ret = (struct frame){0};
	if (line.len == 0)
		return false;
	struct bytes word = next_word(&rest);
	ret->has_address = format_parse_address(word, &ret->address);
	rest = trim(ret->has_address ? rest : line);
	ret->file = take_file(&rest);
	ret->name = without_offset(rest);
	return ret->has_address || ret->name.len > 0;
}

/* ---- the profile ---- */

struct known_frame {
	struct bytes text; /* of the input */
	uint32_t location;
};

struct event {
	uint32_t name; /* strings */
	bool has_period;
};

struct record {
	struct profile_sample sample;
	int64_t period;
	uint32_t event;
};

struct reader {
	struct profile *profile;
	size_t line_number;
	struct known_frame *frames; /* equal lines give equal frames */
	size_t frame_count, frame_capacity;
	struct index32 frame_index;
	struct event events[LIMIT_SAMPLE_TYPES];
	size_t event_count;
	struct record *records;
	size_t record_count, record_capacity;
	struct {
		uint32_t comm, pid, tid, cpu, event;
	} keys;
	/* the sample being read */
	bool open;
	struct head head;
	uint32_t locations[LIMIT_STACK_DEPTH]; /* leaf first */
	size_t depth;
	/* the frame being read: lines, the innermost first, that one address has */
	struct profile_line lines[INLINED_MAX];
	size_t line_count;
	uint64_t address;
	struct bytes file;
	struct bytes text; /* of the line, if the frame is that alone */
	/* what was left out */
	uint64_t other_records, lost, unknown_lines;
};

static bool is_unknown(struct bytes text)
{
	return text.len == 0 || bytes_equal_string(text, "[unknown]");
}

static bool is_inlined(struct bytes file)
{
	return bytes_equal_string(file, "inlined");
}

static uint32_t type_of_file(struct bytes file)
{
	if (format_is_kernel_file(file) || bytes_start_with(file, "[guest."))
		return PROFILE_FRAME_KERNEL;
	if (is_unknown(file))
		return PROFILE_FRAME_UNKNOWN;
	const uint8_t *slash = memrchr(file.data, '/', file.len);
	struct bytes name = slash ? behind(file, (struct bytes){slash, 1}) : file;
	bool is_jit =
		(name.len > 5 && memcmp(name.data, "perf-", 5) == 0 && memcmp(name.data + name.len - 4, ".map", 4) == 0) ||
		bytes_start_with(name, "jitted-") || bytes_equal_string(file, "[JIT]");
	return is_jit ? PROFILE_FRAME_JIT : PROFILE_FRAME_NATIVE;
}

/* The location of a line that was read before; true if there is one. */
static bool find_frame(const struct reader *reader, struct bytes text, uint64_t hash, uint32_t *ret)
{
	uint32_t id;
	for (size_t at = index32_first(&reader->frame_index, hash); index32_at(&reader->frame_index, hash, &at, &id); at++) {
		if (!bytes_equal(reader->frames[id].text, text))
			continue;
		*ret = reader->frames[id].location;
		return true;
	}
	return false;
}

static int remember_frame(struct reader *reader, struct bytes text, uint32_t location, struct error *err)
{
	if (array_reserve(&reader->frames, &reader->frame_capacity, reader->frame_count + 1, UINT32_MAX) < 0 ||
	    index32_add(&reader->frame_index, hash64_guarded(text.data, text.len), (uint32_t)reader->frame_count) < 0)
		return error_nomem(err);
	reader->frames[reader->frame_count++] = (struct known_frame){text, location};
	return 0;
}

static int push_location(struct reader *reader, uint32_t location, struct error *err)
{
	if (reader->depth == LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "the stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
	reader->locations[reader->depth++] = location;
	return 0;
}

/* The frame that lines were gathered of is complete. */
static int finish_frame(struct reader *reader, struct error *err)
{
	struct profile_location location = {.address = reader->address, .frame_type = type_of_file(reader->file)};
	struct profile_mapping mapping = {0};
	uint32_t id;
	int r = 0;
	if (reader->line_count == 0 && !reader->text.data)
		return 0;
	if (!is_unknown(reader->file) && !is_inlined(reader->file)) {
		r = profile_add_bytes(reader->profile, reader->file, &mapping.file_name, err);
		mapping.flags = PROFILE_MAPPING_HAS_FUNCTIONS;
		if (r == 0)
			r = profile_add_mapping(reader->profile, &mapping, &location.mapping, err);
	}
	if (is_inlined(reader->file))
		location.frame_type = PROFILE_FRAME_UNKNOWN;
	if (r == 0)
		r = profile_add_location(reader->profile, &location, reader->lines, reader->line_count, &id, err);
	if (r == 0 && reader->text.data)
		r = remember_frame(reader, reader->text, id, err);
	reader->line_count = 0;
	reader->text = (struct bytes){0};
	return r < 0 ? r : push_location(reader, id, err);
}

static int add_line(struct reader *reader, struct bytes name, struct error *err)
{
	struct profile_function function = {0};
	if (is_unknown(name))
		return 0;
	if (reader->line_count == INLINED_MAX)
		return error_set(err, -E2BIG, "more than %d functions are inlined at one address", INLINED_MAX);
	int r = profile_add_bytes(reader->profile, name, &function.name, err);
	struct profile_line line = {0};
	if (r == 0)
		r = profile_add_function(reader->profile, &function, &line.function, err);
	if (r == 0)
		reader->lines[reader->line_count++] = line;
	return r;
}

static int read_frame(struct reader *reader, struct bytes text, bool *ret_is_frame, struct error *err)
{
	struct frame frame;
	uint32_t known;
	int r = 0;
	/* Those that were inlined wait for the one that they are inlined into. */
	bool waits = reader->line_count > 0 && is_inlined(reader->file);
	*ret_is_frame = true;
	if (!waits && find_frame(reader, text, hash64_guarded(text.data, text.len), &known)) {
		r = finish_frame(reader, err);
		return r < 0 ? r : push_location(reader, known, err);
	}
	*ret_is_frame = parse_frame(text, &frame);
	if (!*ret_is_frame)
		return 0;
	bool joins = waits && frame.has_address && frame.address == reader->address;
	if (!joins)
		r = finish_frame(reader, err);
	reader->address = frame.address;
	reader->file = frame.file;
	reader->text = joins || is_inlined(frame.file) ? (struct bytes){0} : text;
	if (r == 0)
		r = add_line(reader, frame.name, err);
	/* A frame that nothing is known of but its address is still one. */
	if (r == 0 && reader->line_count == 0 && !reader->text.data)
		reader->text = text;
	return r;
}

/* "  main.c:17" behind the frame that it is of */
static bool read_source(struct reader *reader, struct bytes text, struct error *err, int *r)
{
	text = trim(text);
	const uint8_t *colon = text.len ? memrchr(text.data, ':', text.len) : NULL;
	int64_t number;
	if (!colon || colon == text.data ||
	    !parse_number((struct bytes){colon + 1, (size_t)(text.data + text.len - colon - 1)}, &number))
		return false;
	if (reader->line_count == 0 || number <= 0)
		return true;
	struct profile_line *line = &reader->lines[reader->line_count - 1];
	struct profile_function function = reader->profile->functions[line->function];
	*r = profile_add_bytes(reader->profile, (struct bytes){text.data, (size_t)(colon - text.data)}, &function.file_name,
			       err);
	if (*r == 0)
		*r = profile_add_function(reader->profile, &function, &line->function, err);
	line->line = number;
	/* The line of the frame no longer has all of it. */
	reader->text = (struct bytes){0};
	return true;
}

static int find_event(struct reader *reader, const struct head *head, uint32_t *ret, struct error *err)
{
	uint32_t name;
	int r = profile_add_bytes(reader->profile, head->event, &name, err);
	if (r < 0)
		return r;
	for (*ret = 0; *ret < reader->event_count; ++*ret)
		if (reader->events[*ret].name == name)
			break;
	if (*ret == LIMIT_SAMPLE_TYPES - 1)
		return error_set(err, -E2BIG, "more than %d events", LIMIT_SAMPLE_TYPES - 1);
	if (*ret == reader->event_count)
		reader->events[reader->event_count++] = (struct event){.name = name};
	reader->events[*ret].has_period |= head->has_period;
	return 0;
}

static int add_labels(struct reader *reader, const struct head *head, uint32_t *ret, struct error *err)
{
	struct profile_label labels[4];
	size_t count = 0;
	int r = 0;
	if (head->comm.len > 0) {
		labels[count] = (struct profile_label){.key = reader->keys.comm};
		r = profile_add_bytes(reader->profile, head->comm, &labels[count++].value, err);
	}
	if (r == 0 && head->has_pid && head->pid >= 0)
		r = profile_number_label(reader->profile, reader->keys.pid, head->pid, &labels[count++], err);
	if (r == 0 && head->has_tid && head->tid >= 0)
		r = profile_number_label(reader->profile, reader->keys.tid, head->tid, &labels[count++], err);
	if (r == 0 && head->has_cpu)
		r = profile_number_label(reader->profile, reader->keys.cpu, head->cpu, &labels[count++], err);
	return r < 0 ? r : profile_add_label_set(reader->profile, labels, count, ret, err);
}

static int finish_sample(struct reader *reader, struct error *err)
{
	struct record record = {0};
	if (!reader->open)
		return 0;
	reader->open = false;
	const struct head *head = &reader->head;
	int r = finish_frame(reader, err);
	if (r == 0)
		r = find_event(reader, head, &record.event, err);
	if (r == 0)
		r = add_labels(reader, head, &record.sample.labels, err);
	if (r == 0)
		r = profile_add_stack_leaf_first(reader->profile, reader->locations, reader->depth, &record.sample.stack, err);
	if (r == 0 && array_reserve(&reader->records, &reader->record_capacity, reader->record_count + 1, SIZE_MAX) < 0)
		r = error_nomem(err);
	if (r < 0)
		return r;
	record.sample.time_ns = head->has_time ? head->time_ns : 0;
	record.period = head->has_period ? head->period : 1;
	reader->records[reader->record_count++] = record;
	return 0;
}

static int begin_sample(struct reader *reader, const struct head *head, struct error *err)
{
	int r = finish_sample(reader, err);
	reader->open = true;
	reader->head = *head;
	reader->depth = 0;
	return r;
}

/* "# hostname : vm" */
static int read_comment(struct reader *reader, struct bytes line, struct error *err)
{
	struct profile_label label = {0};
	uint32_t text;
	line = trim((struct bytes){line.data + 1, line.len - 1});
	const uint8_t *colon = line.len ? memchr(line.data, ':', line.len) : NULL;
	if (!colon)
		return 0;
	struct bytes name = trim((struct bytes){line.data, (size_t)(colon - line.data)}),
		     value = trim(behind(line, (struct bytes){colon, 1}));
	if (bytes_equal_string(name, "cmdline")) {
		int r = profile_add_bytes(reader->profile, value, &text, err);
		return r < 0 ? r : profile_add_comment(reader->profile, text, err);
	}
	if (!bytes_equal_string(name, "hostname"))
		return 0;
	int r = profile_add_cstring(reader->profile, "host.name", &label.key, err);
	if (r == 0)
		r = profile_add_bytes(reader->profile, value, &label.value, err);
	return r < 0 ? r : profile_add_label_set(reader->profile, &label, 1, &reader->profile->resource_labels, err);
}

/* "... PERF_RECORD_LOST lost 12", and records that are no samples. */
static bool is_other_record(struct reader *reader, struct bytes line)
{
	const uint8_t *at = memmem(line.data, line.len, "PERF_RECORD_", 12);
	int64_t lost = 0;
	if (!at)
		return false;
	struct bytes rest = {at, (size_t)(line.data + line.len - at)};
	if (bytes_start_with(rest, "PERF_RECORD_LOST")) {
		const uint8_t *space = memrchr(rest.data, ' ', rest.len);
		if (space && parse_number(behind(rest, (struct bytes){space, 1}), &lost) && lost > 0)
			reader->lost += (uint64_t)lost;
	}
	reader->other_records++;
	return true;
}

static int read_line(struct reader *reader, struct bytes line, struct error *err)
{
	struct head head;
	bool is_frame;
	int r = 0;
	if (trim(line).len == 0)
		return finish_sample(reader, err);
	if (line.data[0] == '#')
		return read_comment(reader, line, err);
	if (line.data[0] != '\t' && is_other_record(reader, line))
		return finish_sample(reader, err);
	if (parse_head(line, &head)) {
		r = begin_sample(reader, &head, err);
		return r < 0 || !is_padded_address(head.rest) ? r : read_frame(reader, trim(head.rest), &is_frame, err);
	}
	/* -F srcline indents by two blanks what it says of the frame before. */
	if (reader->open && line.len > 2 && line.data[0] == ' ' && line.data[2] != ' ') {
		if (!read_source(reader, line, err, &r))
			reader->unknown_lines++;
		return r;
	}
	if (!is_blank(line.data[0])) {
		reader->unknown_lines++;
		return 0;
	}
	if (!reader->open)
		r = begin_sample(reader, &(struct head){0}, err);
	if (r == 0)
		r = read_frame(reader, trim(line), &is_frame, err);
	return r;
}

static int read_lines(struct reader *reader, struct bytes input, struct error *err)
{
	int r = 0;
	while (r == 0 && input.len > 0) {
		reader->line_number++;
		r = read_line(reader, bytes_take_line(&input), err);
	}
	if (r == 0)
		r = finish_sample(reader, err);
	if (r < 0)
		return error_prefix(err, r, "line %zu", reader->line_number);
	return reader->record_count > 0 ? 0 : error_set(err, -EBADMSG, "no samples in it");
}

/* ---- values ---- */

static bool is_clock(struct bytes event)
{
	return bytes_start_with(event, "cpu-clock") || bytes_start_with(event, "task-clock");
}

/* "samples", and the events that have periods, if there are any. */
static int add_types(struct reader *reader, size_t columns[LIMIT_SAMPLE_TYPES], struct error *err)
{
	struct profile *profile = reader->profile;
	int r = profile_add_named_type(profile, "samples", "count", err);
	for (size_t i = 0; r == 0 && i < reader->event_count; i++) {
		struct event *event = &reader->events[i];
		uint32_t unit;
		columns[i] = 0;
		/* A name that is not told, or is "samples", would be a second column of one name. */
		if (!event->has_period || !event->name || strcmp(profile_string(profile, event->name), "samples") == 0)
			continue;
		r = profile_add_cstring(profile, is_clock(profile_string_bytes(profile, event->name)) ? "nanoseconds" : "count",
					&unit, err);
		columns[i] = profile->sample_type_count;
		if (r == 0)
			r = profile_add_sample_type(profile, event->name, unit, err);
	}
	/* What was asked for first is what is shown first. */
	if (r == 0 && profile->sample_type_count > 1)
		profile->default_sample_type = profile->sample_types[1].type;
	return r;
}

/* Where there are several events, a label gives the event of a sample. */
static int label_event(struct reader *reader, struct map64 *known, struct record *record, struct error *err)
{
	uint64_t key = (uint64_t)record->sample.labels << 32 | record->event, set;
	struct profile_label labels[5];
	/* Of a record that has none: a label without a value would be another thing than none. */
	if (!reader->events[record->event].name)
		return 0;
	if (map64_get(known, key, &set)) {
		record->sample.labels = (uint32_t)set;
		return 0;
	}
	const struct profile_label_set *old = &reader->profile->label_sets[record->sample.labels];
	size_t count = old->count;
	for (size_t i = 0; i < count; i++)
		labels[i] = reader->profile->labels[old->first + i];
	labels[count++] = (struct profile_label){.key = reader->keys.event, .value = reader->events[record->event].name};
	int r = profile_add_label_set(reader->profile, labels, count, &record->sample.labels, err);
	if (r == 0 && map64_put(known, key, record->sample.labels) < 0)
		r = error_nomem(err);
	return r;
}

static int label_events(struct reader *reader, struct error *err)
{
	_cleanup_(map64_release) struct map64 known = {0};
	map64_init_guarded(&known);
	int r = 0;
	for (size_t i = 0; r == 0 && reader->event_count > 1 && i < reader->record_count; i++)
		r = label_event(reader, &known, &reader->records[i], err);
	return r;
}

static int add_samples(struct reader *reader, struct error *err)
{
	size_t columns[LIMIT_SAMPLE_TYPES];
	int r = add_types(reader, columns, err);
	if (r == 0)
		r = label_events(reader, err);
	for (size_t i = 0; r == 0 && i < reader->record_count; i++) {
		const struct record *record = &reader->records[i];
		int64_t values[LIMIT_SAMPLE_TYPES] = {0};
		values[columns[record->event]] = record->period;
		values[0] = 1;
		r = profile_add_sample(reader->profile, &record->sample, values, err);
	}
	return r;
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{reader->lost, "samples that perf itself lost"},
		{reader->other_records, "records other than samples"},
		{reader->unknown_lines, "unknown lines"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

static int add_keys(struct reader *reader, struct error *err)
{
	const struct format_string keys[] = {{"thread.name", &reader->keys.comm},
					     {"process.pid", &reader->keys.pid},
					     {"thread.id", &reader->keys.tid},
					     {"cpu.logical_number", &reader->keys.cpu},
					     {"event", &reader->keys.event}};
	return format_add_strings(reader->profile, keys, sizeof(keys) / sizeof(keys[0]), err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	int r = profile_new(&reader->profile, err);
	if (r == 0)
		r = add_keys(reader, err);
	if (r == 0)
		r = read_lines(reader, input, err);
	if (r == 0)
		r = add_samples(reader, err);
	if (r == 0)
		r = note(reader, options, err);
	r = format_finish(r, reader->profile, ret);
	index32_release(&reader->frame_index);
	mem_free(reader->frames);
	mem_free(reader->records);
	mem_free(reader);
	return r;
}

/* ---- detection ---- */

static bool looks_like_frame(struct bytes line)
{
	struct frame frame;
	return line.len > 0 && is_blank(line.data[0]) && parse_frame(line, &frame) && frame.has_address && frame.name.len > 0;
}

/* The first lines that are neither empty nor comments: a sample's line with a time, an event or a frame behind it; or a frame.
 * Folded stacks that end in such a line have no blanks in front of them and no address behind. */
static bool detect(struct bytes input)
{
	size_t max = input.len < DETECT_MAX ? input.len : DETECT_MAX;
	struct head head = {0};
	bool has_head = false;
	if (max == 0 || memchr(input.data, '\0', max) || input.data[0] == '{')
		return false;
	for (struct bytes rest = {input.data, max}; rest.len > 0;) {
		struct bytes line = bytes_take_line(&rest);
		if (trim(line).len == 0 || line.data[0] == '#' || memmem(line.data, line.len, "PERF_RECORD_", 12))
			continue;
		if (has_head || !parse_head(line, &head))
			return looks_like_frame(line) || (has_head && head.has_time && head.event.len > 0);
		has_head = true;
		if ((head.has_time || head.event.len > 0) && is_padded_address(head.rest))
			return true;
	}
	return has_head && head.has_time && head.event.len > 0;
}

const struct format format_perf_script = {
	.name = "perf-script",
	.extensions = ".perf-script .perf.txt",
	.description = "the text of `perf script`",
	.detect = detect,
	.decode = decode,
};
