{{/* The flag that names Giveway's namespace to the commands that read it, if it is not their default. */}}
{{- define "giveway.inNamespace" -}}
{{- if ne .Release.Namespace "giveway-system" }} --giveway-namespace {{ .Release.Namespace }}{{ end }}
{{- end }}

{{/* Labels of every object. Call with a dict of "root" and "component". */}}
{{- define "giveway.labels" -}}
{{ include "giveway.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Labels by which a component's pods are found. */}}
{{- define "giveway.selector" -}}
app.kubernetes.io/name: giveway
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Image of a component: by its digest, where that is given. */}}
{{- define "giveway.image" -}}
{{ .root.Values.image.repository }}/giveway-{{ .component }}
{{- with get (.root.Values.image.digests | default dict) .component }}@{{ . }}{{ else }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Metadata of a component's pods. Call with a dict of "root" and "component". */}}
{{- define "giveway.podMetadata" -}}
{{- $values := .root.Values.pods -}}
labels:
  {{- include "giveway.labels" . | nindent 2 }}
  {{- with $values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* More variables of the containers. */}}
{{- define "giveway.environment" -}}
{{- with .Values.pods.env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* How the pods of a component spread. Call with a dict of "root" and "component". */}}
{{- define "giveway.spread" -}}
{{- $values := .root.Values.pods }}
{{- $selector := dict "matchLabels" (include "giveway.selector" . | fromYaml) }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- merge (dict) . (dict "labelSelector" $selector) | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}

{{/*
true if critical add-ons are on in the release that this upgrade replaces, otherwise nothing: only with them the chart has the policy
giveway-nodes. For helm template, which reads no cluster, and for a new installation it is nothing.
*/}}
{{- define "giveway.hadCriticalAddons" -}}
{{- if and .Release.IsUpgrade (lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "giveway-nodes") -}}
true
{{- end }}
{{- end }}

{{/* true if critical add-ons are on, otherwise nothing. If the value is not set, they stay as they are: off for a new installation. */}}
{{- define "giveway.criticalAddons" -}}
{{- if kindIs "invalid" .Values.criticalAddons.enabled -}}
{{- include "giveway.hadCriticalAddons" . }}
{{- else if .Values.criticalAddons.enabled -}}
true
{{- end }}
{{- end }}

{{/* User name of the operator, as the API server sees it. */}}
{{- define "giveway.operatorUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:giveway-operator
{{- end }}

{{/* DNS names of the webhook's Service, as a JSON list. */}}
{{- define "giveway.webhookNames" -}}
{{- $name := printf "giveway-webhook.%s.svc" .Release.Namespace }}
{{- toJson (list $name (printf "%s.cluster.local" $name)) }}
{{- end }}

{{/*
The component that makes the webhook's certificate and writes its authority into caBundle: operator (which writes caBundle
itself, so none is rendered), cert-manager (its injector writes it), or user (webhook.caBundle).
*/}}
{{- define "giveway.certificates" -}}
{{- $webhook := .Values.webhook }}
{{- if $webhook.certManager.enabled }}
{{- if $webhook.certificate.secretName }}
{{- fail "webhook.certManager.enabled and webhook.certificate.secretName exclude each other" }}
{{- end -}}
cert-manager
{{- else if or $webhook.certificate.secretName $webhook.caBundle }}
{{- if not $webhook.caBundle }}
{{- fail "webhook.certificate.secretName needs webhook.caBundle, the authority that signed the certificate" }}
{{- end }}
{{- if and .Values.deployments.enabled (not $webhook.certificate.secretName) }}
{{- fail "webhook.caBundle needs webhook.certificate.secretName, the Secret with the certificate and its key" }}
{{- end -}}
user
{{- else -}}
operator
{{- end }}
{{- end }}

{{/* Where the API server finds a path of the webhook. Call with a dict of "root" and "path". */}}
{{- define "giveway.clientConfig" -}}
{{- $webhook := .root.Values.webhook -}}
{{- if $webhook.url -}}
url: {{ printf "%s/%s" $webhook.url .path | quote }}
{{- else -}}
service:
  namespace: {{ .root.Release.Namespace | quote }}
  name: giveway-webhook
  path: /{{ .path }}
  port: 443
{{- end }}
{{- if and (eq (include "giveway.certificates" .root) "user") $webhook.caBundle }}
caBundle: {{ $webhook.caBundle }}
{{- end }}
{{- end }}

{{/*
What every webhook of both configurations has in common, except the guard's. Call with a dict of "root", "path" and "failurePolicy". An
entry that fails open only delays requests while no webhook answers, so its timeout is three seconds. The others are the webhook's `--timeout-seconds`, which has the same default.
*/}}
{{- define "giveway.webhookCommon" -}}
clientConfig:
  {{- include "giveway.clientConfig" . | nindent 2 }}
admissionReviewVersions: [v1]
# Events, where the request is not a dry run.
sideEffects: NoneOnDryRun
matchPolicy: Equivalent
timeoutSeconds: {{ eq .failurePolicy "Ignore" | ternary 3 10 }}
failurePolicy: {{ .failurePolicy }}
{{- end }}

{{/* Keeps namespaced webhooks out of kube-system and of Giveway's own namespace. */}}
{{- define "giveway.namespaceSelector" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, {{ .Release.Namespace | quote }}]
{{- end }}

{{/* Where groups are served, as a LabelSelector in JSON; nothing where they are in all namespaces. */}}
{{- define "giveway.served" -}}
{{- $namespaces := .Values.namespaces }}
{{- $labels := merge (dict) (($namespaces.selector).matchLabels | default dict) }}
{{- $selector := dict }}
{{- if $labels }}
{{- $_ := set $selector "matchLabels" $labels }}
{{- end }}
{{- with ($namespaces.selector).matchExpressions }}
{{- $_ := set $selector "matchExpressions" . }}
{{- end }}
{{- if $selector }}
{{- toJson $selector }}
{{- end }}
{{- end }}

{{/*
Labels of a namespace where groups are served, in JSON: those that the selector requires, and where it allows several values one
that no expression excludes. The label kubernetes.io/metadata.name is left out, because the API server sets it.
*/}}
{{- define "giveway.servedLabels" -}}
{{- $selector := include "giveway.served" . | default "{}" | fromJson }}
{{- $labels := omit ($selector.matchLabels | default dict) "kubernetes.io/metadata.name" }}
{{- range $asked := $selector.matchExpressions }}
{{- if and (has .operator (list "In" "Exists")) (not (hasKey $labels .key)) (ne .key "kubernetes.io/metadata.name") }}
{{- range $value := $asked.values | default (list "true") }}
{{- $allowed := true }}
{{- range $selector.matchExpressions }}
{{- if and (eq .key $asked.key) (or (and (eq .operator "In") (not (has $value .values))) (and (eq .operator "NotIn") (has $value .values))) }}
{{- $allowed = false }}
{{- end }}
{{- end }}
{{- if and $allowed (not (hasKey $labels $asked.key)) }}
{{- $_ := set $labels $asked.key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $labels }}
{{- end }}

{{/*
What Giveway reads of the configuration of kube-scheduler, in JSON; nothing where there is none. Its other fields may be secret, such as
keys of extenders, and are left out.
*/}}
{{- define "giveway.schedulerConfig" -}}
{{- $given := .Values.operator.schedulerConfig }}
{{- if kindIs "string" $given }}
{{- $given = fromYaml $given }}
{{- with $given.Error }}
{{- fail (printf "operator.schedulerConfig: Invalid value: must be a KubeSchedulerConfiguration: %s" .) }}
{{- end }}
{{- end }}
{{- if $given }}
{{- $extenders := list }}
{{- range $given.extenders }}
{{- $extenders = append $extenders (pick . "managedResources") }}
{{- end }}
{{- $profiles := list }}
{{- range $profile := $given.profiles }}
{{- $plugins := list }}
{{- range $profile.pluginConfig }}
{{- if has .name (list "NodeAffinity" "NodeResourcesFit" "PodTopologySpread") }}
{{- $args := pick (.args | default dict) "addedAffinity" "defaultConstraints" "defaultingType" "ignoredResourceGroups" "ignoredResources" }}
{{- $plugins = append $plugins (dict "name" .name "args" $args) }}
{{- end }}
{{- end }}
{{- $profiles = append $profiles (merge (dict "pluginConfig" $plugins) (pick $profile "schedulerName")) }}
{{- end }}
{{- toJson (merge (dict "extenders" $extenders "profiles" $profiles) (pick $given "apiVersion" "kind")) }}
{{- end }}
{{- end }}

{{/* Name of the ConfigMap with that configuration: another one has another name, so that the operator's pods are replaced. */}}
{{- define "giveway.schedulerConfigName" -}}
giveway-scheduler-config-{{ include "giveway.schedulerConfig" . | sha256sum | trunc 8 }}
{{- end }}

{{/* Name of the namespace that `helm test` makes. */}}
{{- define "giveway.testNamespace" -}}
giveway-test-{{ sha256sum .Release.Namespace | trunc 8 }}
{{- end }}

{{/*
Where groups are served, for the entry of a webhook, which keeps out of kube-system and of Giveway's own namespace. Call with a dict of "root" and, where
there is one, a further "selector".
*/}}
{{- define "giveway.servedNamespaces" -}}
{{- $served := include "giveway.served" .root | default "{}" | fromJson }}
{{- $further := .selector | default dict -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, {{ .root.Release.Namespace | quote }}]
    {{- range concat ($served.matchExpressions | default list) ($further.matchExpressions | default list) }}
    - {{ toJson . }}
    {{- end }}
  {{- with merge (dict) ($further.matchLabels | default dict) ($served.matchLabels | default dict) }}
  matchLabels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Restricts an entry for owners to requests that change what it reads. */}}
{{- define "giveway.ownerConditions" -}}
matchConditions:
  - name: is-new-or-changed
    expression: >-
      request.operation == 'CREATE' || object.?spec != oldObject.?spec
      || object.metadata.?labels != oldObject.metadata.?labels
      || object.metadata.?annotations != oldObject.metadata.?annotations
{{- end }}

{{/* Annotations of both webhook configurations: those of the values, and the one by which cert-manager fills caBundle. */}}
{{- define "giveway.configurationAnnotations" -}}
{{- $annotations := merge (dict) (.Values.webhook.configurationAnnotations | default dict) }}
{{- if eq (include "giveway.certificates" .) "cert-manager" }}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/giveway-webhook" .Release.Namespace) }}
{{- end }}
{{- with $annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Security context of both containers. */}}
{{- define "giveway.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Security context of the pods of Deployments and Jobs. Without a user in the values, the image or the cluster chooses it. */}}
{{- define "giveway.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  {{- if not (kindIs "invalid" .Values.security.runAsUser) }}
  {{- /* helm reads a number of a file as a float, which it would print as 1.00065e+09. */}}
  runAsUser: {{ int64 .Values.security.runAsUser }}
  runAsGroup: {{ int64 .Values.security.runAsUser }}
  fsGroup: {{ int64 .Values.security.runAsUser }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* Where the pods of a component may run. Call with a dict of "root" and "component". */}}
{{- define "giveway.placement" -}}
{{- $values := .root.Values.pods }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $values.affinity }}
affinity:
  {{- toYaml $values.affinity | nindent 2 }}
{{- else if gt (int (index .root.Values .component).replicas) 1 }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "giveway.selector" . | nindent 14 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
