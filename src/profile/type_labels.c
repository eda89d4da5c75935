/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/type_labels.h"

#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"

static const char *const type_label_names[TYPE_LABEL_COUNT] = {NULL,	   "__profile_type__", "__name__",	 "__type__",
							       "__unit__", "__period_type__",  "__period_unit__"};

enum type_label type_label_of(const char *name)
{
	enum type_label label = TYPE_LABEL_COUNT;
	while (--label > TYPE_LABEL_NONE && strcmp(type_label_names[label], name) != 0)
		;
	return label;
}

const char *type_label_name(enum type_label label)
{
	return type_label_names[label];
}

const char *type_label_value(enum type_label label, const struct profile_type *type, char out[static PROFILE_TYPE_TEXT_MAX])
{
	struct profile_type plain = *type;
	plain.delta = false;
	switch (label) {
	case TYPE_LABEL_PROFILE_TYPE: return profile_type_format(&plain, out);
	case TYPE_LABEL_NAME: return type->name;
	case TYPE_LABEL_TYPE: return type->sample_type;
	case TYPE_LABEL_UNIT: return type->sample_unit;
	case TYPE_LABEL_PERIOD_TYPE: return type->period_type;
	case TYPE_LABEL_PERIOD_UNIT: return type->period_unit;
	default: return NULL;
	}
}

size_t type_label_texts(enum type_label label, const struct profile_type *type, const char *ret[static TYPE_LABEL_TEXTS_MAX],
			char room[static 2][PROFILE_TYPE_TEXT_MAX])
{
	size_t count = 0;
	ret[count++] = type_label_value(label, type, room[0]);
	if (label == TYPE_LABEL_NAME)
		ret[count++] = type_label_value(TYPE_LABEL_PROFILE_TYPE, type, room[0]);
	if (label == TYPE_LABEL_NAME || label == TYPE_LABEL_PROFILE_TYPE)
		ret[count++] = profile_type_format(type, room[1]);
	return count;
}

int series_key(const struct profile_type *type, const struct labels *labels, uint64_t *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	char id[PROFILE_TYPE_TEXT_MAX];
	struct profile_type plain = *type;
	plain.delta = false;
	profile_type_format(&plain, id);
	buffer_append(&text, id, strlen(id) + 1);
	for (size_t i = 0; i < labels->count; i++) {
		const struct label *label = &labels->items[i];
		if (type_label_of(label->name) != TYPE_LABEL_NONE)
			continue;
		buffer_append(&text, label->name, strlen(label->name) + 1);
		buffer_append(&text, label->value, strlen(label->value) + 1);
	}
	if (buffer_status(&text) < 0)
		return error_nomem(err);
	*ret = hash64(text.data, text.len);
	return 0;
}
