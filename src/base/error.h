/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors that a person can act on.
 *
 * Library functions return 0 for success, a negative errno value for a failure, and a positive value only for
 * a condition that the function's own header documents. The failure's text travels beside it in a struct error,
 * always the last parameter and always allowed to be NULL. Library code never prints; src/cmd and the edges of
 * src/server do, once.
 */
#ifndef WICK_BASE_ERROR_H
#define WICK_BASE_ERROR_H

#include <stdarg.h>

#define ERROR_MESSAGE_MAX 512

struct error {
	int code;			 /* negative errno, 0 when unset */
	char message[ERROR_MESSAGE_MAX]; /* one line without a newline; "" when unset; cut at the end if too long */
};

/* Sets *err (NULL allowed) and returns code, so that "return error_set(err, -EINVAL, ...)" reads well. The message says what,
 * why and what to do about it, in lower case, without a full stop. */
int error_set(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4), cold));

/* Like error_set() with ": strerror(-code)" appended. */
int error_set_errno(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4), cold));

/* Puts "TEXT: " before the message that is there, to add context on the way up; returns err's code (code when err is NULL). */
int error_prefix(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4), cold));

/* Out of memory, said the same way everywhere; returns -ENOMEM. */
int error_nomem(struct error *err);

#endif
