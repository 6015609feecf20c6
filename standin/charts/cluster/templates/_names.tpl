{{/* The values of one component: the shared ones with the component's own laid over. Takes (list root "auth"). */}}
{{- define "standin.values" -}}
{{- $root := index . 0 -}}
{{- $own := default dict (index $root.Values (index . 1)) -}}
{{- mustMergeOverwrite (mustDeepCopy (omit $root.Values "auth" "proxy")) (mustDeepCopy $own) | toYaml -}}
{{- end -}}

{{- define "standin.version" -}}
{{- coalesce .Values.teleportVersionOverride .Chart.AppVersion -}}
{{- end -}}

{{- define "standin.major" -}}
{{- (semver (include "standin.version" .)).Major -}}
{{- end -}}

{{- define "standin.previousMajor" -}}
{{- sub (include "standin.major" . | int) 1 -}}
{{- end -}}

{{- define "standin.image" -}}
{{- .Values.image }}:{{ include "standin.version" . -}}
{{- end -}}

{{/* What selects a component's pods. Takes (list root "auth"). */}}
{{- define "standin.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "standin.labels" -}}
{{- $root := index . 0 -}}
{{ include "standin.selector" . }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- $own := dict "Values" (include "standin.values" . | fromYaml) "Chart" $root.Chart }}
app.kubernetes.io/version: {{ include "standin.version" $own | quote }}
teleport.dev/majorVersion: {{ include "standin.major" $own | quote }}
{{- end -}}

{{/* Service names end at 63 characters, so long release names are cut. */}}
{{- define "standin.authService" -}}
{{ .Release.Name | trunc 58 | trimSuffix "-" }}-auth
{{- end -}}

{{- define "standin.authHost" -}}
{{ include "standin.authService" . }}.{{ .Release.Namespace }}.svc.cluster.local
{{- end -}}

{{/* The headless Service over the auth pods of one major version. Takes (list root major). */}}
{{- define "standin.authMajorService" -}}
{{ (index . 0).Release.Name | trunc 54 | trimSuffix "-" }}-auth-v{{ index . 1 }}
{{- end -}}

{{- define "standin.serviceAccount" -}}
{{- $name := coalesce (index . 0).Values.serviceAccount.name (index . 0).Release.Name -}}
{{- if eq (index . 1) "proxy" }}{{ $name }}-proxy{{ else }}{{ $name }}{{ end -}}
{{- end -}}

{{- define "standin.etcdHost" -}}
{{ .Release.Name }}-etcd.{{ .Release.Namespace }}.svc.cluster.local
{{- end -}}
