/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WICK_BASE_ORDER_H
#define WICK_BASE_ORDER_H

/* What a function for qsort() returns of two numbers, each of which is looked at twice. By one and then by another:
 *     return ORDER(a->pid, b->pid) ?: ORDER(a->tid, b->tid);   */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

#endif
