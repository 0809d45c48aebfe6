#!/bin/sh
# prepare.sh [folder]: makes ./secrets for compose.yaml, or the folder for deploy/kubernetes: an authority, a certificate
# for NATS, one for HTTPS edges to try with, passwords, and the key that encrypts certificate private keys and webhook
# secrets. What is there already stays as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
umask 077
mkdir -p "${1:-$here/secrets}/certificates"
cd "${1:-$here/secrets}"
random() { openssl rand -hex 24; }

[ -f ca.pem ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
  -subj '/CN=Gatehouse authority' -keyout ca.key -out ca.pem 2>/dev/null

certificate() { # file, subject alternative name
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  printf 'subjectAltName=%s\n' "$2" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 825 -extfile "$1.ext" -out "$1.pem" 2>/dev/null
  rm "$1.csr" "$1.ext"
}
[ -f nats-server.pem ] || certificate nats-server DNS:nats
if [ ! -f certificates/app.example.pem ]; then
  certificate app.example DNS:app.example
  cat app.example.pem app.example.key >certificates/app.example.pem
  rm app.example.pem app.example.key
fi

[ -f postgres-password ] || random >postgres-password
[ -f postgres-app-password ] || random >postgres-app-password
# For what the control plane prints: 'nats conf' and 'nodes invite'.
[ -f operator.conf ] || : >operator.conf
[ -f join-token ] || : >join-token
# Keep a copy elsewhere: a backup of the database is of no use for certificates and webhooks without it.
[ -f secrets-key ] || openssl rand -base64 32 >secrets-key
# Whom backups are encrypted to: public keys of age, one a line, for you to add.
[ -f backup-recipients ] || : >backup-recipients
# The owner of the tables migrates. The other role serves, and can neither change tables nor delete the audit.
printf 'postgresql://gatehouse:%s@postgres:5432/gatehouse\n' "$(cat postgres-password)" >database-owner-url
printf 'postgresql://gatehouse_app:%s@postgres:5432/gatehouse\n' "$(cat postgres-app-password)" >database-url

if [ $# -gt 0 ]; then
  # kustomize reads no files outside its folder.
  cp "$here/app-role.sh" "$here/../nats/nats.conf" .
else
  # The containers read the files as user 10001, mounted one by one; to others on this machine the folder is closed.
  chmod 0700 .
  chmod 0755 certificates
  chmod 0644 backup-recipients database-url database-owner-url ca.pem operator.conf join-token postgres-*password nats-server.pem nats-server.key certificates/*.pem
  mkdir -p ../backups && chmod 0700 ../backups
  [ "$(id -u)" != 0 ] || chown 10001:10001 ../backups
  # 'serve' refuses a key that everyone can read, so the container joins the group that can.
  chmod 0640 secrets-key
  printf 'GATEHOUSE_SECRETS_GROUP=%s\n' "$(stat -c %g secrets-key)" >"$here/.env"
fi
echo "$PWD is ready"
