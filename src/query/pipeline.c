/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From text to syntax tree and back. The grammar is in docs/query.md; each rule of it is a function here, by recursive descent
 * without looking back: every stage begins with a word of its own, and inside of a stage one token decides. What stages may
 * follow each other is not a matter of grammar: query_plan_make() sees to that, and a pipeline is only accepted with a plan.
 */
#include "query/pipeline_int.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/time.h"

#define TOP_MAX	  1000000
#define LIMIT_MAX 10000000

static const char *const stage_names[] = {
	[STAGE_WHERE] = "where",     [STAGE_FRAMES] = "frames",	  [STAGE_FOCUS] = "focus",	 [STAGE_HIDE] = "hide",
	[STAGE_CALLERS] = "callers", [STAGE_CALLEES] = "callees", [STAGE_COLLAPSE] = "collapse", [STAGE_GROUP] = "group",
	[STAGE_BIN] = "bin",	     [STAGE_RATE] = "rate",	  [STAGE_TOP] = "top",		 [STAGE_SUM] = "sum",
	[STAGE_COUNT] = "count",     [STAGE_DIFF] = "diff",	  [STAGE_COMPARE] = "compare",	 [STAGE_JOIN] = "join",
	[STAGE_SORT] = "sort",	     [STAGE_LIMIT] = "limit",	  [STAGE_TYPES] = "types",	 [STAGE_LABELS] = "labels",
	[STAGE_VALUES] = "values",
};
static const char *const top_names[] = {
	[TOP_BY_FUNCTION] = "function", [TOP_BY_FILE] = "file",	      [TOP_BY_BINARY] = "binary",
	[TOP_BY_LINE] = "line",		[TOP_BY_PACKAGE] = "package", [TOP_BY_LABEL] = "label",
};
#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

const char *stage_name(enum stage_kind kind)
{
	return stage_names[kind];
}

/* ---- parsing ---- */

static int expect_word(struct lexer *lexer, const char *word)
{
	char expected[64];
	if (lex_word(lexer, word))
		return 0;
	snprintf(expected, sizeof(expected), "'%s'", word);
	return lex_fault(lexer, expected);
}

/* A name of the stage, added to its list. */
static int parse_name(struct lexer *lexer, struct stage *stage)
{
	if (stage->name_count == STORE_GROUP_BY_MAX)
		return lex_fault(lexer, "at most 16 labels");
	int r = lex_label_name(lexer, &stage->names[stage->name_count]);
	if (!r)
		stage->name_count++;
	return r;
}

static int parse_names(struct lexer *lexer, struct stage *stage)
{
	int r;
	do {
		const char *at = lexer->at;
		r = parse_name(lexer, stage);
		for (size_t i = 0; !r && i + 1 < stage->name_count; i++)
			if (strcmp(stage->names[i], stage->names[stage->name_count - 1]) == 0)
				return lex_refuse(lexer, at, "the label is given twice");
	} while (!r && lex_char(lexer, ','));
	return r;
}

static int parse_where(struct lexer *lexer, struct stage *stage)
{
	stage->selector = mem_zalloc(sizeof(*stage->selector));
	if (!stage->selector)
		return error_nomem(lexer->err);
	int r;
	do
		r = selector_parse_matcher(lexer, stage->selector);
	while (!r && lex_char(lexer, ','));
	return r;
}

/* The value of a test: a string, or digits where a number is meant. */
static int parse_test_value(struct lexer *lexer, struct frame_test *test)
{
	if (test->field == FRAME_FIELD_LINE && isdigit((unsigned char)*lexer->at)) {
		char text[24];
		uint64_t line;
		int r = lex_number(lexer, "a line number", INT32_MAX, &line);
		if (r < 0)
			return r;
		snprintf(text, sizeof(text), "%llu", (unsigned long long)line);
		test->text = mem_strdup(text);
		return test->text ? 0 : error_nomem(lexer->err);
	}
	char *value;
	int r = lex_string(lexer, &value);
	if (!r)
		test->text = value;
	return r;
}

/* [FIELD] [OPERATOR] VALUE, or a flag. */
static int parse_test(struct lexer *lexer, struct query_frames *frames, enum pattern_operator usual)
{
	if (frames->test_count == FRAME_TESTS_MAX)
		return lex_fault(lexer, "at most 8 tests");
	struct frame_test *test = &frames->tests[frames->test_count];
	*test = (struct frame_test){.field = FRAME_FIELD_FUNCTION, .op = usual};
	for (enum frame_field field = FRAME_FIELD_FUNCTION; field <= FRAME_FIELD_USER; field++) {
		if (!lex_word(lexer, frame_field_name(field)))
			continue;
		test->field = field;
		break;
	}
	frames->test_count++; /* counted now, so that a failure frees its value */
	if (test->field == FRAME_FIELD_KERNEL || test->field == FRAME_FIELD_USER)
		return 0;
	if (*lexer->at != '"' && !lex_is_operator(lexer) && test->field != FRAME_FIELD_LINE)
		return lex_fault(lexer, "a field, an operator or a value in double quotes");
	if (lex_is_operator(lexer)) {
		int r = lex_operator(lexer, &test->op);
		if (r < 0)
			return r;
	} else if (test->field == FRAME_FIELD_LINE) {
		test->op = PATTERN_EQUAL;
	}
	return parse_test_value(lexer, test);
}

/* Tests joined by "and". */
static int parse_tests(struct lexer *lexer, struct query_frames *frames, enum pattern_operator usual)
{
	int r;
	do
		r = parse_test(lexer, frames, usual);
	while (!r && lex_word(lexer, "and"));
	return r < 0 ? r : query_frames_check(frames, lexer->err);
}

static int parse_frames(struct lexer *lexer, struct stage *stage)
{
	if (lex_word(lexer, "leaf"))
		stage->frames.where = STORE_LEAF;
	else if (lex_word(lexer, "root"))
		stage->frames.where = STORE_ROOT;
	else
		lex_word(lexer, "any");
	return parse_tests(lexer, &stage->frames, PATTERN_REGEX);
}

/* Stages that look for frames: a negation would mean "all others", which nobody asks for by mistake alone. */
static int parse_finding(struct lexer *lexer, struct stage *stage, enum pattern_operator usual)
{
	const char *at = lexer->at;
	int r = parse_tests(lexer, &stage->frames, usual);
	for (size_t i = 0; !r && i < stage->frames.test_count; i++)
		if (pattern_operator_is_negative(stage->frames.tests[i].op))
			return lex_refuse(lexer, at, "only = and =~ can select frames here");
	return r;
}

static int parse_focus(struct lexer *lexer, struct stage *stage)
{
	return parse_finding(lexer, stage, PATTERN_REGEX);
}

static int parse_hide(struct lexer *lexer, struct stage *stage)
{
	stage->interpreters = lex_word(lexer, "interpreter");
	return stage->interpreters ? 0 : parse_finding(lexer, stage, PATTERN_REGEX);
}

static int parse_of(struct lexer *lexer, struct stage *stage)
{
	int r = expect_word(lexer, "of");
	return r < 0 ? r : parse_finding(lexer, stage, PATTERN_EQUAL);
}

static int parse_collapse(struct lexer *lexer, struct stage *stage)
{
	static const struct {
		const char *word;
		enum transform_collapse how;
	} ways[] = {{"recursion", COLLAPSE_RECURSION},
		    {"binary", COLLAPSE_BINARY},
		    {"file", COLLAPSE_FILE},
		    {"package", COLLAPSE_PACKAGE}};
	for (size_t i = 0; i < COUNT_OF(ways); i++) {
		const char *start = lexer->at;
		if (!lex_word(lexer, ways[i].word))
			continue;
		if (lex_is_operator(lexer) || *lexer->at == '"') {
			lexer->at = start; /* the field of a test */
			break;
		}
		stage->collapse = ways[i].how;
		return 0;
	}
	stage->collapse = COLLAPSE_MATCHING;
	return parse_finding(lexer, stage, PATTERN_REGEX);
}

static int parse_group(struct lexer *lexer, struct stage *stage)
{
	int r = expect_word(lexer, "by");
	return r < 0 ? r : parse_names(lexer, stage);
}

/* What runs up to a blank, '|' or ')': durations and times need no quotes. */
static int parse_bare(struct lexer *lexer, const char *expected, char **ret)
{
	const char *start = lexer->at;
	if (*start == '"')
		return lex_string(lexer, ret);
	while (*lexer->at && !strchr(" \t\r\n|)\"", *lexer->at))
		lexer->at++;
	size_t len = (size_t)(lexer->at - start);
	if (len == 0 || len > 64)
		return lex_fault_at(lexer, start, expected);
	*ret = mem_strndup(start, len);
	lex_skip_space(lexer);
	return *ret ? 0 : error_nomem(lexer->err);
}

static int parse_duration(struct lexer *lexer, const char *expected, int64_t *ret)
{
	const char *start = lexer->at;
	_cleanup_(mem_freep) char *text = NULL;
	int r = parse_bare(lexer, expected, &text);
	if (r < 0)
		return r;
	if (time_parse_duration(text, ret, NULL) < 0 || *ret < NS_PER_MS)
		return lex_fault_at(lexer, start, expected);
	return 0;
}

static int parse_bin(struct lexer *lexer, struct stage *stage)
{
	if (lex_word(lexer, "auto"))
		return 0;
	return parse_duration(lexer, "a duration of at least 1ms such as 1m, or 'auto'", &stage->duration_ns);
}

static int parse_nothing(struct lexer *lexer, struct stage *stage)
{
	return 0;
}

static int parse_top_by(struct lexer *lexer, struct stage *stage)
{
	for (size_t i = 0; i < COUNT_OF(top_names); i++) {
		if (!lex_word(lexer, top_names[i]))
			continue;
		stage->by = (enum top_by)i;
		return i == TOP_BY_LABEL ? parse_name(lexer, stage) : 0;
	}
	return lex_fault(lexer, "one of function, file, binary, line, package, label");
}

static int parse_top(struct lexer *lexer, struct stage *stage)
{
	static const char *const expected = "a number from 1 to 1000000";
	lex_skip_space(lexer);
	const char *at = lexer->at;
	int r = lex_number(lexer, expected, TOP_MAX, &stage->number);
	if (!r && stage->number == 0)
		return lex_fault_at(lexer, at, expected);
	if (!r && (stage->total = lex_word(lexer, "total")))
		stage->total_given = true;
	else if (!r && lex_word(lexer, "self"))
		stage->total_given = true;
	if (!r && lex_word(lexer, "by")) {
		stage->by_given = true;
		r = parse_top_by(lexer, stage);
	}
	if (!r)
		stage->others = lex_word(lexer, "others");
	return r;
}

static int parse_time(struct lexer *lexer, char **ret)
{
	static const char expected[] = "a time such as now-1d or 2026-11-21T10:00:00Z";
	const char *start = lexer->at;
	int64_t ns;
	int r = parse_bare(lexer, expected, ret);
	if (!r && time_parse(*ret, time_now_ns(), &ns, NULL) < 0)
		return lex_fault_at(lexer, start, expected);
	return r;
}

/* ( [selector] [ "shift" duration | "from" time "to" time ] ) [ relative ] */
static int parse_diff(struct lexer *lexer, struct stage *stage)
{
	if (!lex_char(lexer, '('))
		return lex_fault(lexer, "'('");
	const char *start = lexer->at;
	int r = 0;
	bool ranged = lex_word(lexer, "shift") || lex_word(lexer, "from");
	lexer->at = start;
	if (!ranged && *lexer->at != ')') {
		r = selector_parse_part(lexer, &stage->selector);
		if (!r && lexer->at == start)
			r = lex_fault(lexer, "a selector, 'shift' or 'from'");
	}
	if (!r && lex_word(lexer, "shift")) {
		r = parse_duration(lexer, "a duration such as 1d", &stage->duration_ns);
	} else if (!r && lex_word(lexer, "from")) {
		r = parse_time(lexer, &stage->from);
		if (!r)
			r = expect_word(lexer, "to");
		if (!r)
			r = parse_time(lexer, &stage->to);
	}
	if (r < 0)
		return r;
	if (!stage->selector && !stage->duration_ns && !stage->from)
		return lex_fault(lexer, "a selector, 'shift' or 'from'");
	if (!lex_char(lexer, ')'))
		return lex_fault(lexer, "')'");
	stage->relative = lex_word(lexer, "relative");
	return 0;
}

static int parse_compare(struct lexer *lexer, struct stage *stage)
{
	lex_word(lexer, "label");
	int r = parse_name(lexer, stage);
	stage->number = 5;
	if (r < 0 || !lex_word(lexer, "top"))
		return r;
	static const char *const expected = "a number from 1 to 50";
	lex_skip_space(lexer);
	const char *at = lexer->at;
	r = lex_number(lexer, expected, 50, &stage->number);
	return !r && !stage->number ? lex_fault_at(lexer, at, expected) : r;
}

static int parse_join(struct lexer *lexer, struct stage *stage)
{
	int r = expect_word(lexer, "process_stats");
	if (!r)
		r = expect_word(lexer, "on");
	return r < 0 ? r : parse_names(lexer, stage);
}

/* A column: a word, or what is in quotes. */
static int parse_sort(struct lexer *lexer, struct stage *stage)
{
	int r = expect_word(lexer, "by");
	if (!r)
		r = *lexer->at == '"' ? lex_string(lexer, &stage->names[0]) : lex_label_name(lexer, &stage->names[0]);
	if (r < 0)
		return r;
	stage->name_count = 1;
	if (lex_word(lexer, "desc"))
		stage->descending = true;
	else
		lex_word(lexer, "asc");
	return 0;
}

static int parse_limit(struct lexer *lexer, struct stage *stage)
{
	return lex_number(lexer, "a number from 0 to 10000000", LIMIT_MAX, &stage->number);
}

static int parse_values(struct lexer *lexer, struct stage *stage)
{
	int r = expect_word(lexer, "of");
	if (!r)
		r = parse_name(lexer, stage);
	if (!r && *lexer->at == '"')
		r = lex_string(lexer, &stage->prefix);
	return r;
}

static int (*const stage_parsers[])(struct lexer *lexer, struct stage *stage) = {
	[STAGE_WHERE] = parse_where,	   [STAGE_FRAMES] = parse_frames,  [STAGE_FOCUS] = parse_focus,
	[STAGE_HIDE] = parse_hide,	   [STAGE_CALLERS] = parse_of,	   [STAGE_CALLEES] = parse_of,
	[STAGE_COLLAPSE] = parse_collapse, [STAGE_GROUP] = parse_group,	   [STAGE_BIN] = parse_bin,
	[STAGE_RATE] = parse_nothing,	   [STAGE_TOP] = parse_top,	   [STAGE_SUM] = parse_nothing,
	[STAGE_COUNT] = parse_nothing,	   [STAGE_DIFF] = parse_diff,	   [STAGE_COMPARE] = parse_compare,
	[STAGE_JOIN] = parse_join,	   [STAGE_SORT] = parse_sort,	   [STAGE_LIMIT] = parse_limit,
	[STAGE_TYPES] = parse_nothing,	   [STAGE_LABELS] = parse_nothing, [STAGE_VALUES] = parse_values,
};

static int parse_stage(struct lexer *lexer, struct pipeline *pipeline)
{
	if (pipeline->stage_count == STAGES_MAX)
		return lex_fault(lexer, "at most 64 stages");
	struct stage *stage = &pipeline->stages[pipeline->stage_count++]; /* counted now, so that a failure frees its parts */
	stage->at = (size_t)(lexer->at - lexer->text);
	bool drop = lex_word(lexer, "drop");
	for (size_t i = 0; i < COUNT_OF(stage_names); i++) {
		if ((drop && i != STAGE_FRAMES) || !lex_word(lexer, stage_names[i]))
			continue;
		stage->kind = (enum stage_kind)i;
		stage->frames.drop = drop;
		return stage_parsers[i](lexer, stage);
	}
	return lex_fault(lexer,
			 drop ? "'frames'"
			      : "a stage (where, frames, drop frames, focus, hide, callers of, callees of, collapse, group by, "
				"bin, rate, top, sum, count, diff, compare, join, sort by, limit, types, labels, values of)");
}

static int parse_stages(struct lexer *lexer, struct pipeline *pipeline)
{
	int r = selector_parse_part(lexer, &pipeline->selector);
	while (!r && lex_char(lexer, '|'))
		r = parse_stage(lexer, pipeline);
	if (!r && *lexer->at)
		return lex_fault(lexer, pipeline->stage_count ? "'|' or the end" : "'{', '|' or the end");
	return r;
}

int pipeline_parse(const char *text, struct pipeline **ret, struct error *err)
{
	if (strnlen(text, LIMIT_SELECTOR_BYTES + 1) > LIMIT_SELECTOR_BYTES)
		return error_set(err, -EINVAL, "query: longer than %llu bytes", (unsigned long long)LIMIT_SELECTOR_BYTES);
	_cleanup_(pipeline_freep) struct pipeline *pipeline = mem_zalloc(sizeof(*pipeline));
	if (!pipeline || !(pipeline->text = mem_strdup(text)))
		return error_nomem(err);
	struct lexer lexer = {.what = "query", .text = pipeline->text, .at = pipeline->text, .err = err};
	int r = parse_stages(&lexer, pipeline);
	if (r < 0)
		return r;
	struct query_plan plan;
	r = query_plan_make(pipeline, &plan, err);
	query_plan_release(&plan);
	if (r < 0)
		return r;
	*ret = TAKE(pipeline);
	return 0;
}

static void stage_release(struct stage *stage)
{
	selector_free(stage->selector);
	for (size_t i = 0; i < stage->frames.test_count; i++)
		mem_free((char *)stage->frames.tests[i].text);
	for (size_t i = 0; i < stage->name_count; i++)
		mem_free(stage->names[i]);
	mem_free(stage->from);
	mem_free(stage->to);
	mem_free(stage->prefix);
}

struct pipeline *pipeline_free(struct pipeline *pipeline)
{
	if (!pipeline)
		return NULL;
	for (size_t i = 0; i < pipeline->stage_count; i++)
		stage_release(&pipeline->stages[i]);
	selector_free(pipeline->selector);
	mem_free(pipeline->text);
	return mem_free(pipeline);
}

bool pipeline_is_selector(const struct pipeline *pipeline)
{
	return pipeline->stage_count == 0;
}

int stage_refuse(const struct pipeline *pipeline, const struct stage *stage, struct error *err, const char *format, ...)
{
	char message[320];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	struct lexer lexer = {.what = "query", .text = pipeline->text, .err = err};
	return lex_refuse(&lexer, pipeline->text + stage->at, message);
}

/* ---- formatting ---- */

static int format_names(const struct stage *stage, struct buffer *out)
{
	for (size_t i = 0; i < stage->name_count; i++)
		buffer_printf(out, "%s%s", i ? ", " : "", stage->names[i]);
	return buffer_status(out);
}

static int format_tests(const struct query_frames *frames, struct buffer *out)
{
	for (size_t i = 0; i < frames->test_count; i++) {
		const struct frame_test *test = &frames->tests[i];
		buffer_printf(out, "%s%s", i ? " and " : "", frame_field_name(test->field));
		if (test->field == FRAME_FIELD_KERNEL || test->field == FRAME_FIELD_USER)
			continue;
		buffer_printf(out, " %s ", operator_text(test->op));
		format_string(out, test->text);
	}
	return buffer_status(out);
}

int frames_format(const struct query_frames *frames, struct buffer *out)
{
	static const char *const where[] = {[STORE_ANYWHERE] = "", [STORE_LEAF] = "leaf ", [STORE_ROOT] = "root "};
	buffer_printf(out, "%sframes %s", frames->drop ? "drop " : "", where[frames->where]);
	return format_tests(frames, out);
}

/* Exact: whole milliseconds, or nanoseconds. */
static int format_duration(int64_t ns, struct buffer *out)
{
	static const struct {
		int64_t ns;
		const char *unit;
	} units[] = {{86400 * NS_PER_S, "d"}, {3600 * NS_PER_S, "h"}, {60 * NS_PER_S, "m"}, {NS_PER_S, "s"}, {NS_PER_MS, "ms"}};
	for (size_t i = 0; i < COUNT_OF(units); i++)
		if (ns % units[i].ns == 0)
			return buffer_printf(out, "%lld%s", (long long)(ns / units[i].ns), units[i].unit);
	return buffer_printf(out, "%lldns", (long long)ns);
}

static int format_diff(const struct stage *stage, struct buffer *out)
{
	buffer_append_string(out, "diff (");
	if (stage->selector)
		selector_format(stage->selector, out);
	if (stage->selector && (stage->duration_ns || stage->from))
		buffer_append_byte(out, ' ');
	if (stage->duration_ns) {
		buffer_append_string(out, "shift ");
		format_duration(stage->duration_ns, out);
	} else if (stage->from) {
		buffer_append_string(out, "from ");
		format_string(out, stage->from);
		buffer_append_string(out, " to ");
		format_string(out, stage->to);
	}
	return buffer_append_string(out, stage->relative ? ") relative" : ")");
}

static int format_top(const struct stage *stage, struct buffer *out)
{
	buffer_printf(out, "top %llu", (unsigned long long)stage->number);
	if (stage->total_given)
		buffer_append_string(out, stage->total ? " total" : " self");
	if (stage->by_given)
		buffer_printf(out, " by %s%s%s", top_names[stage->by], stage->name_count ? " " : "",
			      stage->name_count ? stage->names[0] : "");
	return stage->others ? buffer_append_string(out, " others") : buffer_status(out);
}

static int format_where(const struct stage *stage, struct buffer *out)
{
	buffer_append_string(out, "where ");
	for (size_t i = 0; i < stage->selector->matcher_count; i++) {
		if (i)
			buffer_append_string(out, ", ");
		selector_format_matcher(stage->selector, i, out);
	}
	return buffer_status(out);
}

static int format_rest(const struct stage *stage, struct buffer *out)
{
	static const char *const collapse[] = {[COLLAPSE_RECURSION] = "recursion",
					       [COLLAPSE_BINARY] = "binary",
					       [COLLAPSE_FILE] = "file",
					       [COLLAPSE_PACKAGE] = "package"};
	switch (stage->kind) {
	case STAGE_GROUP: return format_names(stage, out);
	case STAGE_HIDE:
		if (stage->interpreters)
			return buffer_append_string(out, "interpreter");
		return format_tests(&stage->frames, out);
	case STAGE_FOCUS:
	case STAGE_CALLERS:
	case STAGE_CALLEES: return format_tests(&stage->frames, out);
	case STAGE_COLLAPSE:
		return stage->collapse == COLLAPSE_MATCHING ? format_tests(&stage->frames, out)
							    : buffer_append_string(out, collapse[stage->collapse]);
	case STAGE_BIN:
		return stage->duration_ns ? format_duration(stage->duration_ns, out) : buffer_append_string(out, "auto");
	case STAGE_COMPARE: return buffer_printf(out, "%s top %llu", stage->names[0], (unsigned long long)stage->number);
	case STAGE_JOIN: return format_names(stage, out);
	case STAGE_LIMIT: return buffer_printf(out, "%llu", (unsigned long long)stage->number);
	default: return buffer_status(out);
	}
}

int stage_format(const struct stage *stage, struct buffer *out)
{
	static const char *const heads[] = {
		[STAGE_FOCUS] = "focus ",
		[STAGE_HIDE] = "hide ",
		[STAGE_CALLERS] = "callers of ",
		[STAGE_CALLEES] = "callees of ",
		[STAGE_COLLAPSE] = "collapse ",
		[STAGE_GROUP] = "group by ",
		[STAGE_BIN] = "bin ",
		[STAGE_RATE] = "rate",
		[STAGE_SUM] = "sum",
		[STAGE_COUNT] = "count",
		[STAGE_COMPARE] = "compare label ",
		[STAGE_LIMIT] = "limit ",
		[STAGE_JOIN] = "join process_stats on ",
		[STAGE_TYPES] = "types",
		[STAGE_LABELS] = "labels",
	};
	switch (stage->kind) {
	case STAGE_WHERE: return format_where(stage, out);
	case STAGE_FRAMES: return frames_format(&stage->frames, out);
	case STAGE_TOP: return format_top(stage, out);
	case STAGE_DIFF: return format_diff(stage, out);
	case STAGE_SORT:
		buffer_append_string(out, "sort by ");
		format_string(out, stage->names[0]);
		return buffer_append_string(out, stage->descending ? " desc" : " asc");
	case STAGE_VALUES:
		buffer_printf(out, "values of %s", stage->names[0]);
		if (stage->prefix)
			buffer_append_byte(out, ' ');
		return stage->prefix ? format_string(out, stage->prefix) : buffer_status(out);
	default: buffer_append_string(out, heads[stage->kind]); return format_rest(stage, out);
	}
}

/* hide_at: the stage before which internals of interpreters are hidden; SIZE_MAX = none. */
static int format_stages(const struct pipeline *pipeline, size_t hide_at, struct buffer *out)
{
	selector_format(pipeline->selector, out);
	for (size_t i = 0; i <= pipeline->stage_count; i++) {
		if (i == hide_at)
			buffer_append_string(out, " | hide interpreter");
		if (i == pipeline->stage_count)
			break;
		buffer_append_string(out, " | ");
		stage_format(&pipeline->stages[i], out);
	}
	return buffer_status(out);
}

int pipeline_format(const struct pipeline *pipeline, struct buffer *out)
{
	return format_stages(pipeline, SIZE_MAX, out);
}

static bool is_of_stacks(const struct pipeline *pipeline)
{
	struct query_plan plan;
	int r = query_plan_make(pipeline, &plan, NULL);
	enum plan_output output = plan.output;
	query_plan_release(&plan);
	return r == 0 && (output == PLAN_PROFILE || output == PLAN_TOP || output == PLAN_COMPARE);
}

int pipeline_format_hiding(const struct pipeline *pipeline, struct buffer *out)
{
	size_t at = 0;
	bool hides = pipeline->stage_count == STAGES_MAX || !is_of_stacks(pipeline);
	for (size_t i = 0; i < pipeline->stage_count; i++)
		hides |= pipeline->stages[i].interpreters;
	/* Stages that select come first: they go to the store, and may ask for frames that are hidden then. */
	while (at < pipeline->stage_count &&
	       (pipeline->stages[at].kind == STAGE_WHERE || pipeline->stages[at].kind == STAGE_FRAMES ||
		pipeline->stages[at].kind == STAGE_GROUP || pipeline->stages[at].kind == STAGE_RATE))
		at++;
	return format_stages(pipeline, hides ? SIZE_MAX : at, out);
}
