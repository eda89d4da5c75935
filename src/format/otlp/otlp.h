/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry profiles (opentelemetry.proto.profiles.v1development): ProfilesData, and the collector's
 * ExportProfilesServiceRequest, which has the same field numbers. Decodes the 1.8/1.9 and the >= 1.10 layouts, encodes 1.10.
 *
 * One request holds many profiles (resource x scope x profile); each becomes one struct profile whose resource_labels are the
 * resource's attributes and whose samples' label sets are the sample attributes. Attribute keys keep their dots (process.pid);
 * labels_of_sample() makes series label names of them. Profiles of process_stats (profile/type.h), which have a column each,
 * are put together into one.
 */
#ifndef WICK_FORMAT_OTLP_OTLP_H
#define WICK_FORMAT_OTLP_OTLP_H

#include "format/format.h"

/* Begins as zeroes. */
struct otlp_request {
	struct profile **profiles; /* owned */
	size_t count, capacity;
	/* Of the dictionary's tables, by field number, those whose entry 0, which is reserved for the zero value, has fields;
	 * and of these, those where they are not all zero. Essay at the top of otlp_dictionary.c. */
	unsigned odd_tables, filled_tables;
};
/* "link_table, location_table": the names of such tables, cut at the size of `out`. */
#define OTLP_TABLES_TEXT_MAX 128
const char *otlp_table_list(unsigned tables, char out[static OTLP_TABLES_TEXT_MAX]);
void otlp_request_release(struct otlp_request *request);
/* The input may be empty of profiles (count 0). All or nothing: one malformed profile refuses the request. */
int otlp_decode(struct bytes input, const struct format_options *options, struct otlp_request *ret, struct error *err);
/* Several profiles with one shared dictionary. */
int otlp_encode(const struct profile *const *profiles, size_t count, struct buffer *out, struct error *err);
/* ExportProfilesServiceResponse: empty when rejected is 0 and there is no message. And the collector's answer as seen by the
 * agent. */
int otlp_encode_response(uint64_t rejected_profiles, const char *message, struct buffer *out, struct error *err);
int otlp_decode_response(struct bytes input, uint64_t *ret_rejected, struct buffer *ret_message, struct error *err);

/* The same in JSON. A request becomes the protobuf that otlp_decode() takes; -EBADMSG names the member. */
int otlp_json_to_binary(struct bytes json, struct buffer *out, struct error *err);
/* What otlp_encode_response() wrote, as JSON. */
int otlp_json_from_response(struct bytes response, struct buffer *out, struct error *err);

#endif
