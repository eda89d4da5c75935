/* SPDX-License-Identifier: Apache-2.0 */
/* Reading texts from the left: what selectors and pipelines have in common. Private to src/query. */
#ifndef WICK_QUERY_LEX_H
#define WICK_QUERY_LEX_H

#include "query/query.h"

struct lexer {
	const char *what; /* "selector" or "query": how messages begin */
	const char *text, *at;
	struct error *err;
};

/* -EINVAL: "WHAT: expected EXPECTED at column N near '...'". */
int lex_fault(const struct lexer *lexer, const char *expected);
/* The same at another place. */
int lex_fault_at(const struct lexer *lexer, const char *at, const char *expected);
/* "WHAT: MESSAGE at column N near '...'" */
int lex_refuse(const struct lexer *lexer, const char *at, const char *message);
void lex_skip_space(struct lexer *lexer);
/* [A-Za-z_][A-Za-z0-9_.-/]*; characters that Wick's labels cannot have become '_', as they did when the label was stored. Space
 * behind it is skipped, by all of these. */
int lex_label_name(struct lexer *lexer, char **ret);
int lex_operator(struct lexer *lexer, enum pattern_operator *ret);
bool lex_is_operator(const struct lexer *lexer);
/* "..." with the escapes \" \\ \n \t; a backslash before anything else stays. */
int lex_string(struct lexer *lexer, char **ret);
/* Takes a word of [a-z_]+ if it is this one. */
bool lex_word(struct lexer *lexer, const char *word);
bool lex_char(struct lexer *lexer, char c);
/* 0 and up, at most max. */
int lex_number(struct lexer *lexer, const char *expected, uint64_t max, uint64_t *ret);

const char *operator_text(enum pattern_operator op);
/* "..." with escapes, so that lex_string() gives text again. */
int format_string(struct buffer *out, const char *text);

#endif
