// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A message is one line wherever it ends up: a log, a terminal, a JSON field, an HTTP header. */
static void make_one_line(char *text)
{
	for (; *text; text++)
		if (*text == '\n' || *text == '\r')
			*text = ' ';
}

/* Goes through a copy because arguments may point into err->message, as in error_set(err, code, "...: %s", err->message). */
static void __attribute__((format(printf, 3, 0))) set(struct error *err, int code, const char *format, va_list args)
{
	char text[ERROR_MESSAGE_MAX];
	if (!err)
		return;
	err->code = code;
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	make_one_line(text);
	memcpy(err->message, text, sizeof(text));
}

static void append_message(struct error *err, const char *text)
{
	size_t len = strlen(err->message);
	snprintf(err->message + len, sizeof(err->message) - len, ": %s", text);
}

int error_set(struct error *err, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	set(err, code, format, args);
	va_end(args);
	return code;
}

int error_set_errno(struct error *err, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	set(err, code, format, args);
	va_end(args);
	if (!err)
		return code;
	/* Not strerror(): its buffer is shared by threads. Codes that libc does not know come from libbpf and the kernel. */
	const char *description = strerrordesc_np(-code);
	char number[32];
	if (!description) {
		snprintf(number, sizeof(number), "error %d", -code);
		description = number;
	}
	append_message(err, description);
	return code;
}

int error_prefix(struct error *err, int code, const char *format, ...)
{
	if (!err)
		return code;
	char old[ERROR_MESSAGE_MAX];
	memcpy(old, err->message, sizeof(old));
	va_list args;
	va_start(args, format);
	set(err, err->code ? err->code : code, format, args);
	va_end(args);
	if (old[0])
		append_message(err, old);
	return err->code;
}

int error_nomem(struct error *err)
{
	return error_set(err, -ENOMEM, "out of memory");
}
