/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/render. */
#ifndef WICK_RENDER_FLAME_INT_H
#define WICK_RENDER_FLAME_INT_H

#include "render/flame.h"

/* Puts nodes in pre-order, siblings by falling total. ret_position (NULL allowed, room for all nodes) tells where each went. */
int flame_put_in_order(struct flame *flame, uint32_t *ret_position, struct error *err);
/* The members of flame_write_json() that a tree's nodes have, inside an object. */
void flame_write_nodes(const struct flame *flame, struct json_writer *json);
void flame_write_strings(const struct flame *flame, struct json_writer *json);

#endif
