/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parca.profilestore.v1alpha1.ProfileStoreService (github.com/parca-dev/parca,
 * proto/parca/profilestore/v1alpha1/profilestore.proto), by which Parca's agents and others send profiles:
 *
 *   WriteRaw  1 tenant (not used)  2 series[] { 1 labels { 1 labels[] { 1 name  2 value } }
 *                                              2 samples[] { 1 raw_profile  2 executable_info } }
 *             3 normalized  ->  (empty)
 *   WriteArrow  1 ipc_buffer  ->  (empty)
 *   Write (stream both ways)  1 record, twice  ->  1 record
 *
 * Arrow records are described in format/parca_arrow.c; Write is in parca/write.c. A series of WriteRaw is as Pyroscope's push
 * has it (pyroscope/push.c), with its labels in a message of their own. normalized: addresses are those of the files as they
 * were linked, so where a file was mapped does not matter.
 */

#include "codec/protobuf.h"
#include "format/parca_arrow.h"
#include "server/http/rpc.h"
#include "server/ingest/ingest_int.h"

static const struct pb_json_message label =
	PB_JSON_MESSAGE_OF("Label", {"name", 1, PB_JSON_STRING}, {"value", 2, PB_JSON_STRING});
static const struct pb_json_message label_set =
	PB_JSON_MESSAGE_OF("LabelSet", {"labels", 1, PB_JSON_MESSAGE, .repeated = true, .message = &label});
static const struct pb_json_message raw_sample = PB_JSON_MESSAGE_OF("RawSample", {"rawProfile", 1, PB_JSON_BYTES});
static const struct pb_json_message raw_series =
	PB_JSON_MESSAGE_OF("RawProfileSeries", {"labels", 1, PB_JSON_MESSAGE, .message = &label_set},
			   {"samples", 2, PB_JSON_MESSAGE, .repeated = true, .message = &raw_sample});
static const struct pb_json_message write_request =
	PB_JSON_MESSAGE_OF("WriteRawRequest", {"series", 2, PB_JSON_MESSAGE, .repeated = true, .message = &raw_series},
			   {"normalized", 3, PB_JSON_BOOL});
static const struct pb_json_message write_answer = {"WriteRawResponse", NULL, 0};

static int write_raw(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	struct raw_series form = {.field = 2, .what = "WriteRawRequest.series", .label_sets = true};
	struct pb_field field;
	struct pb_cursor cursor = pb_open(request);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0)
		if (field.number == 3 && field.wire == PB_VARINT)
			form.normalized = field.value != 0;
	return r < 0 ? r : ingest_raw_series(&form, call, request, err);
}

static const struct pb_json_message arrow_request = PB_JSON_MESSAGE_OF("WriteArrowRequest", {"ipcBuffer", 1, PB_JSON_BYTES});
static const struct pb_json_message arrow_answer = {"WriteArrowResponse", NULL, 0};

static int store_records(struct ingest *ingest, struct bytes samples, struct bytes locations, struct error *err)
{
	_cleanup_(parca_profiles_release) struct parca_profiles profiles = {0};
	parca_profiles_init(&profiles);
	int r = parca_arrow_decode(samples, locations, server_body_max(ingest->server), &profiles, err);
	for (size_t i = 0; i < profiles.count && !r; i++) {
		const struct parca_profile *item = &profiles.items[i];
		r = ingest_name_services(item->profile, err);
		if (!r)
			r = ingest_store_counted(ingest, item->profile, *item->name ? item->name : NULL, NULL, i, err);
	}
	return ingest_finish_all(ingest, r, "Arrow record", err);
}

int ingest_parca_arrow(struct server *server, const struct net_request *request, struct bytes samples, struct bytes locations,
		       struct net_response *response, struct error *err)
{
	struct ingest ingest;
	int r = ingest_begin(&ingest, server, request, samples, err);
	if (!r)
		r = store_records(&ingest, samples, locations, err);
	ingest_count(&ingest, r);
	if (r < 0)
		refusal_headers(response, r, &ingest.note);
	else
		ingest_warn(&ingest, response);
	return r;
}

static int write_arrow(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	struct bytes record;
	int r = pb_find_bytes(NULL, request, 1, &record, err);
	return r < 0 ? r : ingest_parca_arrow(call->server, call->request, record, (struct bytes){0}, call->response, err);
}

const struct rpc_method rpc_parca_profiles[] = {
	{INGEST_ARROW_PATH, PERMIT_WRITE, &arrow_request, &arrow_answer, write_arrow, 0},
	{INGEST_PARCA_PATH, PERMIT_WRITE, &write_request, &write_answer, write_raw, 0},
	{0},
};
