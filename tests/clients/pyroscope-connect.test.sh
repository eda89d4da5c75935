#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pyroscope's own client stubs on connect-go, which Grafana's data source is made of: all calls, over all protocols that connect-go has.
. tests/clients/clients.inc
client_go pyroscope-connect 1.25
repository=$work/git/acme/shop
mkdir -p "$repository"
echo 'package main' >"$repository/main.go"
check "a repository" sh -c 'cd "$1" && git init -q && git add -A && git -c user.name=a -c user.email=a@example.org commit -qm First' sh "$repository"
echo "vcs: {directory: $work/git}" >"$work/wick.yml"
client_server --config "$work/wick.yml"
"$program" "$url" https://git.example.org/acme/shop >"$work/calls.log" 2>&1
status=$?
while read -r line; do
	case $line in
	"ok "*) pass "${line#ok }" ;;
	"FAILED "*) fail "${line#FAILED }" ;;
	esac
done <"$work/calls.log"
check "all calls were made" test "$(grep -c '^ok ' "$work/calls.log") $status" = "80 0"
check_nothing_refused
finish
