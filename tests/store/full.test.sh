#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The server on a small file system that fills up: it refuses with 507 and RESOURCE_EXHAUSTED, goes on answering, recovers by itself when there is room, and loses nothing that it acknowledged.
. tests/lib.inc
disk=$work/disk mounted=
mkdir "$disk"
if [ "$(id -u)" -ne 0 ]; then
	skip "full disk" "not root: no file system can be mounted"
	finish
fi
unmount() {
	[ -z "$mounted" ] || umount "$disk" || umount -l "$disk"
	cleanup
}
trap unmount EXIT
# ext4 reserves blocks late and writes a journal, as the disks of users do; tmpfs is what containers still have.
PATH=$PATH:/usr/sbin:/sbin
if truncate -s 24M "$work/image" && mkfs.ext4 -q -F "$work/image" 2>"$work/why" && mount -o loop "$work/image" "$disk" 2>"$work/why"; then
	mounted=ext4
elif mount -t tmpfs -o size=16m tmpfs "$disk" 2>"$work/why"; then
	mounted=tmpfs
else
	skip "full disk" "cannot mount a small file system: $(head -n 1 "$work/why")"
	finish
fi
echo "on $mounted"
node tests/store/full.mjs "$disk"
status=$?
umount "$disk" && mounted=
exit "$status"
