#!/bin/sh
# Prints everything that the chart renders by default, with its namespace, as one file. $HELM is helm, $CHART the folder of the chart.
set -eu
cd "$(dirname "$0")/.."
. packaging/names.sh
# Only helm runs hooks: `kubectl apply` would create their Jobs at once. So they are left out, and the file says what to run instead.
cat <<END
# Giveway $version, everything in one file: kubectl apply --server-side -f giveway.yaml
# To remove it, in this order (deleting the CRDs deletes every PodGroup, and the Preemptions by which Giveway's taints are found):
#   kubectl giveway release --all
#   kubectl delete -f giveway.yaml -l app.kubernetes.io/component!=crds
#   kubectl giveway cleanup all
#   kubectl delete -f giveway.yaml -l app.kubernetes.io/component=crds
apiVersion: v1
kind: Namespace
metadata:
  name: giveway-system
END
exec "${HELM:-helm}" template giveway "${CHART:-helm}" --namespace giveway-system --no-hooks
