/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that change, or drop, label sets, of samples before they are sent and of targets before they are scraped: Prometheus'
 * relabel_configs.
 *
 * The rules are applied in order. Each joins the values of source_labels by the separator, matches its regular expression
 * against all of the result, and acts: replace, lowercase, uppercase and hashmod set target_label; keep, drop, keepequal and
 * dropequal decide about the whole set; labelmap, labeldrop and labelkeep match the names of labels instead. What they mean is
 * what Prometheus' documentation says ("relabel_config"), with these differences:
 *
 *   - Labels have OpenTelemetry's names here, with dots. "process.executable.name" and "process_executable_name" name the same
 *     label, in source_labels, in target_label, and where a name is matched. A label keeps the spelling that it was made with.
 *   - Expressions are PCRE2's, a superset of RE2's but for a few escapes, with a limit on the steps of a match; what passes
 *     the limit does not match.
 *   - lowercase and uppercase change ASCII letters only.
 *
 * As in Prometheus labels whose name begins with "__" are gone after the last rule.
 */
#ifndef WICK_PROFILE_RELABEL_H
#define WICK_PROFILE_RELABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/limits.h"
#include "codec/yaml_fields.h"

#define RELABEL_RULES_MAX   256u
#define RELABEL_SOURCES_MAX 32u
#define RELABEL_LABELS_MAX  320u /* of one set; a pod of Kubernetes says a lot about itself */

/* A rule as it is written; NULL (0) for what is not given. */
struct relabel_rule {
	const char *source_labels[RELABEL_SOURCES_MAX];
	size_t source_count;
	const char *separator, *target_label, *regex, *replacement, *action;
	uint64_t modulus;
	bool has_sources;
};

struct relabel;
int relabel_new(struct relabel **ret, struct error *err);
struct relabel *relabel_free(struct relabel *relabel);
DEFINE_CLEANUP_POINTER(relabel_free, struct relabel);
/* Appends a rule; its texts are copied. -EINVAL says what is wrong with it, -E2BIG which limit is passed. */
int relabel_add(struct relabel *relabel, const struct relabel_rule *rule, struct error *err);
size_t relabel_count(const struct relabel *relabel);
/* Of the items of a list relabel_configs; object: a struct relabel *, made when it is NULL. */
int relabel_read_rule(struct yaml_reader *reader, const yaml_node_t *node, void *object);

struct relabel_label {
	const char *name, *value;
};
/* A label set. Strings put in stay the caller's; those that rules make are in the arena. */
struct relabel_set {
	struct relabel_label items[RELABEL_LABELS_MAX]; /* no order */
	size_t count;
	struct arena arena;
};
void relabel_set_init(struct relabel_set *set);
void relabel_set_release(struct relabel_set *set);
/* Adds or replaces; an empty value removes. Ignored when the set is full. */
void relabel_set_put(struct relabel_set *set, const char *name, const char *value);
const char *relabel_set_get(const struct relabel_set *set, const char *name); /* "" if absent */

/* 0, positive if the set is to be dropped, -ENOMEM. Not for two threads at once. */
int relabel_apply(struct relabel *relabel, struct relabel_set *set, struct error *err);
/* The same in two steps, for who needs the labels that begin with "__" after the rules. */
int relabel_run(struct relabel *relabel, struct relabel_set *set, struct error *err);
void relabel_set_remove_hidden(struct relabel_set *set);
/* Whether some rule may change or remove a label of this name: then it cannot be said once for all sets. */
bool relabel_touches(struct relabel *relabel, const char *name);

#endif
