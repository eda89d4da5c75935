/* SPDX-License-Identifier: Apache-2.0 */
#include "query/parameters.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/time.h"
#include "query/lex.h"

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

bool parameter_name_is_valid(const char *name)
{
	size_t len = strlen(name);
	if (len == 0 || len > PARAMETER_NAME_MAX || isdigit((unsigned char)*name))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_name_char(name[i]))
			return false;
	return true;
}

/* Where the next dollar outside of quotes is, or the end. */
static size_t find_dollar(const char *text, size_t at)
{
	bool quoted = false;
	for (; text[at]; at++) {
		if (text[at] == '"')
			quoted = !quoted;
		else if (quoted && text[at] == '\\' && text[at + 1])
			at++;
		else if (!quoted && text[at] == '$')
			break;
	}
	return at;
}

bool query_next_parameter(const char *text, size_t *at, char ret[static PARAMETER_NAME_MAX + 1])
{
	size_t dollar = find_dollar(text, *at), end = dollar + 1;
	if (!text[dollar]) {
		*at = dollar;
		return false;
	}
	while (is_name_char(text[end]))
		end++;
	size_t len = end - dollar - 1;
	snprintf(ret, PARAMETER_NAME_MAX + 1, "%.*s", (int)(len < PARAMETER_NAME_MAX ? len : PARAMETER_NAME_MAX),
		 text + dollar + 1);
	*at = end;
	return true;
}

static int put_number(const struct query_parameter *parameter, struct buffer *out, struct error *err)
{
	uint64_t value;
	struct error why = {0};
	if (text_parse_u64(parameter->value, &value, &why) < 0)
		return error_set(err, -EINVAL, "parameter '%s': %s", parameter->name, why.message);
	buffer_printf(out, "%llu", (unsigned long long)value);
	return 0;
}

/* As it was written, if that is one word of letters and digits: people read the query afterwards. */
static int put_duration(const struct query_parameter *parameter, struct buffer *out, struct error *err)
{
	int64_t ns;
	struct error why = {0};
	if (time_parse_duration(parameter->value, &ns, &why) < 0)
		return error_set(err, -EINVAL, "parameter '%s': %s", parameter->name, why.message);
	if (strspn(parameter->value, "0123456789.abcdefghijklmnopqrstuvwxyz") == strlen(parameter->value))
		buffer_append_string(out, parameter->value);
	else
		buffer_printf(out, "%lldms", (long long)(ns / NS_PER_MS));
	return 0;
}

static int put_label(const struct query_parameter *parameter, struct buffer *out, struct error *err)
{
	_cleanup_(mem_freep) char *name = NULL;
	struct lexer lexer = {"label", parameter->value, parameter->value, NULL};
	int r = lex_label_name(&lexer, &name);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r < 0 || *lexer.at)
		return error_set(err, -EINVAL, "parameter '%s': '%.60s' is not a label name", parameter->name,
				 parameter->value);
	buffer_append_string(out, name);
	return 0;
}

static int put_value(const struct query_parameter *parameter, struct buffer *out, struct error *err)
{
	switch (parameter->kind) {
	case PARAMETER_NUMBER: return put_number(parameter, out, err);
	case PARAMETER_DURATION: return put_duration(parameter, out, err);
	case PARAMETER_LABEL: return put_label(parameter, out, err);
	default: format_string(out, parameter->value); return 0;
	}
}

static int no_such_parameter(const char *name, const char *text, size_t behind, struct error *err)
{
	size_t column = behind - strlen(name);
	if (!*name)
		return error_set(err, -EINVAL, "query: a '$' without a name at column %zu; '$' in texts stands in quotes",
				 column);
	return error_set(err, -EINVAL, "query: there is no parameter '$%s' at column %zu of '%.200s'", name, column, text);
}

int query_expand(const char *text, const struct query_parameter *parameters, size_t count, struct buffer *out,
		 struct error *err)
{
	char name[PARAMETER_NAME_MAX + 1];
	size_t from = 0, at = 0;
	while (query_next_parameter(text, &at, name)) {
		size_t i = 0, dollar = at - 1;
		while (text[dollar] != '$')
			dollar--;
		while (i < count && (strcmp(parameters[i].name, name) != 0 || at - dollar - 1 != strlen(name)))
			i++;
		if (i == count)
			return no_such_parameter(name, text, at, err);
		buffer_append(out, text + from, dollar - from);
		int r = put_value(&parameters[i], out, err);
		if (r < 0)
			return r;
		from = at;
	}
	buffer_append_string(out, text + from);
	int r = buffer_status(out);
	return r == -E2BIG ? error_set(err, -EINVAL, "the query is longer than %zu bytes", out->max)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}
