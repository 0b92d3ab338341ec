#!/usr/bin/env bash
# Shows the whole idea on a server of its own, with the kubectl commands of a user.
# Usage: examples/quickstart/run.sh BURSAR. BURSAR is the bursar binary.
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

# run prints a command in the form for users, and runs it.
run() {
  printf '$ kubectl %s\n' "${*//$here/examples/quickstart}"
  kubectl "$@"
}

# run_denied runs a command, and fails unless the server denies it for lack of quota.
run_denied() {
  local output
  printf '$ kubectl %s\n' "${*//$here/examples/quickstart}"
  if output=$(kubectl "$@" 2>&1); then
    printf '%s\nquickstart: the server did not deny this\n' "$output" >&2
    return 1
  fi
  printf '%s\n' "$output"
  grep -q 'exceeded quota' <<<"$output"
}

# bucket_shows reports whether some bucket has this amount allocated.
bucket_shows() {
  kubectl get allowancebuckets -n bursar-system -o jsonpath='{.items[*].status.allocated}' | grep -qw "$1"
}

# wait_until SECONDS TEXT COMMAND... waits until a command succeeds. It fails after some seconds, with a text for the
# expected state.
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
wait_until 120 "the server to be ready" grep -qs '^bursar: ready' "$data.out"

say "The kinds of the platform, the resource types, and the policies that charge objects:"
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

say "Bursar denies the third one, and explains why:"
run_denied create -f "$here/project-data.yaml"

say "The limits and the use of acme:"
wait_until 30 "the bucket to show 2 Projects" bucket_shows 2
run get allowancebuckets -n bursar-system

say "Deleting one makes room:"
run delete -f "$here/project-web.yaml"
run create -f "$here/project-data.yaml"
run get projects

say "Core kinds count as well: the first ConfigMap of acme fits, the second does not."
run create configmap settings -n acme-web --from-literal=color=blue
run_denied create configmap more-settings -n acme-web --from-literal=color=red

say "That is all. The script removes the server and its directory. Your next steps:"
cat <<'END'
  bin/bursar standalone                                         # a server of your own; it keeps its data
  bin/bursar kubectl apply -f examples/quickstart/1-kinds.yaml  # in another terminal; then the files 2, 3 and 4
  bin/bursar usage                                              # who uses how much
  bin/bursar user create alice -n acme-web --role edit          # a kubeconfig for a tenant
Guides: docs/tasks/standalone.md for the server, docs/tasks/claim-policies.md to write policies, docs/tasks/install.md for a cluster.
END
