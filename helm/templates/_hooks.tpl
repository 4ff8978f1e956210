{{/*
A Job that helm runs as a hook, with a service account that exists only while it runs. Its pod has the labels, annotations, resources,
variables and scheduling constraints of the operator's pod. Call with a dict of "root", "component", "hook" (when it runs),
"rules" (of a ClusterRole, as YAML), "role" (of a Role in this namespace, as YAML, or nothing), "command" (a list) and "ownBinding".

Helm does not delete the account of a hook if a later hook fails. With "ownBinding" the command retries its work itself, and deletes
the bindings of its account as its last act, also after a failure.
*/}}
{{- define "giveway.hook" }}
{{- $name := printf "giveway-%s" .component }}
{{- $namespace := .root.Release.Namespace }}
{{- $labels := include "giveway.labels" . }}
{{- $hook := dict "helm.sh/hook" .hook "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" }}
{{- $command := .command }}
{{- if .ownBinding }}
{{- $command = append $command (printf "--own-binding=%s" $name) }}
{{- end }}
{{- $rights := merge (dict "helm.sh/hook-weight" "-5") $hook | toYaml }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $rights | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $rights | nindent 4 }}
rules:
  {{- .rules | trim | nindent 2 }}
  {{- if .ownBinding }}
  - apiGroups: [rbac.authorization.k8s.io]
    resources: [clusterrolebindings]
    resourceNames: [{{ $name }}]
    verbs: [delete]
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $rights | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $namespace | quote }}
{{- with .role }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $rights | nindent 4 }}
rules:
  {{- . | trim | nindent 2 }}
  {{- if $.ownBinding }}
  - apiGroups: [rbac.authorization.k8s.io]
    resources: [rolebindings]
    resourceNames: [{{ $name }}]
    verbs: [delete]
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- $rights | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $namespace | quote }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ $namespace | quote }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    {{- toYaml $hook | nindent 4 }}
spec:
  backoffLimit: {{ ternary 0 3 (default false .ownBinding) }}
  activeDeadlineSeconds: 270
  template:
    metadata:
      labels:
        {{- $labels | nindent 8 }}
        {{- with .root.Values.pods.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .root.Values.pods.annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      restartPolicy: Never
      {{- include "giveway.podSecurity" .root | nindent 6 }}
      {{- $operator := dict "root" .root "component" "operator" }}
      {{- include "giveway.placement" $operator | nindent 6 }}
      containers:
        - name: {{ .component }}
          image: {{ include "giveway.image" (dict "root" .root "component" "cli") }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [{{ join ", " $command }}]
          {{- include "giveway.environment" .root | nindent 10 }}
          resources:
            {{- toYaml .root.Values.operator.resources | nindent 12 }}
          {{- include "giveway.containerSecurity" .root | nindent 10 }}
{{- end }}
