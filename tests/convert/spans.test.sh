#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --during and --spans of report, convert and open, on a profile whose samples and spans can be counted with the fingers: a sample
# each millisecond of two threads; on the first, a request from 2 to 8 with a parse (category IO) from 3 to 5.
. tests/lib.inc
cat >"$work/p.firefox.json" <<'JSON'
{"meta":{"version":30,"preprocessedProfileVersion":60,"interval":1,"startTime":1700000000000,"processType":0,"product":"p","stackwalk":1,
"categories":[{"name":"Other","color":"grey","subcategories":["Other"]},{"name":"IO","color":"blue","subcategories":["Other"]}],"markerSchema":[]},
"libs":[],"shared":{"stringArray":["one","two","request","parse"],
"frameTable":{"length":2,"address":[-1,-1],"inlineDepth":[0,0],"category":[0,0],"subcategory":[0,0],"func":[0,1],"nativeSymbol":[null,null],"innerWindowID":[0,0],"line":[null,null],"column":[null,null]},
"funcTable":{"length":2,"name":[0,1],"isJS":[false,false],"relevantForJS":[false,false],"resource":[-1,-1],"source":[null,null],"lineNumber":[null,null],"columnNumber":[null,null]},
"stackTable":{"length":2,"frame":[0,1],"prefix":[null,null],"category":[0,0],"subcategory":[0,0]},
"resourceTable":{"length":0,"lib":[],"name":[],"host":[],"type":[]},"nativeSymbols":{"length":0,"address":[],"functionSize":[],"libIndex":[],"name":[]},
"sources":{"length":0,"id":[],"filename":[]}},
"threads":[
{"name":"a","processName":"p","isMainThread":true,"pid":"7","tid":7,"registerTime":0,
 "samples":{"length":10,"stack":[0,0,0,0,0,0,0,0,0,0],"time":[0.5,1.5,2.5,3.5,4.5,5.5,6.5,7.5,8.5,9.5],"weight":null,"weightType":"samples"},
 "markers":{"length":2,"name":[2,3],"startTime":[2,3],"endTime":[8,5],"phase":[1,1],"category":[0,1],"data":[null,null]}},
{"name":"b","processName":"p","isMainThread":false,"pid":"7","tid":8,"registerTime":0,
 "samples":{"length":3,"stack":[1,1,1],"time":[3.5,4.5,5.5],"weight":null,"weightType":"samples"},
 "markers":{"length":0,"name":[],"startTime":[],"endTime":[],"phase":[],"category":[],"data":[]}}]}
JSON
p=$work/p.firefox.json
folded() { "$WICK" convert "$p" -q -o - --to folded "$@"; }
# shellcheck disable=SC2086
is() { [ "$(folded $2 2>&1)" = "$3" ] && pass "$1" || fail "$1" "$(folded $2 2>&1)"; }
is "without it, all samples" "" "one 10
two 3"
is "a span's samples are those of its thread and time" "--during request" "one 6"
is "a span within another" "--during parse" "one 2"
is "a category is a name, too" "--during IO" "one 2"
is "of two names, either" "--during parse --during request" "one 6"
expect "a name that is not there is told" 0 "no span matches nothing" "$WICK" convert "$p" -o "$work/none.folded" --during nothing
expect "report has it" 0 "^ +2 +100% +100% +2 +100% +one" "$WICK" report top "$p" -q --during parse --unit count
expect "labels are the innermost span" 0 "^ +4 .*: request" "$WICK" report tags "$p" -q --spans --unit count --tagshow '^span$'
expect "and the way to it" 0 "^ +2 .*: request > parse" "$WICK" report tags "$p" -q --spans --unit count --tagshow '^span.path$'
expect "labels become roots" 0 "^ +0 .* 2 .* parse" "$WICK" report top "$p" -q --spans --tagroot span --unit count
"$WICK" convert "$p" -q --spans -o "$work/p.pb.gz"
expect "labels are in files of other formats" 0 "^ +4 .*: request" "$WICK" report tags "$work/p.pb.gz" -q --unit count --tagshow '^span$'
expect "a server's answer has no spans" 1 "is not a file, and a server's response has no spans" "$WICK" report '{a="b"}' --spans
expect "the page has a time line" 0 'id="timeline" type="application/gzip;base64">H' sh -c '"$1" convert -q "$2" -o - --to html | grep -a "id=.timeline"' sh "$WICK" "$p"
finish
