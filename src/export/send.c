/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One try: the record in the target's form, and what its answer means.
 *
 * OTLP's rules for retries (opentelemetry.io/docs/specs/otlp, "Failures") are followed, but for three. 401 and 403 (gRPC's
 * UNAUTHENTICATED and PERMISSION_DENIED) speak of the credentials and not of the profile, which is kept until somebody has
 * fixed them. 500 is tried again, a few times. And RESOURCE_EXHAUSTED without a time to wait is tried a few times too.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/text.h"
#include "codec/compress.h"
#include "export/export_int.h"
#include "format/otlp/otlp.h"

#define OTLP_GRPC_PATH	   "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
#define OTLP_HTTP_PATH	   "/v1development/profiles"
#define PYROSCOPE_PATH	   "/push.v1.PusherService/Push"
#define PARCA_PATH	   "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"
#define RESPONSE_BYTES_MAX (1 * MIB)
#define GRPC_ABORTED	   10
#define GRPC_OUT_OF_RANGE  11
#define GRPC_DATA_LOSS	   15

/* ---- the client ---- */

static int read_secret(const char *path, struct buffer *file, const char **ret, struct error *err)
{
	int r = io_read_secret(path, file, err);
	if (r < 0)
		return r;
	*ret = buffer_string(file);
	return !*ret ? error_nomem(err) : **ret ? 0 : error_set(err, -EINVAL, "%s is empty", path);
}

static int set_basic(struct sender *sender, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	const char *password = "";
	int r = sender->target->password_file ? read_secret(sender->target->password_file, &file, &password, err) : 0;
	return r < 0 ? r : net_client_set_basic_auth(sender->client, sender->target->username, password, err);
}

static int set_token(struct sender *sender, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	const char *token = sender->target->token;
	int r = token ? 0 : read_secret(sender->target->token_file, &file, &token, err);
	return r < 0 ? r : net_client_set_authorization(sender->client, "Bearer", token, err);
}

static int set_headers(struct sender *sender, struct error *err)
{
	const struct export_target *target = sender->target;
	int r = 0;
	if (target->username)
		r = set_basic(sender, err);
	else if (target->token || target->token_file)
		r = set_token(sender, err);
	if (r == 0 && target->kind == EXPORT_PYROSCOPE)
		r = net_client_set_header(sender->client, "connect-protocol-version", "1", err);
	for (size_t i = 0; i < target->header_count && r == 0; i++)
		r = net_client_set_header(sender->client, target->headers[i].name, target->headers[i].value, err);
	return r;
}

static int make_tls(struct sender *sender, struct error *err)
{
	const struct export_target *target = sender->target;
	struct net_tls_options options = {.ca_file = target->ca_file,
					  .cert_file = target->cert_file,
					  .key_file = target->key_file,
					  .server_name = target->server_name,
					  .insecure = target->insecure_skip_verify};
	if (!target->ca_file && !target->cert_file && !target->server_name && !target->insecure_skip_verify)
		return 0;
	return net_tls_new_client(&options, &sender->tls, err);
}

void sender_disconnect(struct sender *sender)
{
	sender->client = net_client_free(sender->client);
	sender->tls = net_tls_free(sender->tls);
}

static const char *secret_file(const struct export_target *target)
{
	return target->username ? target->password_file : target->token ? NULL : target->token_file;
}

int sender_renew(struct sender *sender, struct error *err)
{
	const char *path = secret_file(sender->target);
	struct io_stamp now = io_stamp_of(path);
	return path && !io_stamp_equal(&now, &sender->secret) ? sender_connect(sender, err) : 0;
}

int sender_connect(struct sender *sender, struct error *err)
{
	const struct export_target *target = sender->target;
	struct net_client *fresh, *old = sender->client;
	char url[4096];
	if (snprintf(url, sizeof(url), "%s", target->url) >= (int)sizeof(url))
		return error_set(err, -EINVAL, "the URL of %s is too long", sender->name);
	if (target->kind == EXPORT_OTLP_HTTP &&
	    text_ends_with(url, OTLP_HTTP_PATH)) /* some give the whole, some the beginning */
		url[strlen(url) - strlen(OTLP_HTTP_PATH)] = '\0';
	struct net_client_options options = {.url = url,
					     .timeout_ns = target->timeout_ns ? target->timeout_ns : EXPORT_TIMEOUT_NS,
					     .response_max = RESPONSE_BYTES_MAX,
					     .shared = target->kind == EXPORT_WICK,
					     .cancel = &sender->cancel};
	int r = sender->tls ? 0 : make_tls(sender, err);
	options.tls = sender->tls;
	if (r == 0)
		r = net_client_new(&options, &fresh, err);
	if (r < 0)
		return r;
	sender->client = fresh;
	sender->secret = io_stamp_of(secret_file(target)); /* before it is read: a change in between is seen */
	r = set_headers(sender, err);
	if (r < 0 && old) { /* what worked once may work again */
		net_client_free(fresh);
		sender->client = old;
		return r;
	}
	net_client_free(old);
	return r;
}

/* ---- answers ---- */

/* What an answer says about itself: a message in JSON or text, made harmless. */
static void describe(const struct net_client_response *response, const char *what, int code, char out[512])
{
	_cleanup_(buffer_release) struct buffer text = {.max = 400};
	struct bytes body = buffer_bytes(&response->body);
	bool readable = response->grpc_status < 0 && body.len && text_is_utf8(body);
	body.len = body.len > 200 ? text_cut(body, 200) : body.len;
	if (readable)
		text_append_harmless(&text, body);
	const char *detail = readable ? buffer_string(&text) : NULL;
	snprintf(out, 512, "%s %d%s%.200s%s%.200s", what, code, response->message[0] ? " " : "", response->message,
		 detail ? ": " : "", detail ? detail : "");
}

static void classify_http(const struct net_client_response *response, struct attempt *ret)
{
	int status = response->status;
	describe(response, "HTTP", status, ret->why);
	ret->unauthorized = status == 401 || status == 403 || status == 407;
	ret->limited = status == 500 && !response->retry_after_ns;
	if (status / 100 == 2)
		ret->verdict = DELIVERED;
	else if (ret->unauthorized || status == 408 || status == 425 || status == 429)
		ret->verdict = TRY_AGAIN;
	else if (status / 100 == 5 && status != 501 && status != 505 && status != 511)
		ret->verdict = TRY_AGAIN;
	else
		ret->verdict = REFUSED;
}

static bool is_otlp(const struct net_client_response *response)
{
	return strncmp(response->content_type, "application/x-protobuf", 22) == 0;
}

/* Something else that answers at that address must not pass for a server that has stored it. */
static void check_server(struct sender *sender, const struct net_client_response *response, struct attempt *ret)
{
	if (ret->verdict != DELIVERED)
		return;
	sender->has_http |= is_otlp(response);
	if (is_otlp(response))
		return;
	ret->verdict = TRY_AGAIN;
	snprintf(ret->why, sizeof(ret->why), "the response is not of OTLP: is it a Wick server?");
}

static void classify_grpc(const struct net_client_response *response, struct attempt *ret)
{
	int status = response->grpc_status;
	if (status < 0) {
		classify_http(response, ret);
		if (ret->verdict == DELIVERED) {
			ret->verdict = TRY_AGAIN;
			snprintf(ret->why, sizeof(ret->why), "no gRPC status in the response: is it a gRPC server?");
		}
		return;
	}
	describe(response, "gRPC status", status, ret->why);
	switch (status) {
	case GRPC_OK: ret->verdict = DELIVERED; return;
	case GRPC_UNAUTHENTICATED:
	case GRPC_PERMISSION_DENIED: ret->unauthorized = true; break;
	case GRPC_RESOURCE_EXHAUSTED:
	case GRPC_UNKNOWN:
	case GRPC_INTERNAL: ret->limited = !response->retry_after_ns; break;
	case GRPC_CANCELLED:
	case GRPC_DEADLINE_EXCEEDED:
	case GRPC_UNAVAILABLE:
	case GRPC_ABORTED:
	case GRPC_OUT_OF_RANGE:
	case GRPC_DATA_LOSS: break;
	default: ret->verdict = REFUSED; return;
	}
	ret->verdict = response->never_retry ? REFUSED : TRY_AGAIN;
}

/* OTLP says what it left out of what it took. */
static void read_partial_success(const struct net_client_response *response, struct attempt *ret)
{
	_cleanup_(buffer_release) struct buffer message = {.max = 64 * KIB};
	if (otlp_decode_response(buffer_bytes(&response->body), &ret->rejected, &message, NULL) < 0)
		ret->rejected = 0;
	const char *text = ret->rejected ? buffer_string(&message) : NULL;
	snprintf(ret->why, sizeof(ret->why), "%.400s", text && *text ? text : "part of it was rejected");
}

/* ---- bodies ---- */

static int unpack(struct bytes record, struct buffer *out, struct error *err)
{
	buffer_init(out, LIMIT_PROFILE_INPUT_BYTES);
	return gzip_decompress(record, out, err);
}

/* The record as it is sent by OTLP, and how it is packed. */
static int otlp_body(struct sender *sender, const char *tenant, struct bytes record, struct buffer *own, struct bytes *ret,
		     enum net_gzip *ret_gzip, struct error *err)
{
	bool pack = !sender->target->no_compression;
	*ret = record;
	*ret_gzip = pack ? NET_GZIPPED : NET_PLAIN;
	if (pack && !sender->target->symbolize)
		return 0;
	_cleanup_(buffer_release) struct buffer plain = {0};
	int r = unpack(record, &plain, err);
	if (r == 0 && sender->target->symbolize) {
		_cleanup_(otlp_request_release) struct otlp_request request = {0};
		r = otlp_decode(buffer_bytes(&plain), NULL, &request, err);
		buffer_release(&plain);
		for (size_t i = 0; i < request.count && r == 0; i++)
			r = exporter_symbolize(sender->exporter, tenant, request.profiles[i], &sender->cancel, err);
		if (r == 0)
			r = otlp_encode((const struct profile *const *)request.profiles, request.count, &plain, err);
		*ret_gzip = pack ? NET_GZIP : NET_PLAIN;
	}
	buffer_release(own);
	*own = plain;
	plain = (struct buffer){0};
	*ret = buffer_bytes(own);
	return r;
}

static int series_body(struct sender *sender, const char *tenant, struct bytes record, struct buffer *own, struct error *err)
{
	_cleanup_(otlp_request_release) struct otlp_request request = {0};
	_cleanup_(buffer_release) struct buffer plain = {0};
	int r = unpack(record, &plain, err);
	if (r == 0)
		r = otlp_decode(buffer_bytes(&plain), NULL, &request, err);
	buffer_release(&plain);
	for (size_t i = 0; i < request.count && r == 0 && sender->target->symbolize; i++)
		r = exporter_symbolize(sender->exporter, tenant, request.profiles[i], &sender->cancel, err);
	return r < 0 ? r : series_encode(sender, &request, own, err);
}

static int set_tenant(struct sender *sender, const struct spool_meta *meta, struct error *err)
{
	const char *tenant = sender->target->tenant ? sender->target->tenant : meta->tenant;
	return net_client_set_header(sender->client, "x-scope-orgid", *tenant ? tenant : NULL, err);
}

static int set_loss_report(struct sender *sender, struct error *err)
{
	struct spool_stats stats;
	char text[64];
	if (sender->target->kind != EXPORT_WICK)
		return 0;
	if (!sender->report_made) {
		spool_get_stats(sender->spool, &stats);
		sender->report = (struct loss_report){0};
		for (size_t i = 0; i < SPOOL_LOSSES; i++) {
			sender->report.profiles += stats.lost[i].profiles;
			sender->report.samples += stats.lost[i].samples;
		}
		sender->report_made = true;
	}
	uint64_t profiles = sender->report.profiles - sender->reported.profiles;
	uint64_t samples = sender->report.samples - sender->reported.samples;
	snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)profiles, (unsigned long long)samples);
	return net_client_set_header(sender->client, EXPORT_LOST_HEADER, profiles || samples ? text : NULL, err);
}

static int make_body(struct sender *sender, const struct spool_meta *meta, struct bytes record, struct buffer *own,
		     struct bytes *ret, enum net_gzip *ret_gzip, struct error *err)
{
	bool series = sender->target->kind == EXPORT_PYROSCOPE || sender->target->kind == EXPORT_PARCA;
	int r = set_tenant(sender, meta, err);
	if (r == 0)
		r = set_loss_report(sender, err);
	if (r < 0)
		return r;
	if (!series)
		return otlp_body(sender, meta->tenant, record, own, ret, ret_gzip, err);
	r = series_body(sender, meta->tenant, record, own, err);
	*ret = buffer_bytes(own);
	*ret_gzip = NET_PLAIN; /* the profiles in it are packed each for itself */
	return r;
}

static int request(struct sender *sender, struct bytes body, enum net_gzip gzip, struct net_client_response *response,
		   struct error *err)
{
	struct net_client *client = sender->client;
	switch (sender->by_grpc ? EXPORT_OTLP_GRPC : sender->target->kind) {
	case EXPORT_WICK: /* as what else an agent says to its server, on the same connection */
	case EXPORT_OTLP_HTTP:
		return net_client_request(client, "POST", OTLP_HTTP_PATH, "application/x-protobuf", body, gzip, response, err);
	case EXPORT_PYROSCOPE:
		return net_client_request(client, "POST", PYROSCOPE_PATH, "application/proto", body, gzip, response, err);
	case EXPORT_PARCA: return net_client_grpc(client, PARCA_PATH, &body, 1, gzip, NULL, NULL, response, err);
	default: return net_client_grpc(client, OTLP_GRPC_PATH, &body, 1, gzip, NULL, NULL, response, err);
	}
}

/* What is behind the address of a Wick server may be any collector of OTLP, whose usual port speaks gRPC: no HTTP/1.1, or
 * nothing at that path. */
static bool may_be_collector(const struct sender *sender, int r, const struct net_client_response *response)
{
	int status = response->status;
	if (sender->target->kind != EXPORT_WICK || sender->has_http || sender->by_grpc)
		return false;
	if (r < 0)
		return r == -EPROTO || r == -ECONNRESET || r == -ECONNABORTED;
	return status == 404 || status == 405 || status == 415 || status == 426 || status == 505 ||
	       (status / 100 == 2 && !is_otlp(response));
}

/* One that takes the record is asked by gRPC from now on; of any other the answer stays what it was. */
static int request_of_either(struct sender *sender, struct bytes body, enum net_gzip gzip, struct net_client_response *response,
			     struct error *err)
{
	int r = request(sender, body, gzip, response, err);
	if (!may_be_collector(sender, r, response))
		return r;
	struct net_client_response other = {0};
	sender->by_grpc = true;
	sender->by_grpc = request(sender, body, gzip, &other, NULL) == 0 && other.grpc_status == GRPC_OK;
	if (sender->by_grpc) {
		struct net_client_response before = *response;
		*response = other;
		other = before;
		r = 0;
	}
	net_client_response_release(&other);
	return r;
}

void sender_attempt(struct sender *sender, const struct spool_meta *meta, struct bytes record, struct attempt *ret)
{
	struct error err = {0};
	struct bytes body;
	enum net_gzip gzip;
	enum export_kind kind = sender->target->kind;
	_cleanup_(buffer_release) struct buffer own = {.max = LIMIT_PROFILE_INPUT_BYTES};
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	*ret = (struct attempt){.verdict = TRY_AGAIN};
	int r = make_body(sender, meta, record, &own, &body, &gzip, &err);
	if (r < 0) {
		ret->verdict = r == -ENOMEM || r == -ECANCELED ? TRY_AGAIN : REFUSED;
		snprintf(ret->why, sizeof(ret->why), "it cannot be converted: %.400s", err.message);
		return;
	}
	if (body.len == 0 && kind != EXPORT_WICK) {
		ret->verdict = DELIVERED; /* nothing in it for this target */
		return;
	}
	r = request_of_either(sender, body, gzip, &response, &err);
	if (r < 0) {
		ret->verdict = r == -EINVAL ? REFUSED : TRY_AGAIN;
		snprintf(ret->why, sizeof(ret->why), "%s", err.message);
		return;
	}
	if (sender->by_grpc || kind == EXPORT_OTLP_GRPC || kind == EXPORT_PARCA)
		classify_grpc(&response, ret);
	else
		classify_http(&response, ret);
	if (kind == EXPORT_WICK && !sender->by_grpc)
		check_server(sender, &response, ret);
	ret->wait_ns = response.retry_after_ns;
	if (ret->verdict == DELIVERED && (kind == EXPORT_OTLP_HTTP || kind == EXPORT_OTLP_GRPC || kind == EXPORT_WICK))
		read_partial_success(&response, ret);
}
