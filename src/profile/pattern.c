/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "profile/pattern.h"

#include <errno.h>
#include <pcre2.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

#define MATCH_STEPS_MAX	   200000u
#define MATCH_HEAP_KIB_MAX 1024u
#define JIT_STACK_MIN	   (32 * 1024)
#define JIT_STACK_MAX	   (1024 * 1024)

struct pattern_code {
	pcre2_code *regex;
	pcre2_match_context *limits;
	pcre2_jit_stack *stack;
	pcre2_match_data *data;
	atomic_flag busy; /* stack and data are in use: others match without, a little slower */
	atomic_int failure;
};

static void code_free(struct pattern_code *code)
{
	if (!code)
		return;
	pcre2_match_data_free(code->data);
	pcre2_jit_stack_free(code->stack);
	pcre2_match_context_free(code->limits);
	pcre2_code_free(code->regex);
	mem_free(code);
}

static int compile(const char *value, bool anchored, pcre2_code **ret, const char *what, const char *subject, struct error *err)
{
	int fault = 0;
	PCRE2_SIZE at = 0;
	uint32_t flags = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY;
	if (anchored)
		flags |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
	*ret = pcre2_compile((PCRE2_SPTR)value, PCRE2_ZERO_TERMINATED, flags, &fault, &at, NULL);
	if (*ret)
		return 0;
	if (fault == PCRE2_ERROR_HEAP_FAILED)
		return error_nomem(err);
	char why[160] = "";
	pcre2_get_error_message(fault, (PCRE2_UCHAR *)why, sizeof(why));
	return error_set(err, -EINVAL, "%s%sbad regular expression for %s at character %zu of \"%.100s\": %s", what,
			 what[0] ? ": " : "", subject, (size_t)at, value, why);
}

static int code_new(const char *value, bool anchored, struct pattern_code **ret, const char *what, const char *subject,
		    struct error *err)
{
	struct pattern_code *code = mem_zalloc(sizeof(*code));
	if (!code)
		return error_nomem(err);
	int r = compile(value, anchored, &code->regex, what, subject, err);
	if (r < 0) {
		code_free(code);
		return r;
	}
	code->limits = pcre2_match_context_create(NULL);
	code->data = pcre2_match_data_create(1, NULL);
	if (!code->limits || !code->data) {
		code_free(code);
		return error_nomem(err);
	}
	pcre2_set_match_limit(code->limits, MATCH_STEPS_MAX);
	pcre2_set_depth_limit(code->limits, MATCH_STEPS_MAX);
	pcre2_set_heap_limit(code->limits, MATCH_HEAP_KIB_MAX);
	/* Machine code is a gain where the system allows it, no more. */
	if (pcre2_jit_compile(code->regex, PCRE2_JIT_COMPLETE) == 0)
		code->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
	if (code->stack)
		pcre2_jit_stack_assign(code->limits, NULL, code->stack);
	*ret = code;
	return 0;
}

int pattern_init(struct pattern *pattern, enum pattern_operator op, char *value, bool anchored, const char *what,
		 const char *subject, struct error *err)
{
	*pattern = (struct pattern){.op = op, .value = value, .len = strlen(value)};
	if (!pattern_operator_is_regex(op))
		return 0;
	int r = code_new(value, anchored, &pattern->code, what, subject, err);
	if (r < 0)
		pattern_release(pattern);
	return r;
}

int pattern_check(enum pattern_operator op, const char *value, bool anchored, const char *what, const char *subject,
		  struct error *err)
{
	pcre2_code *regex;
	int r = pattern_operator_is_regex(op) ? compile(value, anchored, &regex, what, subject, err) : 0;
	if (r == 0 && pattern_operator_is_regex(op))
		pcre2_code_free(regex);
	return r;
}

void pattern_release(struct pattern *pattern)
{
	code_free(pattern->code);
	mem_free(pattern->value);
	*pattern = (struct pattern){0};
}

static int code_match(struct pattern_code *code, const void *text, size_t len)
{
	if (atomic_flag_test_and_set(&code->busy)) {
		pcre2_match_data *data = pcre2_match_data_create(1, NULL);
		if (!data)
			return PCRE2_ERROR_NOMEMORY;
		int r = pcre2_match(code->regex, text, len, 0, PCRE2_NO_JIT, data, code->limits);
		pcre2_match_data_free(data);
		return r;
	}
	int r = pcre2_match(code->regex, text, len, 0, 0, code->data, code->limits);
	if (r == PCRE2_ERROR_JIT_STACKLIMIT)
		r = pcre2_match(code->regex, text, len, 0, PCRE2_NO_JIT, code->data, code->limits);
	atomic_flag_clear(&code->busy);
	return r;
}

bool pattern_finds(const struct pattern *pattern, const void *text, size_t len)
{
	if (!pattern->code)
		return len == pattern->len && memcmp(text ? text : "", pattern->value, len) == 0;
	int r = code_match(pattern->code, text ? text : "", len);
	if (r < 0 && r != PCRE2_ERROR_NOMATCH)
		atomic_store(&pattern->code->failure, r);
	return r >= 0;
}

bool pattern_matches(const struct pattern *pattern, const void *text, size_t len)
{
	return pattern_finds(pattern, text, len) != pattern_operator_is_negative(pattern->op);
}

int pattern_failure(const struct pattern *pattern, struct error *err)
{
	int failure = pattern->code ? atomic_load(&pattern->code->failure) : 0;
	if (!failure)
		return 0;
	char why[160] = "";
	pcre2_get_error_message(failure, (PCRE2_UCHAR *)why, sizeof(why));
	return error_set(err, -EINVAL,
			 "query: the regular expression \"%.100s\" took too long on a value (%s); make it simpler",
			 pattern->value, why);
}
