/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to make requests: Prometheus' http_config, with its basic_auth, authorization, oauth2, tls_config and proxies. Secrets
 * have no place in messages: those name the setting and the line.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "server/scrape/scrape_config_int.h"

int scrape_read_basic_auth(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_http *http = object;
	static const struct yaml_field fields[] = {YAML_FIELD(struct scrape_http, "username", TEXT, user),
						   YAML_FIELD(struct scrape_http, "password", TEXT, password),
						   YAML_FIELD(struct scrape_http, "password_file", TEXT, password_file),
						   {0}};
	int r = yaml_read_fields(reader, node, fields, http);
	if (r == 0 && (!http->user || (http->password && http->password_file)))
		return yaml_fault(reader, node, "basic_auth", "needs a username, and one of password and password_file");
	return r;
}

int scrape_read_authorization(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_http *http = object;
	static const struct yaml_field fields[] = {YAML_FIELD(struct scrape_http, "type", TEXT, auth_type),
						   YAML_FIELD(struct scrape_http, "credentials", TEXT, credentials),
						   YAML_FIELD(struct scrape_http, "credentials_file", TEXT, credentials_file),
						   {0}};
	int r = yaml_read_fields(reader, node, fields, http);
	if (r == 0 && !http->credentials == !http->credentials_file)
		return yaml_fault(reader, node, "authorization", "needs one of credentials and credentials_file");
	return r;
}

int scrape_read_tls(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_http *http = object;
	static const struct yaml_field fields[] = {YAML_FIELD(struct net_tls_options, "ca_file", TEXT, ca_file),
						   YAML_FIELD(struct net_tls_options, "cert_file", TEXT, cert_file),
						   YAML_FIELD(struct net_tls_options, "key_file", TEXT, key_file),
						   YAML_FIELD(struct net_tls_options, "server_name", TEXT, server_name),
						   YAML_FIELD(struct net_tls_options, "insecure_skip_verify", FLAG, insecure),
						   {0}};
	http->has_tls = true;
	int r = yaml_read_fields(reader, node, fields, &http->tls_options);
	if (r < 0)
		return r;
	net_tls_free(http->tls);
	http->tls = NULL;
	r = net_tls_new_client(&http->tls_options, &http->tls, reader->err);
	return r < 0 ? error_prefix(reader->err, r, "%s: line %zu: tls_config", reader->file, node->start_mark.line + 1) : 0;
}

/* ---- oauth2 ---- */

static int add_endpoint_param(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct scrape_oauth2 *oauth2 = object;
	const char *value;
	if (oauth2->param_count == SCRAPE_PARAMS_MAX)
		return yaml_fault(reader, node, "endpoint_params", "has too many entries");
	int r = yaml_read_text(reader, node, name, &value);
	if (r == 0)
		oauth2->params[oauth2->param_count++] = (struct relabel_label){name, value};
	return r;
}

static int read_scopes(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_oauth2 *oauth2 = object;
	return yaml_read_texts(reader, node, "scopes", 100, &oauth2->scopes, &oauth2->scope_count);
}

static int check_oauth2(struct yaml_reader *reader, const yaml_node_t *node, const struct scrape_oauth2 *oauth2)
{
	if (!oauth2->client_id || !oauth2->token_url)
		return yaml_fault(reader, node, "oauth2", "needs a client_id and a token_url");
	if (!oauth2->client_secret == !oauth2->client_secret_file)
		return yaml_fault(reader, node, "oauth2", "needs one of client_secret and client_secret_file");
	int r = scrape_check_url(reader, node, "token_url", oauth2->token_url);
	return r < 0 ? r : scrape_check_http(reader, node, &oauth2->http);
}

int scrape_read_oauth2(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {
		YAML_FIELD(struct scrape_oauth2, "client_id", TEXT, client_id),
		YAML_FIELD(struct scrape_oauth2, "client_secret", TEXT, client_secret),
		YAML_FIELD(struct scrape_oauth2, "client_secret_file", TEXT, client_secret_file),
		YAML_FIELD(struct scrape_oauth2, "token_url", TEXT, token_url),
		YAML_CUSTOM("scopes", read_scopes),
		{"endpoint_params", YAML_FIELD_NAMES, .read_name = add_endpoint_param},
		YAML_FIELD(struct scrape_oauth2, "tls_config", CUSTOM, http, scrape_read_tls),
		YAML_FIELD(struct scrape_oauth2, "proxy_url", TEXT, http.proxy_url),
		YAML_FIELD(struct scrape_oauth2, "no_proxy", TEXT, http.no_proxy),
		YAML_FIELD(struct scrape_oauth2, "proxy_from_environment", FLAG, http.proxy_from_environment),
		{0}};
	struct scrape_http *http = object;
	struct scrape_oauth2 *oauth2 = mem_zalloc(sizeof(*oauth2));
	if (!oauth2)
		return error_nomem(reader->err);
	scrape_token_init(&oauth2->token);
	http->oauth2 = oauth2; /* released with it, whatever follows */
	int r = yaml_read_fields(reader, node, fields, oauth2);
	return r < 0 ? r : check_oauth2(reader, node, oauth2);
}

void scrape_http_release(struct scrape_http *http)
{
	net_tls_free(http->tls);
	http->tls = NULL;
	if (!http->oauth2)
		return;
	net_tls_free(http->oauth2->http.tls);
	scrape_token_release(&http->oauth2->token);
	http->oauth2 = mem_free(http->oauth2);
}

/* ---- what fits together ---- */

int scrape_check_url(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *url)
{
	bool is_http = !strncasecmp(url, "http://", 7), is_https = !strncasecmp(url, "https://", 8);
	const char *host = strstr(url, "://");
	if ((!is_http && !is_https) || !host[3])
		return yaml_fault(reader, node, what, "must be a URL that begins with http:// or https://");
	if (strlen(url) >= SCRAPE_URL_BYTES_MAX)
		return yaml_fault(reader, node, what, "is too long");
	for (const char *at = url; *at; at++)
		if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f)
			return yaml_fault(reader, node, what, "has characters that must be percent-encoded");
	if (memchr(host + 3, '@', strcspn(host + 3, "/?#")))
		return yaml_fault(reader, node, what,
				  "has a user or password: they belong in basic_auth, where they are kept secret");
	return 0;
}

int scrape_check_http(struct yaml_reader *reader, const yaml_node_t *node, const struct scrape_http *http)
{
	struct error problem = {0};
	bool credentials = http->credentials || http->credentials_file;
	if ((http->credentials && http->credentials_file) || (http->user && credentials) ||
	    (http->oauth2 && (http->user || credentials)))
		return yaml_fault(reader, node, "authorization", "is given in more than one way");
	if (http->proxy_url && http->proxy_from_environment)
		return yaml_fault(reader, node, "proxy_from_environment", "cannot be used with proxy_url");
	if (http->no_proxy && !http->proxy_url)
		return yaml_fault(reader, node, "no_proxy", "needs a proxy_url");
	if (http->proxy_url && net_proxy_check(http->proxy_url, &problem) < 0)
		return error_set(reader->err, -EINVAL, "%s: line %zu: %s", reader->file, node->start_mark.line + 1,
				 problem.message);
	return 0;
}
