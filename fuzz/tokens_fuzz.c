/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens: read, or refused with a reason; and edited, with nothing else changed, or not at all. */
#include <stdlib.h>
#include <string.h>

#include "server/access/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static bool same(const struct token_entry *a, const struct token_entry *b)
{
	return a->roles == b->roles && a->has_hash == b->has_hash && a->expires_ns == b->expires_ns &&
	       memcmp(a->hash, b->hash, sizeof(a->hash)) == 0 && a->tenants.all == b->tenants.all &&
	       a->tenants.count == b->tenants.count && !a->certificate == !b->certificate;
}

/* All of `before` but `name` is in `after`, as it was. */
static void check_kept(const struct tokens *before, struct bytes text, const char *name, size_t count)
{
	_cleanup_(tokens_freep) struct tokens *after = NULL;
	must(tokens_read(text, "fuzz", &after, NULL) == 0 && after->count == count);
	must(!before->oidc == !after->oidc);
	for (size_t i = 0; i < before->count; i++) {
		const struct token_entry *entry = &before->items[i], *kept = tokens_find_name(after, entry->name);
		must(strcmp(entry->name, name) == 0 || (kept && same(entry, kept)));
	}
}

static void edit(const struct tokens *tokens, struct bytes text)
{
	_cleanup_(buffer_release) struct buffer added = {0}, removed = {0};
	const struct token_entry entry = {.name = "fuzz-new", .roles = ROLE_READ, .has_hash = true, .hash = {1, 2, 3}};
	if (tokens_add(text, "fuzz", &entry, &added, NULL) == 0)
		check_kept(tokens, buffer_bytes(&added), "fuzz-new", tokens->count + 1);
	const char *last = tokens->count ? tokens->items[tokens->count - 1].name : "none";
	if (tokens_remove(text, "fuzz", last, &removed, NULL) == 0)
		check_kept(tokens, buffer_bytes(&removed), last, tokens->count - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(tokens_freep) struct tokens *tokens = NULL;
	struct error err = {0};
	const struct bytes text = {data, size};
	int r = tokens_read(text, "fuzz", &tokens, &err);
	must((r < 0) == (err.message[0] != 0) && (r < 0) == (tokens == NULL));
	if (r < 0)
		return 0;
	for (size_t i = 0; i < tokens->count; i++) {
		const struct token_entry *entry = &tokens->items[i];
		must(token_name_is_valid(entry->name) && entry->roles && entry->roles < 1u << ROLE_COUNT);
		must(entry->has_hash == (tokens_find(tokens, entry->hash) == entry));
		must(tokens_find_name(tokens, entry->name) == entry);
		must(entry->tenants.all || !token_tenants_have(&entry->tenants, "no-such"));
	}
	edit(tokens, text);
	return 0;
}
