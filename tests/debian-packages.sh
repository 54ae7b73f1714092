#!/bin/sh
# Install what the tests need from Debian's packages: a real Prometheus with promtool. Does nothing where it is there.
set -eu
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "prometheus and promtool are not here, and neither is apt-get: the tests with a real Prometheus are skipped" >&2
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
$as_root apt-get update -qq
# The package starts a server of its own; the tests start theirs.
printf '#!/bin/sh\nexit 101\n' | $as_root tee /usr/sbin/policy-rc.d >/dev/null
$as_root chmod +x /usr/sbin/policy-rc.d
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends prometheus >/dev/null
$as_root rm -f /usr/sbin/policy-rc.d
