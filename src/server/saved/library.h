/* SPDX-License-Identifier: Apache-2.0 */
/* The saved queries that are built in: library/NAME.yaml, embedded by library_data.S. */
#ifndef WICK_SERVER_SAVED_LIBRARY_H
#define WICK_SERVER_SAVED_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

struct saved_library {
	const char *name;
	const uint8_t *text, *end;
};
extern const struct saved_library saved_library[]; /* ends with a row without a name */

#endif
