{{- define "tollgate.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: tollgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Whether there is a Redis, of the chart or another; empty: there is none. */ -}}
{{- define "tollgate.shared" -}}
{{- if or .Values.redis.enabled .Values.externalRedis.existingSecret -}}yes{{- end -}}
{{- end -}}

{{- define "tollgate.secrets" -}}
{{- .Values.existingSecret | default (printf "%s-secrets" (include "tollgate.name" .)) -}}
{{- end -}}

{{- /* Mistakes that no schema sees. */ -}}
{{- define "tollgate.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not (include "tollgate.shared" .)) -}}
{{- fail "replicas above 1 need Redis, or each gateway has the whole of every limit and budget: redis.enabled or externalRedis.existingSecret" -}}
{{- end -}}
{{- if and .Values.admin.enabled (not .Values.existingSecret) (not (index .Values.secrets "admin.token")) -}}
{{- fail "admin.enabled needs secrets with admin.token, or existingSecret" -}}
{{- end -}}
{{- range $key := list "listen" "ledger" "store" "admin_auth" "drain" -}}
{{- if hasKey $.Values.config $key -}}
{{- fail (printf "config.%s is the chart's to write" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.config" -}}
{{- $listen := dict "gateway" "*:8080" "probe" "*:8081" -}}
{{- $ours := dict "ledger" (dict "path" "/var/lib/tollgate/tollgate.db") "drain" .Values.drain -}}
{{- if .Values.admin.enabled -}}
{{- $_ := set $listen "admin" "127.0.0.1:9090" -}}
{{- $_ := set $ours "admin_auth" (dict "token" "file:/etc/tollgate/secrets/admin.token") -}}
{{- end -}}
{{- if include "tollgate.shared" . -}}
{{- $_ := set $ours "store" "${TOLLGATE_STORE}" -}}
{{- end -}}
{{- $_ := set $ours "listen" $listen -}}
{{ toYaml (merge $ours (deepCopy .Values.config)) }}
{{- end -}}
