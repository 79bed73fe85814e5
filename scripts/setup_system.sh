#!/bin/sh
# Install what the tests need from the system and pip cannot bring: a PostgreSQL server.
# Does nothing when it is there. Installs it from Debian when we are root. Otherwise says what will be skipped.
set -eu

if command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing PostgreSQL for the tests."
    export DEBIAN_FRONTEND=noninteractive
    if apt-get -qq update >/dev/null && apt-get -qq install -y --no-install-recommends postgresql >/dev/null; then
        exit 0
    fi
    echo "PostgreSQL could not be installed; tests that need it are skipped." >&2
else
    echo "PostgreSQL is not installed; tests that need it are skipped. To run them: apt-get install postgresql" >&2
fi
