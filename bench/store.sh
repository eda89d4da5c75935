#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The store on a fleet of 100 hosts (bench/fleet): ingest, bytes, memory, restart, and the latency of queries beside DuckDB on the same Parquet files
# and ClickHouse on the same rows. The figures are made by bench/store/main.mjs; this makes the data, once, and keeps it in $O/fleet-*.
#
#   ./dev bench store [--days N] [--full] [--hosts N] [--load FACTOR] [--fresh] [--no-duckdb] [--no-clickhouse] [--clickhouse-days N]
#
# The default is one day, within ten minutes; --full is 30 days (about 15 GB and an hour).
set -eu
days=1 hosts=100 load=1 fresh= peers=
while [ $# -gt 0 ]; do
	case $1 in
	--full) days=30 ;;
	--days)
		days=$2
		shift
		;;
	--hosts)
		hosts=$2
		shift
		;;
	--load)
		load=$2
		shift
		;;
	--fresh) fresh=1 ;;
	--no-duckdb | --no-clickhouse) peers="$peers $1" ;;
	--clickhouse-days)
		peers="$peers $1 $2"
		shift
		;;
	*)
		echo "bench: store has no option '$1'" >&2
		exit 2
		;;
	esac
	shift
done
profiles=$O/fleet-profiles data=$O/fleet-$hosts-hosts-$days-days-$load
[ -d "$profiles" ] || WICK=$WICK bench/fleet/record "$profiles" || echo "no recorded profiles: stacks are invented"
if [ -n "$fresh" ] || [ ! -e "$data/made" ]; then
	rm -rf "$data"
	# Ends at a full hour of the past, the same in every run. --compact merges as the server would in the time.
	"$O/bench/fleet" --data "$data/store" --profiles "$profiles" --hosts "$hosts" --days "$days" --load "$load" --jobs 2 --compact \
		--start "$(node -e 'console.log(Date.UTC(2026, 9, 31) / 1000 - Number(process.argv[1]) * 86400)' "$days")" | tee "$data.log"
	mv "$data.log" "$data/made"
else
	echo "data made before (--fresh makes it again):"
	cat "$data/made"
fi
(cd tests && [ -d node_modules/@duckdb ] || npm ci --prefer-offline --ignore-scripts --no-audit --no-fund >/dev/null)
# What ranges off the grid of the rollups cost beside those on it, without what HTTP and trees of frames take.
"$O/bench/ranges" "$data/store"
# shellcheck disable=SC2086
exec node bench/store/main.mjs "$data" "$profiles" $peers
