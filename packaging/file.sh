#!/bin/sh
# Prints everything that the chart renders by default, with its namespace, as one file. $HELM is helm.
set -eu
cd "$(dirname "$0")/.."
. packaging/names.sh
# Hooks are helm's: without it nobody would run them, and `kubectl apply` would run them at once. So the file says what to run.
cat <<END
# Giveway $version, everything in one file: kubectl apply --server-side -f giveway.yaml
# To remove it, in this order (the kinds take every PodGroup along, and tell until then which taints are Giveway's):
#   kubectl giveway release --all
#   kubectl delete -f giveway.yaml -l app.kubernetes.io/component!=crds
#   kubectl giveway uninstall
#   kubectl delete -f giveway.yaml -l app.kubernetes.io/component=crds
apiVersion: v1
kind: Namespace
metadata:
  name: giveway-system
END
exec "${HELM:-helm}" template giveway helm --namespace giveway-system --no-hooks
