{{- define "agents.version" -}}
{{- coalesce .Values.teleportVersionOverride .Chart.AppVersion -}}
{{- end -}}

{{- define "agents.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "agents.labels" -}}
{{ include "agents.selector" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ include "agents.version" . | quote }}
{{- end -}}

{{- define "agents.config" -}}
{{- $direct := eq .root.Values.join "direct" -}}
version: v3
teleport:
  auth_token: {{ required "authToken is required: the static token agents join with" .root.Values.authToken | quote }}
  {{- if $direct }}
  auth_server: {{ required "authAddr is required with join direct, as host:port" .root.Values.authAddr | quote }}
  {{- else }}
  proxy_server: {{ required "proxyAddr is required with join tunnel, as host:port" .root.Values.proxyAddr | quote }}
  {{- end }}
  data_dir: /var/lib/teleport/agent-{{ .index }}
  log: {severity: {{ .root.Values.log.level }}, output: stderr}
ssh_service:
  enabled: true
  listen_addr: 0.0.0.0:{{ add 3022 .index }}
  {{- with .root.Values.labels }}
  labels: {{- toYaml . | nindent 4 }}
  {{- end }}
auth_service: {enabled: false}
proxy_service: {enabled: false}
{{- end -}}
