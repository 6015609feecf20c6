{{/* The pod of a component. Takes (list root "auth"). */}}
{{- define "standin.pod" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $v := include "standin.values" . | fromYaml -}}
metadata:
  labels: {{- include "standin.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "standin.configData" . | sha256sum }}
    {{- with $v.annotations.pod }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "standin.serviceAccount" . }}
  terminationGracePeriodSeconds: {{ int $v.terminationGracePeriodSeconds }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "standin.affinity" (list $root $component $v) }}
  affinity: {{- . | nindent 4 }}
  {{- end }}
  {{- $waits := and (eq $component "proxy") $v.waitForAuth.enabled }}
  {{- if or $waits $v.initContainers }}
  initContainers:
  {{- if $waits }}
  - name: wait-auth-update
    image: {{ include "standin.image" (dict "Values" $v "Chart" $root.Chart) }}
    imagePullPolicy: {{ $v.imagePullPolicy }}
    command: [teleport, wait, no-resolve, "{{ include "standin.authMajorService" (list $root (include "standin.previousMajor" (dict "Values" $v "Chart" $root.Chart))) }}.{{ $root.Release.Namespace }}.svc.cluster.local"]
  {{- end }}
  {{- with $v.initContainers }}{{ toYaml . | nindent 2 }}{{ end }}
  {{- end }}
  containers:
  - name: teleport
    image: {{ include "standin.image" (dict "Values" $v "Chart" $root.Chart) }}
    imagePullPolicy: {{ $v.imagePullPolicy }}
    args:
    - --diag-addr=0.0.0.0:3000
    {{- if $v.insecureSkipProxyTLSVerify }}
    - --insecure
    {{- end }}
    {{- if and (eq $component "auth") $v.createProxyToken }}
    - --apply-on-startup=/etc/teleport/apply-on-startup.yaml
    {{- end }}
    {{- with $v.extraArgs }}{{ toYaml . | nindent 4 }}{{ end }}
    env: {{- include "standin.env" (list $root $v) | nindent 4 }}
    ports:
    - {name: diag, containerPort: 3000, protocol: TCP}
    livenessProbe: {{- include "standin.probe" (list $v "/healthz" $v.probes.livenessFailureThreshold) | nindent 6 }}
    readinessProbe: {{- include "standin.probe" (list $v "/readyz" $v.probes.readinessFailureThreshold) | nindent 6 }}
    {{- if or $v.preStopWait $v.postStart.command }}
    lifecycle:
      {{- with $v.preStopWait }}
      preStop: {exec: {command: [teleport, wait, duration, {{ . | quote }}]}}
      {{- end }}
      {{- with $v.postStart.command }}
      postStart: {exec: {command: {{ toJson . }}}}
      {{- end }}
    {{- end }}
    {{- with $v.resources }}
    resources: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $v.securityContext }}
    securityContext: {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
    - {name: config, mountPath: /etc/teleport, readOnly: true}
    - {name: data, mountPath: /var/lib/teleport}
    {{- if and (eq $component "proxy") $v.tls.existingSecretName }}
    - {name: teleport-tls, mountPath: /etc/teleport-tls, readOnly: true}
    {{- end }}
    {{- with $v.extraVolumeMounts }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
  - {name: config, configMap: {name: {{ $root.Release.Name }}-{{ $component }}}}
  {{- include "standin.dataVolume" (list $root $component $v) | nindent 2 }}
  {{- if and (eq $component "proxy") $v.tls.existingSecretName }}
  - {name: teleport-tls, secret: {secretName: {{ $v.tls.existingSecretName }}}}
  {{- end }}
  {{- with $v.extraVolumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{- define "standin.env" -}}
{{- $root := index . 0 -}}
{{- $v := index . 1 -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: STANDIN_VERSION, value: {{ include "standin.version" (dict "Values" $v "Chart" $root.Chart) | quote }}}
- {name: STANDIN_BEHAVE_AS, value: {{ $v.standin.behaveAs | quote }}}
- {name: STANDIN_ENTRY_SIGNAL, value: {{ $v.stopSignal | quote }}}
- {name: STANDIN_TIME_FACTOR, value: {{ $v.standin.timeFactor | quote }}}
{{- with $v.standin.tunnelBackoff }}
- {name: STANDIN_TUNNEL_BACKOFF, value: {{ . | quote }}}
{{- end }}
{{- with $v.standin.faults }}
- {name: STANDIN_FAULTS, value: {{ . | quote }}}
{{- end }}
{{- with $v.extraEnv }}{{ toYaml . | nindent 0 }}{{ end }}
{{- end -}}

{{- define "standin.probe" -}}
{{- $v := index . 0 -}}
httpGet: {path: {{ index . 1 }}, port: diag}
initialDelaySeconds: {{ int $v.probes.initialDelaySeconds }}
periodSeconds: {{ int $v.probes.periodSeconds }}
failureThreshold: {{ int (index . 2) }}
timeoutSeconds: {{ int $v.probeTimeoutSeconds }}
{{- end -}}

{{/* Both components keep away from proxies, as in the chart imitated. */}}
{{- define "standin.affinity" -}}
{{- $root := index . 0 -}}
{{- $v := index . 2 -}}
{{- if $v.affinity -}}
  {{- if $v.highAvailability.requireAntiAffinity }}{{ fail "highAvailability.requireAntiAffinity and affinity exclude each other: unset one" }}{{ end -}}
  {{- toYaml $v.affinity -}}
{{- else if $v.highAvailability.requireAntiAffinity -}}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - topologyKey: kubernetes.io/hostname
    labelSelector: {matchLabels: {app.kubernetes.io/instance: {{ $root.Release.Name }}, app.kubernetes.io/component: proxy}}
{{- else if gt (int $v.highAvailability.replicaCount) 1 -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 50
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector: {matchLabels: {app.kubernetes.io/instance: {{ $root.Release.Name }}, app.kubernetes.io/component: proxy}}
{{- end -}}
{{- end -}}
