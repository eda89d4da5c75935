/* SPDX-License-Identifier: Apache-2.0 */
#include "query/lex.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"

#define PLACE_MAX 24

/* What stands at the place, short, without half a character at its end. */
static int place(const struct lexer *lexer, const char *at, char *out, size_t size)
{
	size_t len = text_cut(bytes_of_string(at), PLACE_MAX);
	snprintf(out, size, "%.*s", (int)len, at);
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	return (int)(at - lexer->text) + 1;
}

int lex_fault_at(const struct lexer *lexer, const char *at, const char *expected)
{
	char near[32];
	int column = place(lexer, at, near, sizeof(near));
	if (!*at)
		return error_set(lexer->err, -EINVAL, "%s: expected %s at the end, column %d of '%.200s'", lexer->what,
				 expected, column, lexer->text);
	return error_set(lexer->err, -EINVAL, "%s: expected %s at column %d near '%s'", lexer->what, expected, column, near);
}

int lex_fault(const struct lexer *lexer, const char *expected)
{
	return lex_fault_at(lexer, lexer->at, expected);
}

int lex_refuse(const struct lexer *lexer, const char *at, const char *message)
{
	char near[32];
	int column = place(lexer, at, near, sizeof(near));
	return error_set(lexer->err, -EINVAL, "%s: %s, at column %d near '%s'", lexer->what, message, column, near);
}

void lex_skip_space(struct lexer *lexer)
{
	while (*lexer->at == ' ' || *lexer->at == '\t' || *lexer->at == '\n' || *lexer->at == '\r')
		lexer->at++;
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

int lex_label_name(struct lexer *lexer, char **ret)
{
	const char *start = lexer->at;
	if (!isalpha((unsigned char)*start) && *start != '_')
		return lex_fault(lexer, "a label name");
	while (is_name_char(*lexer->at) || (*lexer->at && strchr(".-/", *lexer->at)))
		lexer->at++;
	size_t len = (size_t)(lexer->at - start);
	if (len >= LIMIT_LABEL_NAME_BYTES)
		return lex_fault_at(lexer, start, "a label name of at most 255 bytes");
	char name[LIMIT_LABEL_NAME_BYTES];
	label_name_sanitize((struct bytes){(const uint8_t *)start, len}, name);
	lex_skip_space(lexer);
	*ret = mem_strdup(name);
	return *ret ? 0 : error_nomem(lexer->err);
}

static const struct {
	const char *text;
	enum pattern_operator op;
} operators[] = {{"=~", PATTERN_REGEX}, {"!~", PATTERN_NOT_REGEX}, {"!=", PATTERN_NOT_EQUAL}, {"=", PATTERN_EQUAL}};

bool lex_is_operator(const struct lexer *lexer)
{
	return *lexer->at == '=' || *lexer->at == '!';
}

int lex_operator(struct lexer *lexer, enum pattern_operator *ret)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++) {
		size_t len = strlen(operators[i].text);
		if (strncmp(lexer->at, operators[i].text, len) == 0) {
			lexer->at += len;
			lex_skip_space(lexer);
			*ret = operators[i].op;
			return 0;
		}
	}
	return lex_fault(lexer, "one of = != =~ !~");
}

const char *operator_text(enum pattern_operator op)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++)
		if (operators[i].op == op)
			return operators[i].text;
	return "?";
}

/* A backslash before anything else than \ " n t is kept, because regular expressions are full of them ("\d+"). */
static int append_escaped(struct buffer *value, char next)
{
	switch (next) {
	case 'n': return buffer_append_byte(value, '\n');
	case 't': return buffer_append_byte(value, '\t');
	case '"':
	case '\\': return buffer_append_byte(value, (uint8_t)next);
	default: return buffer_append(value, (char[]){'\\', next}, 2);
	}
}

int lex_string(struct lexer *lexer, char **ret)
{
	if (*lexer->at != '"')
		return lex_fault(lexer, "a value in double quotes");
	const char *start = lexer->at;
	_cleanup_(buffer_release) struct buffer value = {.max = LIMIT_SELECTOR_BYTES};
	for (lexer->at++; *lexer->at != '"'; lexer->at++) {
		int r;
		if (!*lexer->at)
			return lex_fault(lexer, "a closing double quote");
		if (*lexer->at == '\\' && lexer->at[1])
			r = append_escaped(&value, *++lexer->at);
		else
			r = buffer_append_byte(&value, (uint8_t)*lexer->at);
		if (r < 0)
			return r == -E2BIG ? lex_fault_at(lexer, start, "a shorter value") : error_nomem(lexer->err);
	}
	lexer->at++;
	lex_skip_space(lexer);
	*ret = mem_strndup(value.len ? (const char *)value.data : "", value.len);
	return *ret ? 0 : error_nomem(lexer->err);
}

bool lex_word(struct lexer *lexer, const char *word)
{
	size_t len = strlen(word);
	if (strncmp(lexer->at, word, len) != 0 || is_name_char(lexer->at[len]))
		return false;
	lexer->at += len;
	lex_skip_space(lexer);
	return true;
}

bool lex_char(struct lexer *lexer, char c)
{
	if (*lexer->at != c)
		return false;
	lexer->at++;
	lex_skip_space(lexer);
	return true;
}

int lex_number(struct lexer *lexer, const char *expected, uint64_t max, uint64_t *ret)
{
	const char *start = lexer->at;
	uint64_t value = 0;
	if (!isdigit((unsigned char)*start))
		return lex_fault(lexer, expected);
	for (; isdigit((unsigned char)*lexer->at); lexer->at++) {
		value = value * 10 + (uint64_t)(*lexer->at - '0');
		if (value > max)
			return lex_fault_at(lexer, start, expected);
	}
	if (is_name_char(*lexer->at))
		return lex_fault_at(lexer, start, expected);
	lex_skip_space(lexer);
	*ret = value;
	return 0;
}

int format_string(struct buffer *out, const char *text)
{
	buffer_append_byte(out, '"');
	for (; *text; text++) {
		switch (*text) {
		case '\n': buffer_append_string(out, "\\n"); break;
		case '\t': buffer_append_string(out, "\\t"); break;
		case '"': buffer_append_string(out, "\\\""); break;
		case '\\': buffer_append_string(out, "\\\\"); break;
		default: buffer_append_byte(out, (uint8_t)*text);
		}
	}
	return buffer_append_byte(out, '"');
}
