/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Swift: identifiers, with references to words and Punycode, and the types that have letters of their own.
 * demangle_swift.c explains the mangling. */
#include <ctype.h>
#include <string.h>

#include "elf/demangle/demangle.h"
#include "elf/demangle/demangle_swift_int.h"

/* Words can be referred to by the identifiers that follow. */
static void remember_words(struct swift_reader *reader, const char *text, size_t len)
{
	size_t start = SIZE_MAX;
	for (size_t i = 0; i <= len; i++) {
		char c = i < len ? text[i] : 0;
		bool ends = c == '_' || c == 0 || (i > 0 && !isupper((unsigned char)text[i - 1]) && isupper((unsigned char)c));
		if (start != SIZE_MAX && ends) {
			if (i - start >= 2 && reader->word_count < SWIFT_WORDS_MAX)
				reader->words[reader->word_count++] = swift_bytes(text + start, i - start);
			start = SIZE_MAX;
		}
		if (start == SIZE_MAX && c != 0 && c != '_' && !isdigit((unsigned char)c))
			start = i;
	}
}

static int append_utf8(struct buffer *out, uint32_t c)
{
	char text[4];
	size_t len = 0;
	if (c < 0x80) {
		text[len++] = (char)c;
	} else if (c < 0x800) {
		text[len++] = (char)(0xc0 | c >> 6);
		text[len++] = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		text[len++] = (char)(0xe0 | c >> 12);
		text[len++] = (char)(0x80 | (c >> 6 & 0x3f));
		text[len++] = (char)(0x80 | (c & 0x3f));
	} else {
		text[len++] = (char)(0xf0 | c >> 18);
		text[len++] = (char)(0x80 | (c >> 12 & 0x3f));
		text[len++] = (char)(0x80 | (c >> 6 & 0x3f));
		text[len++] = (char)(0x80 | (c & 0x3f));
	}
	return buffer_append(out, text, len);
}

/* One generalised variable-length integer of RFC 3492, added to *i; false when damaged. */
static bool read_punycode_delta(const char **at, const char *end, uint32_t bias, uint32_t *i)
{
	uint32_t weight = 1;
	for (uint32_t k = 36;; k += 36) {
		if (*at == end)
			return false;
		char c = *(*at)++;
		uint32_t digit = c >= 'a' && c <= 'z'	? (uint32_t)(c - 'a')
				 : c >= 'A' && c <= 'J' ? (uint32_t)(c - 'A') + 26
							: 36;
		uint32_t threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
		if (digit == 36 || digit > (0x7fffffff - *i) / weight)
			return false;
		*i += digit * weight;
		if (digit < threshold)
			return true;
		if (weight > 0x7fffffff / (36 - threshold))
			return false;
		weight *= 36 - threshold;
	}
}

/* RFC 3492 6.2, with '_' as the delimiter and A-J for 0-9. U+D800 to U+D87F stand for ASCII that identifiers cannot hold. */
static bool decode_punycode(const char *text, size_t len, struct buffer *out)
{
	enum { MAX = 512 };
	uint32_t points[MAX], n = 128, i = 0, bias = 72, count = 0;
	const char *at = text, *end = text + len, *delimiter = memrchr(text, '_', len);
	for (; delimiter && at < delimiter && count < MAX; at++)
		points[count++] = (unsigned char)*at;
	at += delimiter != NULL;
	while (at < end) {
		uint32_t before = i;
		if (count == MAX || !read_punycode_delta(&at, end, bias, &i))
			return false;
		uint32_t delta = before == 0 ? i / 700 : (i - before) / 2, k = 0;
		for (delta += delta / (count + 1); delta > 455; k += 36)
			delta /= 35;
		bias = k + 36 * delta / (delta + 38);
		n += i / (count + 1);
		i %= count + 1;
		if (n > 0x10ffff)
			return false;
		memmove(points + i + 1, points + i, (count - i) * sizeof(points[0]));
		points[i++] = n;
		count++;
	}
	for (i = 0; i < count; i++) {
		uint32_t c = points[i] >= 0xd800 && points[i] < 0xd880 ? points[i] - 0xd800 : points[i];
		if (c < ' ' || (c >= 0xd880 && c < 0xe000) || append_utf8(out, c) < 0)
			return false;
	}
	return true;
}

/* The parts of an identifier: references to words (the last one a capital), and text of a given length. */
static bool read_identifier_parts(struct swift_reader *reader, bool has_words, bool is_punycode, struct buffer *out)
{
	do {
		while (has_words && isalpha((unsigned char)swift_peek(reader))) {
			char c = swift_next(reader);
			has_words = islower((unsigned char)c);
			size_t word = (size_t)(c - (has_words ? 'a' : 'A'));
			if (word >= reader->word_count ||
			    buffer_append(out, reader->words[word].data, reader->words[word].len) < 0)
				return false;
		}
		if (swift_next_if(reader, '0'))
			break;
		uint64_t len;
		if (!swift_natural(reader, &len) || len == 0)
			return false;
		if (is_punycode)
			(void)swift_next_if(reader, '_');
		if (len > (uint64_t)(reader->end - reader->at))
			return false;
		const char *text = reader->at;
		reader->at += len;
		if (is_punycode) {
			if (!decode_punycode(text, (size_t)len, out))
				return false;
		} else {
			remember_words(reader, text, (size_t)len);
			if (buffer_append(out, text, (size_t)len) < 0)
				return false;
		}
	} while (has_words);
	return out->len > 0;
}

struct swift_node *swift_read_identifier(struct swift_reader *reader)
{
	bool has_words = false, is_punycode = false;
	if (swift_next_if(reader, '0')) {
		is_punycode = swift_next_if(reader, '0');
		has_words = !is_punycode;
	}
	struct buffer text;
	buffer_init(&text, DEMANGLE_OUTPUT_MAX);
	struct swift_node *node = NULL;
	if (read_identifier_parts(reader, has_words, is_punycode, &text)) {
		node = swift_node_new(reader, SWIFT_IDENTIFIER);
		char *copy = node ? arena_strndup(&reader->arena, (const char *)text.data, text.len) : NULL;
		if (copy)
			node->text = swift_bytes(copy, text.len);
		else
			node = NULL;
	}
	buffer_release(&text);
	return swift_add_substitution(reader, node);
}

/* ---- standard types ---- */

struct standard_type {
	char letter;
	enum swift_kind kind;
	const char *name;
};

static const struct standard_type standard_types[] = {
	{'A', SWIFT_STRUCTURE, "AutoreleasingUnsafeMutablePointer"},
	{'a', SWIFT_STRUCTURE, "Array"},
	{'B', SWIFT_PROTOCOL, "BinaryFloatingPoint"},
	{'b', SWIFT_STRUCTURE, "Bool"},
	{'D', SWIFT_STRUCTURE, "Dictionary"},
	{'d', SWIFT_STRUCTURE, "Double"},
	{'E', SWIFT_PROTOCOL, "Encodable"},
	{'e', SWIFT_PROTOCOL, "Decodable"},
	{'F', SWIFT_PROTOCOL, "FloatingPoint"},
	{'f', SWIFT_STRUCTURE, "Float"},
	{'G', SWIFT_PROTOCOL, "RandomNumberGenerator"},
	{'H', SWIFT_PROTOCOL, "Hashable"},
	{'h', SWIFT_STRUCTURE, "Set"},
	{'I', SWIFT_STRUCTURE, "DefaultIndices"},
	{'i', SWIFT_STRUCTURE, "Int"},
	{'J', SWIFT_STRUCTURE, "Character"},
	{'j', SWIFT_PROTOCOL, "Numeric"},
	{'K', SWIFT_PROTOCOL, "BidirectionalCollection"},
	{'k', SWIFT_PROTOCOL, "RandomAccessCollection"},
	{'L', SWIFT_PROTOCOL, "Comparable"},
	{'l', SWIFT_PROTOCOL, "Collection"},
	{'M', SWIFT_PROTOCOL, "MutableCollection"},
	{'m', SWIFT_PROTOCOL, "RangeReplaceableCollection"},
	{'N', SWIFT_STRUCTURE, "ClosedRange"},
	{'n', SWIFT_STRUCTURE, "Range"},
	{'O', SWIFT_STRUCTURE, "ObjectIdentifier"},
	{'P', SWIFT_STRUCTURE, "UnsafePointer"},
	{'p', SWIFT_STRUCTURE, "UnsafeMutablePointer"},
	{'Q', SWIFT_PROTOCOL, "Equatable"},
	{'q', SWIFT_ENUM, "Optional"},
	{'R', SWIFT_STRUCTURE, "UnsafeBufferPointer"},
	{'r', SWIFT_STRUCTURE, "UnsafeMutableBufferPointer"},
	{'S', SWIFT_STRUCTURE, "String"},
	{'s', SWIFT_STRUCTURE, "Substring"},
	{'T', SWIFT_PROTOCOL, "Sequence"},
	{'t', SWIFT_PROTOCOL, "IteratorProtocol"},
	{'U', SWIFT_PROTOCOL, "UnsignedInteger"},
	{'u', SWIFT_STRUCTURE, "UInt"},
	{'V', SWIFT_STRUCTURE, "UnsafeRawPointer"},
	{'v', SWIFT_STRUCTURE, "UnsafeMutableRawPointer"},
	{'W', SWIFT_STRUCTURE, "UnsafeRawBufferPointer"},
	{'w', SWIFT_STRUCTURE, "UnsafeMutableRawBufferPointer"},
	{'X', SWIFT_PROTOCOL, "RangeExpression"},
	{'x', SWIFT_PROTOCOL, "Strideable"},
	{'Y', SWIFT_PROTOCOL, "RawRepresentable"},
	{'y', SWIFT_PROTOCOL, "StringProtocol"},
	{'Z', SWIFT_PROTOCOL, "SignedInteger"},
	{'z', SWIFT_PROTOCOL, "BinaryInteger"},
};

/* Behind "Sc". */
static const struct standard_type concurrency_types[] = {
	{'A', SWIFT_PROTOCOL, "Actor"},
	{'C', SWIFT_STRUCTURE, "CheckedContinuation"},
	{'c', SWIFT_STRUCTURE, "UnsafeContinuation"},
	{'E', SWIFT_STRUCTURE, "CancellationError"},
	{'e', SWIFT_STRUCTURE, "UnownedSerialExecutor"},
	{'F', SWIFT_PROTOCOL, "Executor"},
	{'f', SWIFT_PROTOCOL, "SerialExecutor"},
	{'G', SWIFT_STRUCTURE, "TaskGroup"},
	{'g', SWIFT_STRUCTURE, "ThrowingTaskGroup"},
	{'h', SWIFT_PROTOCOL, "TaskExecutor"},
	{'I', SWIFT_PROTOCOL, "AsyncIteratorProtocol"},
	{'i', SWIFT_PROTOCOL, "AsyncSequence"},
	{'J', SWIFT_STRUCTURE, "UnownedJob"},
	{'M', SWIFT_CLASS, "MainActor"},
	{'P', SWIFT_STRUCTURE, "TaskPriority"},
	{'S', SWIFT_STRUCTURE, "AsyncStream"},
	{'s', SWIFT_STRUCTURE, "AsyncThrowingStream"},
	{'T', SWIFT_STRUCTURE, "Task"},
	{'t', SWIFT_STRUCTURE, "UnsafeCurrentTask"},
};

static struct swift_node *make_standard_type(struct swift_reader *reader, const struct standard_type *type)
{
	struct swift_node *node = swift_node_with(reader, type->kind, swift_node_text(reader, SWIFT_MODULE, "Swift"));
	return swift_node_type(reader, swift_node_add(reader, node, swift_node_text(reader, SWIFT_IDENTIFIER, type->name)));
}

struct swift_node *swift_read_standard_type(struct swift_reader *reader)
{
	bool is_second = swift_next_if(reader, 'c');
	const struct standard_type *types = is_second ? concurrency_types : standard_types;
	size_t count = is_second ? sizeof(concurrency_types) / sizeof(types[0]) : sizeof(standard_types) / sizeof(types[0]);
	char c = swift_next(reader);
	for (size_t i = 0; i < count; i++)
		if (types[i].letter == c)
			return make_standard_type(reader, &types[i]);
	return NULL;
}

struct swift_node *swift_optional_type(struct swift_reader *reader)
{
	static const struct standard_type optional = {'q', SWIFT_ENUM, "Optional"};
	return make_standard_type(reader, &optional);
}
