{{/*
What ValidatingAdmissionPolicies share. They are evaluated inside the API server, so no outage takes them down, and they
hold in every namespace: what they forbid is nobody's business anywhere.

Expressions look keys up, search lists and compare whole values. They walk nothing whose length users decide: 60,000
labels cost the API server 7 s (measured), and a policy that runs out of its budget refuses what it should allow.
*/}}

{{/* The labels and annotations that Giveway has on pods, as JSON. */}}
{{- define "giveway.podKeys" -}}
{"labels": ["pod-group", "workload", "pod-group-template", "pod-group-replica", "gang", "placeholder"],
"annotations": ["preemption-policy", "allow-disruption-by-priority-greater-than-or-equal", "preemption-plan",
"min-count", "disruption-mode"]}
{{- end }}

{{/*
Puts a policy into force. Call with a dict of "root" and "name", and with "actions" where what it finds is not refused.
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

{{/* CEL: the request does not come from the operator. */}}
{{- define "giveway.isNotOperator" -}}
request.userInfo.username != {{ include "giveway.operatorUser" . | squote }}
{{- end }}

{{/*
CEL: this user may break the glass in the namespace of the request. Cluster administrators may, and whoever was given it on
purpose. One check costs a third of what an expression may cost, so it comes last.
*/}}
{{- define "giveway.mayBreakGlass" -}}
authorizer.group('scheduling.giveway.dev').resource('podgroups').subresource('finalizers').namespace(request.?namespace.orValue('')).check('update').allowed()
{{- end }}

{{/*
CEL: this user may say of the namespace at hand what Giveway does there. Nobody serves these "namespaces": they are a right by
name, which cluster administrators have, and whoever was given it on purpose.
*/}}
{{- define "giveway.mayRuleNamespaces" -}}
authorizer.group('scheduling.giveway.dev').resource('namespaces').name(object.metadata.name).check('update').allowed()
{{- end }}

{{/* CEL: the request is about a namespace in which no annotation makes a pod a critical add-on. */}}
{{- define "giveway.isNotCritical" -}}
!(request.?namespace.orValue('') in {{ toJson .Values.criticalAddons.namespaces }})
{{- end }}

{{/* CEL: a node creates its copy of a static pod; anybody can write the annotation of one. */}}
{{- define "giveway.isMirrorPod" -}}
request.operation == 'CREATE'
&& object.metadata.?annotations[?'kubernetes.io/config.mirror'].hasValue()
&& request.userInfo.username.startsWith('system:node:')
&& 'system:nodes' in request.userInfo.?groups.orValue([])
{{- end }}

{{/* CEL: the gate of Giveway is on a pod. Call with the name of the variable. */}}
{{- define "giveway.isHeld" -}}
dyn({'name': 'scheduling.giveway.dev/pod-group'}) in {{ . }}.spec.?schedulingGates.orValue([])
{{- end }}
