#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What ./dev dist says of its artefacts: checksums are theirs; each SPDX document is valid by spdx-tools, names what the artefact's own bytes and control
# files show (libraries by soname, versions that are texts in the program, npm's checksums), and depends on the commit only.
. tests/lib.inc
. tests/install/install.inc
ls "$dist"/*.spdx.json >/dev/null 2>&1 || {
	fail "there are SPDX documents in $dist" "make them with: ./dev dist"
	finish
}
check "checksums are those of the files" sh -c 'cd "$0" && sha256sum --quiet -c SHA256SUMS' "$dist"
check "every file for users has one" sh -c 'cd "$0" && for f in *.deb *.rpm *.tar *.spdx.json *-linux-x86_64; do [ ! -e "$f" ] || grep -q " $f\$" SHA256SUMS || exit 1; done' "$dist"
tools=$roots/spdx-tools-0.8.5
if [ ! -x "$tools/bin/pyspdxtools" ]; then
	mkdir -p "$roots"
	rm -rf "$tools"
	{ python3 -m venv "$tools" && "$tools/bin/pip" install -q spdx-tools==0.8.5; } >"$work/pip" 2>&1 || rm -rf "$tools"
fi
for document in "$dist"/*.spdx.json; do
	if [ -x "$tools/bin/pyspdxtools" ]; then
		check "${document##*/} is valid" "$tools/bin/pyspdxtools" -i "$document" --version SPDX-2.3
		sed 's/"licenseDeclared": "MIT"/"licenseDeclared": "no such licence"/' "$document" >"$work/wrong.spdx.json"
		check "${document##*/} with a wrong licence is not" sh -c '! "$0" -i "$1" --version SPDX-2.3' "$tools/bin/pyspdxtools" "$work/wrong.spdx.json"
	else skip "${document##*/} is valid" "spdx-tools cannot be installed: $(tail -n 1 "$work/pip")"; fi
	check "${document##*/} says what it is of" node tests/install/sbom.mjs "$document" "$dist"
done
finish
