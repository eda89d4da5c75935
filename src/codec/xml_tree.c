/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/xml_tree.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text.h"

#define ALIGNMENT 16 /* of what an arena gives */

struct xml_tree {
	struct arena arena;
	struct xml_node *root;
};

struct open_element {
	struct xml_node *node, *last_child;
	struct buffer text;
};

struct reader {
	const uint8_t *start, *at, *end;
	struct xml_tree *tree;
	struct open_element open[XML_TREE_DEPTH_MAX];
	size_t depth;
	struct error *err;
};

static int malformed(const struct reader *reader, const char *why)
{
	return error_set(reader->err, -EBADMSG, "not XML near byte %zu: %s", (size_t)(reader->at - reader->start), why);
}

static int no_room(const struct reader *reader, size_t size)
{
	return arena_is_full(&reader->tree->arena, size + ALIGNMENT)
		       ? error_set(reader->err, -E2BIG, "the XML document is too large")
		       : error_nomem(reader->err);
}

static bool is_space(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name_byte(uint8_t c)
{
	uint8_t letter = c | 0x20;
	return (letter >= 'a' && letter <= 'z') || text_is_digit(c) || c == '_' || c == '-' || c == '.' || c == ':' ||
	       c >= 0x80;
}

static void skip_spaces(struct reader *reader)
{
	while (reader->at < reader->end && is_space(*reader->at))
		reader->at++;
}

static bool starts_with(const struct reader *reader, const char *text)
{
	size_t len = strlen(text);
	return (size_t)(reader->end - reader->at) >= len && !memcmp(reader->at, text, len);
}

/* Behind the next `text`. */
static int skip_past(struct reader *reader, const char *text)
{
	const uint8_t *found = memmem(reader->at, (size_t)(reader->end - reader->at), text, strlen(text));
	if (!found)
		return malformed(reader, "it ends in the middle");
	reader->at = found + strlen(text);
	return 0;
}

/* Without its prefix. */
static int read_name(struct reader *reader, struct bytes *ret)
{
	const uint8_t *start = reader->at;
	while (reader->at < reader->end && is_name_byte(*reader->at))
		reader->at++;
	for (const uint8_t *at = start; at < reader->at; at++)
		if (*at == ':')
			start = at + 1;
	*ret = (struct bytes){start, (size_t)(reader->at - start)};
	return ret->len > 0 ? 0 : malformed(reader, "a name is missing");
}

static bool is_character(uint64_t c)
{
	return c == '\t' || c == '\n' || c == '\r' || (c >= ' ' && c < 0xd800) || (c > 0xdfff && c < 0xfffe) ||
	       (c >= 0x10000 && c <= 0x10ffff);
}

/* "&amp;", "&#38;", "&#x26;": reader->at is at the '&'. */
static int read_reference(struct reader *reader, struct buffer *out)
{
	static const struct {
		const char *name, *text;
	} known[] = {{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&quot;", "\""}, {"&apos;", "'"}};
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (starts_with(reader, known[i].name)) {
			reader->at += strlen(known[i].name);
			return buffer_append_string(out, known[i].text);
		}
	if (!starts_with(reader, "&#"))
		return malformed(reader, "unknown entity");
	reader->at += 2;
	bool is_hex = reader->at < reader->end && *reader->at == 'x';
	uint64_t c = 0;
	reader->at += is_hex;
	for (; reader->at < reader->end && *reader->at != ';' && c <= 0x10ffff; reader->at++) {
		int digit = is_hex ? text_hex_digit(*reader->at) : text_is_digit(*reader->at) ? *reader->at - '0' : -1;
		if (digit < 0)
			return malformed(reader, "bad character reference");
		c = c * (is_hex ? 16 : 10) + (uint64_t)digit;
	}
	if (reader->at == reader->end || *reader->at != ';' || !is_character(c))
		return malformed(reader, "bad character reference");
	reader->at++;
	return text_append_character(out, (uint32_t)c);
}

/* Attributes are skipped; their values may hold '>'. Returns 1 at "/>". */
static int skip_attributes(struct reader *reader)
{
	while (reader->at < reader->end) {
		uint8_t c = *reader->at++;
		if (c == '>')
			return 0;
		if (c == '/' && reader->at < reader->end && *reader->at == '>') {
			reader->at++;
			return 1;
		}
		if (c == '<')
			return malformed(reader, "'<' in a tag");
		const uint8_t *quote = c == '"' || c == '\'' ? memchr(reader->at, c, (size_t)(reader->end - reader->at)) : NULL;
		if ((c == '"' || c == '\'') && !quote)
			return malformed(reader, "it ends in the middle");
		if (quote)
			reader->at = quote + 1;
	}
	return malformed(reader, "it ends in the middle");
}

static int close_element(struct reader *reader)
{
	struct open_element *element = &reader->open[--reader->depth];
	const char *text = arena_strndup(&reader->tree->arena, (const char *)element->text.data, element->text.len);
	size_t len = element->text.len;
	buffer_release(&element->text);
	if (!text)
		return no_room(reader, len);
	element->node->text = text;
	return 0;
}

static int open_element(struct reader *reader)
{
	struct bytes name;
	int r = read_name(reader, &name);
	if (r < 0)
		return r;
	if (reader->depth == XML_TREE_DEPTH_MAX)
		return error_set(reader->err, -E2BIG, "the XML document is nested too deeply");
	if (reader->depth == 0 && reader->tree->root)
		return malformed(reader, "more than one root element");
	struct xml_node *node = arena_zalloc(&reader->tree->arena, sizeof(*node));
	char *copy = node ? arena_strndup(&reader->tree->arena, (const char *)name.data, name.len) : NULL;
	if (!copy)
		return no_room(reader, sizeof(*node) + name.len);
	node->name = copy;
	node->text = "";
	struct open_element *parent = reader->depth ? &reader->open[reader->depth - 1] : NULL;
	if (!parent)
		reader->tree->root = node;
	else if (parent->last_child)
		parent->last_child->next = node;
	else
		parent->node->child = node;
	if (parent)
		parent->last_child = node;
	reader->open[reader->depth++] = (struct open_element){.node = node, .text.max = SIZE_MAX};
	r = skip_attributes(reader);
	return r > 0 ? close_element(reader) : r;
}

static int end_element(struct reader *reader)
{
	struct bytes name;
	reader->at += 2;
	int r = read_name(reader, &name);
	if (r < 0)
		return r;
	if (reader->depth == 0 || !bytes_equal_string(name, reader->open[reader->depth - 1].node->name))
		return malformed(reader, "an end tag does not match");
	skip_spaces(reader);
	if (reader->at == reader->end || *reader->at != '>')
		return malformed(reader, "bad end tag");
	reader->at++;
	return close_element(reader);
}

static int read_text(struct reader *reader)
{
	struct buffer *out = reader->depth ? &reader->open[reader->depth - 1].text : NULL;
	if (!out) {
		if (!is_space(*reader->at))
			return malformed(reader, "text outside of the root element");
		reader->at++;
		return 0;
	}
	if (*reader->at == '&')
		return read_reference(reader, out);
	const uint8_t *start = reader->at;
	while (reader->at < reader->end && *reader->at != '<' && *reader->at != '&')
		reader->at++;
	return buffer_append(out, start, (size_t)(reader->at - start));
}

static int read_cdata(struct reader *reader)
{
	reader->at += strlen("<![CDATA[");
	const uint8_t *start = reader->at;
	int r = skip_past(reader, "]]>");
	if (r < 0 || reader->depth == 0)
		return r < 0 ? r : malformed(reader, "text outside of the root element");
	return buffer_append(&reader->open[reader->depth - 1].text, start, (size_t)(reader->at - start) - strlen("]]>"));
}

static int read_some(struct reader *reader)
{
	if (*reader->at != '<')
		return read_text(reader);
	if (starts_with(reader, "</"))
		return end_element(reader);
	if (starts_with(reader, "<?"))
		return skip_past(reader, "?>");
	if (starts_with(reader, "<!--"))
		return skip_past(reader, "-->");
	if (starts_with(reader, "<![CDATA["))
		return read_cdata(reader);
	if (starts_with(reader, "<!"))
		return malformed(reader, "declarations are not supported");
	reader->at++;
	return open_element(reader);
}

int xml_tree_read(struct bytes text, size_t memory_max, struct xml_tree **ret, struct error *err)
{
	_cleanup_(xml_tree_freep) struct xml_tree *tree = mem_zalloc(sizeof(*tree));
	if (!tree)
		return error_nomem(err);
	arena_init(&tree->arena, memory_max);
	if (text.len == 0)
		text = bytes_of_string(""); /* no place is computed from no pointer */
	struct reader reader = {.start = text.data, .at = text.data, .end = text.data + text.len, .tree = tree, .err = err};
	int r = text_is_utf8(text) && !memchr(text.data, '\0', text.len) ? 0 : malformed(&reader, "not UTF-8");
	while (r == 0 && reader.at < reader.end)
		r = read_some(&reader);
	if (r == 0 && (reader.depth > 0 || !tree->root))
		r = malformed(&reader, "it ends in the middle");
	for (size_t i = 0; i < reader.depth; i++)
		buffer_release(&reader.open[i].text);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(err) : r;
	*ret = TAKE(tree);
	return 0;
}

struct xml_tree *xml_tree_free(struct xml_tree *tree)
{
	if (!tree)
		return NULL;
	arena_release(&tree->arena);
	return mem_free(tree);
}

const struct xml_node *xml_tree_root(const struct xml_tree *tree)
{
	return tree->root;
}

const struct xml_node *xml_node_get(const struct xml_node *node, const char *name)
{
	for (const struct xml_node *child = node ? node->child : NULL; child; child = child->next)
		if (!strcmp(child->name, name))
			return child;
	return NULL;
}

const char *xml_node_text(const struct xml_node *node, const char *name)
{
	const struct xml_node *child = xml_node_get(node, name);
	return child ? child->text : "";
}
