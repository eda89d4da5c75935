/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of tokens:
 *
 *   tokens:
 *     - name: agents-eu              # in the audit log
 *       role: agent                  # or a list
 *       tenants: [team-a, team-b]    # "*" = all; none = the one without a name
 *       hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
 *       expires: 2027-03-01T00:00:00Z
 *     - name: host-7
 *       role: agent
 *       certificate: host7.example.org   # instead of a hash
 *   oidc: ...                        # jwt.h
 *
 * It is YAML so that people can review it and keep it under version control, and holds no secrets: of a token only its SHA-256
 * is there. A slow hash, as for passwords, would protect what people choose; tokens are 256 random bits, which nobody tries
 * out, and are checked with every request. wick_ in front is for programs that look for secrets in what is published.
 *
 * A token is looked for by its hash. How far that compares equal says nothing of the token, since who can choose hashes that
 * begin like a given one can not choose tokens that have them; the last comparison is of constant time all the same.
 *
 * All or nothing: a file that is wrong in one place is wrong as a whole. Half a file could leave out the entry that was to take
 * something away. So an empty file is wrong, too, which is what an editor leaves for a moment; a file without tokens says so,
 * `tokens: []`.
 */
#include "server/access/tokens.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/yaml_fields.h"
#include "server/server.h"

#define MANUAL	      "docs/configuration.md"
#define ARENA_MAX     ((size_t)64 * 1024 * 1024)
#define HASH_PREFIX   "sha256:"
#define AUDIENCES_MAX 16
#define ROLES_MAX     1000

void token_hash(struct bytes token, uint8_t out[static TOKEN_HASH_BYTES])
{
	SHA256(token.data, token.len, out);
}

bool token_name_is_valid(const char *name)
{
	size_t len = strlen(name);
	for (const char *at = name; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr(".-_@", *at))
			return false;
	return len > 0 && len <= CALLER_NAME_MAX;
}

/* ---- fields ---- */

static int read_name(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct token_entry *entry = object;
	const char *text = yaml_scalar(node);
	if (!text || !token_name_is_valid(text))
		return yaml_fault(reader, node, "name", "must have 1 to 64 letters, digits and .-_@");
	return yaml_read_text(reader, node, "name", &entry->name);
}

static int read_roles(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct token_entry *entry = object;
	const char **names;
	size_t count;
	int r = yaml_read_texts(reader, node, "role", ROLE_COUNT, &names, &count);
	for (size_t i = 0; i < count && r == 0; i++) {
		unsigned role = role_parse(names[i]);
		r = role ? 0 : yaml_fault(reader, node, "role", "must be agent, write, read, record or admin");
		entry->roles |= role;
	}
	return r;
}

static int read_tenants(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct token_tenants *tenants = object;
	struct error problem = {0};
	int r = yaml_read_texts(reader, node, "tenants", TOKEN_TENANTS_MAX, &tenants->names, &tenants->count);
	for (size_t i = 0; r == 0 && i < tenants->count; i++) {
		bool all = strcmp(tenants->names[i], TOKEN_ALL_TENANTS) == 0;
		tenants->all |= all;
		if (!all && tenant_name_check(tenants->names[i], &problem) < 0)
			r = yaml_fault(reader, node, tenants->names[i], "is no name of a tenant");
	}
	if (r == 0 && !tenants->count)
		return yaml_fault(reader, node, "tenants", "is empty: leave it out for the tenant without a name");
	return r;
}

static int read_entry_tenants(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	return read_tenants(reader, node, &((struct token_entry *)object)->tenants);
}

static int read_hash(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct token_entry *entry = object;
	const char *text = yaml_scalar(node);
	_cleanup_(buffer_release) struct buffer hash = {.max = TOKEN_HASH_BYTES};
	if (!text || !text_starts_with(text, HASH_PREFIX) ||
	    text_parse_hex(bytes_of_string(text + strlen(HASH_PREFIX)), &hash) < 0 || hash.len != TOKEN_HASH_BYTES)
		return yaml_fault(reader, node, "hash", "must be sha256: and 64 digits of base 16");
	memcpy(entry->hash, hash.data, hash.len);
	entry->has_hash = true;
	return 0;
}

static int read_certificate(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct token_entry *entry = object;
	const char *text = yaml_scalar(node);
	if (!text || !*text || strlen(text) > TOKEN_CERTIFICATE_MAX)
		return yaml_fault(reader, node, "certificate", "must be a name of 1 to 250 characters");
	return yaml_read_text(reader, node, "certificate", &entry->certificate);
}

/* A date, or a time with its zone: "2027-03-01T00:00:00Z". What is relative to now would never come. */
static int read_expires(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct token_entry *entry = object;
	const char *text = yaml_scalar(node);
	if (!text || !isdigit((unsigned char)*text) || !strchr(text, '-') ||
	    time_parse(text, time_now_ns(), &entry->expires_ns, NULL) < 0 || entry->expires_ns <= 0)
		return yaml_fault(reader, node, "expires", "must be a time such as 2027-03-01T00:00:00Z");
	return 0;
}

static const struct yaml_field entry_fields[] = {
	YAML_CUSTOM("name", read_name),
	YAML_CUSTOM("role", read_roles),
	YAML_CUSTOM("tenants", read_entry_tenants),
	YAML_CUSTOM("hash", read_hash),
	YAML_CUSTOM("certificate", read_certificate),
	YAML_CUSTOM("expires", read_expires),
	{0},
};

static int read_entry(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct tokens *tokens = object;
	struct token_entry *entry = &tokens->items[tokens->count];
	int r = yaml_read_fields(reader, node, entry_fields, entry);
	if (r < 0)
		return r;
	if (!entry->name)
		return yaml_fault(reader, node, "tokens", "has an entry without a name");
	if (!entry->roles)
		return yaml_fault(reader, node, entry->name, "needs a role");
	if (entry->has_hash == (entry->certificate != NULL))
		return yaml_fault(reader, node, entry->name, "needs a hash or a certificate, one of them");
	tokens->count++;
	return 0;
}

static int read_entries(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct tokens *tokens = object;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(reader, node, "tokens", "must be a list");
	size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (count > TOKENS_MAX)
		return yaml_fault(reader, node, "tokens", "has more than 10000 entries");
	tokens->items = arena_zalloc(reader->arena, (count + 1) * sizeof(*tokens->items));
	if (!tokens->items)
		return error_nomem(reader->err);
	return yaml_read_list(reader, node, "tokens", read_entry, tokens);
}

/* ---- oidc ---- */

static int read_audiences(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct oidc_settings *oidc = object;
	int r = yaml_read_texts(reader, node, "audience", AUDIENCES_MAX, &oidc->audiences, &oidc->audience_count);
	for (size_t i = 0; r == 0 && i < oidc->audience_count; i++)
		if (!*oidc->audiences[i])
			r = yaml_fault(reader, node, "audience", "has no value");
	return r;
}

static int read_oidc_tenants(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	return read_tenants(reader, node, &((struct oidc_settings *)object)->tenants);
}

static int read_role_value(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct oidc_settings *oidc = object;
	const char *text = yaml_scalar(node);
	unsigned role = text ? role_parse(text) : 0;
	if (!role)
		return yaml_fault(reader, node, name, "must be agent, write, read, record or admin");
	oidc->roles[oidc->role_count++] = (struct oidc_role){name, role};
	return 0;
}

static int read_role_values(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct oidc_settings *oidc = object;
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(reader, node, "roles", "must be `value of the claim: role` lines");
	size_t count = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
	if (count > ROLES_MAX)
		return yaml_fault(reader, node, "roles", "has more than 1000 lines");
	oidc->roles = arena_zalloc(reader->arena, (count + 1) * sizeof(*oidc->roles));
	return oidc->roles ? yaml_read_names(reader, node, "roles", read_role_value, oidc) : error_nomem(reader->err);
}

static const struct yaml_field oidc_fields[] = {
	YAML_FIELD(struct oidc_settings, "issuer", TEXT, issuer),
	YAML_CUSTOM("audience", read_audiences),
	YAML_FIELD(struct oidc_settings, "jwks_file", TEXT, jwks_file),
	YAML_FIELD(struct oidc_settings, "jwks_url", TEXT, jwks_url),
	YAML_FIELD(struct oidc_settings, "ca_file", TEXT, ca_file),
	YAML_FIELD(struct oidc_settings, "name_claim", TEXT, name_claim),
	YAML_FIELD(struct oidc_settings, "role_claim", TEXT, role_claim),
	YAML_FIELD(struct oidc_settings, "tenant_claim", TEXT, tenant_claim),
	YAML_CUSTOM("tenants", read_oidc_tenants),
	YAML_CUSTOM("roles", read_role_values),
	{0},
};

/* Keys that come over a network in the clear are anybody's, but for this machine's own. */
static bool url_is_safe(const char *url)
{
	static const char *const safe[] = {"https://",		"http://127.0.0.1:", "http://127.0.0.1/", "http://localhost:",
					   "http://localhost/", "http://[::1]:",     "http://[::1]/"};
	for (size_t i = 0; i < sizeof(safe) / sizeof(*safe); i++)
		if (text_starts_with(url, safe[i]) && !strchr(url, '@'))
			return true;
	return false;
}

static int read_oidc(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct tokens *tokens = object;
	struct oidc_settings *oidc = arena_zalloc(reader->arena, sizeof(*oidc));
	if (!oidc)
		return error_nomem(reader->err);
	*oidc = (struct oidc_settings){.name_claim = "sub", .role_claim = "roles"};
	int r = yaml_read_fields(reader, node, oidc_fields, oidc);
	if (r < 0)
		return r;
	if (!oidc->issuer || !oidc->audience_count || !oidc->role_count)
		return yaml_fault(reader, node, "oidc", "needs an issuer, an audience and roles");
	if ((oidc->jwks_file != NULL) == (oidc->jwks_url != NULL))
		return yaml_fault(reader, node, "oidc", "needs jwks_file or jwks_url, one of them");
	if (oidc->jwks_url && !url_is_safe(oidc->jwks_url))
		return yaml_fault(reader, node, "jwks_url", "must begin with https:// (http:// is for this machine only)");
	if (oidc->ca_file && !oidc->jwks_url)
		return yaml_fault(reader, node, "ca_file", "is for jwks_url");
	tokens->oidc = oidc;
	return 0;
}

/* ---- the file ---- */

static const struct yaml_field file_fields[] = {
	YAML_CUSTOM("tokens", read_entries),
	YAML_CUSTOM("oidc", read_oidc),
	{0},
};

typedef int entry_order(const void *a, const void *b);

static int compare_names(const void *a, const void *b)
{
	const struct token_entry *const *left = a, *const *right = b;
	return strcmp((*left)->name, (*right)->name);
}

static int compare_certificates(const void *a, const void *b)
{
	const struct token_entry *const *left = a, *const *right = b;
	return strcmp((*left)->certificate, (*right)->certificate);
}

static int compare_hashes(const void *a, const void *b)
{
	const struct token_entry *const *left = a, *const *right = b;
	return memcmp((*left)->hash, (*right)->hash, TOKEN_HASH_BYTES);
}

/* Of the entries that have what is compared. *ret_twin: the second of two that are equal, in the index; 0 = there are none. */
static int sort_entries(struct tokens *tokens, entry_order *order, struct token_index *index, size_t *ret_twin,
			struct error *err)
{
	*ret_twin = 0;
	index->entries = arena_alloc(&tokens->arena, (tokens->count + 1) * sizeof(const struct token_entry *));
	if (!index->entries)
		return error_nomem(err);
	for (size_t i = 0; i < tokens->count; i++) {
		const struct token_entry *entry = &tokens->items[i];
		if (order == compare_hashes ? entry->has_hash : order == compare_names || entry->certificate)
			index->entries[index->count++] = entry;
	}
	qsort(index->entries, index->count, sizeof(const struct token_entry *), order);
	for (size_t i = 1; i < index->count && !*ret_twin; i++)
		if (order(&index->entries[i - 1], &index->entries[i]) == 0)
			*ret_twin = i;
	return 0;
}

static const struct token_entry *find_entry(const struct token_index *index, entry_order *order, const struct token_entry *key)
{
	const struct token_entry **found = bsearch(&key, index->entries, index->count, sizeof(*index->entries), order);
	return found ? *found : NULL;
}

/* Of names of each kind, an entry has one of its own or none. */
static int make_indexes(struct tokens *tokens, const char *file, struct error *err)
{
	size_t twin;
	int r = sort_entries(tokens, compare_names, &tokens->by_name, &twin, err);
	if (r == 0 && twin)
		return error_set(err, -EINVAL, "%s: the name '%.60s' is there twice", file,
				 tokens->by_name.entries[twin]->name);
	if (r == 0)
		r = sort_entries(tokens, compare_certificates, &tokens->by_certificate, &twin, err);
	if (r == 0 && twin)
		return error_set(err, -EINVAL, "%s: the certificate '%.60s' is there twice", file,
				 tokens->by_certificate.entries[twin]->certificate);
	if (r == 0)
		r = sort_entries(tokens, compare_hashes, &tokens->by_hash, &twin, err);
	if (r == 0 && twin)
		return error_set(err, -EINVAL, "%s: '%s' and '%s' are the same token", file,
				 tokens->by_hash.entries[twin - 1]->name, tokens->by_hash.entries[twin]->name);
	return r;
}

static int read_document(struct tokens *tokens, yaml_document_t *document, const char *file, struct error *err)
{
	struct yaml_reader reader = {
		.document = document, .file = file, .arena = &tokens->arena, .err = err, .manual = MANUAL, .suggests = true};
	const yaml_node_t *root = yaml_document_get_root_node(document);
	if (!root)
		return error_set(err, -EINVAL, "%s: the file is empty; a file without tokens has the line 'tokens: []'", file);
	int r = yaml_read_fields(&reader, root, file_fields, tokens);
	if (r == 0 && !tokens->items)
		return error_set(err, -EINVAL, "%s: 'tokens' is missing; a file without tokens has the line 'tokens: []'",
				 file);
	return r < 0 ? r : make_indexes(tokens, file, err);
}

int tokens_read(struct bytes text, const char *file, struct tokens **ret, struct error *err)
{
	yaml_document_t document;
	if (text.len > TOKENS_FILE_MAX)
		return error_set(err, -E2BIG, "%s: larger than 4 MiB", file);
	_cleanup_(tokens_freep) struct tokens *tokens = mem_zalloc(sizeof(*tokens));
	if (!tokens)
		return error_nomem(err);
	atomic_init(&tokens->users, 1);
	arena_init(&tokens->arena, ARENA_MAX);
	int r = yaml_load(text, file, -EINVAL, &document, err);
	if (r < 0)
		return r;
	r = read_document(tokens, &document, file, err);
	yaml_document_delete(&document);
	if (r == 0)
		*ret = TAKE(tokens);
	return r;
}

int tokens_load(const char *path, struct tokens **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	struct stat info;
	int r = io_stat(path, &info);
	if (r < 0)
		return error_set_errno(err, r, "cannot read the tokens of %s", path);
	if (S_ISREG(info.st_mode) && (info.st_mode & 022))
		return error_set(err, -EACCES, "%s can be changed by others; run: chmod go-w %s", path, path);
	r = io_read_file(path, TOKENS_FILE_MAX, &text, err);
	return r < 0 ? r : tokens_read(buffer_bytes(&text), path, ret, err);
}

struct tokens *tokens_share(struct tokens *tokens)
{
	if (tokens)
		atomic_fetch_add(&tokens->users, 1);
	return tokens;
}

struct tokens *tokens_free(struct tokens *tokens)
{
	if (!tokens || atomic_fetch_sub(&tokens->users, 1) > 1)
		return NULL;
	arena_release(&tokens->arena);
	return mem_free(tokens);
}

/* ---- looking up ---- */

const struct token_entry *tokens_find(const struct tokens *tokens, const uint8_t hash[static TOKEN_HASH_BYTES])
{
	struct token_entry key = {0};
	memcpy(key.hash, hash, TOKEN_HASH_BYTES);
	const struct token_entry *found = find_entry(&tokens->by_hash, compare_hashes, &key);
	return found && CRYPTO_memcmp(found->hash, hash, TOKEN_HASH_BYTES) == 0 ? found : NULL;
}

const struct token_entry *tokens_find_certificate(const struct tokens *tokens, const char *name)
{
	return find_entry(&tokens->by_certificate, compare_certificates, &(struct token_entry){.certificate = name});
}

const struct token_entry *tokens_find_name(const struct tokens *tokens, const char *name)
{
	return find_entry(&tokens->by_name, compare_names, &(struct token_entry){.name = name});
}

bool token_tenants_have(const struct token_tenants *tenants, const char *name)
{
	name = name ? name : TOKEN_DEFAULT_TENANT;
	if (tenants->all)
		return true;
	if (!tenants->count)
		return strcmp(name, TOKEN_DEFAULT_TENANT) == 0;
	for (size_t i = 0; i < tenants->count; i++)
		if (strcmp(tenants->names[i], name) == 0)
			return true;
	return false;
}
