/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet reading: open, then decode every column of every row group, within 16 MiB a call. */
#include "codec/parquet.h"

#define GROUPS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct parquet_read_options options = {.memory_max = 16 * 1024 * 1024};
	struct parquet_file *file = NULL;
	struct parquet_data column;
	if (parquet_open_bytes((struct bytes){data, size}, "input", &options, &file, NULL) < 0)
		return 0;
	parquet_data_init(&column);
	for (size_t g = 0; g < parquet_group_count(file) && g < GROUPS_MAX; g++) {
		for (size_t c = 0; c < parquet_column_count(file) && c < GROUPS_MAX; c++) {
			int64_t min, max;
			parquet_chunk_range(file, g, c, &min, &max);
			if (parquet_read(file, g, c, &column, NULL) < 0)
				continue;
			/* Touch what was promised. */
			volatile uint8_t sum = 0;
			for (size_t i = 0; i < column.count; i++) {
				if (column.present)
					sum ^= column.present[i];
				if (column.type == PARQUET_BYTE_ARRAY && column.bytes[i].len)
					sum ^= column.bytes[i].data[column.bytes[i].len - 1];
			}
			(void)sum;
		}
	}
	parquet_data_release(&column);
	parquet_close(file);
	return 0;
}
