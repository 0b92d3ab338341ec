#!/usr/bin/env bash
# Shows the whole idea on a server of its own, with the kubectl commands that a user would
# type. Usage: examples/quickstart/run.sh BURSAR, where BURSAR is the bursar binary.
set -euo pipefail

bursar=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=$(mktemp -d)
export KUBECONFIG="$data/admin.kubeconfig"

cleanup() {
  status=$?
  if [[ -n "${server:-}" ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" "$printer" 2>/dev/null || true
  fi
  rm -rf "$data" "$data.out"
  exit "$status"
}
trap cleanup EXIT

kubectl() { "$bursar" kubectl "$@"; }

say() { printf '\n# %s\n' "$*"; }

# run prints a command as a user would type it, and runs it.
run() {
  printf '$ kubectl %s\n' "${*//$here/examples/quickstart}"
  kubectl "$@"
}

# run_denied runs a command that must be refused for lack of quota.
run_denied() {
  local output
  printf '$ kubectl %s\n' "${*//$here/examples/quickstart}"
  if output=$(kubectl "$@" 2>&1); then
    printf '%s\nquickstart: this should have been refused\n' "$output" >&2
    return 1
  fi
  printf '%s\n' "$output"
  grep -q 'exceeded quota' <<<"$output"
}

# bucket_shows tells whether some bucket has that much allocated.
bucket_shows() {
  kubectl get allowancebuckets -n bursar-system -o jsonpath='{.items[*].status.allocated}' | grep -qw "$1"
}

# wait_until waits at most so many seconds for what the second argument says, which is so once the
# command that follows succeeds.
wait_until() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    kill -0 "$server" 2>/dev/null || { echo "quickstart: the server ended" >&2; return 1; }
    ((SECONDS < deadline)) || { echo "quickstart: waited in vain for $what" >&2; return 1; }
    sleep 0.1
  done
}

say "A control plane with quota, in a scratch directory:"
printf '$ bursar standalone --data-dir %s --listen 127.0.0.1:0 &\n' "$data"
exec 3> >(tee "$data.out")
printer=$!
"$bursar" standalone --data-dir "$data" --listen 127.0.0.1:0 >&3 &
server=$!
exec 3>&-
wait_until 120 "the server to say that it is ready" grep -qs '^bursar: ready' "$data.out"

say "The platform's own kinds, what counts, and what uses it up:"
run apply -f "$here/1-kinds.yaml"
run wait --for=condition=Established --timeout=30s -f "$here/1-kinds.yaml"
run apply -f "$here/2-registrations.yaml" -f "$here/3-policies.yaml"
run wait --for=condition=Active --timeout=30s -f "$here/2-registrations.yaml"
run wait --for=condition=Ready --timeout=30s -f "$here/3-policies.yaml"

say "The Organization acme may have two Projects and one ConfigMap:"
run apply -f "$here/4-acme.yaml"
run wait --for=condition=Active --timeout=30s -n bursar-system resourcegrants.quota.miloapis.com/acme-starter

say "Two Projects fit:"
run create -f "$here/project-web.yaml"
run create -f "$here/project-mobile.yaml"

say "The third one is refused, and says why:"
run_denied create -f "$here/project-data.yaml"

say "What acme has, and what it uses:"
wait_until 30 "the bucket to show 2 Projects" bucket_shows 2
run get allowancebuckets -n bursar-system

say "Deleting one makes room:"
run delete -f "$here/project-web.yaml"
run create -f "$here/project-data.yaml"
run get projects

say "Core kinds count as well: the first ConfigMap of acme fits, the second does not."
run create configmap settings -n acme-web --from-literal=color=blue
run_denied create configmap more-settings -n acme-web --from-literal=color=red

say "That is all. The server and its directory are removed. To go on:"
cat <<'END'
  bin/bursar standalone                                         # a server of your own, which keeps its data
  bin/bursar kubectl apply -f examples/quickstart/1-kinds.yaml  # in another terminal; then the files 2, 3 and 4
  bin/bursar usage                                              # who uses how much
  bin/bursar user create alice -n acme-web --role edit          # a kubeconfig for a tenant
Guides: docs/tasks/standalone.md for the server, docs/tasks/claim-policies.md to write policies, docs/tasks/install.md for a cluster.
END
