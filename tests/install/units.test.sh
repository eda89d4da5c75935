#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The units as systemd starts them: systemd is process 1 of name spaces of its own, on a copy of this system's files (an overlay), with the program that was built.
# Server and agent run as their users with what they may, and the agent's samples have names of kernel functions.
. tests/lib.inc
[ "$(id -u)" -eq 0 ] || {
	skip "units under systemd" "not root"
	finish
}
init=/lib/systemd/systemd
[ -x "$init" ] || {
	skip "units under systemd" "systemd is not installed"
	finish
}
need_sampling "units under systemd"
system=$work/system
mkdir -p "$system/upper" "$system/work" "$system/root" "$system/out"
# Becomes process 1, which must not be in a chroot: user name spaces (PrivateUsers=) cannot be made there.
cat >"$work/boot" <<'END'
set -e
root=$1/root wick=$2
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
[ ! -d "$root/sys/fs/cgroup" ] || mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
chmod 1777 "$root/tmp"
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do mknod -m 666 "$root/dev/${node%%:*}" c $(echo "${node#*:}" | tr : ' '); done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue" "$root/dev/hugepages" "$root/tmp/out" "$root/oldroot" 2>/dev/null || mkdir -p "$root/tmp/out" "$root/oldroot"
mount -t devpts devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t mqueue mqueue "$root/dev/mqueue"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
: >"$root/dev/console"
install -m 755 "$wick" "$root/usr/bin/wick"
rm -rf "$root"/etc/systemd/system "$root/etc/default/wick-agent" "$root/etc/default/wick-server"
units=$root/etc/systemd/system
mkdir -p "$units" "$root/etc/default"
cp packaging/*.service "$units/"
cp packaging/wick.sysusers "$root/usr/lib/sysusers.d/wick.conf"
chroot "$root" systemd-sysusers wick.conf
echo 'OPTIONS=--server http://127.0.0.1:7070' >"$root/etc/default/wick-agent"
for unit in wick-agent wick-server; do
	mkdir "$units/$unit.service.d"
	printf '[Unit]\nDefaultDependencies=no\n[Service]\nStandardError=append:/tmp/out/%s.log\n' "$unit" >"$units/$unit.service.d/test.conf"
done
printf '[Unit]\nDefaultDependencies=no\nRequires=wick-server.service wick-agent.service look.service\n' >"$units/test.target"
printf '[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sh /tmp/out/look\n' >"$units/look.service"
mount --bind "$1/out" "$root/tmp/out"
cd "$root"
pivot_root . oldroot
cd /
umount -l /oldroot
exec /lib/systemd/systemd --system --unit=test.target --log-target=null --show-status=no
END
# Inside, until both have been seen to work, or for two minutes.
cat >"$system/out/look" <<'END'
cd /tmp/out
for _ in $(seq 120); do
	wick query process_cpu --url http://127.0.0.1:7070 --format folded -o folded 2>/dev/null
	! grep -q ';schedule' folded || break
	sleep 1
done
for unit in wick-agent wick-server; do
	systemctl is-active $unit >$unit.active
	cat "/proc/$(systemctl show -P MainPID $unit)/status" >$unit.status
done
id -u wick >wick-server.uid
id -u wick-agent >wick-agent.uid
: >done
END
launch unshare --mount --pid --cgroup --net --fork --kill-child sh -c 'ip link set lo up; exec sh "$@"' sh "$work/boot" "$system" "$WICK" >"$work/boot.log" 2>&1
booted=$!
came() { [ -e "$system/out/done" ] || ! kill -0 $booted 2>/dev/null; }
wait_for came
command kill -9 $booted 2>/dev/null
if [ ! -e "$system/out/done" ] && [ ! -e "$system/out/wick-server.log" ]; then
	skip "units under systemd" "systemd does not start in name spaces here: $(tail -n 1 "$work/boot.log")"
	finish
fi
field() { sed -n "s/^$2:[[:space:]]*\([^[:space:]]*\).*/\1/p" "$system/out/$1.status"; }
for unit in wick-server wick-agent; do
	check "$unit is active" grep -qx active "$system/out/$unit.active"
	check "$unit runs as its user" test "$(field $unit Uid)" = "$(cat "$system/out/$unit.uid")"
	check "$unit: no program gives it more" test "$(field $unit NoNewPrivs)" = 1
	check "$unit: system calls are filtered" test "$(field $unit Seccomp)" = 2
	check "$unit has nothing to complain about" sh -c '! grep -E " (warning|error) " "$0" | grep -v "cannot send to"' "$system/out/$unit.log"
done
check "the server has no capability" test "$(field wick-server CapPrm)" = 0000000000000000
check "the agent has six" test "$(field wick-agent CapPrm)" = 000001c400080004
check "samples arrive, with names of kernel functions" grep -q ';schedule' "$system/out/folded"
finish
