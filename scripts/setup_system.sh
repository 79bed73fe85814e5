#!/bin/sh
# Install what the tests need from the system and pip cannot bring: a PostgreSQL server and the Chromium browser; with
# --label-studio also Label Studio, in an environment of its own.
# Does nothing for what is there. Installs the rest from Debian when we are root. Otherwise says what will be skipped.
set -eu

# need NAME PACKAGE: install a package, or say which tests are skipped.
need() {
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing $1 for the tests."
        export DEBIAN_FRONTEND=noninteractive
        if apt-get -qq update >/dev/null && apt-get -qq install -y --no-install-recommends "$2" >/dev/null; then
            return
        fi
        echo "$1 could not be installed; tests that need it are skipped." >&2
    else
        echo "$1 is not installed; tests that need it are skipped. To run them: apt-get install $2" >&2
    fi
}

if ! command -v initdb >/dev/null 2>&1 && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    need PostgreSQL postgresql
fi
if ! command -v chromium >/dev/null 2>&1 && ! command -v google-chrome >/dev/null 2>&1; then
    need Chromium chromium
fi
if [ "${1:-}" = --label-studio ]; then
    sh "$(dirname "$0")/setup_label_studio.sh"
fi
