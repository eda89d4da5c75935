// SPDX-License-Identifier: Apache-2.0
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

void fd_closep(int *fd)
{
	int saved_errno = errno;
	/* Not repeated on EINTR: on Linux the descriptor is gone by then and may already be another thread's. */
	if (*fd >= 0)
		close(*fd);
	errno = saved_errno;
	*fd = -1;
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
