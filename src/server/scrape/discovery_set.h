/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to discovery: the labels of one target, as they are put together from what a service reports.
 *
 * [0] is the address: however much an object says about itself, that has room. An object can have thousands of targets, so the
 * texts that were made for one of them go with it.
 */
#ifndef WICK_SERVER_SCRAPE_DISCOVERY_SET_H
#define WICK_SERVER_SCRAPE_DISCOVERY_SET_H

#include "codec/json_tree.h"
#include "server/scrape/scrape_int.h"

/* The rest is for what every target has (job, instance, service_name, parameters), and for what rules add. */
#define DISCOVERY_LABELS_MAX (RELABEL_LABELS_MAX - SCRAPE_PARAMS_MAX - 32)
#define DISCOVERY_LABELS_OWN 48 /* room that maps of labels leave to what comes behind them */

struct discovery_set {
	struct relabel_label labels[DISCOVERY_LABELS_MAX];
	size_t count;
	struct arena shared, own; /* texts of what all targets of the object have, and of the target at hand */
	struct arena *texts;	  /* where new ones go */
};
void discovery_set_init(struct discovery_set *set);
void discovery_set_release(struct discovery_set *set);
/* Texts that are made from now on are the target's at hand. Returns the number of labels, for discovery_set_cut(). */
size_t discovery_set_mark(struct discovery_set *set);
/* Back to that number of labels; what was made since the mark is freed. */
void discovery_set_cut(struct discovery_set *set, size_t count);

/* An empty or missing value is no label; one that has no room is left out. Names and values must live as long as the set. */
void discovery_put(struct discovery_set *set, const char *name, const char *value);
void discovery_put_number(struct discovery_set *set, const char *name, int64_t number);
/* prefix and the key, made a name. Leaves DISCOVERY_LABELS_OWN labels of room. */
void discovery_put_key(struct discovery_set *set, const char *prefix, struct bytes key, const char *value);
/* All members of an object whose values are texts. */
void discovery_put_map(struct discovery_set *set, const char *prefix, const struct json_node *map);
/* ",a,b,": so that rules need not look where in the list something stands. Nothing when there are none, unless `always`. */
void discovery_put_list(struct discovery_set *set, const char *name, const struct json_node *texts, const char *separator,
			bool always);
/* The target with these labels, at host:port; port "" = none. */
int discovery_set_add(struct discovery_set *set, const char *host, const char *port, struct discovered *found,
		      struct error *err);
/* The same, at an address as it is. */
int discovery_set_add_address(struct discovery_set *set, const char *address, struct discovered *found, struct error *err);

/* ---- what services report ---- */
const char *discovery_text(const struct json_node *node, const char *name); /* "" if it is no text */
/* A number as a text in the set's arena; "" if it is none. */
const char *discovery_number(struct discovery_set *set, const struct json_node *node);
const char *discovery_flag(const struct json_node *node); /* "true", "false", "" */
/* -EBADMSG if it is neither of that kind nor null: what responds with something else in the place of the service, and with
 * status 200, must not make all targets disappear. */
int discovery_expect(const struct json_node *node, enum json_node_kind kind, const char *service, struct error *err);

#endif
