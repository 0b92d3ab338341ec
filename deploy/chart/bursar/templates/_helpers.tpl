{{- define "bursar.selector" -}}
app.kubernetes.io/name: bursar
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bursar.labels" -}}
{{ include "bursar.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: bursar
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Whether there is a NetworkPolicy: "true" or "". */}}
{{- define "bursar.hasNetworkPolicy" -}}
{{- with .Values.networkPolicy -}}
{{- if ternary (or .podCIDRs .webhookFrom) .enabled (eq .enabled nil) }}true{{ end -}}
{{- end -}}
{{- end }}

{{- /* The configuration, with what the chart decides. */}}
{{- define "bursar.configuration" -}}
{{- $decided := dict "apiVersion" "config.quota.miloapis.com/v1alpha1" "kind" "OperatorConfiguration" "systemNamespace" .Release.Namespace -}}
{{- $source := ternary "Bursar" "Secret" (eq .Values.certificate.source "Bursar") -}}
{{- $webhooks := dict "bindAddress" ":9443" "service" (dict "name" "bursar-webhooks" "port" 443) "certificate" (dict "source" $source "secretName" "bursar-webhooks-tls") -}}
{{- with .Values.clientCertificates -}}
{{- if .secretName -}}
{{- $_ := set $webhooks "clientCertificates" (dict "caFile" "/etc/bursar-callers/ca.crt" "names" .names) -}}
{{- end -}}
{{- end -}}
{{- $endpoints := dict "bindAddress" ":8080" -}}
{{- if .Values.notificationSecret.name -}}
{{- $_ := set $decided "requestNotifications" (dict "secretFile" (printf "/etc/bursar-notifications/%s" .Values.notificationSecret.key)) -}}
{{- end -}}
{{- if .Values.journal.claimName -}}
{{- $_ := set $decided "journal" (dict "file" (dict "directory" "/var/lib/bursar-journal")) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.configuration) $decided (dict "webhooks" $webhooks "endpoints" $endpoints) | toYaml -}}
{{- end }}
