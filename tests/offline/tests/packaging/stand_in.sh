#!/bin/sh
# Stands in for a program that a script calls: appends its name and its arguments to $CALLS, and answers as the first matching case of
# $ANSWERS does, or as below. $ANSWERS is a shell script in which $call is the command line.
name=${0##*/}
call="$name $*"
echo "$call" >>"$CALLS"
. "$ANSWERS"
case $call in
    "docker info" | "podman info" | "nerdctl info") exit 0 ;;
    "kind get clusters") echo another ;;
    "k3d cluster list "*) exit 1 ;;
    "minikube profile list "*) echo '{"invalid":[],"valid":[{"Name":"another","Status":"Running"}]}' ;;
    *" save --output "*) for last in "$@"; do :; done; echo "$last" >"$3" ;;
    *" create ghcr.io/"*) echo 0123abcd ;;
    *" cp 0123abcd:/usr/bin/kubectl-giveway "*) cp "$0" "$3" ;;
    "kubectl-giveway --version") echo "kubectl-giveway 0.1.0" ;;
    "kubectl get nodes "*) printf one ;;
    "kubectl giveway plan -f examples/try/gang.yaml -o json")
        printf '{\n  "schedulable": true,\n  "victimPods": [\n    "giveway-try/background-a",\n    "giveway-try/background-b"\n  ],\n  "left": 0\n}\n' ;;
    "kubectl giveway plan "*) echo "It fits once its victims have terminated." ;;
    "kubectl get podgroups.scheduling.giveway.dev train "*) printf '4/4 Completed' ;;
esac
exit 0
