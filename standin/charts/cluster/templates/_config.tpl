{{/* teleport.yaml of a component, the author's teleportConfig merged in. Takes (list root "auth"). */}}
{{- define "standin.config" -}}
{{- $v := include "standin.values" . | fromYaml -}}
{{- $config := dict -}}
{{- if eq $v.chartMode "scratch" -}}
  {{- if not $v.teleportConfig }}{{ fail (printf "chartMode scratch needs %s.teleportConfig: it is the whole configuration there" (index . 1)) }}{{ end -}}
{{- else -}}
  {{- if not $v.clusterName }}{{ fail "clusterName is required in chart values" }}{{ end -}}
  {{- $config = include (printf "standin.config.%s" (index . 1)) (list (index . 0) $v) | fromYaml -}}
{{- end -}}
{{- mustMergeOverwrite $config (default dict $v.teleportConfig) | toYaml -}}
{{- end -}}

{{- define "standin.config.log" -}}
severity: {{ .log.level }}
output: {{ .log.output }}
format:
  output: {{ .log.format }}
  extra_fields: {{ .log.extraFields | toJson }}
{{- end -}}

{{- define "standin.config.auth" -}}
{{- $root := index . 0 -}}
{{- $v := index . 1 -}}
version: v3
teleport:
  log: {{- include "standin.config.log" $v | nindent 4 }}
{{- if $v.etcd.enabled }}
  storage:
    type: etcd
    peers: ["http://{{ include "standin.etcdHost" $root }}:2379"]
    prefix: /{{ $root.Release.Name }}
    insecure: true
{{- end }}
auth_service:
  enabled: true
  cluster_name: {{ $v.clusterName }}
  authentication:
    type: {{ $v.authentication.type }}
    local_auth: {{ $v.authentication.localAuth }}
    second_factor: {{ $v.authentication.secondFactor | quote }}
{{- if not (has $v.authentication.secondFactor (list "off" "otp")) }}
    webauthn: {rp_id: {{ $v.clusterName }}}
{{- end }}
  proxy_listener_mode: {{ $v.proxyListenerMode }}
{{- with $v.sessionRecording }}
  session_recording: {{ . | quote }}
{{- end }}
kubernetes_service:
  enabled: true
  listen_addr: 0.0.0.0:3026
  public_addr: {{ include "standin.authHost" $root }}:3026
  kube_cluster_name: {{ default $v.clusterName $v.kubeClusterName }}
{{- with $v.labels }}
  labels: {{- toYaml . | nindent 4 }}
{{- end }}
proxy_service: {enabled: false}
ssh_service: {enabled: false}
{{- end -}}

{{- define "standin.config.proxy" -}}
{{- $root := index . 0 -}}
{{- $v := index . 1 -}}
version: v3
teleport:
  auth_server: {{ include "standin.authHost" $root }}:3025
  join_params:
    method: kubernetes
    token_name: {{ $root.Release.Name }}-proxy
  log: {{- include "standin.config.log" $v | nindent 4 }}
proxy_service:
  enabled: true
{{- if $v.publicAddr }}
  public_addr: {{- toYaml $v.publicAddr | nindent 4 }}
{{- else }}
  public_addr: {{ $v.clusterName }}:443
{{- end }}
{{- if eq $v.proxyListenerMode "separate" }}
  listen_addr: 0.0.0.0:3023
  tunnel_listen_addr: 0.0.0.0:3024
  kube_listen_addr: 0.0.0.0:3026
  mysql_listen_addr: 0.0.0.0:3036
{{- end }}
{{- if $v.tls.existingSecretName }}
  https_keypairs:
  - {key_file: /etc/teleport-tls/tls.key, cert_file: /etc/teleport-tls/tls.crt}
  https_keypairs_reload_interval: 12h
{{- end }}
auth_service: {enabled: false}
ssh_service: {enabled: false}
{{- end -}}

{{/* The join token of the proxies, read by the auth at its start. */}}
{{- define "standin.proxyToken" -}}
kind: token
version: v2
metadata:
  name: {{ .Release.Name }}-proxy
  expires: "3000-01-01T00:00:00Z"
spec:
  roles: [Proxy]
  join_method: kubernetes
  kubernetes:
    allow:
    - service_account: "{{ .Release.Namespace }}:{{ include "standin.serviceAccount" (list . "proxy") }}"
{{- end -}}

{{/* The data of a component's ConfigMap. Takes (list root "auth"). */}}
{{- define "standin.configData" -}}
{{- $v := include "standin.values" . | fromYaml -}}
teleport.yaml: |
  {{- include "standin.config" . | nindent 2 }}
{{- if and (eq (index . 1) "auth") $v.createProxyToken }}
apply-on-startup.yaml: |
  {{- include "standin.proxyToken" (index . 0) | nindent 2 }}
{{- end }}
{{- end -}}
