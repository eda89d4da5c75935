/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing the file of tokens as a text: people write comments into it and keep it under version control, and a file that is
 * written anew from what was read of it loses both its comments and its diff. The parser says where the list and its entries
 * are; what comes out is read again, and must be what went in with that one entry more or less.
 *
 *   adding     in front of the first entry, with its indentation; `tokens: []` becomes a list in block style
 *   removing   the lines of the entry; lines between it and the next one, such as a comment on that one, stay
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/yaml_fields.h"
#include "server/access/tokens.h"

#define DEPTH_MAX 16

int token_make(char out[static TOKEN_TEXT_SIZE], uint8_t hash[static TOKEN_HASH_BYTES], struct error *err)
{
	uint8_t secret[TOKEN_SECRET_BYTES];
	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return error_set(err, -EIO, "cannot get random numbers");
	memcpy(out, TOKEN_PREFIX, sizeof(TOKEN_PREFIX));
	text_format_hex((struct bytes){secret, sizeof(secret)}, out + strlen(TOKEN_PREFIX));
	explicit_bzero(secret, sizeof(secret));
	token_hash(bytes_of_string(out), hash);
	return 0;
}

/* ---- where things are ---- */

struct place {
	yaml_document_t document;
	const yaml_node_t *key, *list;
};

static void find_list(struct place *place)
{
	const yaml_node_t *root = yaml_document_get_root_node(&place->document);
	const yaml_node_pair_t *pair = root->data.mapping.pairs.start; /* it was read as a mapping before */
	for (; pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(&place->document, pair->key);
		const char *name = yaml_scalar(key);
		if (!name || strcmp(name, "tokens") != 0)
			continue;
		place->key = key;
		place->list = yaml_document_get_node(&place->document, pair->value);
	}
}

/* Where line `line` begins (from 0); the end of the text if it has fewer. */
static size_t line_start(struct bytes text, size_t line)
{
	size_t at = 0;
	for (; line > 0; line--) {
		const uint8_t *end = at < text.len ? memchr(text.data + at, '\n', text.len - at) : NULL;
		if (!end)
			return text.len;
		at = (size_t)(end - text.data) + 1;
	}
	return at;
}

/* Marks count characters, not bytes: a line with others than ASCII in front of it is found out by check_result(). */
static size_t offset_of(struct bytes text, const yaml_mark_t *mark)
{
	size_t at = line_start(text, mark->line) + mark->column;
	return at < text.len ? at : text.len;
}

/* The last line that something of the node is on. Nodes in block style end where the next token begins, so it is asked of what
 * is in them. */
static size_t last_line(yaml_document_t *document, const yaml_node_t *node, unsigned depth)
{
	bool is_block = (node->type == YAML_MAPPING_NODE && node->data.mapping.style != YAML_FLOW_MAPPING_STYLE) ||
			(node->type == YAML_SEQUENCE_NODE && node->data.sequence.style != YAML_FLOW_SEQUENCE_STYLE);
	if (is_block && depth < DEPTH_MAX) {
		if (node->type == YAML_MAPPING_NODE && node->data.mapping.pairs.top > node->data.mapping.pairs.start)
			return last_line(document, yaml_document_get_node(document, node->data.mapping.pairs.top[-1].value),
					 depth + 1);
		if (node->type == YAML_SEQUENCE_NODE && node->data.sequence.items.top > node->data.sequence.items.start)
			return last_line(document, yaml_document_get_node(document, node->data.sequence.items.top[-1]),
					 depth + 1);
	}
	return node->end_mark.line;
}

static const yaml_node_t *find_entry(yaml_document_t *document, const yaml_node_t *list, const char *wanted)
{
	const yaml_node_item_t *item = list->data.sequence.items.start;
	for (; item < list->data.sequence.items.top; item++) {
		const yaml_node_t *entry = yaml_document_get_node(document, *item);
		if (entry->type != YAML_MAPPING_NODE)
			continue;
		const yaml_node_pair_t *pair = entry->data.mapping.pairs.start;
		for (; pair < entry->data.mapping.pairs.top; pair++) {
			const char *name = yaml_scalar(yaml_document_get_node(document, pair->key));
			const char *value = yaml_scalar(yaml_document_get_node(document, pair->value));
			if (name && value && strcmp(name, "name") == 0 && strcmp(value, wanted) == 0)
				return entry;
		}
	}
	return NULL;
}

/* ---- writing ---- */

/* As text that YAML reads as this text whatever it is: names of tenants may be such as `*` or `!x`. */
static void write_quoted(struct buffer *out, const char *text)
{
	buffer_append_byte(out, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			buffer_append_byte(out, '\'');
		buffer_append_byte(out, (uint8_t)*text);
	}
	buffer_append_byte(out, '\'');
}

static void write_list(struct buffer *out, const char *name, const char *const *texts, size_t count, unsigned indent)
{
	buffer_printf(out, "%*s%s: [", (int)indent, "", name);
	for (size_t i = 0; i < count; i++) {
		buffer_append_string(out, i ? ", " : "");
		write_quoted(out, texts[i]);
	}
	buffer_append_string(out, "]\n");
}

static void write_roles(struct buffer *out, unsigned roles, unsigned indent)
{
	char text[ROLES_TEXT_MAX];
	bool several = roles & (roles - 1);
	roles_format(roles, text);
	buffer_printf(out, "%*srole: %s%s%s\n", (int)indent, "", several ? "[" : "", text, several ? "]" : "");
}

static void write_entry(struct buffer *out, const struct token_entry *entry, unsigned indent)
{
	char time[TIME_TEXT_MAX];
	buffer_printf(out, "%*s- name: ", (int)indent, "");
	write_quoted(out, entry->name);
	buffer_append_byte(out, '\n');
	indent += 2;
	write_roles(out, entry->roles, indent);
	if (entry->tenants.count)
		write_list(out, "tenants", entry->tenants.names, entry->tenants.count, indent);
	if (entry->has_hash) {
		buffer_printf(out, "%*shash: sha256:", (int)indent, "");
		text_append_hex(out, (struct bytes){entry->hash, TOKEN_HASH_BYTES});
	} else {
		buffer_printf(out, "%*scertificate: ", (int)indent, "");
		write_quoted(out, entry->certificate);
	}
	buffer_append_byte(out, '\n');
	if (entry->expires_ns)
		buffer_printf(out, "%*sexpires: %s\n", (int)indent, "", time_format(entry->expires_ns, time));
}

/* What came out is what was meant, or the file is written in a way that is not foreseen here. */
static int check_result(struct buffer *out, const char *file, size_t count, const char *name, bool is_there, struct error *err)
{
	_cleanup_(tokens_freep) struct tokens *tokens = NULL;
	struct error problem = {0};
	if (buffer_status(out) < 0)
		return error_set(err, buffer_status(out), "%s: %s", file,
				 buffer_status(out) == -E2BIG ? "would be larger than 4 MiB" : "out of memory");
	int r = tokens_read(buffer_bytes(out), file, &tokens, &problem);
	if (r == 0 && tokens->count == count && (tokens_find_name(tokens, name) != NULL) == is_there)
		return 0;
	return error_set(err, -EINVAL, "%s: written in a way that cannot be edited here; edit it by hand%s%s", file,
			 r < 0 ? ": " : "", problem.message);
}

static void add_to(struct bytes text, struct place *place, const struct token_entry *entry, struct buffer *out)
{
	const yaml_node_t *list = place->list;
	size_t cut, resume;
	unsigned indent = 2;
	if (list->data.sequence.items.top > list->data.sequence.items.start) {
		cut = resume = line_start(text, list->start_mark.line);
		indent = (unsigned)list->start_mark.column;
	} else { /* `tokens: []` */
		cut = offset_of(text, &list->start_mark);
		resume = line_start(text, list->end_mark.line + 1);
		while (cut > 0 && text.data[cut - 1] == ' ')
			cut--;
	}
	buffer_append(out, text.data, cut);
	if (cut && text.data[cut - 1] != '\n')
		buffer_append_byte(out, '\n');
	write_entry(out, entry, indent);
	buffer_append(out, text.data + resume, text.len - resume);
}

static int open_place(struct bytes text, const char *file, struct place *place, struct error *err)
{
	int r = yaml_load(text, file, -EINVAL, &place->document, err);
	if (r < 0)
		return r;
	*place = (struct place){.document = place->document};
	find_list(place);
	bool is_flow = place->list && place->list->data.sequence.style == YAML_FLOW_SEQUENCE_STYLE &&
		       place->list->data.sequence.items.top > place->list->data.sequence.items.start;
	if (place->list && !is_flow)
		return 0;
	yaml_document_delete(&place->document);
	return error_set(err, -EINVAL, "%s: its tokens are in one line, which cannot be edited here; edit it by hand", file);
}

int tokens_add(struct bytes text, const char *file, const struct token_entry *entry, struct buffer *out, struct error *err)
{
	_cleanup_(tokens_freep) struct tokens *before = NULL;
	struct place place;
	out->max = TOKENS_FILE_MAX;
	if (!text.len) {
		buffer_append_string(out, "tokens:\n");
		write_entry(out, entry, 2);
		return check_result(out, file, 1, entry->name, true, err);
	}
	int r = tokens_read(text, file, &before, err);
	if (r == 0 && tokens_find_name(before, entry->name))
		r = error_set(err, -EEXIST, "%s: there is a token '%s' already; revoke it, or choose another name", file,
			      entry->name);
	if (r == 0)
		r = open_place(text, file, &place, err);
	if (r < 0)
		return r;
	add_to(text, &place, entry, out);
	yaml_document_delete(&place.document);
	return check_result(out, file, before->count + 1, entry->name, true, err);
}

int tokens_remove(struct bytes text, const char *file, const char *name, struct buffer *out, struct error *err)
{
	_cleanup_(tokens_freep) struct tokens *before = NULL;
	struct place place;
	out->max = TOKENS_FILE_MAX;
	int r = tokens_read(text, file, &before, err);
	if (r == 0 && !tokens_find_name(before, name))
		r = error_set(err, -ENOENT, "%s: there is no token '%.64s'", file, name);
	if (r == 0)
		r = open_place(text, file, &place, err);
	if (r < 0)
		return r;
	const yaml_node_t *entry = find_entry(&place.document, place.list, name);
	size_t from = entry ? line_start(text, entry->start_mark.line) : 0;
	size_t to = entry ? line_start(text, last_line(&place.document, entry, 0) + 1) : 0;
	size_t colon = 0;
	if (entry && before->count == 1) { /* `tokens:` with nothing behind it would be no list */
		colon = offset_of(text, &place.key->end_mark) + 1;
		buffer_append(out, text.data, colon < from ? colon : from);
		buffer_append_string(out, " []");
	}
	if (colon < from)
		buffer_append(out, text.data + colon, from - colon);
	buffer_append(out, text.data + to, text.len - to);
	yaml_document_delete(&place.document);
	return check_result(out, file, before->count - 1, name, false, err);
}
