# Fills the source of a manual page.
#     awk -f fill.awk -v version=VERSION -v help=FILE -v example=FILE SOURCE
# Replaces @VERSION@, and these lines: @ABOUT@, @OPTIONS@ and @NOTES@ by the parts of the output of `--help` that are
# before the usage, list the options, and follow them; @EXAMPLE@ by an example, unchanged.

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/`/, "\"", text)
    return text ~ /^[.']/ ? "\\&" text : text
}

# Paragraphs: an indented line is an example, and a line that ends with a full stop ends its paragraph.
function paragraphs(text,    n, i, line, begins) {
    n = split(text, line, "\n")
    begins = 0
    for (i = 1; i <= n; ++i) {
        if (line[i] == "") { begins = started; continue }
        if (line[i] ~ /^  /) {
            if (i == 1 || line[i - 1] !~ /^  /) print ".PP\n.RS 4\n.EX"
            print escaped(substr(line[i], 3))
            if (i == n || line[i + 1] !~ /^  /) print ".EE\n.RE"
            started = begins = 1
            continue
        }
        if (begins) print ".PP"
        print escaped(line[i])
        started = 1
        begins = line[i] ~ /\.$/
    }
}

# The head of an option, `--name TYPE`: the name is bold, the type is italic.
function option_head(head,    n, word) {
    sub(/ \(Env:[A-Z_]*\)$/, "", head)
    sub(/ REQUIRED$/, "", head)
    n = index(head, " ")
    if (!n) return "\\fB" escaped(head) "\\fR"
    word = substr(head, 1, n - 1)
    return (word ~ /^-/ ? "\\fB" : "\\fI") escaped(word) "\\fR \\fI" escaped(substr(head, n + 1)) "\\fR"
}

function options(text,    n, i, line, head, at) {
    n = split(text, line, "\n")
    for (i = 1; i <= n; ++i) {
        if (line[i] ~ /^   /) {  # the text of an option whose head is long
            sub(/^ */, "", line[i])
            print escaped(line[i])
        } else if (line[i] ~ /^  [^ ]/) {
            head = substr(line[i], 3)
            at = match(head, /   */)
            print ".TP\n" option_head(at ? substr(head, 1, at - 1) : head)
            if (at) print escaped(substr(head, at + RLENGTH))
        }
    }
}

function read_help(    line, part) {
    part = "about"
    while ((getline line < help) > 0) {
        if (line ~ /^Usage: /) { part = "usage"; continue }
        if (line ~ /^(Options|Positionals):$/) { part = "options"; continue }
        if (part == "options" && line ~ /^[^ ]/) part = "notes"
        section[part] = section[part] line "\n"
    }
    close(help)
    # "weir-proxy: an HTTP proxy" becomes "weir-proxy is an HTTP proxy", and "weir-replay: applies" loses its colon.
    if (!sub(/: an /, " is an ", section["about"])) sub(/: /, " ", section["about"])
}

function read_example(    line) {
    print ".EX"
    while ((getline line < example) > 0) {
        gsub(/\\/, "\\e", line)
        print (line ~ /^[.']/ ? "\\&" : "") line
    }
    print ".EE"
}

BEGIN { if (help != "") read_help() }
/^@ABOUT@$/ { started = 0; paragraphs(section["about"]); next }
/^@OPTIONS@$/ { options(section["options"]); next }
/^@NOTES@$/ { started = 0; paragraphs(section["notes"]); next }
/^@EXAMPLE@$/ { read_example(); next }
{ gsub(/@VERSION@/, version); print }
