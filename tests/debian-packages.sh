#!/bin/sh
# Install what the tests need from Debian's packages: a real Prometheus with promtool, and an Alertmanager. Does nothing
# where they are there.
set -eu
missing=""
command -v prometheus >/dev/null && command -v promtool >/dev/null || missing="$missing prometheus"
command -v prometheus-alertmanager >/dev/null || command -v alertmanager >/dev/null || missing="$missing prometheus-alertmanager"
if [ -z "$missing" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "there is no$missing here, and no apt-get: the tests with a real Prometheus are skipped" >&2
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
$as_root apt-get update -qq
# The packages start servers of their own; the tests start theirs.
printf '#!/bin/sh\nexit 101\n' | $as_root tee /usr/sbin/policy-rc.d >/dev/null
$as_root chmod +x /usr/sbin/policy-rc.d
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
$as_root rm -f /usr/sbin/policy-rc.d
