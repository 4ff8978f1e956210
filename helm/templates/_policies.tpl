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
Variables of a policy that compares an object with what it was: "now" and "before" (equal for a creation and a deletion, which change
nothing), "metadata" and "metadataBefore" with their "labels" and "annotations", and each of the other parts that are asked for. They
have no type, so that all their fields can be iterated over, including those of later versions. Call with a list of further parts.
*/}}
{{- define "giveway.parts" -}}
- name: now
  expression: "request.operation == 'DELETE' ? dyn(oldObject) : dyn(object)"
- name: before
  expression: "request.operation == 'CREATE' ? dyn(object) : dyn(oldObject)"
{{- range $part := concat (list "metadata") . }}
- name: {{ $part }}
  expression: dyn(variables.now.?{{ $part }}.orValue({}))
- name: {{ $part }}Before
  expression: dyn(variables.before.?{{ $part }}.orValue({}))
{{- end }}
{{- range $map := list "labels" "annotations" }}
- name: {{ $map }}
  expression: dyn(variables.metadata.?{{ $map }}.orValue({}))
- name: {{ $map }}Before
  expression: dyn(variables.metadataBefore.?{{ $map }}.orValue({}))
{{- end }}
{{- end }}

{{/* CEL: nothing but these fields changes in a part of the object. Call with a dict of "part", one of "giveway.parts", and "fields", a list. */}}
{{- define "giveway.changesOnly" -}}
variables.{{ .part }}.all(k, k in {{ toJson .fields }}
|| variables.{{ .part }}[?k] == variables.{{ .part }}Before[?k])
&& variables.{{ .part }}Before.all(k, k in {{ toJson .fields }} || k in variables.{{ .part }})
{{- end }}

{{/*
Validations of a policy about the writes of one of Giveway's own accounts: in metadata, what gives power is as that account asks for it.
A mutating admission plugin may add to its request, and the policy cannot tell what came from which, so all that it may add is allowed:
labels, and any change of annotations. What cannot change: names, owners, finalizers and times; labels and annotations of Giveway; and
the labels that exist, because a budget or Service that selects by them would lose the object. The policy has the variables of
"giveway.parts". Call with a dict of "account" (its name in messages) and, if the account has to change them, "ours" (true: labels and
annotations of Giveway), "finalizer" (the name of Giveway's) and "also" (a list of further fields; the policy has a rule of its own for each).
*/}}
{{- define "giveway.metadataAsAsked" -}}
{{- $prefix := "scheduling.giveway.dev/" }}
{{- $isOurs := printf "k.startsWith('%s')" $prefix }}
{{- /* The first three are the API server's own to write. */}}
{{- $fields := list "managedFields" "generation" "resourceVersion" "labels" "annotations" }}
{{- with .finalizer }}
{{- $fields = append $fields "finalizers" }}
{{- end }}
{{- with .also }}
{{- $fields = concat $fields . }}
{{- end -}}
- expression: >-
    {{ include "giveway.changesOnly" (dict "part" "metadata" "fields" $fields) | nindent 4 | trim }}
  reason: Forbidden
  message: "metadata: {{ .account }} may change only {{ if .finalizer }}labels, annotations and finalizers{{ else }}labels and annotations{{ end }}"
{{- /* Of which keys the values stay. The accounts never have to change an object with more than 500 labels or annotations. */}}
{{- $kept := dict "labels" (ternary (printf "%s ||" $isOurs) "" (.ours | default false)) }}
{{- $messages := dict "labels" (printf "may change or remove only labels that start with %s" $prefix) }}
{{- if not .ours }}
{{- $_ := set $kept "annotations" (printf "!%s ||" $isOurs) }}
{{- $messages = dict
  "labels" (printf "may neither change nor remove a label, nor add one that starts with %s" $prefix)
  "annotations" (printf "may not change annotations that start with %s" $prefix) }}
{{- end }}
{{- range $map, $unless := $kept }}
- expression: >-
    variables.{{ $map }} == variables.{{ $map }}Before
    || (size(variables.{{ $map }}) <= 500 && size(variables.{{ $map }}Before) <= 500
    && variables.{{ $map }}Before.all(k, {{ with $unless }}{{ . }} {{ end }}variables.{{ $map }}[?k] == variables.{{ $map }}Before[?k])
    {{- if not $.ours }}
    && variables.{{ $map }}.all(k, !{{ $isOurs }} || k in variables.{{ $map }}Before)
    {{- end }})
  reason: Forbidden
  message: "metadata.{{ $map }}: {{ $.account }} {{ get $messages $map }}"
{{- end }}
{{- with .finalizer }}
{{- $foreign := printf ".filter(f, f != '%s')" . }}
- expression: >-
    variables.metadata.?finalizers == variables.metadataBefore.?finalizers
    || (size(variables.metadata.?finalizers.orValue([])) <= 500
    && size(variables.metadataBefore.?finalizers.orValue([])) <= 500
    && variables.metadata.?finalizers.orValue([]){{ $foreign }}
    == variables.metadataBefore.?finalizers.orValue([]){{ $foreign }})
  reason: Forbidden
  message: "metadata.finalizers: {{ $.account }} may add and remove only {{ . }}"
{{- end }}
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
CEL: this user has break-glass access in the namespace of the request. No API serves the subresource "breakglass": it exists in RBAC
only, so that no controller has the right because it needs it for something else. Cluster administrators have it, and users with an
explicit grant. One check costs a third of what an expression may cost, so it comes last.
*/}}
{{- define "giveway.mayBreakGlass" -}}
authorizer.group('scheduling.giveway.dev').resource('podgroups').subresource('breakglass').namespace(request.?namespace.orValue('')).check('update').allowed()
{{- end }}

{{/*
CEL: this user may decide what Giveway does in the Namespace that the request creates or changes. No API serves the resource
"namespaces" of this group: it exists in RBAC only. Cluster administrators have the right, and users with an explicit grant.
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

{{/* The matchConstraints of a policy about pods that are created. */}}
{{- define "giveway.createdPods" -}}
resourceRules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [pods]
    operations: [CREATE]
    scope: Namespaced
{{- end }}

{{/*
Conditions of the policies about annotations that a pod has from its priority class. Pods without them cost nothing more. Where the
webhook is never called, no policy can block a pod either; the operator corrects the annotations there. Call with a dict of "root" and
"keys", the annotations.
*/}}
{{- define "giveway.classAnnotationConditions" -}}
- name: has-an-annotation-of-a-class
  expression: >-
    {{- range $index, $key := .keys }}
    {{ if $index }}|| {{ end }}object.metadata.?annotations[?'{{ $key }}'].hasValue()
    {{- end }}
- name: is-not-a-mirror-pod
  expression: >-
    !({{ include "giveway.isMirrorPod" .root | nindent 4 | trim }})
- name: is-where-the-webhook-is-called
  expression: "!(request.namespace in ['kube-system', {{ .root.Release.Namespace | squote }}])"
{{- end }}

{{/*
CEL: the taint t has the form of Giveway's: the UID of a pod. Taints of node pools have the same key permanently, and other values.
*/}}
{{- define "giveway.isOwnTaint" -}}
t.key == 'CriticalAddonsOnly' && t.effect == 'NoSchedule' && t.?value.orValue('').matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
{{- end }}

{{/* CEL: a pod has Giveway's scheduling gate. Call with the name of the variable. */}}
{{- define "giveway.isHeld" -}}
dyn({'name': 'scheduling.giveway.dev/pod-group'}) in {{ . }}.spec.?schedulingGates.orValue([])
{{- end }}
