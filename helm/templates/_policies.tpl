{{/*
What ValidatingAdmissionPolicies share. They are evaluated inside the API server, so that they work while the webhook is down,
and they apply in every namespace: no namespace needs what they deny.

Expressions look keys up, search lists and compare whole values. They do not iterate over anything whose length users decide:
60,000 labels cost the API server 7 s (measured), and a policy that exceeds its cost budget denies what it should allow.
*/}}

{{/* The labels and annotations that Giveway has on pods, as JSON. */}}
{{- define "giveway.podKeys" -}}
{"labels": ["pod-group", "workload", "pod-group-template", "pod-group-replica", "gang", "placeholder"],
"annotations": ["preemption-policy", "allow-disruption-by-priority-greater-than-or-equal", "preemption-plan",
"min-count", "disruption-mode"]}
{{- end }}

{{/*
Binds a policy. Call with a dict of "root" and "name", and with "actions" if a violation is not denied.
*/}}
{{- define "giveway.policyBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "giveway.labels" (dict "root" .root "component" "operator") | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: {{ .actions | default (list "Deny") | toJson }}
{{- end }}

{{/* CEL: the request comes from the operator. */}}
{{- define "giveway.isOperator" -}}
request.userInfo.username == {{ include "giveway.operatorUser" . | squote }}
{{- end }}

{{/* CEL: the request comes from the webhook. */}}
{{- define "giveway.isWebhook" -}}
request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:giveway-webhook'
{{- end }}

{{/* CEL: the request does not come from the operator. */}}
{{- define "giveway.isNotOperator" -}}
request.userInfo.username != {{ include "giveway.operatorUser" . | squote }}
{{- end }}

{{/*
CEL: this user has break-glass access in the namespace of the request. Cluster administrators have it, and users to whom it was
granted explicitly. One check costs a third of what an expression may cost, so it comes last.
*/}}
{{- define "giveway.mayBreakGlass" -}}
authorizer.group('scheduling.giveway.dev').resource('podgroups').subresource('finalizers').namespace(request.?namespace.orValue('')).check('update').allowed()
{{- end }}

{{/*
CEL: this user may decide what Giveway does in the Namespace that the request creates or changes. No API serves the resource
"namespaces" of this group: it exists in RBAC only. Cluster administrators have the right, and users to whom it was granted explicitly.
*/}}
{{- define "giveway.mayRuleNamespaces" -}}
authorizer.group('scheduling.giveway.dev').resource('namespaces').name(object.metadata.name).check('update').allowed()
{{- end }}

{{/* CEL: the request is about a namespace in which no annotation makes a pod a critical add-on. */}}
{{- define "giveway.isNotCritical" -}}
!(request.?namespace.orValue('') in {{ toJson .Values.criticalAddons.namespaces }})
{{- end }}

{{/* CEL: a node creates its mirror pod of a static pod. The annotation alone proves nothing: any user can write it. */}}
{{- define "giveway.isMirrorPod" -}}
request.operation == 'CREATE'
&& object.metadata.?annotations[?'kubernetes.io/config.mirror'].hasValue()
&& request.userInfo.username.startsWith('system:node:')
&& 'system:nodes' in request.userInfo.?groups.orValue([])
{{- end }}

{{/* CEL: a pod has Giveway's scheduling gate. Call with the name of the variable. */}}
{{- define "giveway.isHeld" -}}
dyn({'name': 'scheduling.giveway.dev/pod-group'}) in {{ . }}.spec.?schedulingGates.orValue([])
{{- end }}
