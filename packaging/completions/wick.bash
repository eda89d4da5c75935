# SPDX-License-Identifier: Apache-2.0
# Completion of wick for bash. What there is to complete is what wick itself says: `wick --completions`, `wick COMMAND --completions`.
_wick() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} row values
	local IFS=$'\n'
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W "$(wick --completions 2>/dev/null | cut -f 1)" -- "$current"))
		return
	fi
	# Behind `--` is a command of somebody else's.
	local word
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		if [ "$word" = -- ]; then
			COMPREPLY=($(compgen -f -c -- "$current"))
			return
		fi
	done
	row=$(wick "$command" --completions 2>/dev/null | awk -F '\t' -v option="$previous" '$1 == option || ($2 != "" && $2 == option)')
	if [ -n "$row" ] && [ -n "$(printf '%s' "$row" | cut -f 3)" ]; then
		values=$(printf '%s' "$row" | cut -f 4 | sed 's/, /\n/g')
		if [ -n "$values" ]; then COMPREPLY=($(compgen -W "$values" -- "$current")); else COMPREPLY=($(compgen -f -- "$current")); fi
		return
	fi
	if [ "$COMP_CWORD" -eq 2 ]; then
		values=$(wick "$command" --completions 2>/dev/null | awk -F '\t' '$1 == "" { gsub(/, /, "\n", $4); print $4 }')
		COMPREPLY=($(compgen -W "$values" -- "$current"))
		[ "${#COMPREPLY[@]}" -eq 0 ] || return
	fi
	case $current in
	-*) COMPREPLY=($(compgen -W "$(wick "$command" --completions 2>/dev/null | cut -f 1)" -- "$current")) ;;
	*) COMPREPLY=($(compgen -f -- "$current")) ;;
	esac
}
complete -o filenames -F _wick wick
