#!/usr/bin/env bash
# Installs the engines of an installation, on Debian 12: HAProxy 3.4 (LTS) and nats-server 2.15. They go into one folder and
# touch nothing outside it.
#   dev/engines.sh [--test-tools] [folder]     default: .engines, where the tests and `npm run dev -- --edge` look first
# --test-tools adds what only our tests need: pebble, an ACME authority; age, pg_dump and pg_restore of PostgreSQL 18;
# kustomize.
#
# Debian 12 itself has older versions, so the packages come from Debian's current archive, through the mirror that this
# machine already uses and with their signatures checked. GATEHOUSE_ENGINE_PACKAGES names a folder with the same packages
# for machines without the archive, and for the day when it has moved on.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=() client=()
if [ "${1:-}" = --test-tools ]; then
  tools=(pebble/sid age/sid kustomize/sid) client=(postgresql-client-18)
  shift
fi
folder=$(realpath -m "${1:-.engines}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,archives/partial,root}
: > "$work/status"

download() {
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT) $(CREATED_BY)' |
    awk '$2 == "Debian" && $3 == "main" && $4 == "Packages" && $1 !~ /security/ { print $1; exit }')
  [ -n "$mirror" ] || { echo "engines: apt knows no Debian archive; run 'apt-get update' first" >&2; return 1; }
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" sid "$mirror" experimental \
    > "$work/sources.list"
  printf 'Package: haproxy\nPin: version 3.4.*\nPin-Priority: 990\n' > "$work/preferences"
  # An apt of its own: this machine's sources, preferences and installed packages stay as they are.
  local apt=(apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferences="$work/preferences" -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::State="$work" -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status"
    -o Dir::Cache="$work" -o Acquire::Languages=none -o APT::Sandbox::User=root)
  "${apt[@]}" update &&
    "${apt[@]}" install -y --download-only --no-install-recommends 'haproxy=3.4.*' patchelf "${client[@]}" &&
    (cd "$work/archives" && "${apt[@]}" download nats-server/sid "${tools[@]}")
}

if ! download > "$work/log" 2>&1; then
  packages=${GATEHOUSE_ENGINE_PACKAGES:-}
  if ! ls "$packages"/*.deb > /dev/null 2>&1; then
    tail -n 5 "$work/log" >&2
    echo "engines: the archive did not give HAProxy 3.4, patchelf, nats-server ${client[*]} ${tools[*]%/sid}; put their packages into a folder and name it in GATEHOUSE_ENGINE_PACKAGES" >&2
    exit 1
  fi
  rm -f "$work"/archives/*.deb
  cp "$packages"/*.deb "$work/archives/"
fi

for package in "$work"/archives/*.deb; do dpkg-deb -x "$package" "$work/root"; done
libraries=$(echo "$work"/root/usr/lib/*-linux-gnu)
loader=$(echo "$libraries"/ld-linux-*)
mkdir -p "$folder/lib"
cp "$loader" "$folder/lib/"
for program in usr/sbin/{haproxy,nats-server} usr/bin/{pebble,pebble-challtestsrv,age,age-keygen,kustomize} \
  usr/lib/postgresql/18/bin/{pg_dump,pg_restore}; do
  target="$folder/$(basename "$program")"
  # Tools that were not asked for.
  [ -e "$work/root/$program" ] || continue
  cp "$work/root/$program" "$target.new"
  case $program in
    */haproxy | */pg_*)
      # Built against a newer C library than Debian 12 has, so they get their own copies.
      "$loader" --library-path "$libraries" --list "$work/root/$program" | awk '$2 == "=>" { print $3 }' |
        xargs -I{} cp -L {} "$folder/lib/"
      "$loader" --library-path "$libraries" "$work/root/usr/bin/patchelf" --force-rpath --set-rpath "$folder/lib" \
        --set-interpreter "$folder/lib/$(basename "$loader")" "$target.new"
      ;;
  esac
  mv "$target.new" "$target"
done
# Not `head`: it leaves before HAProxy has said everything, which then fails on the closed pipe.
"$folder/haproxy" -v | sed -n 1p
"$folder/nats-server" --version
