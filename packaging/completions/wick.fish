# SPDX-License-Identifier: Apache-2.0
# Completion of wick for fish. What there is to complete is what wick itself says: `wick --completions`, `wick COMMAND --completions`.
function __wick_options
	set -l words (commandline -opc)
	test (count $words) -gt 1; or return
	contains -- -- $words; and return
	wick $words[2] --completions 2>/dev/null | while read -d \t -l name letter argument choices help
		test -n "$name"; or continue
		printf '%s\t%s\n' $name "$help"
		test -n "$letter"; and printf '%s\t%s\n' $letter "$help"
	end
end
function __wick_values
	set -l words (commandline -opc)
	test (count $words) -gt 2; or return
	wick $words[2] --completions 2>/dev/null | while read -d \t -l name letter argument choices help
		if test "$words[-1]" = "$name" -o "$words[-1]" = "$letter"
			string split ', ' -- $choices
		end
	end
end
complete -c wick -n 'test (count (commandline -opc)) -eq 1' -f -a '(wick --completions 2>/dev/null)'
complete -c wick -n 'test (count (commandline -opc)) -gt 1; and string match -q -- "-*" (commandline -ct)' -f -a '(__wick_options)'
complete -c wick -n 'test (count (commandline -opc)) -gt 2' -a '(__wick_values)'
function __wick_actions
	set -l words (commandline -opc)
	wick $words[2] --completions 2>/dev/null | while read -d \t -l name letter argument choices help
		test -z "$name"; and string split ', ' -- $choices
	end
end
complete -c wick -n 'test (count (commandline -opc)) -eq 2' -a '(__wick_actions)'
