/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may talk to the server.
 *
 * On loopback without a token the users of this machine may, each as far as core/local.c says. What must be kept out besides
 * is the web: a page that the user visits can make the browser send requests to 127.0.0.1, and with DNS rebinding even read the
 * answers. So the Host header must name this machine's loopback (rebinding arrives under the attacker's name), a request with
 * an Origin must come from the page served here, and one that changes something must not come from another site, with an Origin
 * or without (Sec-Fetch-Site). All answers say that other sites' pages may not have them as images or scripts (CORP); pages
 * that ask by CORS, with a token of their own, are not concerned.
 * Behind a proxy that is trusted, the page is the one that the proxy was asked for (X-Forwarded-Host, -Proto). The Host may be
 * another than loopback's then only where tokens are needed: a browser on this machine may be a trusted peer as well.
 *
 * With tokens every request needs one: "Authorization: Bearer TOKEN" from programs, or Basic with any user name and the token
 * as password, which browsers ask their user for. Who that is, access/callers.c finds out; what it may do depends on its roles,
 * on what the route needs (core/permission.h), and on its tenants. Pages of other sites may then make remote procedure calls
 * with a bearer token of their own (rpc.c). Health checks are open. Beyond loopback tokens are required, or certificates of
 * clients, unless --insecure says otherwise.
 *
 * Tenants. The header X-Scope-OrgID chooses among those of the token and nothing else: it names one of them, or is left out by
 * whoever has one only, or may use the one without a name. What was chosen is attached to the request, and handlers ask for
 * that (tenant_of_request()); none of them sees the header. Calls about all tenants, such as /metrics, are for those who may
 * use all.
 *
 * Refusals say what is missing, which role, which tenant, since whoever gets them has proved who it is; who has not is told
 * nothing but that.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/time.h"
#include "codec/base64.h"
#include "server/access/callers.h"
#include "server/core/server_int.h"
#include "server/http/access.h"
#include "server/http/rpc.h"

static bool host_is_loopback(const char *host, size_t len)
{
	static const char *const names[] = {"localhost", "[::1]", "::1"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (len == strlen(names[i]) && strncasecmp(host, names[i], len) == 0)
			return true;
	if (len < 7 || strncmp(host, "127.", 4) != 0)
		return false;
	for (size_t i = 4; i < len; i++)
		if ((host[i] < '0' || host[i] > '9') && host[i] != '.')
			return false;
	return true;
}

/* The length of the host in "HOST[:PORT]". */
static size_t host_length(const char *authority)
{
	if (*authority == '[') {
		const char *close = strchr(authority, ']');
		return close ? (size_t)(close - authority) + 1 : strlen(authority);
	}
	return strcspn(authority, ":");
}

int access_check_options(struct server *server, struct error *err)
{
	const char *listen = server->options.listen;
	size_t len = host_length(listen);
	if (len >= sizeof(server->listen_host) || !listen[len])
		return error_set(err, -EINVAL, "cannot listen on '%.200s': expected ADDR:PORT, as in 127.0.0.1:7070", listen);
	memcpy(server->listen_host, listen, len);
	server->listen_host[len] = 0;
	server->loopback_only = host_is_loopback(listen, len);
	if (server->options.tls_client_optional && (!server_is_restricted(server) || !server->options.tls_client_ca_file))
		return error_set(err, -EINVAL,
				 "tls.client_optional needs tls.client_ca_file, and tokens or a token for clients without a "
				 "certificate");
	if (server->loopback_only || server_is_restricted(server) || server->options.tls_client_ca_file ||
	    server->options.insecure)
		return 0;
	return error_set(err, -EINVAL,
			 "refusing to listen on %.200s, which other machines can reach, without a token: give --token-file "
			 "FILE (clients send it as a bearer token), --tokens FILE (tokens with roles), --tls-client-ca FILE "
			 "(clients need certificates), or "
			 "--insecure to allow everybody",
			 listen);
}

int access_check_listen(const struct server *server, const char *listen, struct error *err)
{
	size_t len = host_length(listen);
	if (!len || !listen[len])
		return error_set(err, -EINVAL, "cannot listen on '%.200s': expected ADDR:PORT, as in 127.0.0.1:4317", listen);
	if (server->loopback_only && !host_is_loopback(listen, len))
		return error_set(err, -EINVAL,
				 "refusing to listen on %.200s, which other machines can reach, while %.200s is reachable from "
				 "this machine only: use an address that they can reach for --listen, too",
				 listen, server->options.listen);
	return 0;
}

/* ---- life ---- */

static void on_audit_problem(void *context, const char *message)
{
	log_error("audit log: %s", message);
}

int access_open(struct server *server, struct error *err)
{
	const struct audit_options audit_options = {
		.path = server->options.audit_file, .bytes_max = server->options.audit_bytes, .on_problem = on_audit_problem};
	int r = audit_options.path && *audit_options.path ? audit_open(&audit_options, &server->audit, err) : 0;
	if (r < 0)
		return error_prefix(err, r, "audit log");
	const struct local_options local = {.data_directory = server->data_directory,
					    .users = server->options.local_users,
					    .user_count = server->options.local_user_count,
					    .user_list = server->options.local_user_list,
					    .invoker = server->options.local_invoker,
					    .agent = server->options.local_agent,
					    .read = server->options.local_read,
					    .write = server->options.local_write};
	r = local_init(&server->local, &local, err);
	if (r < 0)
		return r;
	const struct callers_options options = {.token = server->token,
						.tokens_file = server->options.tokens_file,
						.tenants = server->options.tenants,
						.audit = server->audit};
	return callers_open(&options, &server->callers, err);
}

void access_close(struct server *server)
{
	server->callers = callers_close(server->callers);
	server->audit = audit_close(server->audit);
}

/* ---- what a request brings ---- */

/* The password of a Basic credential; false when malformed or too long. */
static bool basic_password(const char *text, char *out, size_t size)
{
	_cleanup_(buffer_release) struct buffer decoded = {.max = size};
	if (base64_decode(bytes_of_string(text), &decoded) < 0 || decoded.len >= size)
		return false;
	const uint8_t *colon = decoded.len ? memchr(decoded.data, ':', decoded.len) : NULL;
	if (!colon || memchr(decoded.data, 0, decoded.len))
		return false;
	snprintf(out, size, "%.*s", (int)(decoded.data + decoded.len - colon - 1), (const char *)colon + 1);
	return true;
}

#define PASSWORD_SIZE 4096
/* The token that a request brings, as it is or in `password`; NULL = none. What is no token at all is "". */
static const char *find_credential(const struct net_request *request, char password[static PASSWORD_SIZE])
{
	const char *header = net_request_header(request, "authorization");
	if (!header)
		return NULL;
	if (strncasecmp(header, "bearer ", 7) == 0)
		return header + 7;
	if (strncasecmp(header, "basic ", 6) == 0 && basic_password(header + 6, password, PASSWORD_SIZE))
		return password;
	return "";
}

static bool brings_bearer(const struct net_request *request)
{
	const char *header = net_request_header(request, "authorization");
	return header && strncasecmp(header, "bearer ", 7) == 0;
}

/* ---- refusals ---- */

static bool refuse(struct net_response *response, int status, enum grpc_code code, const char *text)
{
	respond_error(response, status, text);
	response->grpc_status = code;
	snprintf(response->message, sizeof(response->message), "%s", text);
	return false;
}

static void audit_refusal(const struct server *server, const struct net_request *request, const struct net_response *response)
{
	const struct caller *caller = caller_of(request);
	audit_add(server->audit, &(struct audit_entry){.event = AUDIT_REFUSAL,
						       .name = caller ? caller->name : NULL,
						       .kind = caller ? caller->kind : NULL,
						       .address = net_request_peer_address(request),
						       .method = net_request_method(request),
						       .target = net_request_path(request), /* the rest may hold a secret */
						       .tenant = net_request_header(request, TENANT_HEADER),
						       .status = response->status,
						       .reason = response->message});
}

/* is_foreign: a page of another site, which is not told to ask its user for a password. */
static bool refuse_unknown(struct net_response *response, enum callers_result result, const struct identity *identity,
			   bool is_foreign)
{
	char text[400], seconds[16];
	if (result == CALLERS_WAIT) {
		snprintf(seconds, sizeof(seconds), "%u", identity->wait_s);
		net_response_header(response, "Retry-After", seconds);
		return refuse(response, 429, GRPC_RESOURCE_EXHAUSTED, identity->reason);
	}
	if (is_foreign)
		return refuse(response, 403, GRPC_PERMISSION_DENIED, "cross-site requests are rejected");
	snprintf(
		text, sizeof(text),
		"a token is required: send it as 'Authorization: Bearer TOKEN', or as the password of Basic authentication%s%s",
		*identity->reason ? "; " : "", identity->reason);
	net_response_header(response, "WWW-Authenticate", "Basic realm=\"wick\", charset=\"UTF-8\"");
	return refuse(response, 401, GRPC_UNAUTHENTICATED, text);
}

/* ---- what it may do ---- */

/* The roles, and for what is about all tenants, all tenants. */
static bool check_permission(const struct server *server, const struct net_request *request, const struct identity *identity,
			     struct net_response *response)
{
	char own[ROLES_TEXT_MAX], needed[ROLES_TEXT_MAX], text[400];
	enum permission permission = net_request_permission(request);
	unsigned roles = permission_roles(permission);
	if (!permission) /* there is no such route; that is for net to say */
		return true;
	if (!(identity->roles & roles)) {
		snprintf(text, sizeof(text), "'%s' has %s%s; this call needs one of the roles %s", identity->name,
			 identity->roles ? "the role " : "no role", roles_format(identity->roles, own),
			 roles_format(roles, needed));
		return refuse(response, 403, GRPC_PERMISSION_DENIED, text);
	}
	if (server->options.tenants && permission_is_for_all_tenants(permission) && !identity->tenants.all) {
		snprintf(text, sizeof(text), "'%s' may use some tenants only; this call is about all of them", identity->name);
		return refuse(response, 403, GRPC_PERMISSION_DENIED, text);
	}
	return true;
}

/* Which tenant the request is about, into `caller`. */
static bool choose_tenant(const struct server *server, const struct net_request *request, const struct identity *identity,
			  struct caller *caller, struct net_response *response)
{
	const struct token_tenants *tenants = &identity->tenants;
	const char *wanted = net_request_header(request, TENANT_HEADER);
	char text[400];
	if (!server->options.tenants || (tenants->all && !wanted))
		return true;
	if (!wanted && !token_tenants_have(tenants, NULL)) {
		if (tenants->count > 1) {
			snprintf(text, sizeof(text), "'%s' may use several tenants: name one of them in X-Scope-OrgID",
				 identity->name);
			return refuse(response, 400, GRPC_INVALID_ARGUMENT, text);
		}
		wanted = tenants->names[0];
	}
	if (wanted && strlen(wanted) > CALLER_TENANT_MAX)
		return refuse(response, 400, GRPC_INVALID_ARGUMENT, "X-Scope-OrgID: too long for a tenant's name");
	if (!token_tenants_have(tenants, wanted)) {
		snprintf(text, sizeof(text), "'%s' may not use the tenant '%s'", identity->name, wanted);
		return refuse(response, 403, GRPC_PERMISSION_DENIED, text);
	}
	snprintf(caller->tenant, sizeof(caller->tenant), "%s", wanted ? wanted : TOKEN_DEFAULT_TENANT);
	return true;
}

static enum callers_result admit_known(const struct server *server, struct net_request *request,
				       const struct identity *identity, struct net_response *response)
{
	struct caller *caller = net_request_attach(request, sizeof(*caller));
	if (!caller) {
		refuse(response, 503, GRPC_UNAVAILABLE, "out of memory");
		return CALLERS_NOT_PERMITTED;
	}
	snprintf(caller->name, sizeof(caller->name), "%s", identity->name);
	caller->kind = identity->kind;
	net_request_set_known(request);
	if (!check_permission(server, request, identity, response))
		return CALLERS_NOT_PERMITTED;
	if (!choose_tenant(server, request, identity, caller, response))
		return CALLERS_NO_TENANT;
	caller->is_admitted = true;
	if (identity->is_login)
		audit_add(server->audit, &(struct audit_entry){.event = AUDIT_LOGIN,
							       .name = caller->name,
							       .kind = caller->kind,
							       .address = net_request_peer_address(request),
							       .tenant = caller->tenant});
	return CALLERS_FOUND;
}

static bool admit(const struct server *server, struct net_request *request, bool is_foreign, struct net_response *response)
{
	char password[PASSWORD_SIZE];
	struct identity identity;
	enum callers_result result = callers_identify(server->callers, request, find_credential(request, password), &identity);
	if (result == CALLERS_FOUND)
		result = admit_known(server, request, &identity, response);
	else
		refuse_unknown(response, result, &identity, is_foreign);
	callers_count(server->callers, result);
	identity_release(&identity);
	explicit_bzero(password, sizeof(password));
	return result == CALLERS_FOUND;
}

/* ---- without tokens ---- */

/* Whether clients are processes of this machine, and nothing else says who they are. */
static bool is_local(const struct server *server)
{
	return server->loopback_only && !server_is_restricted(server) && !server->options.tls_client_ca_file;
}

/* Where reading is for everybody, addresses still are not. */
static bool check_user(const struct server *server, struct net_request *request, struct caller *caller,
		       struct net_response *response)
{
	const struct local_access *local = &server->local;
	enum permission permission = net_request_permission(request);
	bool is_for_anybody = local_is_for_anybody(local, permission);
	struct error problem = {0};
	char text[512];
	unsigned uid = 0;
	/* What is no route is for net to say. */
	if (!permission || (is_for_anybody && permission_local(permission) != LOCAL_NEED_READ))
		return true;
	int r = net_request_peer_user(request, &uid, &problem);
	if (r == 0 && local_is_agent(local, permission, uid))
		return true;
	if (r == 0 && local_is_unknown(local, uid))
		r = error_set(&problem, -ENOENT, "this server's user namespace does not know it: PrivateUsers of its unit?");
	if (r == 0 && local_is_owner(local, uid))
		return true;
	caller->hides_addresses = true;
	if (is_for_anybody)
		return true;
	local_explain(local, permission, uid, r < 0 ? problem.message : NULL, text, sizeof(text));
	return refuse(response, 403, GRPC_PERMISSION_DENIED, text);
}

/* On a server without tokens. */
static bool admit_anybody(const struct server *server, struct net_request *request, struct net_response *response)
{
	struct caller *caller = net_request_attach(request, sizeof(*caller));
	if (!caller)
		return refuse(response, 503, GRPC_UNAVAILABLE, "out of memory");
	caller->is_admitted = !is_local(server) || check_user(server, request, caller, response);
	return caller->is_admitted;
}

/* ---- pages of other sites ---- */

/* What a proxy that is trusted has been asked for; proto NULL: it does not say. */
static bool origin_is_ours(const struct net_request *request, const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");
	bool by_proxy = net_request_is_by_proxy(request);
	const char *asked = by_proxy ? net_request_header(request, "x-forwarded-host") : NULL;
	const char *proto = by_proxy ? net_request_header(request, "x-forwarded-proto") : NULL;
	if (!at || strcasecmp(at + 3, asked ? asked : host) != 0)
		return false;
	return !proto || (strlen(proto) == (size_t)(at - origin) && strncasecmp(origin, proto, strlen(proto)) == 0);
}

static bool is_preflight(const struct net_request *request)
{
	return strcmp(net_request_method(request), "OPTIONS") == 0;
}

/* A browser says it of each request, also where it sends no Origin; others say nothing. Another port of this host is another
 * site here. */
static bool comes_from_elsewhere(const struct net_request *request)
{
	const char *site = net_request_header(request, "sec-fetch-site");
	return site && strcasecmp(site, "same-origin") != 0 && strcasecmp(site, "none") != 0;
}

/*
 * A page of another site. With its user's help a browser remembers a password and sends it along by itself, whatever the page;
 * a bearer token only comes from the page's own code, which then knows it. Whether the token is right is yet to be found out.
 */
static bool may_come_from_elsewhere(const struct server *server, const struct net_request *request)
{
	if (!server_is_restricted(server) || !rpc_is_for_pages(net_request_path(request)))
		return false;
	return is_preflight(request) || brings_bearer(request);
}

static void allow_origin(struct net_response *response, const char *origin)
{
	net_response_header(response, "Access-Control-Allow-Origin", origin);
	net_response_header(response, "Access-Control-Expose-Headers",
			    "Grpc-Status, Grpc-Message, Grpc-Encoding, Content-Encoding, Retry-After, X-Wick-Limit");
	net_response_header(response, "Vary", "Origin");
}

int access_may_change(const struct server *server, const struct net_request *request, struct error *err)
{
	if (server_is_restricted(server) || net_request_is_loopback(request))
		return 0;
	return error_set(err, -EACCES,
			 "this changes stored data: a server without a token allows it from the same machine only");
}

static bool authorize(const struct server *server, struct net_request *request, struct net_response *response)
{
	const char *host = net_request_header(request, "host");
	const char *origin = net_request_header(request, "origin");
	bool is_foreign = origin && host && !origin_is_ours(request, origin, host);
	if (net_request_permission(request) == PERMIT_OPEN)
		return true;
	bool is_proxied = server_is_restricted(server) && net_request_is_by_proxy(request);
	if (server->loopback_only && !is_proxied && host && !host_is_loopback(host, host_length(host)))
		return refuse(
			response, 403, GRPC_PERMISSION_DENIED,
			"this server accepts local host names only (localhost, 127.0.0.1, [::1]); the Host header has another");
	if (permission_changes(net_request_permission(request)) && comes_from_elsewhere(request))
		is_foreign = true;
	if (is_foreign && !may_come_from_elsewhere(server, request))
		return refuse(response, 403, GRPC_PERMISSION_DENIED, "cross-site requests are rejected");
	if (!server_is_restricted(server))
		return admit_anybody(server, request, response);
	/* A preflight comes without a token, and does nothing. */
	bool admitted = (is_foreign && is_preflight(request)) || admit(server, request, is_foreign, response);
	if (is_foreign && admitted && origin)
		allow_origin(response, origin);
	return admitted;
}

bool access_authorize(void *context, struct net_request *request, struct net_response *response)
{
	const struct server *server = context;
	/* These stay on whatever is answered. */
	net_response_header(response, "X-Content-Type-Options", "nosniff");
	net_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	if (authorize(server, request, response))
		return true;
	audit_refusal(server, request, response);
	return false;
}

/* Ingest, and what agents do, is what a server is for, a thousand times a minute. */
static bool is_audited(enum permission permission)
{
	return permission_changes(permission) && permission != PERMIT_WRITE && permission != PERMIT_UPLOAD &&
	       permission != PERMIT_AGENT;
}

/* The files of a backup: that it was begun is in the log. */
static bool is_reading(const struct net_request *request)
{
	return strcmp(net_request_method(request), "GET") == 0 || strcmp(net_request_method(request), "HEAD") == 0;
}

void access_on_answer(void *context, const struct net_request *request, int status)
{
	const struct server *server = context;
	const struct caller *caller = caller_of(request);
	if (!server->audit || !caller || !caller->is_admitted || !net_request_permission(request) ||
	    !is_audited(net_request_permission(request)) || is_preflight(request) || is_reading(request))
		return;
	const char *tenant = tenant_name_of_request(request);
	audit_add(server->audit, &(struct audit_entry){.event = AUDIT_CALL,
						       .name = caller->name,
						       .kind = caller->kind,
						       .address = net_request_peer_address(request),
						       .method = net_request_method(request),
						       .target = net_request_target(request),
						       .tenant = server->options.tenants ? tenant : NULL,
						       .status = status});
}
