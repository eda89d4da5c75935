// SPDX-License-Identifier: Apache-2.0
#include "base/cleanup.h"

#include <string.h>

#include "base/alloc.h"
#include "base/io.h"

void fd_closep(int *fd)
{
	*fd = io_close(*fd);
}

void dir_closep(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

void file_closep(FILE **file)
{
	if (*file)
		fclose(*file);
}

void mem_freep(void *pointer_to_pointer)
{
	/* Copied because the variable's type is any pointer, not void pointer. */
	void *pointer;
	memcpy(&pointer, pointer_to_pointer, sizeof(pointer));
	mem_free(pointer);
}
