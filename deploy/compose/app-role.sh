#!/bin/sh
# Run by the postgres image when it makes the database: the role under which the control plane serves. It owns nothing;
# 'gatehouse migrate' grants what it needs.
set -eu
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  -v password="$(cat /run/secrets/postgres-app-password)" <<'SQL'
create role gatehouse_app login password :'password';
SQL
