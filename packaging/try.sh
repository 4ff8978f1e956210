#!/bin/sh
# Runs an example that preempts on one node of the cluster of kubectl's current context, which has Giveway, and prints what happened:
#   packaging/try.sh            fills the node, and then creates a gang for which the pods on it are evicted
#   packaging/try.sh remove     deletes everything that the example created
# The pods request a resource that no other pod has, example.com/slot, of which the node gets 4. So the example fits on a node of any size
# and evicts no other pod. Before it creates the gang, it reads the victims of its plan, and stops if one of them is not of the example.
# $NODE is the name of the node, the first one by default; $TRY_SECONDS how long each step may take.
set -eu
cd "$(dirname "$0")/.."
namespace=giveway-try
limit=${TRY_SECONDS:-60}

fail() {
    printf '\nerror: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}

command -v kubectl >/dev/null 2>&1 ||
    fail "There is no kubectl." "Install it: https://kubernetes.io/docs/tasks/tools/"
command -v kubectl-giveway >/dev/null 2>&1 ||
    fail "There is no kubectl-giveway on the PATH." "\`make dist\` packs it into target/dist; put it into a directory of your PATH."

node=${NODE:-$(kubectl get nodes -o 'jsonpath={.items[0].metadata.name}')} ||
    fail "The nodes of the cluster cannot be listed." "Set KUBECONFIG to the kubeconfig of the cluster: \`kubectl get nodes\` must succeed."
[ -n "$node" ] || fail "The cluster has no node." "Wait until \`kubectl get nodes\` prints one, or set NODE."

# slots NUMBER: sets how much of the resource the node has; null removes it.
slots() {
    kubectl patch node "$node" --subresource=status --type=merge \
        -p "{\"status\":{\"capacity\":{\"example.com/slot\":$1},\"allocatable\":{\"example.com/slot\":$1}}}" >/dev/null
}

if [ "${1:-}" = remove ]; then
    kubectl delete --ignore-not-found -f examples/try/gang.yaml -f examples/try/background.yaml
    slots null
    exit 0
fi

slots '"4"' || fail "The resource example.com/slot cannot be added to node $node." \
    "Use a user that may patch nodes/status, such as a cluster administrator."
echo "Node $node has 4 example.com/slot. Four pods of priority 10 take them:"
kubectl apply -f examples/try/background.yaml
kubectl rollout status deployment/background --namespace $namespace --timeout "${limit}s" || {
    kubectl get pods --namespace $namespace -o wide >&2 || true
    fail "The pods of deployment/background do not run after $limit s." \
        "\`kubectl describe pods -n $namespace\` prints why. Other pods of this example may hold the slots: \`packaging/try.sh remove\`."
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

printf '\n$ kubectl giveway plan -f examples/try/gang.yaml\n'
kubectl giveway plan -f examples/try/gang.yaml || fail "There is no plan for examples/try/gang.yaml." "Run \`kubectl giveway check\`."
kubectl giveway plan -f examples/try/gang.yaml -o json >"$work/plan.json"
# The pods in the list "victimPods", one on each line.
sed -n '/^  "victimPods": \[/,/^  \]/s/^ *"\([^"]*\/[^"]*\)",\{0,1\}$/\1/p' "$work/plan.json" >"$work/victims"
foreign=$(grep -v "^$namespace/background-" "$work/victims" | tr '\n' ' ')
[ -z "$foreign" ] || fail "The plan evicts pods that this example did not create: ${foreign% }." \
    "The gang was not created, so no pod was evicted. Run the example in a cluster without pods that request example.com/slot."
[ -s "$work/victims" ] || fail "The plan evicts no pod, so there is nothing to see." \
    "Start again: \`packaging/try.sh remove\`, then \`packaging/try.sh\`. If node $node was not full, NODE names another one."

printf '\n$ kubectl apply -f examples/try/gang.yaml\n'
kubectl apply -f examples/try/gang.yaml
began=$(date +%s)
state() {
    kubectl get podgroups.scheduling.giveway.dev train --namespace $namespace -o 'jsonpath={.status.pods.scheduled}/{.status.pods.total} {.status.preemption.state}' 2>/dev/null || true
}
until [ "$(state)" = "4/4 Completed" ]; do
    if [ $(($(date +%s) - began)) -ge "$limit" ]; then
        echo >&2
        kubectl giveway why podgroup/train --namespace $namespace >&2 || kubectl get gpg --namespace $namespace >&2 || true
        fail "The gang does not run after $limit s." \
            "\`kubectl giveway check\` finds what is wrong with the installation, \`kubectl describe gpg train -n $namespace\` with the gang."
    fi
    sleep 1
done
echo "The gang runs after $(($(date +%s) - began)) s."

printf '\n$ kubectl get gpg -n %s -o wide\n' $namespace
kubectl get gpg --namespace $namespace -o wide
printf '\n$ kubectl get pods -n %s\n' $namespace
kubectl get pods --namespace $namespace
printf '\n$ kubectl giveway history podgroup/train -n %s\n' $namespace
kubectl giveway history podgroup/train --namespace $namespace
