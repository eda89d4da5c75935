// SPDX-License-Identifier: Apache-2.0
#include "profile/relabel.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/text.h"

#define TEXT_BYTES_MAX	    (1 * MIB)	/* of all rules */
#define SET_BYTES_MAX	    (256 * KIB) /* made by the rules for one set */
#define MATCH_STEPS_MAX	    100000u
#define MATCH_HEAP_KIB_MAX  1024u
#define REGEX_BYTES_MAX	    4096u
#define NAME_MAX_BYTES	    LIMIT_LABEL_NAME_BYTES
#define SEPARATOR_BYTES_MAX 64u
/* Source values joined; and what a replacement makes before it is cut. */
#define JOINED_BYTES_MAX    (RELABEL_SOURCES_MAX * (LIMIT_LABEL_VALUE_BYTES + SEPARATOR_BYTES_MAX) + 1)
#define MADE_BYTES_MAX	    (JOINED_BYTES_MAX + REGEX_BYTES_MAX + LIMIT_LABEL_VALUE_BYTES)
#define SEPARATOR_DEFAULT   ";"
#define REGEX_DEFAULT	    "(.*)"
#define REPLACEMENT_DEFAULT "$1"

enum action {
	ACTION_REPLACE,
	ACTION_KEEP,
	ACTION_DROP,
	ACTION_KEEPEQUAL,
	ACTION_DROPEQUAL,
	ACTION_HASHMOD,
	ACTION_LABELMAP,
	ACTION_LABELDROP,
	ACTION_LABELKEEP,
	ACTION_LOWERCASE,
	ACTION_UPPERCASE,
	ACTION_COUNT,
};
static const char *const action_names[ACTION_COUNT] = {"replace",   "keep",	 "drop",     "keepequal",
						       "dropequal", "hashmod",	 "labelmap", "labeldrop",
						       "labelkeep", "lowercase", "uppercase"};

struct rule {
	enum action action;
	const char **sources;
	size_t source_count;
	const char *separator, *target, *replacement;
	uint64_t modulus;
	pcre2_code *regex; /* NULL = matches everything, as its one group: the default, by far the most used */
};

struct relabel {
	struct arena arena;
	struct rule rules[RELABEL_RULES_MAX];
	size_t count;
	pcre2_match_context *limits;
	pcre2_match_data *match;
	struct buffer joined, made; /* scratch */
};

/* ---- names ---- */

/* A dot and an underscore are one letter, so that both spellings of a name are equal. */
static char plain(char c)
{
	return c == '.' ? '_' : c;
}

static bool names_are_equal(const char *a, const char *b)
{
	for (; plain(*a) == plain(*b); a++, b++) {
		if (!*a)
			return true;
	}
	return false;
}

static bool is_name(const char *text)
{
	if (!isalpha((unsigned char)*text) && *text != '_')
		return false;
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
	return !text[len] && len < NAME_MAX_BYTES;
}

/* A name with references to groups: every other character must be one of a name's. */
static bool is_name_template(const char *text)
{
	return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.${}")];
}

/* ---- sets ---- */

void relabel_set_init(struct relabel_set *set)
{
	set->count = 0;
	arena_init(&set->arena, SET_BYTES_MAX);
}

void relabel_set_release(struct relabel_set *set)
{
	set->count = 0;
	arena_release(&set->arena);
}

static struct relabel_label *find(const struct relabel_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++) {
		if (names_are_equal(set->items[i].name, name))
			return (struct relabel_label *)&set->items[i];
	}
	return NULL;
}

const char *relabel_set_get(const struct relabel_set *set, const char *name)
{
	const struct relabel_label *label = find(set, name);
	return label ? label->value : "";
}

void relabel_set_put(struct relabel_set *set, const char *name, const char *value)
{
	struct relabel_label *label = find(set, name);

	if (label && *value)
		label->value = value;
	else if (label)
		memmove(label, label + 1, (size_t)(set->items + --set->count - label) * sizeof(*label));
	else if (*value && set->count < sizeof(set->items) / sizeof(*set->items))
		set->items[set->count++] = (struct relabel_label){name, value};
}

/* Puts copies in. A value that is too long is cut; what finds no room is left out. */
static int put_copy(struct relabel_set *set, const char *name, const char *value)
{
	const struct relabel_label *known = find(set, name);
	size_t len = strnlen(value, LIMIT_LABEL_VALUE_BYTES), name_len = strlen(name);

	if (arena_is_full(&set->arena, len + name_len + 64))
		return 0;
	const char *copy = arena_strndup(&set->arena, value, len);
	name = known ? known->name : arena_strndup(&set->arena, name, name_len);
	if (!copy || !name)
		return -ENOMEM;
	relabel_set_put(set, name, copy);
	return 0;
}

/* ---- compiling ---- */

int relabel_new(struct relabel **ret, struct error *err)
{
	_cleanup_(relabel_freep) struct relabel *relabel = mem_zalloc(sizeof(*relabel));

	if (!relabel)
		return error_nomem(err);
	arena_init(&relabel->arena, TEXT_BYTES_MAX);
	buffer_init(&relabel->joined, JOINED_BYTES_MAX);
	buffer_init(&relabel->made, MADE_BYTES_MAX);
	relabel->limits = pcre2_match_context_create(NULL);
	if (!relabel->limits)
		return error_nomem(err);
	pcre2_set_match_limit(relabel->limits, MATCH_STEPS_MAX);
	pcre2_set_depth_limit(relabel->limits, MATCH_STEPS_MAX);
	pcre2_set_heap_limit(relabel->limits, MATCH_HEAP_KIB_MAX);
	relabel->match = pcre2_match_data_create(64, NULL);
	if (!relabel->match)
		return error_nomem(err);
	*ret = TAKE(relabel);
	return 0;
}

struct relabel *relabel_free(struct relabel *relabel)
{
	if (!relabel)
		return NULL;
	for (size_t i = 0; i < relabel->count; i++)
		pcre2_code_free(relabel->rules[i].regex);
	pcre2_match_context_free(relabel->limits);
	pcre2_match_data_free(relabel->match);
	buffer_release(&relabel->joined);
	buffer_release(&relabel->made);
	arena_release(&relabel->arena);
	return mem_free(relabel);
}

size_t relabel_count(const struct relabel *relabel)
{
	return relabel->count;
}

static int compile_regex(const char *text, pcre2_code **ret, struct error *err)
{
	const uint32_t flags = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY | PCRE2_UTF |
			       PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
	PCRE2_SIZE at;
	char why[160] = "";
	int code;

	if (strlen(text) > REGEX_BYTES_MAX)
		return error_set(err, -E2BIG, "regex: longer than %u bytes", REGEX_BYTES_MAX);
	*ret = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, flags, &code, &at, NULL);
	if (*ret)
		return 0;
	pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
	return error_set(err, -EINVAL, "regex: bad regular expression at character %zu of \"%.100s\": %s", (size_t)at, text,
			 why);
}

static int parse_action(const char *text, enum action *ret, struct error *err)
{
	*ret = ACTION_REPLACE;
	if (!text)
		return 0;
	for (size_t i = 0; i < ACTION_COUNT; i++) {
		if (strcasecmp(text, action_names[i]) == 0) {
			*ret = (enum action)i;
			return 0;
		}
	}
	return error_set(err, -EINVAL,
			 "action: '%.40s' is not one of replace, keep, drop, keepequal, dropequal, hashmod, labelmap, "
			 "labeldrop, labelkeep, lowercase, uppercase",
			 text);
}

/* The parts that an action refuses, unless they say what is the default anyhow: Prometheus' own dumps of a configuration spell
 * the defaults out. What other actions have no use for is ignored, as there. */
enum { PART_SOURCES = 1, PART_SEPARATOR = 2, PART_TARGET = 4, PART_REGEX = 8, PART_REPLACEMENT = 16, PART_MODULUS = 32 };
static const uint8_t refused[ACTION_COUNT] = {
	[ACTION_KEEPEQUAL] = PART_SEPARATOR | PART_REGEX | PART_REPLACEMENT | PART_MODULUS,
	[ACTION_DROPEQUAL] = PART_SEPARATOR | PART_REGEX | PART_REPLACEMENT | PART_MODULUS,
	[ACTION_LABELDROP] = PART_SOURCES | PART_SEPARATOR | PART_TARGET | PART_REPLACEMENT | PART_MODULUS,
	[ACTION_LABELKEEP] = PART_SOURCES | PART_SEPARATOR | PART_TARGET | PART_REPLACEMENT | PART_MODULUS,
	[ACTION_LOWERCASE] = PART_REPLACEMENT,
	[ACTION_UPPERCASE] = PART_REPLACEMENT,
};

static bool is_other_than(const char *text, const char *otherwise)
{
	return text && strcmp(text, otherwise) != 0;
}

static bool has_target(enum action action)
{
	return action != ACTION_KEEP && action != ACTION_DROP && action != ACTION_LABELMAP && action != ACTION_LABELDROP &&
	       action != ACTION_LABELKEEP;
}

/* By MD5, so that whoever else shares targets out by Prometheus's rules comes to the same. False: out of memory. */
static bool hash_mod(const char *text, size_t len, uint64_t modulus, uint64_t *ret)
{
	uint8_t sum[EVP_MAX_MD_SIZE];
	size_t sum_len;
	uint64_t value = 0;

	if (EVP_Q_digest(NULL, "MD5", NULL, text, len, sum, &sum_len) != 1)
		return false;
	for (size_t i = sum_len - 8; i < sum_len; i++)
		value = value << 8 | sum[i];
	*ret = value % modulus;
	return true;
}

static int check_parts(const struct relabel_rule *rule, enum action action, struct error *err)
{
	const struct {
		unsigned part;
		bool given;
		const char *name;
	} parts[] = {
		{PART_SOURCES, rule->has_sources, "source_labels"},
		{PART_SEPARATOR, is_other_than(rule->separator, SEPARATOR_DEFAULT), "separator"},
		{PART_TARGET, is_other_than(rule->target_label, ""), "target_label"},
		{PART_REGEX, is_other_than(rule->regex, REGEX_DEFAULT), "regex"},
		{PART_REPLACEMENT, is_other_than(rule->replacement, REPLACEMENT_DEFAULT), "replacement"},
		{PART_MODULUS, rule->modulus != 0, "modulus"},
	};
	uint64_t hash;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (parts[i].given && (refused[action] & parts[i].part))
			return error_set(err, -EINVAL, "action %s does not use %s", action_names[action], parts[i].name);
	}
	if (has_target(action) && (!rule->target_label || !*rule->target_label))
		return error_set(err, -EINVAL, "action %s needs a target_label", action_names[action]);
	if (action == ACTION_HASHMOD && !rule->modulus)
		return error_set(err, -EINVAL, "action hashmod needs a modulus above 0");
	if (action == ACTION_HASHMOD && !hash_mod("", 0, 1, &hash))
		return error_set(err, -EOPNOTSUPP,
				 "action hashmod needs MD5, which OpenSSL does not provide here (in FIPS mode?)");
	if ((rule->separator && strlen(rule->separator) > SEPARATOR_BYTES_MAX) ||
	    (rule->replacement && strlen(rule->replacement) > REGEX_BYTES_MAX))
		return error_set(err, -E2BIG, "separator (at most %u bytes) or replacement (%u) is too long",
				 SEPARATOR_BYTES_MAX, REGEX_BYTES_MAX);
	return 0;
}

static int check_names(const struct relabel_rule *rule, enum action action, struct error *err)
{
	bool is_template = action == ACTION_REPLACE;

	if (rule->source_count > RELABEL_SOURCES_MAX)
		return error_set(err, -E2BIG, "source_labels: more than %u", RELABEL_SOURCES_MAX);
	for (size_t i = 0; i < rule->source_count; i++) {
		if (!is_name(rule->source_labels[i]))
			return error_set(err, -EINVAL, "source_labels: '%.60s' is not a label name", rule->source_labels[i]);
	}
	if (rule->target_label && !(is_template ? is_name_template(rule->target_label) : is_name(rule->target_label)))
		return error_set(err, -EINVAL, "target_label: '%.60s' is not a label name", rule->target_label);
	if (action == ACTION_LABELMAP && rule->replacement && !is_name_template(rule->replacement))
		return error_set(err, -EINVAL, "replacement: '%.60s' is not a label name", rule->replacement);
	return 0;
}

static int no_room(const struct relabel *relabel, size_t size, struct error *err)
{
	return arena_is_full(&relabel->arena, size)
		       ? error_set(err, -E2BIG, "the rules have more than %u bytes of text, the limit",
				   (unsigned)TEXT_BYTES_MAX)
		       : error_nomem(err);
}

static int copy_text(struct relabel *relabel, const char *text, const char *otherwise, const char **ret, struct error *err)
{
	*ret = text ? arena_strndup(&relabel->arena, text, strlen(text)) : otherwise;
	return *ret ? 0 : no_room(relabel, text ? strlen(text) + 1 : 0, err);
}

static int copy_sources(struct relabel *relabel, const struct relabel_rule *from, struct rule *to, struct error *err)
{
	size_t size = (from->source_count + 1) * sizeof(*to->sources);
	int r = 0;
	to->sources = arena_alloc(&relabel->arena, size);
	if (!to->sources)
		return no_room(relabel, size, err);
	for (; r == 0 && to->source_count < from->source_count; to->source_count++)
		r = copy_text(relabel, from->source_labels[to->source_count], NULL, &to->sources[to->source_count], err);
	return r;
}

static int copy_rule(struct relabel *relabel, const struct relabel_rule *from, struct rule *to, struct error *err)
{
	to->modulus = from->modulus;
	int r = copy_text(relabel, from->separator, SEPARATOR_DEFAULT, &to->separator, err);
	if (r == 0)
		r = copy_text(relabel, from->target_label, "", &to->target, err);
	if (r == 0)
		r = copy_text(relabel, from->replacement, REPLACEMENT_DEFAULT, &to->replacement, err);
	return r < 0 ? r : copy_sources(relabel, from, to, err);
}

int relabel_add(struct relabel *relabel, const struct relabel_rule *rule, struct error *err)
{
	struct rule made = {0};

	if (relabel->count == RELABEL_RULES_MAX)
		return error_set(err, -E2BIG, "more than %u rules", RELABEL_RULES_MAX);
	int r = parse_action(rule->action, &made.action, err);
	if (r == 0)
		r = check_parts(rule, made.action, err);
	if (r == 0)
		r = check_names(rule, made.action, err);
	if (r == 0)
		r = copy_rule(relabel, rule, &made, err);
	if (r == 0 && is_other_than(rule->regex, REGEX_DEFAULT))
		r = compile_regex(rule->regex, &made.regex, err);
	if (r == 0)
		relabel->rules[relabel->count++] = made;
	return r;
}

/* ---- matching ---- */

/* What a match left: groups as offsets into `text`. */
struct match {
	struct relabel *relabel;
	const struct rule *rule;
	const char *text;
	size_t len;
	uint32_t groups; /* with the whole */
};

static bool match_text(struct relabel *relabel, const struct rule *rule, const char *text, size_t len, struct match *ret)
{
	*ret = (struct match){relabel, rule, text, len, 2};
	if (!rule->regex)
		return true;
	int count = pcre2_match(rule->regex, (PCRE2_SPTR)text, len, 0, 0, relabel->match, relabel->limits);
	ret->groups = count > 0 ? (uint32_t)count : pcre2_get_ovector_count(relabel->match);
	return count >= 0;
}

static void append_group(const struct match *match, uint64_t number, struct buffer *out)
{
	PCRE2_SIZE start = 0, end = match->len;
	if (number >= match->groups)
		return;
	if (match->rule->regex) {
		const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(match->relabel->match);
		start = offsets[2 * number];
		end = offsets[2 * number + 1];
	}
	if (start != PCRE2_UNSET && start <= end && end <= match->len)
		buffer_append(out, match->text + start, end - start);
}

/* A reference's name: a number, or that of a named group; others are empty. */
static void append_reference(const struct match *match, const char *name, size_t len, struct buffer *out)
{
	char text[64];
	uint64_t number = UINT64_MAX;

	if (len >= sizeof(text))
		return;
	memcpy(text, name, len);
	text[len] = 0;
	if (text_parse_u64(text, &number, NULL) < 0 && match->rule->regex) {
		int group = pcre2_substring_number_from_name(match->rule->regex, (PCRE2_SPTR)text);
		number = group > 0 ? (uint64_t)group : UINT64_MAX;
	}
	append_group(match, number, out);
}

/* $1, ${1}, $name, ${name}; $$ is a dollar sign, and so is one that begins none of these. An unbraced name is as long as it can
 * be: $1x is the group "1x", which there is not. Valid until the next one; NULL = out of memory. */
static const char *expand(const struct match *match, const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	struct buffer *out = &match->relabel->made;

	buffer_clear(out);
	while (*text && out->len < LIMIT_LABEL_VALUE_BYTES) { /* the rest would be cut off */
		size_t len = strcspn(text, "$");
		if (len) {
			buffer_append(out, text, len);
			text += len;
			continue;
		}
		bool braced = text[1] == '{';
		const char *name = text + 1 + braced;
		len = strspn(name, letters);
		if (len && (!braced || name[len] == '}')) {
			append_reference(match, name, len, out);
			text = name + len + braced;
		} else {
			buffer_append(out, "$", 1);
			text += text[1] == '$' ? 2 : 1;
		}
	}
	return buffer_string(out);
}

/* ---- applying ---- */

static int join_sources(struct relabel *relabel, const struct rule *rule, const struct relabel_set *set)
{
	struct buffer *out = &relabel->joined;

	buffer_clear(out);
	for (size_t i = 0; i < rule->source_count; i++) {
		const char *value = relabel_set_get(set, rule->sources[i]);
		if (i)
			buffer_append_string(out, rule->separator);
		buffer_append(out, value, strnlen(value, LIMIT_LABEL_VALUE_BYTES));
	}
	return buffer_string(out) ? 0 : -ENOMEM;
}

static int replace(const struct match *match, struct relabel_set *set)
{
	char name[NAME_MAX_BYTES];
	const char *text = expand(match, match->rule->target);

	if (!text)
		return -ENOMEM;
	if (!is_name(text)) /* the groups made no name of it */
		return 0;
	snprintf(name, sizeof(name), "%s", text);
	text = expand(match, match->rule->replacement);
	return text ? put_copy(set, name, text) : -ENOMEM;
}

static int change_case(struct relabel_set *set, const struct rule *rule, char *text)
{
	for (char *at = text; *at; at++) {
		if ((signed char)*at > 0)
			*at = (char)(rule->action == ACTION_LOWERCASE ? tolower(*at) : toupper(*at));
	}
	return put_copy(set, rule->target, text);
}

/* Rules about values. 0, positive to drop the set, -ENOMEM. */
static int apply_to_values(struct relabel *relabel, const struct rule *rule, struct relabel_set *set)
{
	struct match match;
	char number[24];
	uint64_t hash;

	int r = join_sources(relabel, rule, set);
	if (r < 0)
		return r;
	char *text = (char *)relabel->joined.data;
	size_t len = strlen(text);
	switch (rule->action) {
	case ACTION_REPLACE: return match_text(relabel, rule, text, len, &match) ? replace(&match, set) : 0;
	case ACTION_KEEP: return !match_text(relabel, rule, text, len, &match);
	case ACTION_DROP: return match_text(relabel, rule, text, len, &match);
	case ACTION_KEEPEQUAL: return strcmp(text, relabel_set_get(set, rule->target)) != 0;
	case ACTION_DROPEQUAL: return strcmp(text, relabel_set_get(set, rule->target)) == 0;
	case ACTION_HASHMOD:
		if (!hash_mod(text, len, rule->modulus, &hash))
			return -ENOMEM;
		snprintf(number, sizeof(number), "%" PRIu64, hash);
		return put_copy(set, rule->target, number);
	default: return change_case(set, rule, text);
	}
}

/* Either spelling of a name may match; the one that did is what the groups are parts of. */
static bool match_name(struct relabel *relabel, const struct rule *rule, const char *name, char spelled[NAME_MAX_BYTES],
		       struct match *ret)
{
	size_t len = strnlen(name, NAME_MAX_BYTES - 1);

	for (size_t i = 0; i < len; i++)
		spelled[i] = plain(name[i]);
	spelled[len] = 0;
	if (match_text(relabel, rule, spelled, len, ret))
		return true;
	memcpy(spelled, name, len);
	return match_text(relabel, rule, spelled, len, ret);
}

static int map_labels(struct relabel *relabel, const struct rule *rule, struct relabel_set *set)
{
	struct relabel_set before = *set; /* new labels are not mapped again; the arena stays the set's */
	char name[NAME_MAX_BYTES];
	struct match match;

	for (size_t i = 0; i < before.count; i++) {
		if (!match_name(relabel, rule, before.items[i].name, name, &match))
			continue;
		const char *text = expand(&match, rule->replacement);
		int r = !text ? -ENOMEM : is_name(text) ? put_copy(set, text, before.items[i].value) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static void remove_labels(struct relabel *relabel, const struct rule *rule, struct relabel_set *set)
{
	char name[NAME_MAX_BYTES];
	struct match match;
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++) {
		bool matches = match_name(relabel, rule, set->items[i].name, name, &match);
		if (matches == (rule->action == ACTION_LABELKEEP))
			set->items[kept++] = set->items[i];
	}
	set->count = kept;
}

void relabel_set_remove_hidden(struct relabel_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (strncmp(set->items[i].name, "__", 2) != 0)
			set->items[kept++] = set->items[i];
	}
	set->count = kept;
}

int relabel_run(struct relabel *relabel, struct relabel_set *set, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < relabel->count && r == 0; i++) {
		const struct rule *rule = &relabel->rules[i];
		if (rule->action == ACTION_LABELMAP)
			r = map_labels(relabel, rule, set);
		else if (rule->action == ACTION_LABELDROP || rule->action == ACTION_LABELKEEP)
			remove_labels(relabel, rule, set);
		else
			r = apply_to_values(relabel, rule, set);
	}
	return r < 0 ? error_nomem(err) : r;
}

int relabel_apply(struct relabel *relabel, struct relabel_set *set, struct error *err)
{
	int r = relabel_run(relabel, set, err);
	relabel_set_remove_hidden(set);
	return r;
}

static bool rule_touches(struct relabel *relabel, const struct rule *rule, const char *name)
{
	char spelled[NAME_MAX_BYTES];
	struct match match;

	switch (rule->action) {
	case ACTION_LABELMAP: return true;
	case ACTION_LABELDROP: return match_name(relabel, rule, name, spelled, &match);
	case ACTION_LABELKEEP: return !match_name(relabel, rule, name, spelled, &match);
	case ACTION_REPLACE:
		if (strchr(rule->target, '$'))
			return true;
		break;
	case ACTION_KEEP:
	case ACTION_DROP:
	case ACTION_KEEPEQUAL:
	case ACTION_DROPEQUAL: return false;
	default: break;
	}
	return names_are_equal(rule->target, name);
}

bool relabel_touches(struct relabel *relabel, const char *name)
{
	for (size_t i = 0; i < relabel->count; i++) {
		if (rule_touches(relabel, &relabel->rules[i], name))
			return true;
	}
	return strncmp(name, "__", 2) == 0;
}

/* ---- in a configuration file ---- */

static int read_source(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct relabel_rule *rule = object;
	int r = yaml_read_text(reader, node, "source_labels", &rule->source_labels[rule->source_count]);
	if (r == 0 && !*rule->source_labels[rule->source_count])
		return yaml_fault(reader, node, "source_labels", "has no value");
	rule->source_count++;
	return r;
}

static int read_sources(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct relabel_rule *rule = object;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(reader, node, "source_labels", "must be a list: [name, name]");
	if (node->data.sequence.items.top - node->data.sequence.items.start > RELABEL_SOURCES_MAX)
		return yaml_fault(reader, node, "source_labels", "has too many names");
	rule->has_sources = true;
	return yaml_read_list(reader, node, "source_labels", read_source, rule);
}

int relabel_read_rule(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {
		YAML_CUSTOM("source_labels", read_sources),
		YAML_FIELD(struct relabel_rule, "separator", EMPTY_TEXT, separator),
		YAML_FIELD(struct relabel_rule, "target_label", TEXT, target_label),
		YAML_FIELD(struct relabel_rule, "regex", EMPTY_TEXT, regex),
		YAML_FIELD(struct relabel_rule, "modulus", NUMBER, modulus, .least = 1, .most = UINT64_MAX),
		YAML_FIELD(struct relabel_rule, "replacement", EMPTY_TEXT, replacement),
		YAML_FIELD(struct relabel_rule, "action", TEXT, action),
		{0}};
	struct relabel **relabel = object;
	struct relabel_rule rule = {0};
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(reader, node, "relabel_configs", "must be a list of `name: value` lines");
	int r = *relabel ? 0 : relabel_new(relabel, reader->err);
	if (r == 0)
		r = yaml_read_fields(reader, node, fields, &rule);
	if (r < 0)
		return r;
	r = relabel_add(*relabel, &rule, reader->err);
	return r < 0 ? error_prefix(reader->err, r, "%s: line %zu: relabel_configs", reader->file, node->start_mark.line + 1)
		     : 0;
}
