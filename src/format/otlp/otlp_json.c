/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP profiles as JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): protobuf's mapping, except that ids are
 * hexadecimal. JSON has names where the wire has numbers, so the two layouts that otlp_decode.c distinguishes are one here: it
 * becomes a message of the newer one. Names that fields had before 1.9 are taken too ("sample", "line").
 *
 * The collector's file exporter writes a request a line. Requests that take several lines are distinguished from those by how
 * lines begin: only a request of its own begins with a brace at the very left.
 */
#include <string.h>

#include "codec/json_tree.h"
#include "codec/protobuf_json.h"
#include "format/otlp/otlp_int.h"

#define COUNT(array)			(sizeof(array) / sizeof((array)[0]))
#define MESSAGE(variable, label, table) static const struct pb_json_message variable = {label, table, COUNT(table)}

static const struct pb_json_message any_value;
static const struct pb_json_field key_value_fields[] = {
	{.name = "key", .number = 1, .kind = PB_JSON_STRING},
	{.name = "value", .number = 2, .kind = PB_JSON_MESSAGE, .message = &any_value},
	{.name = "keyStrindex", .number = 3, .kind = PB_JSON_INT32},
};
MESSAGE(key_value, "KeyValue", key_value_fields);
static const struct pb_json_field array_fields[] = {
	{.name = "values", .number = 1, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &any_value},
};
MESSAGE(array_value, "ArrayValue", array_fields);
static const struct pb_json_field list_fields[] = {
	{.name = "values", .number = 1, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &key_value},
};
MESSAGE(key_value_list, "KeyValueList", list_fields);
static const struct pb_json_field any_fields[] = {
	{.name = "stringValue", .number = 1, .kind = PB_JSON_STRING},
	{.name = "boolValue", .number = 2, .kind = PB_JSON_BOOL},
	{.name = "intValue", .number = 3, .kind = PB_JSON_INT64},
	{.name = "doubleValue", .number = 4, .kind = PB_JSON_DOUBLE},
	{.name = "arrayValue", .number = 5, .kind = PB_JSON_MESSAGE, .message = &array_value},
	{.name = "kvlistValue", .number = 6, .kind = PB_JSON_MESSAGE, .message = &key_value_list},
	{.name = "bytesValue", .number = 7, .kind = PB_JSON_BYTES},
	{.name = "stringValueStrindex", .number = 8, .kind = PB_JSON_INT32},
};
static const struct pb_json_message any_value = {"AnyValue", any_fields, COUNT(any_fields)};
static const struct pb_json_field entity_fields[] = {
	{.name = "schemaUrl", .number = 1, .kind = PB_JSON_STRING},
	{.name = "type", .number = 2, .kind = PB_JSON_STRING},
	{.name = "idKeys", .number = 3, .kind = PB_JSON_STRING, .repeated = true},
	{.name = "descriptionKeys", .number = 4, .kind = PB_JSON_STRING, .repeated = true},
};
MESSAGE(entity_ref, "EntityRef", entity_fields);
static const struct pb_json_field resource_fields[] = {
	{.name = "attributes", .number = 1, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &key_value},
	{.name = "entityRefs", .number = 3, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &entity_ref},
};
MESSAGE(resource, "Resource", resource_fields);

static const struct pb_json_field value_type_fields[] = {
	{.name = "typeStrindex", .number = 1, .kind = PB_JSON_INT32},
	{.name = "unitStrindex", .number = 2, .kind = PB_JSON_INT32},
};
MESSAGE(value_type, "ValueType", value_type_fields);
static const struct pb_json_field sample_fields[] = {
	{.name = "stackIndex", .number = 1, .kind = PB_JSON_INT32},
	{.name = "attributeIndices", .number = 2, .kind = PB_JSON_INT32, .repeated = true},
	{.name = "linkIndex", .number = 3, .kind = PB_JSON_INT32},
	{.name = "values", .number = 4, .kind = PB_JSON_INT64, .repeated = true},
	{.name = "timestampsUnixNano", .number = 5, .kind = PB_JSON_FIXED64, .repeated = true},
};
MESSAGE(sample, "Sample", sample_fields);
static const struct pb_json_field profile_fields[] = {
	{.name = "sampleType", .number = 1, .kind = PB_JSON_MESSAGE, .message = &value_type},
	{.name = "samples", .number = 2, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &sample},
	{.name = "sample", .number = 2, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &sample},
	{.name = "timeUnixNano", .number = 3, .kind = PB_JSON_FIXED64},
	{.name = "durationNano", .number = 4, .kind = PB_JSON_UINT64},
	{.name = "periodType", .number = 5, .kind = PB_JSON_MESSAGE, .message = &value_type},
	{.name = "period", .number = 6, .kind = PB_JSON_INT64},
	{.name = "attributeIndices", .number = 11, .kind = PB_JSON_INT32, .repeated = true},
};
MESSAGE(profile, "Profile", profile_fields);
static const struct pb_json_field scope_fields[] = {
	{.name = "profiles", .number = 2, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &profile},
};
MESSAGE(scope_profiles, "ScopeProfiles", scope_fields);
static const struct pb_json_field resource_profiles_fields[] = {
	{.name = "resource", .number = 1, .kind = PB_JSON_MESSAGE, .message = &resource},
	{.name = "scopeProfiles", .number = 2, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &scope_profiles},
};
MESSAGE(resource_profiles, "ResourceProfiles", resource_profiles_fields);

static const struct pb_json_field mapping_fields[] = {
	{.name = "memoryStart", .number = 1, .kind = PB_JSON_UINT64},
	{.name = "memoryLimit", .number = 2, .kind = PB_JSON_UINT64},
	{.name = "fileOffset", .number = 3, .kind = PB_JSON_UINT64},
	{.name = "filenameStrindex", .number = 4, .kind = PB_JSON_INT32},
	{.name = "attributeIndices", .number = 5, .kind = PB_JSON_INT32, .repeated = true},
};
MESSAGE(mapping, "Mapping", mapping_fields);
static const struct pb_json_field line_fields[] = {
	{.name = "functionIndex", .number = 1, .kind = PB_JSON_INT32},
	{.name = "line", .number = 2, .kind = PB_JSON_INT64},
	{.name = "column", .number = 3, .kind = PB_JSON_INT64},
};
MESSAGE(line, "Line", line_fields);
static const struct pb_json_field location_fields[] = {
	{.name = "mappingIndex", .number = 1, .kind = PB_JSON_INT32},
	{.name = "address", .number = 2, .kind = PB_JSON_UINT64},
	{.name = "lines", .number = 3, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &line},
	{.name = "line", .number = 3, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &line},
	{.name = "attributeIndices", .number = 4, .kind = PB_JSON_INT32, .repeated = true},
};
MESSAGE(location, "Location", location_fields);
static const struct pb_json_field function_fields[] = {
	{.name = "nameStrindex", .number = 1, .kind = PB_JSON_INT32},
	{.name = "systemNameStrindex", .number = 2, .kind = PB_JSON_INT32},
	{.name = "filenameStrindex", .number = 3, .kind = PB_JSON_INT32},
	{.name = "startLine", .number = 4, .kind = PB_JSON_INT64},
};
MESSAGE(function, "Function", function_fields);
static const struct pb_json_field link_fields[] = {
	{.name = "traceId", .number = 1, .kind = PB_JSON_HEX},
	{.name = "spanId", .number = 2, .kind = PB_JSON_HEX},
};
MESSAGE(link, "Link", link_fields);
static const struct pb_json_field attribute_fields[] = {
	{.name = "keyStrindex", .number = 1, .kind = PB_JSON_INT32},
	{.name = "value", .number = 2, .kind = PB_JSON_MESSAGE, .message = &any_value},
	{.name = "unitStrindex", .number = 3, .kind = PB_JSON_INT32},
};
MESSAGE(attribute, "KeyValueAndUnit", attribute_fields);
static const struct pb_json_field stack_fields[] = {
	{.name = "locationIndices", .number = 1, .kind = PB_JSON_INT32, .repeated = true},
};
MESSAGE(stack, "Stack", stack_fields);
static const struct pb_json_field dictionary_fields[] = {
	{.name = "mappingTable", .number = 1, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &mapping},
	{.name = "locationTable", .number = 2, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &location},
	{.name = "functionTable", .number = 3, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &function},
	{.name = "linkTable", .number = 4, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &link},
	{.name = "stringTable", .number = 5, .kind = PB_JSON_STRING, .repeated = true},
	{.name = "attributeTable", .number = 6, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &attribute},
	{.name = "stackTable", .number = 7, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &stack},
};
MESSAGE(dictionary, "ProfilesDictionary", dictionary_fields);
static const struct pb_json_field request_fields[] = {
	{.name = "resourceProfiles", .number = 1, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &resource_profiles},
	{.name = "dictionary", .number = 2, .kind = PB_JSON_MESSAGE, .message = &dictionary},
};
MESSAGE(request_message, "ExportProfilesServiceRequest", request_fields);

static const struct pb_json_field partial_fields[] = {
	{.name = "rejectedProfiles", .number = 1, .kind = PB_JSON_INT64},
	{.name = "errorMessage", .number = 2, .kind = PB_JSON_STRING},
};
MESSAGE(partial_success, "ExportProfilesPartialSuccess", partial_fields);
static const struct pb_json_field response_fields[] = {
	{.name = "partialSuccess", .number = 1, .kind = PB_JSON_MESSAGE, .message = &partial_success},
};
MESSAGE(response_message, "ExportProfilesServiceResponse", response_fields);

int otlp_json_to_binary(struct bytes json, struct buffer *out, struct error *err)
{
	return pb_json_to_binary(json, &request_message, out, err);
}

int otlp_json_from_response(struct bytes response, struct buffer *out, struct error *err)
{
	return pb_json_from_binary(response, &response_message, out, err);
}

bool otlp_json_detect(struct bytes input)
{
	static const char *const names[] = {"\"resourceProfiles\"", "\"resource_profiles\"", "\"dictionary\""};
	size_t at = json_skip_spaces(input, 0);
	if (at == input.len || input.data[at] != '{')
		return false;
	at = json_skip_spaces(input, at + 1);
	for (size_t i = 0; i < COUNT(names); i++) {
		size_t len = strlen(names[i]);
		if (input.len - at >= len && memcmp(input.data + at, names[i], len) == 0)
			return true;
	}
	return false;
}

struct bytes otlp_json_next(struct bytes *rest)
{
	size_t from = json_skip_spaces(*rest, 0), at = from;
	while (at < rest->len) {
		const uint8_t *end = memchr(rest->data + at, '\n', rest->len - at);
		at = end ? (size_t)(end - rest->data) + 1 : rest->len;
		if (at < rest->len && rest->data[at] == '{')
			break;
	}
	struct bytes request = {rest->data + from, at - from};
	*rest = (struct bytes){rest->data + at, rest->len - at};
	return request;
}
