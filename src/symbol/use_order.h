/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/symbol: lists in the order of last use. A list has members `newest` and `oldest`, its items `newer` and
 * `older`, which are NULL at the ends and in items of no list.
 */
#ifndef WICK_SYMBOL_USE_ORDER_H
#define WICK_SYMBOL_USE_ORDER_H

#define use_order_remove(list, item)                                                                                           \
	do {                                                                                                                   \
		*((item)->newer ? &(item)->newer->older : &(list)->newest) = (item)->older;                                    \
		*((item)->older ? &(item)->older->newer : &(list)->oldest) = (item)->newer;                                    \
		(item)->newer = (item)->older = NULL;                                                                          \
	} while (0)

#define use_order_add(list, item)                                                                                              \
	do {                                                                                                                   \
		(item)->older = (list)->newest;                                                                                \
		*((list)->newest ? &(list)->newest->newer : &(list)->oldest) = (item);                                         \
		(list)->newest = (item);                                                                                       \
	} while (0)

#endif
