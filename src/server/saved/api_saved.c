/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved queries over HTTP: saved.c has what they are.
 *
 *   GET    /api/v1/queries          all
 *   GET    /api/v1/queries/NAME     one; format=yaml: its file
 *   PUT    /api/v1/queries/NAME     keeps the body, which is such a file
 *   DELETE /api/v1/queries/NAME
 *
 * They are run by the calls that run queries, with the parameter `saved` in place of a text: src/server/api.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "codec/json.h"
#include "server/core/server_int.h"
#include "server/http/access.h"
#include "server/saved/routes.h"

int saved_places_of(const struct server *server, const struct tenant *tenant, char own[static PATH_MAX],
		    struct saved_places *ret, struct error *err)
{
	const char *directory = server->options.queries_directory;
	*ret = (struct saved_places){.own = own, .directory = directory && *directory ? directory : NULL};
	return tenant_path(server, tenant, SAVED_DIRECTORY, own, PATH_MAX, err);
}

static void write_parameter(const struct saved_parameter *parameter, struct json_writer *json)
{
	json_begin_object(json);
	json_member_cstring(json, "name", parameter->name);
	json_member_cstring(json, "title", parameter->title);
	json_member_cstring(json, "type", saved_type_name(parameter->type));
	if (parameter->label)
		json_member_cstring(json, "label", parameter->label);
	if (parameter->fallback)
		json_member_cstring(json, "default", parameter->fallback);
	if (parameter->choice_count) {
		json_member_array(json, "choices");
		for (size_t i = 0; i < parameter->choice_count; i++)
			json_cstring(json, parameter->choices[i]);
		json_end_array(json);
	}
	json_end_object(json);
}

/* query: NULL = its file is wrong, for the reason in `fault`. */
static void write_query(const char *name, enum saved_origin origin, const struct saved_query *query, const char *fault,
			struct json_writer *json)
{
	json_begin_object(json);
	json_member_cstring(json, "name", name);
	json_member_cstring(json, "origin", saved_origin_name(origin));
	if (!query) {
		json_member_cstring(json, "error", fault);
	} else {
		json_member_cstring(json, "title", query->title);
		json_member_cstring(json, "description", query->description);
		if (query->range)
			json_member_cstring(json, "range", query->range);
		json_member_cstring(json, "query", query->text);
		json_member_array(json, "parameters");
		for (size_t i = 0; i < query->parameter_count; i++)
			write_parameter(&query->parameters[i], json);
		json_end_array(json);
	}
	json_end_object(json);
}

/* ---- reading ---- */

struct listing {
	const struct saved_places *places;
	struct json_writer json;
	struct error *err;
};

/* A file that is wrong is listed with what is wrong; one that has gone since is not. */
static int write_one(const struct saved_places *places, const char *name, struct json_writer *json, struct error *err)
{
	_cleanup_(saved_query_freep) struct saved_query *query = NULL;
	struct error why = {0};
	enum saved_origin origin = SAVED_BUILT_IN;
	int r = saved_open(places, name, &origin, &query, &why);
	if (r == -ENOENT || r == -ENOMEM)
		return error_set(err, r, "%s", why.message);
	write_query(name, origin, query, why.message, json);
	return 0;
}

static int list_one(void *context, const char *name)
{
	struct listing *listing = context;
	int r = write_one(listing->places, name, &listing->json, listing->err);
	return r == -ENOENT ? 0 : r;
}

static int write_list(const struct saved_places *places, struct buffer *out, struct error *err)
{
	struct listing listing = {.places = places, .json = {.out = out}, .err = err};
	json_begin_object(&listing.json);
	json_member_array(&listing.json, "queries");
	int r = saved_list(places, list_one, &listing, err);
	json_end_array(&listing.json);
	json_end_object(&listing.json);
	return r < 0 ? r : json_finish(&listing.json, err);
}

static int show(const struct saved_places *places, const char *name, const struct net_request *request,
		struct net_response *response, struct error *err)
{
	const char *format = net_request_query(request, "format");
	enum saved_origin origin;
	if (!format || strcmp(format, "json") == 0) {
		struct json_writer json = {.out = &response->body};
		int r = write_one(places, name, &json, err);
		return r < 0 ? r : json_finish(&json, err);
	}
	if (strcmp(format, "yaml") != 0)
		return error_set(err, -EINVAL, "parameter 'format': '%.40s' is not one of json, yaml", format);
	response->content_type = "application/yaml";
	return saved_find(places, name, &response->body, &origin, err);
}

/* ---- requests ---- */

struct place {
	struct saved_places places;
	char own[PATH_MAX];
	const char *name; /* NULL for the list */
};

static int find_place(void *context, const struct net_request *request, bool change, struct place *ret, struct error *err)
{
	struct tenant *tenant;
	const char *path = net_request_path(request);
	int r = change ? access_may_change(context, request, err) : 0;
	if (!r)
		r = tenant_of_request(context, request, false, &tenant, err);
	if (!r)
		r = saved_places_of(context, tenant, ret->own, &ret->places, err);
	ret->name = path[strlen(SAVED_PATH)] ? path + strlen(SAVED_PATH "/") : NULL;
	return r;
}

static void respond(struct net_response *response, int r, const struct error *err)
{
	if (r < 0)
		respond_error(response, r == -EINVAL ? 400 : r == -EDQUOT ? 409 : http_status_of(r), err->message);
}

void api_saved_list(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct place place;
	int r = find_place(context, request, false, &place, &err);
	respond(response, r < 0 ? r : write_list(&place.places, &response->body, &err), &err);
}

void api_saved_show(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct place place;
	int r = find_place(context, request, false, &place, &err);
	respond(response, r < 0 ? r : show(&place.places, place.name, request, response, &err), &err);
}

void api_saved_put(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct place place;
	struct json_writer json = {.out = &response->body};
	int r = find_place(context, request, true, &place, &err);
	if (!r)
		r = saved_put(&place.places, place.name, net_request_body(request), &err);
	if (!r)
		r = write_one(&place.places, place.name, &json, &err);
	respond(response, r < 0 ? r : json_finish(&json, &err), &err);
}

void api_saved_remove(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct place place;
	int r = find_place(context, request, true, &place, &err);
	if (!r)
		r = saved_remove(&place.places, place.name, &err);
	if (!r && buffer_append_string(&response->body, "{}") < 0)
		r = error_nomem(&err);
	respond(response, r, &err);
}
