#!/bin/sh
# Install what the tests need from Debian's packages: Prometheus with promtool, Alertmanager, and Chromium to look at
# reports and boards. Does nothing where they are there.
set -eu
missing=""
command -v prometheus >/dev/null && command -v promtool >/dev/null || missing="$missing prometheus"
command -v prometheus-alertmanager >/dev/null || command -v alertmanager >/dev/null || missing="$missing prometheus-alertmanager"
command -v chromium >/dev/null || missing="$missing chromium"
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
    echo "there is no$missing here, and no apt-get: the tests that need them are skipped" >&2
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
# The packages start servers of their own; the tests start theirs.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '$as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod +x "$policy"
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of names
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
