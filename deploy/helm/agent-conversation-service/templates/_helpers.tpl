{{- define "acs.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 36 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 36 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Of everything; (dict "root" $ "component" "api") */}}
{{- define "acs.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "acs.labels" -}}
{{ include "acs.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "acs.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "acs.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "acs.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "acs.secret" -}}
{{ required "existingSecret: the name of a Secret with DATABASE_URL, JWT_PRIVATE_KEY, URL_SIGNING_KEY and ENCRYPTION_KEYS" .Values.existingSecret }}
{{- end -}}

{{/* What every pod has beside its container; (dict "root" $ "group" .Values.api) */}}
{{- define "acs.pod" -}}
serviceAccountName: {{ include "acs.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .group.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .group.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .group.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every container has. */}}
{{- define "acs.container" -}}
image: {{ include "acs.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}

{{/* The settings of an API or a worker; (dict "root" $ "group" .Values.api) */}}
{{- define "acs.environment" -}}
envFrom:
  - configMapRef: { name: {{ include "acs.name" .root }} }
  - secretRef: { name: {{ include "acs.secret" .root }} }
env:
  {{- range $name, $value := .group.settings }}
  - { name: {{ $name }}, value: {{ $value | toString | quote }} }
  {{- end }}
{{- end -}}

{{/* (dict "root" $ "group" .Values.api) */}}
{{- define "acs.mounts" -}}
volumeMounts:
  - { name: temporary, mountPath: /tmp }
  {{- if .root.Values.filesSecret }}
  - { name: files, mountPath: /etc/agent-conversation-service, readOnly: true }
  {{- end }}
{{- end -}}

{{- define "acs.volumes" -}}
volumes:
  - name: temporary
    emptyDir: {{ with .group.temporaryStorage }}{ sizeLimit: {{ . }} }{{ else }}{}{{ end }}
  {{- with .root.Values.filesSecret }}
  - name: files
    secret: { secretName: {{ . }}, defaultMode: 0440 }
  {{- end }}
{{- end -}}

{{/* What belongs to an API or a worker beside its Deployment; (dict "root" $ "component" … "name" … "group" …) */}}
{{- define "acs.scaling" -}}
{{- if (.group.autoscaling).enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ .name }}
  labels: {{- include "acs.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ .name }} }
  minReplicas: {{ .group.autoscaling.minReplicas }}
  maxReplicas: {{ .group.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ .group.autoscaling.targetCPUUtilizationPercentage }} }
{{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{- include "acs.labels" . | nindent 4 }}
spec:
  {{- toYaml (.group.disruptionBudget | default (dict "maxUnavailable" 1)) | nindent 2 }}
  selector:
    matchLabels: {{- include "acs.selector" . | nindent 6 }}
{{- end -}}

{{/* The port of an address: of `host:port`, or of a URL, whose scheme may say it; (dict "address" … "port" 7233) */}}
{{- define "acs.port" -}}
{{- $host := regexReplaceAll "^[a-z]+://([^/?#]*).*$" .address "${1}" -}}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" -}}
{{- $port | default (.port | default (ternary 80 443 (hasPrefix "http://" .address))) -}}
{{- end -}}

{{/*
A rule of a NetworkPolicy, or nothing where the settings name no such service; (dict "root" $ "service" "s3"). The
addresses are those of `settings`, of the API and of the groups of workers, where one may stand in place of another.
*/}}
{{- define "acs.egress" -}}
{{- $names := dict
  "temporal" (list "TEMPORAL_ADDRESS")
  "qdrant" (list "QDRANT_URL")
  "s3" (list "S3_ENDPOINT")
  "models" (list "OPENAI_BASE_URL" "ALIGNMENT_EMBEDDING_BASE_URL" "RERANK_BASE_URL")
  "gotenberg" (list "GOTENBERG_URL")
  "clamd" (list "CLAMD_ADDRESS")
  "traces" (list "OTEL_EXPORTER_OTLP_ENDPOINT") -}}
{{- $root := .root -}}
{{- $rule := get $root.Values.networkPolicy.egress .service | default dict -}}
{{- $ports := $rule.ports | default list -}}
{{- if empty $ports -}}
{{- $places := list $root.Values.settings ($root.Values.api.settings | default dict) -}}
{{- range $root.Values.workers }}{{ $places = append $places (.settings | default dict) }}{{ end -}}
{{- range $name := get $names .service | default list -}}
{{- range $places -}}
{{- $address := get . $name | toString -}}
{{- if and $address (not (hasPrefix "/" $address)) -}}
{{- $default := get (dict "TEMPORAL_ADDRESS" 7233 "CLAMD_ADDRESS" 3310) $name -}}
{{- $ports = append $ports (include "acs.port" (dict "address" $address "port" $default) | int) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Amazon's own. */ -}}
{{- if and (eq .service "s3") (empty $ports) }}{{ $ports = list 443 }}{{ end -}}
{{- end -}}
{{- if $ports -}}
- ports:
    {{- range $ports | uniq }}
    - { port: {{ . }}, protocol: TCP }
    {{- if eq $.service "dns" }}
    - { port: {{ . }}, protocol: UDP }
    {{- end }}
    {{- end }}
  {{- with $rule.peers }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}
