/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: type{label="v", a!="b", c=~"re", d!~"re"}
 *
 *   selector = [ type ] [ "{" [ matcher { "," matcher } [ "," ] ] "}" ]
 *   type     = part { ":" part }              up to six parts; fewer than five match any type that begins with them, "*" or
 * nothing matches any part matcher  = name ( "=" | "!=" | "=~" | "!~" ) string name     = [a-zA-Z_] { [a-zA-Z0-9_] } string   =
 * '"' { character | "\\" | '\"' | "\n" | "\t" } '"'
 *
 * White space is free between tokens. A label that a series lacks has the value "", so that {a=""} finds series without a, and
 * {a!="x"} those too: Prometheus' rules, which users know.
 *
 * Regular expressions are PCRE2, anchored at both ends, in UTF mode, with limits on the steps and memory of one match, because
 * both pattern and value come from outside. A match that passes a limit is no answer: it is remembered (selector_failure) and
 * the query fails instead of leaving samples out.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "query/query_int.h"

#define MATCHERS_MAX	   64
#define TYPE_PARTS_MAX	   6
#define MATCH_STEPS_MAX	   200000u
#define MATCH_HEAP_KIB_MAX 1024u

enum matcher_kind { MATCH_EQUAL, MATCH_NOT_EQUAL, MATCH_REGEX, MATCH_NOT_REGEX };

struct matcher {
	enum matcher_kind kind;
	char *name, *value;
	pcre2_code *regex;
};

struct selector {
	char *type_parts[TYPE_PARTS_MAX];
	size_t type_part_count;
	struct matcher matchers[MATCHERS_MAX];
	size_t matcher_count;
	pcre2_match_context *limits;
	atomic_int failure; /* PCRE2 error of a match that gave no answer; 0 = none */
};

struct parser {
	const char *text, *at;
	struct selector *selector;
	struct error *err;
};

static int parse_fault(const struct parser *parser, const char *expected)
{
	int column = (int)(parser->at - parser->text) + 1;
	if (!*parser->at)
		return error_set(parser->err, -EINVAL, "selector: expected %s at the end of '%.200s'", expected, parser->text);
	return error_set(parser->err, -EINVAL, "selector: expected %s at column %d near '%.20s'", expected, column, parser->at);
}

static void skip_space(struct parser *parser)
{
	while (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\n' || *parser->at == '\r')
		parser->at++;
}

static bool is_type_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_./-*", c));
}

static int parse_type(struct parser *parser)
{
	struct selector *selector = parser->selector;
	while (is_type_char(*parser->at) || *parser->at == ':') {
		if (selector->type_part_count == TYPE_PARTS_MAX)
			return parse_fault(parser, "at most six parts in the profile type");
		const char *start = parser->at;
		while (is_type_char(*parser->at))
			parser->at++;
		char *part = mem_strndup(start, (size_t)(parser->at - start));
		if (!part)
			return error_nomem(parser->err);
		selector->type_parts[selector->type_part_count++] = part;
		if (*parser->at != ':')
			break;
		parser->at++;
	}
	if (selector->type_part_count == TYPE_PARTS_MAX && strcmp(selector->type_parts[5], "delta") != 0)
		return error_set(parser->err, -EINVAL,
				 "selector: the sixth part of a profile type can only be 'delta', not '%.40s'",
				 selector->type_parts[5]);
	return 0;
}

static int parse_name(struct parser *parser, char **ret)
{
	const char *start = parser->at;
	if (!isalpha((unsigned char)*start) && *start != '_')
		return parse_fault(parser, "a label name");
	while (isalnum((unsigned char)*parser->at) || *parser->at == '_')
		parser->at++;
	*ret = mem_strndup(start, (size_t)(parser->at - start));
	return *ret ? 0 : error_nomem(parser->err);
}

static int parse_operator(struct parser *parser, enum matcher_kind *ret)
{
	static const struct {
		const char *text;
		enum matcher_kind kind;
	} operators[] = {{"=~", MATCH_REGEX}, {"!~", MATCH_NOT_REGEX}, {"!=", MATCH_NOT_EQUAL}, {"=", MATCH_EQUAL}};
	for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++) {
		size_t len = strlen(operators[i].text);
		if (strncmp(parser->at, operators[i].text, len) == 0) {
			parser->at += len;
			*ret = operators[i].kind;
			return 0;
		}
	}
	return parse_fault(parser, "one of = != =~ !~");
}

/* A backslash before anything else than \ " n t is kept, because regular expressions are full of them ("\d+"). */
static int parse_string(struct parser *parser, char **ret)
{
	if (*parser->at != '"')
		return parse_fault(parser, "a value in double quotes");
	_cleanup_(buffer_release) struct buffer value;
	buffer_init(&value, LIMIT_SELECTOR_BYTES);
	for (parser->at++; *parser->at != '"'; parser->at++) {
		char c = *parser->at;
		int r = 0;
		if (!c)
			return parse_fault(parser, "a closing double quote");
		if (c == '\\' && parser->at[1]) {
			char next = *++parser->at;
			if (next == 'n' || next == 't')
				r = buffer_append_byte(&value, next == 'n' ? '\n' : '\t');
			else if (next == '"' || next == '\\')
				r = buffer_append_byte(&value, (uint8_t)next);
			else
				r = buffer_append(&value, (char[]){'\\', next}, 2);
		} else {
			r = buffer_append_byte(&value, (uint8_t)c);
		}
		if (r)
			return error_nomem(parser->err);
	}
	parser->at++;
	*ret = mem_strndup(value.len ? (const char *)value.data : "", value.len);
	return *ret ? 0 : error_nomem(parser->err);
}

static int compile_regex(struct matcher *matcher, struct error *err)
{
	int code = 0;
	PCRE2_SIZE at = 0;
	uint32_t flags = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
			 PCRE2_DOLLAR_ENDONLY;
	matcher->regex = pcre2_compile((PCRE2_SPTR)matcher->value, PCRE2_ZERO_TERMINATED, flags, &code, &at, NULL);
	if (matcher->regex)
		return 0;
	char why[160] = "";
	pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
	return error_set(err, -EINVAL, "selector: bad regular expression for %s at character %zu of \"%.100s\": %s",
			 matcher->name, (size_t)at, matcher->value, why);
}

static int parse_matcher(struct parser *parser)
{
	struct selector *selector = parser->selector;
	if (selector->matcher_count == MATCHERS_MAX)
		return error_set(parser->err, -EINVAL, "selector: more than %d matchers", MATCHERS_MAX);
	struct matcher *matcher =
		&selector->matchers[selector->matcher_count++]; /* counted now, so that a failure frees its parts */
	int r = parse_name(parser, &matcher->name);
	if (r)
		return r;
	skip_space(parser);
	r = parse_operator(parser, &matcher->kind);
	if (r)
		return r;
	skip_space(parser);
	r = parse_string(parser, &matcher->value);
	if (r)
		return r;
	if (matcher->kind == MATCH_REGEX || matcher->kind == MATCH_NOT_REGEX)
		return compile_regex(matcher, parser->err);
	return 0;
}

static int parse_matchers(struct parser *parser)
{
	if (*parser->at != '{')
		return 0;
	parser->at++;
	skip_space(parser);
	while (*parser->at != '}') {
		int r = parse_matcher(parser);
		if (r)
			return r;
		skip_space(parser);
		if (*parser->at == ',') {
			parser->at++;
			skip_space(parser);
		} else if (*parser->at != '}') {
			return parse_fault(parser, "',' or '}'");
		}
	}
	parser->at++;
	return 0;
}

static int selector_init_limits(struct selector *selector)
{
	selector->limits = pcre2_match_context_create(NULL);
	if (!selector->limits)
		return -ENOMEM;
	pcre2_set_match_limit(selector->limits, MATCH_STEPS_MAX);
	pcre2_set_depth_limit(selector->limits, MATCH_STEPS_MAX);
	pcre2_set_heap_limit(selector->limits, MATCH_HEAP_KIB_MAX);
	return 0;
}

int selector_parse(const char *text, struct selector **ret, struct error *err)
{
	if (strnlen(text, LIMIT_SELECTOR_BYTES + 1) > LIMIT_SELECTOR_BYTES)
		return error_set(err, -EINVAL, "selector: longer than %llu bytes", (unsigned long long)LIMIT_SELECTOR_BYTES);
	_cleanup_(selector_freep) struct selector *selector = mem_zalloc(sizeof(*selector));
	if (!selector || selector_init_limits(selector))
		return error_nomem(err);
	struct parser parser = {.text = text, .at = text, .selector = selector, .err = err};
	skip_space(&parser);
	int r = parse_type(&parser);
	if (r)
		return r;
	skip_space(&parser);
	r = parse_matchers(&parser);
	if (r)
		return r;
	skip_space(&parser);
	if (*parser.at)
		return parse_fault(&parser, "the end of the selector, or '{'");
	*ret = selector;
	selector = NULL;
	return 0;
}

struct selector *selector_free(struct selector *selector)
{
	if (!selector)
		return NULL;
	for (size_t i = 0; i < selector->type_part_count; i++)
		mem_free(selector->type_parts[i]);
	for (size_t i = 0; i < selector->matcher_count; i++) {
		mem_free(selector->matchers[i].name);
		mem_free(selector->matchers[i].value);
		pcre2_code_free(selector->matchers[i].regex);
	}
	pcre2_match_context_free(selector->limits);
	return mem_free(selector);
}

static bool part_matches(const char *pattern, const char *value)
{
	return !*pattern || strcmp(pattern, "*") == 0 || strcmp(pattern, value) == 0;
}

static bool type_matches(const struct selector *selector, const struct profile_type *type)
{
	const char *parts[5] = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit};
	size_t count = selector->type_part_count;
	for (size_t i = 0; i < count && i < 5; i++)
		if (!part_matches(selector->type_parts[i], parts[i]))
			return false;
	/* With all five parts given the sixth is meant too: absolute and delta values of the same name are different types. */
	return count < 5 || type->delta == (count == 6);
}

static bool regex_matches(const struct selector *selector, const struct matcher *matcher, const char *value)
{
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	int r = PCRE2_ERROR_NOMEMORY;
	if (data)
		r = pcre2_match(matcher->regex, (PCRE2_SPTR)value, strlen(value), 0, 0, data, selector->limits);
	pcre2_match_data_free(data);
	if (r < 0 && r != PCRE2_ERROR_NOMATCH)
		atomic_store(&((struct selector *)selector)->failure, r);
	return r >= 0;
}

static bool matcher_matches(const struct selector *selector, const struct matcher *matcher, const struct labels *labels)
{
	const char *value = labels_get(labels, matcher->name);
	if (!value)
		value = "";
	switch (matcher->kind) {
	case MATCH_EQUAL: return strcmp(value, matcher->value) == 0;
	case MATCH_NOT_EQUAL: return strcmp(value, matcher->value) != 0;
	case MATCH_REGEX: return regex_matches(selector, matcher, value);
	case MATCH_NOT_REGEX: return !regex_matches(selector, matcher, value);
	}
	return false;
}

bool selector_matches(const struct selector *selector, const struct profile_type *type, const struct labels *labels)
{
	if (!type_matches(selector, type))
		return false;
	for (size_t i = 0; i < selector->matcher_count; i++)
		if (!matcher_matches(selector, &selector->matchers[i], labels))
			return false;
	return true;
}

int selector_failure(const struct selector *selector, struct error *err)
{
	int failure = atomic_load(&((struct selector *)selector)->failure);
	if (!failure)
		return 0;
	char why[160] = "";
	pcre2_get_error_message(failure, (PCRE2_UCHAR *)why, sizeof(why));
	return error_set(err, -EINVAL, "selector: a regular expression took too long on a label value (%s); make it simpler",
			 why);
}
