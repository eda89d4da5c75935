/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by who writes and who reads tables. */
#ifndef WICK_SYMBOL_TABLE_INT_H
#define WICK_SYMBOL_TABLE_INT_H

#include "symbol/table.h"

#define SYMBOL_TABLE_MAGIC	   "WICKSYM\n"
#define SYMBOL_TABLE_CHECKSUM_FROM 16

/* The length that an image with this header has, UINT64_MAX if it is absurd; ret (NULL allowed): points it into ret->image. */
uint64_t symbol_table_layout(const struct symbol_table_header *header, struct symbol_table *ret);
/* CODE_NONE without debug information. */
uint32_t symbol_table_outermost(const struct symbol_table *table, uint32_t range);

#endif
