/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: type{label="v", a!="b", c=~"re", d!~"re"}
 *
 * The grammar is in docs/query.md. White space is free between tokens. A label that a series lacks has the value "", so that
 * {a=""} finds series without a, and {a!="x"} those too: Prometheus' rules, which users know. Regular expressions are anchored
 * at both ends, likewise.
 *
 * FlameQL, the language of Pyroscope before 1.0, puts the application's name where the type stands, with a suffix for the type:
 * "shop.api.cpu{...}". A text before the '{' that has no ':' and ends in one of the suffixes below is that; no type that Wick
 * knows has a dot, so nothing else is taken for it by mistake.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "query/query_int.h"

/* The types behind the suffixes of FlameQL, as far as they are distinguished: name and sample type. What is pushed under such a
 * name (server/pyroscope/ingest.c) must be found under it. */
static const struct {
	const char *suffix, *name, *sample_type;
} flameql_types[] = {
	{"cpu", "process_cpu", "cpu"},
	{"itimer", "process_cpu", "cpu"},
	{"samples", "process_cpu", "samples"},
	{"wall", "wall", ""},
	{"alloc_objects", "memory", "alloc_objects"},
	{"alloc_space", "memory", "alloc_space"},
	{"alloc_in_new_tlab_objects", "memory", "alloc_in_new_tlab_objects"},
	{"alloc_in_new_tlab_bytes", "memory", "alloc_in_new_tlab_bytes"},
	{"alloc_outside_tlab_objects", "memory", "alloc_outside_tlab_objects"},
	{"alloc_outside_tlab_bytes", "memory", "alloc_outside_tlab_bytes"},
	{"inuse_objects", "memory", "inuse_objects"},
	{"inuse_space", "memory", "inuse_space"},
	{"live", "memory", "live"},
	{"goroutines", "goroutine", ""},
	{"goroutine", "goroutine", ""},
	{"mutex_count", "mutex", "contentions"},
	{"mutex_duration", "mutex", "delay"},
	{"block_count", "block", "contentions"},
	{"block_duration", "block", "delay"},
	{"lock_count", "block", "contentions"},
	{"lock_duration", "block", "delay"},
	{"exceptions", "exceptions", ""},
};

static bool is_type_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_./-*", c));
}

static int add_part(struct type_pattern *type, const char *start, size_t len, struct error *err)
{
	char *part = mem_strndup(start, len);
	if (!part)
		return error_nomem(err);
	type->parts[type->count++] = part;
	return 0;
}

static int parse_type(struct lexer *lexer, struct type_pattern *type)
{
	while (is_type_char(*lexer->at) || *lexer->at == ':') {
		if (type->count == TYPE_PARTS_MAX)
			return lex_fault(lexer, "at most six parts in the profile type");
		const char *start = lexer->at;
		while (is_type_char(*lexer->at))
			lexer->at++;
		int r = add_part(type, start, (size_t)(lexer->at - start), lexer->err);
		if (r < 0)
			return r;
		if (*lexer->at != ':')
			break;
		lexer->at++;
	}
	if (type->count == TYPE_PARTS_MAX && strcmp(type->parts[5], "delta") != 0 && strcmp(type->parts[5], "*") != 0)
		return error_set(lexer->err, -EINVAL,
				 "%s: the sixth part of a profile type can only be 'delta' (or '*'), not '%.40s'", lexer->what,
				 type->parts[5]);
	lex_skip_space(lexer);
	return 0;
}

static void type_pattern_release(struct type_pattern *type)
{
	for (size_t i = 0; i < type->count; i++)
		mem_free(type->parts[i]);
	type->count = 0;
}

/* Takes over name and value, also on failure. */
static int add_matcher(struct lexer *lexer, struct selector *selector, char *name, enum pattern_operator op, char *value)
{
	if (selector->matcher_count == QUERY_MATCHERS_MAX) {
		mem_free(name);
		mem_free(value);
		return error_set(lexer->err, -EINVAL, "%s: more than %d matchers", lexer->what, QUERY_MATCHERS_MAX);
	}
	struct label_matcher *matcher = &selector->matchers[selector->matcher_count];
	if (strcmp(name, QUERY_SERVICE_NAME_ALIAS) == 0)
		memcpy(name, "service_name", sizeof("service_name")); /* shorter */
	*matcher = (struct label_matcher){.name = name,
					  .type_label = type_label_of(name),
					  .is_link = link_label_is(name),
					  .is_number = number_label_is(name),
					  .op = op,
					  .value = value};
	int r;
	if (matcher->is_link)
		r = link_ids_parse(name, op, value, &matcher->links, lexer->err);
	else if (matcher->is_number)
		r = number_condition_parse(op, value, &matcher->number, lexer->err);
	else
		r = pattern_check(op, value, true, lexer->what, name, lexer->err);
	if (r < 0) {
		mem_free(name);
		mem_free(value);
		return r;
	}
	selector->matcher_count++;
	return 0;
}

static int parse_flameql(struct lexer *lexer, struct selector *selector)
{
	struct type_pattern *type = &selector->type;
	char *dot = type->count == 1 ? strrchr(type->parts[0], '.') : NULL;
	if (!dot || dot == type->parts[0])
		return 0;
	for (size_t i = 0; i < sizeof(flameql_types) / sizeof(*flameql_types); i++) {
		if (strcmp(dot + 1, flameql_types[i].suffix) != 0)
			continue;
		char *name = mem_strdup("service_name");
		char *value = mem_strndup(type->parts[0], (size_t)(dot - type->parts[0]));
		if (!name || !value) {
			mem_free(name);
			mem_free(value);
			return error_nomem(lexer->err);
		}
		int r = add_matcher(lexer, selector, name, PATTERN_EQUAL, value);
		if (r < 0)
			return r;
		type_pattern_release(type);
		r = add_part(type, flameql_types[i].name, strlen(flameql_types[i].name), lexer->err);
		if (!r && *flameql_types[i].sample_type)
			r = add_part(type, flameql_types[i].sample_type, strlen(flameql_types[i].sample_type), lexer->err);
		return r;
	}
	return 0;
}

size_t selector_profile_types(const struct selector *selector, const char **ret)
{
	size_t count = 0;
	*ret = NULL;
	for (size_t i = 0; i < selector->matcher_count; i++) {
		const struct label_matcher *matcher = &selector->matchers[i];
		if (matcher->type_label != TYPE_LABEL_PROFILE_TYPE)
			continue;
		count++;
		if (matcher->op == PATTERN_EQUAL)
			*ret = matcher->value;
	}
	return count;
}

int selector_parse_matcher(struct lexer *lexer, struct selector *selector)
{
	_cleanup_(mem_freep) char *name = NULL;
	_cleanup_(mem_freep) char *value = NULL;
	enum pattern_operator op;
	int r = lex_label_name(lexer, &name);
	if (!r)
		r = lex_operator(lexer, &op);
	if (!r)
		r = lex_string(lexer, &value);
	if (r < 0)
		return r;
	r = add_matcher(lexer, selector, name, op, value);
	name = value = NULL;
	return r;
}

static int parse_matchers(struct lexer *lexer, struct selector *selector)
{
	if (!lex_char(lexer, '{'))
		return 0;
	while (!lex_char(lexer, '}')) {
		int r = selector_parse_matcher(lexer, selector);
		if (r < 0)
			return r;
		if (!lex_char(lexer, ',') && *lexer->at != '}')
			return lex_fault(lexer, "',' or '}'");
	}
	return 0;
}

int selector_parse_part(struct lexer *lexer, struct selector **ret)
{
	_cleanup_(selector_freep) struct selector *selector = mem_zalloc(sizeof(*selector));
	if (!selector)
		return error_nomem(lexer->err);
	lex_skip_space(lexer);
	int r = parse_type(lexer, &selector->type);
	if (!r)
		r = parse_flameql(lexer, selector);
	if (!r)
		r = parse_matchers(lexer, selector);
	if (r < 0)
		return r;
	*ret = TAKE(selector);
	return 0;
}

int selector_parse_query(const char *text, struct selector **ret, struct error *err)
{
	if (strnlen(text, LIMIT_SELECTOR_BYTES + 1) > LIMIT_SELECTOR_BYTES)
		return error_set(err, -EINVAL, "selector: longer than %llu bytes", (unsigned long long)LIMIT_SELECTOR_BYTES);
	struct lexer lexer = {.what = "selector", .text = text, .at = text, .err = err};
	_cleanup_(selector_freep) struct selector *selector = NULL;
	int r = selector_parse_part(&lexer, &selector);
	if (r < 0)
		return r;
	if (*lexer.at)
		return lex_fault(&lexer, "the end of the selector, or '{'");
	*ret = TAKE(selector);
	return 0;
}

const char *selector_sample_label(const struct selector *selector)
{
	for (size_t i = 0; i < selector->matcher_count; i++)
		if (matcher_is_of_samples(&selector->matchers[i]))
			return selector->matchers[i].name;
	return NULL;
}

int selector_parse(const char *text, struct selector **ret, struct error *err)
{
	_cleanup_(selector_freep) struct selector *selector = NULL;
	int r = selector_parse_query(text, &selector, err);
	const char *label = r < 0 ? NULL : selector_sample_label(selector);
	if (label)
		return error_set(err, -EINVAL, "selector: %s is a property of samples, but this selects whole series", label);
	if (r == 0) {
		selector_prepare(selector);
		r = series_matcher_new(&selector->series, &selector->compiled, err);
	}
	if (r < 0)
		return r;
	*ret = TAKE(selector);
	return 0;
}

int selector_set_type(struct selector *selector, const char *text, struct error *err)
{
	if (strnlen(text, PROFILE_TYPE_TEXT_MAX) == PROFILE_TYPE_TEXT_MAX)
		return error_set(err, -EINVAL, "selector: the profile type is too long");
	type_pattern_release(&selector->type_beside);
	struct lexer lexer = {.what = "profile type", .text = text, .at = text, .err = err};
	lex_skip_space(&lexer);
	int r = parse_type(&lexer, &selector->type_beside);
	if (r < 0)
		return r;
	return *lexer.at ? lex_fault(&lexer, "the end of the profile type") : 0;
}

int selector_add_matcher(struct selector *selector, const struct query_matcher *matcher, struct error *err)
{
	struct lexer lexer = {.what = "selector", .err = err};
	if (!label_name_is_valid(matcher->label))
		return error_set(err, -EINVAL, "query: '%.100s' is not a label name; names match [a-zA-Z_][a-zA-Z0-9_]*",
				 matcher->label);
	char *name = mem_strdup(matcher->label), *value = mem_strdup(matcher->value);
	if (!name || !value) {
		mem_free(name);
		mem_free(value);
		return error_nomem(err);
	}
	return add_matcher(&lexer, selector, name, matcher->op, value);
}

struct selector *selector_free(struct selector *selector)
{
	if (!selector)
		return NULL;
	type_pattern_release(&selector->type);
	type_pattern_release(&selector->type_beside);
	for (size_t i = 0; i < selector->matcher_count; i++) {
		mem_free(selector->matchers[i].name);
		mem_free(selector->matchers[i].value);
		link_ids_release(&selector->matchers[i].links);
	}
	series_matcher_free(selector->compiled);
	return mem_free(selector);
}

/* With all six parts a type is given as a whole, and an empty part is an empty one. */
static bool part_is_any(const struct type_pattern *pattern, size_t part)
{
	return strcmp(pattern->parts[part], "*") == 0 || (!*pattern->parts[part] && pattern->count < TYPE_PARTS_MAX);
}

static bool pattern_takes_any_delta(const struct type_pattern *pattern)
{
	return pattern->count == TYPE_PARTS_MAX && strcmp(pattern->parts[TYPE_PARTS_MAX - 1], "*") == 0;
}

static struct type_condition condition_of(const struct type_pattern *pattern)
{
	struct type_condition ret = {.delta = TYPE_DELTA_ANY};
	for (size_t i = 0; i < pattern->count && i < TYPE_CONDITION_PARTS; i++)
		ret.parts[i] = part_is_any(pattern, i) ? NULL : pattern->parts[i];
	/* With all five parts given the sixth is meant too: absolute and delta values of the same name are different types. */
	if (pattern->count >= TYPE_CONDITION_PARTS && !pattern_takes_any_delta(pattern))
		ret.delta = pattern->count == TYPE_PARTS_MAX ? TYPE_DELTA_YES : TYPE_DELTA_NO;
	return ret;
}

void selector_prepare(struct selector *selector)
{
	struct series_conditions *series = &selector->series;
	*series = (struct series_conditions){.types = selector->types, .labels = selector->labels};
	if (selector->type.count)
		selector->types[series->type_count++] = condition_of(&selector->type);
	if (selector->type_beside.count)
		selector->types[series->type_count++] = condition_of(&selector->type_beside);
	for (size_t i = 0; i < selector->matcher_count; i++) {
		const struct label_matcher *matcher = &selector->matchers[i];
		if (!matcher_is_of_samples(matcher))
			selector->labels[series->label_count++] =
				(struct label_condition){.label = matcher->name, .op = matcher->op, .text = matcher->value};
	}
}

const struct series_conditions *selector_series(const struct selector *selector)
{
	return &selector->series;
}

/* ---- labels of the type ---- */

const char *query_type_label_name(size_t index)
{
	return index + 1 < TYPE_LABEL_COUNT ? type_label_name((enum type_label)(index + 1)) : NULL;
}

const char *query_type_label_value(const char *name, const struct profile_type *type, char out[static PROFILE_TYPE_TEXT_MAX])
{
	return type_label_value(type_label_of(name), type, out);
}

bool selector_takes_any_delta(const struct selector *selector)
{
	return pattern_takes_any_delta(&selector->type) || pattern_takes_any_delta(&selector->type_beside);
}

bool selector_matches(const struct selector *selector, const struct profile_type *type, const struct labels *labels)
{
	return series_matcher_finds(selector->compiled, type, labels);
}

static int format_type(const struct type_pattern *type, struct buffer *out)
{
	for (size_t i = 0; i < type->count; i++) {
		/* A lone empty part would print as nothing: it means any type, as no type does. */
		buffer_printf(out, "%s%s", i ? ":" : "", part_is_any(type, i) ? "*" : type->parts[i]);
	}
	return buffer_status(out);
}

int selector_format_matcher(const struct selector *selector, size_t index, struct buffer *out)
{
	const struct label_matcher *matcher = &selector->matchers[index];
	buffer_printf(out, "%s%s", matcher->name, operator_text(matcher->op));
	return format_string(out, matcher->value);
}

int selector_format(const struct selector *selector, struct buffer *out)
{
	format_type(&selector->type, out);
	if (selector->matcher_count || !selector->type.count)
		buffer_append_byte(out, '{');
	for (size_t i = 0; i < selector->matcher_count; i++) {
		if (i)
			buffer_append_string(out, ", ");
		selector_format_matcher(selector, i, out);
	}
	if (selector->matcher_count || !selector->type.count)
		buffer_append_byte(out, '}');
	return buffer_status(out);
}
