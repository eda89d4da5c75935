/* SPDX-License-Identifier: Apache-2.0 */
/* Scope exit: "_cleanup_(buffer_release) struct buffer b" calls buffer_release(&b) when b leaves its scope. For pointers,
 * DEFINE_CLEANUP_POINTER(profile_free, struct profile) makes profile_freep() out of a destructor that takes NULL. */
#ifndef WICK_BASE_CLEANUP_H
#define WICK_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>

#define _cleanup_(function) __attribute__((cleanup(function)))
#define DEFINE_CLEANUP_POINTER(function, type)                                                                                 \
	static inline void function##p(type **pointer)                                                                         \
	{                                                                                                                      \
		if (*pointer)                                                                                                  \
			function(*pointer);                                                                                    \
	}                                                                                                                      \
	struct wick_cleanup_needs_a_semicolon

/* For descriptors: _cleanup_(fd_closep) int fd = -1; */
void fd_closep(int *fd);
void dir_closep(DIR **dir); /* for directories and streams: NULL is allowed */
void file_closep(FILE **file);
void mem_freep(void *pointer_to_pointer); /* for pointers from mem_alloc() */

/* The value of a variable that is to be cleaned up, for who takes it over: the variable is NULL, or -1, from then on. */
#define TAKE(pointer)                                                                                                          \
	({                                                                                                                     \
		__typeof__(pointer) taken_ = (pointer);                                                                        \
		(pointer) = NULL;                                                                                              \
		taken_;                                                                                                        \
	})
static inline int fd_take(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

#endif
