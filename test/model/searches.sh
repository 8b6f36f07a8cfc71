# To be sourced by the checks of the models. The caller sets `model`, the name of the model without `.pml`, `sound_name`, the
# name of its configuration without switches, and `cc_options` and `pan_options`, which each search needs. It then calls
# `begin_searches "$@"`, `start sound ..` and `start caught ..`, and at last `end_searches`.
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1

begin_searches() {
	case "$#:${1:-}" in
	0:) long= ;;
	1:--long) long=1 ;;
	*) echo "usage: ${0##*/} [--long]" >&2; exit 2 ;;
	esac
	local tool
	for tool in spin cc; do
		command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
	done
	# clang compiles the output of spin in half the time.
	compiler=$(command -v clang-19 || command -v cc)
	tmp=$(mktemp -d) || exit 1
	trap 'rm -rf "$tmp"' EXIT
}

# search <switches> <options of cc> <options of pan>: writes pan's report to out, or an earlier error. An optimised build would
# take longer than the search.
search() {
	local -a switches=($1)
	cp "$here/$model.pml" . &&
		spin -P"$compiler -E -x c" -a "${switches[@]/#/-D}" "$model.pml" >out 2>&1 &&
		$compiler -w -O0 -DMEMLIM=3000 $cc_options $2 -o pan pan.c >>out 2>&1 &&
		./pan $pan_options $3 >out 2>&1
}

# line <name> <begin>: prints states and seconds.
line() {
	local us=$((${EPOCHREALTIME/./} - ${2/./}))
	printf '%-50s %9s states %3d.%d s' "$1" "$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)" \
		$((us / 1000000)) $((us / 100000 % 10))
}
fail() { printf 'FAILED: %s\n%s\n' "$1" "$(grep -v '^$' out | head -20)"; touch "$tmp/bad"; }

# sound <switches> [cycles|fair|asserts]: checks that the whole space was searched without an error.
sound() {
	local began=$EPOCHREALTIME name="${1:-$sound_name}${2:+, $2}" cc='-DSAFETY' pan=
	case ${2:-} in
	cycles) cc='-DNP' pan=-l ;;	# there is no cycle: all processes terminate, in any schedule
	fair) cc= pan='-a -f' ;;	# what `ltl` requires happens, if every thread that can continue does so at last
	asserts) pan=-E ;;		# some processes may wait forever
	esac
	search "$1" "$cc" "$pan"
	if grep -q 'errors: 0$' out && ! grep -qE 'too small|not completed|out of memory|MEMLIM' out; then
		printf '%s\n' "$(line "$name" $began)"
	else
		fail "$name"
	fi
}

# caught <switches> <failure> [options of cc] [options of pan]: checks that spin, searching only for such failures, finds this one.
asleep='invalid end state'
caught() {
	local began=$EPOCHREALTIME pan=-E found
	[ "$2" = "$asleep" ] && pan=-A
	search "$1" "${3:--DSAFETY}" "${4:-$pan}"
	found=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' out)
	if [[ $found == *"$2"* ]]; then
		printf '%s  caught: %s\n' "$(line "$1" $began)" "${found:0:80}"
	else
		fail "$1 is not caught by: $2"
	fi
}

# Runs two at a time, each in a separate directory.
count=0
start() {
	local dir=$tmp/$((++count))
	((count > 2)) && wait -n
	(mkdir "$dir" && cd "$dir" && "$@"; rm -rf "$dir") &
}

end_searches() {
	wait
	[ ! -e "$tmp/bad" ]
}
