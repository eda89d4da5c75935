/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of classes and libraries that differ from run to run, or from one instance to the next, though they are the same code.
 * Pyroscope folds them when it reads a recording (github.com/grafana/jfr-parser v0.18.0, parser/symbols.go), so that a stack
 * stays one stack. Whole symbols, that is a class or a library without its method:
 *
 *   jdk/internal/reflect/GeneratedMethodAccessor31                 jdk/internal/reflect/GeneratedMethodAccessor_
 *   a/B$$Lambda$14/0x0000000800c01220, a/B$$Lambda.0x00007ffa60    a/B$$Lambda_
 *   a/B$$Lambda14                                                  a/B$$Lambda_
 *   a/B$$EnhancerBySpringCGLIB$$1a2b3c                             a/B$$EnhancerBySpringCGLIB$$_
 *   libzstd-jni-1.5.1-16931311898282279136.so                      libzstd-jni-_.so
 *   libamazonCorrettoCryptoProvider109b39cf33c563eb.so             libamazonCorrettoCryptoProvider_.so
 *   amazonCorrettoCryptoProviderNativeLibraries.7382.../libcrypto.so   the same
 *   libasyncProfiler-linux-x64-17b9a1....so                        libasyncProfiler-_.so
 *
 * A library may stand in "/tmp/" or "./tmp/", and may have " (deleted)" behind it; both go. There are expressions with
 * backtracking for these over there; here each is a scan from left to right.
 */
#include <string.h>

#include "base/text.h"
#include "format/jfr/jfr_int.h"

/* ---- scanning ---- */

static bool take_text(struct bytes *rest, const char *text)
{
	if (!bytes_start_with(*rest, text))
		return false;
	*rest = bytes_skip(*rest, strlen(text));
	return true;
}

static size_t take_digits(struct bytes *rest)
{
	size_t len = 0;
	while (len < rest->len && text_is_digit(rest->data[len]))
		len++;
	*rest = bytes_skip(*rest, len);
	return len;
}

/* Lower-case ones. */
static size_t take_hex(struct bytes *rest)
{
	size_t len = 0;
	while (len < rest->len && (text_is_digit(rest->data[len]) || (rest->data[len] >= 'a' && rest->data[len] <= 'f')))
		len++;
	*rest = bytes_skip(*rest, len);
	return len;
}

/* Where a text is found the last time, behind at least one byte; SIZE_MAX if it is not. */
static size_t find_last(struct bytes text, const char *what)
{
	size_t len = strlen(what);
	for (size_t at = text.len >= len ? text.len - len : 0; at > 0; at--)
		if (memcmp(text.data + at, what, len) == 0)
			return at;
	return SIZE_MAX;
}

/* ---- classes ---- */

#define ACCESSOR "jdk/internal/reflect/GeneratedMethodAccessor"
#define LAMBDA	 "$$Lambda"
#define ENHANCER "$$EnhancerBySpringCGLIB$$"

static bool is_accessor(struct bytes name)
{
	return take_text(&name, ACCESSOR) && take_digits(&name) > 0 && name.len == 0;
}

/* What follows "$$Lambda": a number; or a "$", a number, and an address behind "." or "/", the first two of which may lack. */
static bool is_lambda_number(struct bytes rest)
{
	bool has_dollar = take_text(&rest, "$");
	bool has_digits = take_digits(&rest) > 0;
	if (rest.len == 0)
		return has_digits && !has_dollar;
	if (!take_text(&rest, ".") && !take_text(&rest, "/"))
		return false;
	take_text(&rest, "0x");
	return take_hex(&rest) > 0 && rest.len == 0;
}

/* How much of a class's name stays, before an "_"; 0 = all, and no "_". */
static size_t class_prefix(struct bytes name)
{
	size_t enhancer = find_last(name, ENHANCER), lambda = find_last(name, LAMBDA);
	if (is_accessor(name))
		return strlen(ACCESSOR);
	if (enhancer != SIZE_MAX)
		return enhancer + strlen(ENHANCER);
	if (lambda != SIZE_MAX && is_lambda_number(bytes_skip(name, lambda + strlen(LAMBDA))))
		return lambda + strlen(LAMBDA);
	return 0;
}

/* ---- libraries ---- */

static bool ends_library(struct bytes rest)
{
	if (!take_text(&rest, ".so"))
		return false;
	take_text(&rest, " (deleted)");
	return rest.len == 0;
}

static bool is_zstd(struct bytes rest)
{
	bool ok = take_text(&rest, "libzstd-jni-");
	for (unsigned i = 0; ok && i < 3; i++)
		ok = take_digits(&rest) > 0 && take_text(&rest, i < 2 ? "." : "-");
	return ok && take_digits(&rest) > 0 && ends_library(rest);
}

#define CORRETTO_DIGITS 16

static bool is_corretto(struct bytes rest)
{
	take_text(&rest, "lib");
	if (!take_text(&rest, "amazonCorrettoCryptoProvider"))
		return false;
	take_text(&rest, "NativeLibraries.");
	if (take_hex(&rest) != CORRETTO_DIGITS)
		return false;
	if (!take_text(&rest, "/libcrypto"))
		take_text(&rest, "/libamazonCorrettoCryptoProvider");
	return ends_library(rest);
}

static bool is_async_profiler(struct bytes rest)
{
	static const char *const platforms[] = {"linux-arm64", "linux-musl-x64", "linux-x64", "macos"};
	bool ok = false;
	if (!take_text(&rest, "libasyncProfiler-"))
		return false;
	for (size_t i = 0; !ok && i < sizeof(platforms) / sizeof(platforms[0]); i++)
		ok = take_text(&rest, platforms[i]);
	return ok && take_text(&rest, "-17b9a1d8156277a98ccc871afa9a8f69215f92") && ends_library(rest);
}

static const char *library_name(struct bytes name)
{
	if (!take_text(&name, "/tmp/"))
		take_text(&name, "./tmp/");
	return is_zstd(name)		 ? "libzstd-jni-_.so"
	       : is_corretto(name)	 ? "libamazonCorrettoCryptoProvider_.so"
	       : is_async_profiler(name) ? "libasyncProfiler-_.so"
					 : NULL;
}

void jfr_fold_name(struct buffer *text)
{
	struct bytes name = buffer_bytes(text);
	size_t prefix = class_prefix(name);
	const char *library = prefix ? NULL : library_name(name);
	if (prefix) {
		buffer_truncate(text, prefix);
		buffer_append_byte(text, '_');
	} else if (library) {
		buffer_clear(text);
		buffer_append_string(text, library);
	}
}
