/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gce_sd_configs: instances of Google Compute Engine (https://cloud.google.com/compute/docs/reference/rest/v1/instances/list).
 * The labels have Prometheus' names.
 *
 * Who we are to Google, as its own clients find it ("Application Default Credentials"):
 *
 *   GOOGLE_APPLICATION_CREDENTIALS, ~/.config/gcloud/application_default_credentials.json
 *       service_account     a JSON web token, signed by the account's key, for an access token (RFC 7523, 2.1)
 *       authorized_user     a refresh token for an access token
 *   the machine's account   http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token
 *
 * Requests go through the environment's proxy, as Google's clients make them; those to the metadata service do not.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "server/scrape/discovery_cloud.h"
#include "server/scrape/discovery_set.h"

#define META		"__meta_gce_"
#define API		"https://compute.googleapis.com/compute/v1"
#define SCOPE		"https://www.googleapis.com/auth/compute.readonly"
#define TOKEN_URL	"https://oauth2.googleapis.com/token"
#define FILE_BYTES_MAX	(256 * KIB)
#define TEXT_BYTES_MAX	(64 * KIB)
#define URL_MAX		8192
#define TOKEN_LIFE_S	3600
#define SIGNATURE_BYTES 1024 /* of RSA keys up to 8192 bits */

/* ---- who we are ---- */

/* base64url without padding (RFC 7515, 2). */
static int append_base64url(struct buffer *out, struct bytes data)
{
	size_t start = out->len;
	int r = base64_encode(data, out);
	if (r < 0)
		return buffer_fail(out, r);
	for (size_t i = start; i < out->len; i++)
		out->data[i] = out->data[i] == '+' ? '-' : out->data[i] == '/' ? '_' : out->data[i];
	while (out->len > start && out->data[out->len - 1] == '=')
		out->len--;
	return 0;
}

static int append_signature(struct buffer *out, const char *pem)
{
	uint8_t signature[SIGNATURE_BYTES];
	size_t len = sizeof(signature);
	BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"") : NULL;
	EVP_MD_CTX *context = key && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA ? EVP_MD_CTX_new() : NULL;
	bool done = context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
		    EVP_DigestSign(context, signature, &len, out->data, out->len) == 1;
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(key);
	BIO_free(bio);
	ERR_clear_error();
	buffer_append_byte(out, '.');
	return done ? append_base64url(out, (struct bytes){signature, len}) : -EINVAL;
}

static int make_claims(const struct json_node *account, const char *token_url, struct buffer *out)
{
	struct json_writer json = {.out = out};
	int64_t now_s = time_now_ns() / NS_PER_S;
	json_begin_object(&json);
	json_member_bytes(&json, "iss", bytes_of_string(discovery_text(account, "client_email")));
	json_member_cstring(&json, "scope", SCOPE);
	json_member_bytes(&json, "aud", bytes_of_string(token_url));
	json_member_int(&json, "iat", now_s);
	json_member_int(&json, "exp", now_s + TOKEN_LIFE_S);
	json_end_object(&json);
	return json_finish(&json, NULL);
}

static int make_head(const struct json_node *account, struct buffer *out)
{
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_cstring(&json, "alg", "RS256");
	json_member_cstring(&json, "typ", "JWT");
	if (*discovery_text(account, "private_key_id"))
		json_member_bytes(&json, "kid", bytes_of_string(discovery_text(account, "private_key_id")));
	json_end_object(&json);
	return json_finish(&json, NULL);
}

static int make_form_of_account(const struct json_node *account, const char *token_url, struct buffer *form, struct error *err)
{
	_cleanup_(buffer_release) struct buffer head = {.max = TEXT_BYTES_MAX}, claims = {.max = TEXT_BYTES_MAX},
						token = {.max = TEXT_BYTES_MAX};
	int r = make_head(account, &head);
	if (r == 0)
		r = make_claims(account, token_url, &claims);
	if (r < 0)
		return error_set_errno(err, r, "cannot create the token of the service account");
	append_base64url(&token, buffer_bytes(&head));
	buffer_append_byte(&token, '.');
	append_base64url(&token, buffer_bytes(&claims));
	r = buffer_status(&token) == 0 ? append_signature(&token, discovery_text(account, "private_key"))
				       : buffer_status(&token);
	if (r < 0)
		return error_set(err, r, "the key of the service account cannot be used: it must be an RSA key in PEM");
	scrape_append_pair(form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
	scrape_append_pair(form, "assertion", buffer_string(&token) ? (const char *)token.data : "");
	return 0;
}

static int token_of_file(struct discovery *discovery, const struct scrape_call *call, struct bytes text, const char *path,
			 struct scrape_grant *ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	_cleanup_(buffer_release) struct buffer form = {.max = TEXT_BYTES_MAX};
	int r = json_tree_read(text, 0, &tree, NULL);
	const struct json_node *account = r == 0 ? json_tree_root(tree) : NULL;
	const char *type = discovery_text(account, "type"), *url = discovery_text(account, "token_uri");
	if (!*url)
		url = TOKEN_URL;
	if (!strcmp(type, "service_account")) {
		r = make_form_of_account(account, url, &form, err);
	} else if (!strcmp(type, "authorized_user")) {
		scrape_append_pair(&form, "grant_type", "refresh_token");
		scrape_append_pair(&form, "client_id", discovery_text(account, "client_id"));
		scrape_append_pair(&form, "client_secret", discovery_text(account, "client_secret"));
		scrape_append_pair(&form, "refresh_token", discovery_text(account, "refresh_token"));
	} else {
		return error_set(err, -EINVAL, "%.200s: expected JSON of the type service_account or authorized_user", path);
	}
	return r < 0 ? r : discovery_form_token(call, &discovery->config->http, url, buffer_bytes(&form), ret, err);
}

static int fetch_token(void *context, const struct scrape_call *call, struct scrape_grant *ret, struct error *err)
{
	struct discovery *discovery = context;
	_cleanup_(buffer_release) struct buffer file = {0};
	static const struct scrape_header flavor = {"Metadata-Flavor", "Google"};
	const char *given = discovery_environment("GOOGLE_APPLICATION_CREDENTIALS"), *home = discovery_environment("HOME");
	const char *host = discovery_environment("GCE_METADATA_HOST");
	char path[4096], url[600];
	snprintf(path, sizeof(path), "%s%s",
		 given	? given
		 : home ? home
			: "",
		 given ? "" : "/.config/gcloud/application_default_credentials.json");
	int r = given || home ? io_read_file(path, FILE_BYTES_MAX, &file, err) : -ENOENT;
	if (r == 0)
		return token_of_file(discovery, call, buffer_bytes(&file), path, ret, err);
	if (given)
		return r;
	snprintf(url, sizeof(url), "http://%.200s/computeMetadata/v1/instance/service-accounts/default/token?scopes=" SCOPE,
		 host ? host : CLOUD_METADATA_HOST);
	r = discovery_metadata_token(call, url, &flavor, ret, err);
	return r < 0 ? error_prefix(err, r, "no Google credentials were found elsewhere") : 0;
}

/* ---- instances ---- */

static void put_interfaces(struct discovery_set *set, const struct json_node *interfaces)
{
	const struct json_node *first = json_node_at(interfaces, 0);
	const struct json_node *access = json_node_at(json_node_get(first, "accessConfigs"), 0);
	discovery_put(set, META "network", discovery_text(first, "network"));
	discovery_put(set, META "subnetwork", discovery_text(first, "subnetwork"));
	discovery_put(set, META "private_ip", discovery_text(first, "networkIP"));
	if (!strcmp(discovery_text(access, "type"), "ONE_TO_ONE_NAT"))
		discovery_put(set, META "public_ip", discovery_text(access, "natIP"));
	for (size_t i = 0; i < json_node_count(interfaces); i++) {
		const struct json_node *interface = json_node_at(interfaces, i);
		discovery_put_key(set, META "interface_ipv4_", json_node_bytes(json_node_get(interface, "name")),
				  discovery_text(interface, "networkIP"));
	}
}

static int take_instance(struct discovery *discovery, struct discovery_set *set, const struct json_node *instance,
			 struct discovered *found, struct error *err)
{
	const struct gce_config *config = &discovery->config->gce;
	const struct json_node *interfaces = json_node_get(instance, "networkInterfaces");
	const struct json_node *items = json_node_get(json_node_get(instance, "metadata"), "items");
	char port[8];
	snprintf(port, sizeof(port), "%u", discovery->config->port);
	discovery_put(set, META "project", config->project);
	discovery_put(set, META "zone", discovery_text(instance, "zone"));
	discovery_put(set, META "instance_id", discovery_text(instance, "id")); /* of 64 bits without a sign, as a text */
	discovery_put(set, META "instance_name", discovery_text(instance, "name"));
	discovery_put(set, META "instance_status", discovery_text(instance, "status"));
	discovery_put(set, META "machine_type", discovery_text(instance, "machineType"));
	discovery_put_list(set, META "tags", json_node_get(json_node_get(instance, "tags"), "items"), config->tag_separator,
			   false);
	put_interfaces(set, interfaces);
	for (size_t i = 0; i < json_node_count(items); i++) {
		const struct json_node *item = json_node_at(items, i);
		discovery_put_key(set, META "metadata_", json_node_bytes(json_node_get(item, "key")),
				  discovery_text(item, "value"));
	}
	discovery_put_map(set, META "label_", json_node_get(instance, "labels"));
	return discovery_set_add(set, discovery_text(json_node_at(interfaces, 0), "networkIP"), port, found, err);
}

/* Positive: there is a next page, for which the token is in *token. */
static int get_page(struct discovery *discovery, struct buffer *token, struct discovered *found, struct error *err)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	const struct gce_config *config = &discovery->config->gce;
	buffer_append_string(&url, API "/projects/");
	text_url_encode(&url, bytes_of_string(config->project));
	buffer_append_string(&url, "/zones/");
	text_url_encode(&url, bytes_of_string(config->zone));
	buffer_append_string(&url, "/instances");
	scrape_append_parameter(&url, "maxResults", "500");
	if (config->filter)
		scrape_append_parameter(&url, "filter", config->filter);
	if (token->len)
		scrape_append_parameter(&url, "pageToken", buffer_string(token));
	const char *text = buffer_string(&url);
	int r = text ? discovery_cloud_json(discovery, fetch_token, discovery, text, &tree, err)
		     : error_set(err, -E2BIG, "the address is too long");
	const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL, *items = json_node_get(root, "items");
	if (r == 0)
		r = discovery_expect(root, JSON_NODE_OBJECT, API, err);
	for (size_t i = 0; i < json_node_count(items) && r == 0; i++) {
		const struct json_node *instance = json_node_at(items, i);
		struct discovery_set set;
		if (json_node_count(json_node_get(instance, "networkInterfaces")) == 0)
			continue;
		discovery_set_init(&set);
		r = take_instance(discovery, &set, instance, found, err);
		discovery_set_release(&set);
	}
	return r < 0 ? r : discovery_keep_page(token, discovery_text(root, "nextPageToken"), err);
}

int discovery_gce(struct discovery *discovery, struct discovered *found, struct error *err)
{
	_cleanup_(buffer_release) struct buffer token = {.max = URL_MAX / 2};
	int r = discovery_cloud_get(discovery, err) ? 1 : -ENOMEM;
	for (unsigned i = 0; r > 0 && i < CLOUD_PAGES_MAX; i++)
		r = get_page(discovery, &token, found, err);
	return r > 0 ? error_set(err, -E2BIG, "GCE: more than %d pages", CLOUD_PAGES_MAX) : r;
}
