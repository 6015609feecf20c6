{{/* How many replicas a component gets. Proxies without a shared certificate cannot be replicated. */}}
{{- define "standin.replicas" -}}
{{- $root := index . 0 -}}
{{- $v := index . 2 -}}
{{- if eq (index . 1) "auth" -}}
  {{- int $v.highAvailability.replicaCount -}}
{{- else if $v.tls.existingSecretName -}}
  {{- $own := dig "highAvailability" "replicaCount" 0 (default dict $root.Values.proxy) -}}
  {{- if $own }}{{ int $own }}{{ else }}{{ max (int $root.Values.highAvailability.replicaCount) 2 }}{{ end -}}
{{- else -}}1{{- end -}}
{{- end -}}

{{/* Whether a component's data lies on a claim of its own pod (StatefulSet only). Proxies only where it is asked of them. */}}
{{- define "standin.claims" -}}
{{- $root := index . 0 -}}
{{- $v := index . 2 -}}
{{- if eq $v.workload "StatefulSet" -}}
  {{- if eq (index . 1) "auth" }}{{ if and $v.persistence.enabled (not $v.persistence.existingClaimName) }}yes{{ end -}}
  {{- else if dig "persistence" "enabled" false (default dict $root.Values.proxy) }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{- define "standin.dataVolume" -}}
{{- $root := index . 0 -}}
{{- $v := index . 2 -}}
{{- if include "standin.claims" . -}}
{{- else if and (eq (index . 1) "auth") $v.persistence.enabled -}}
- {name: data, persistentVolumeClaim: {claimName: {{ default $root.Release.Name $v.persistence.existingClaimName }}}}
{{- else -}}
- {name: data, emptyDir: {}}
{{- end -}}
{{- end -}}

{{- define "standin.claimSpec" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ required "persistence.volumeSize is required in chart values" .volumeSize }}}}
{{- end -}}

{{/* The whole workload of a component. Takes (list root "auth"). */}}
{{- define "standin.workload" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $v := include "standin.values" . | fromYaml -}}
{{- $replicas := include "standin.replicas" (list $root $component $v) | int -}}
{{- $replicable := or (and (eq $component "auth") (gt $replicas 1)) (and (eq $component "proxy") (ne $v.tls.existingSecretName "")) -}}
apiVersion: apps/v1
kind: {{ $v.workload }}
metadata:
  name: {{ $root.Release.Name }}-{{ $component }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "standin.labels" . | nindent 4 }}
  {{- with $v.annotations.deployment }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  replicas: {{ $replicas }}
  {{- if and $replicable $v.highAvailability.minReadySeconds }}
  minReadySeconds: {{ int $v.highAvailability.minReadySeconds }}
  {{- end }}
  selector:
    matchLabels: {{- include "standin.selector" . | nindent 6 }}
  {{- if eq $v.workload "StatefulSet" }}
  serviceName: {{ $root.Release.Name }}-{{ $component }}-pods
  podManagementPolicy: Parallel
  {{- with $v.strategy }}
  updateStrategy: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if include "standin.claims" (list $root $component $v) }}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {{- include "standin.claimSpec" $v.persistence | nindent 6 }}
  {{- end }}
  {{- else if $v.strategy }}
  strategy: {{- toYaml $v.strategy | nindent 4 }}
  {{- else if eq $component "auth" }}
  {{- if gt $replicas 1 }}
  # Never more auths than asked for: some storage bears no more.
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  {{- else }}
  # A single auth may hold its storage alone.
  strategy: {type: Recreate}
  {{- end }}
  {{- end }}
  template: {{- include "standin.pod" . | nindent 4 }}
{{- end -}}
