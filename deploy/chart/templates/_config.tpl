{{/* The configuration file: keys of the chart's own first, then the user's text, then tables of the chart's own, as TOML wants it. */}}
{{- define "plimsoll.config" -}}
grace = {{ printf "%d.0" (int .Values.grace) }}
drain_delay = {{ printf "%d.0" (int .Values.drainDelay) }}
{{ tpl .Values.config . | trim }}
{{- if .Values.tls.secretName }}

[tls]
certificate = "/run/plimsoll/tls/tls.crt"
key = "/run/plimsoll/tls/tls.key"
{{- if .Values.tls.clientCa }}
client_ca = "/run/plimsoll/tls/ca.crt"
{{- end }}
{{- end }}
{{- if or .Values.secret.openai .Values.secret.anthropic }}

[credential]
{{- with .Values.secret.openai }}
openai = "file:/run/plimsoll/secret/{{ . }}"
{{- end }}
{{- with .Values.secret.anthropic }}
anthropic = "file:/run/plimsoll/secret/{{ . }}"
{{- end }}
{{- end }}
{{- if or .Values.secret.tokens .Values.secret.adminToken .Values.access.knobs }}

[access]
{{- with .Values.secret.tokens }}
tokens = "file:/run/plimsoll/secret/{{ . }}"
{{- end }}
{{- with .Values.secret.adminToken }}
admin_token = "file:/run/plimsoll/secret/{{ . }}"
{{- end }}
{{- include "plimsoll.knobs" .Values.access.knobs }}
{{- end }}
{{- if or (ne .Values.ledger.store "memory") .Values.ledger.secretKey .Values.ledger.knobs }}

[ledger]
store = {{ .Values.ledger.store | quote }}
{{- if eq .Values.ledger.store "disk" }}
path = "/var/lib/plimsoll/ledger"
{{- end }}
{{- if eq .Values.ledger.store "redis" }}
url = {{ required "ledger.url says where Redis is" .Values.ledger.url | quote }}
{{- end }}
{{- with .Values.ledger.secretKey }}
secret = "file:/run/plimsoll/secret/{{ . }}"
{{- end }}
{{- include "plimsoll.knobs" .Values.ledger.knobs }}
{{- end }}
{{- if .Values.traces.endpoint }}

[traces]
endpoint = {{ .Values.traces.endpoint | quote }}
{{- if not .Values.traces.knobs.service }}
service = {{ include "plimsoll.fullname" . | quote }}
{{- end }}
sample = {{ printf "%.6f" (float64 .Values.traces.sample) }}
{{- with .Values.traces.secretKey }}
headers = "file:/run/plimsoll/secret/{{ . }}"
{{- end }}
{{- include "plimsoll.knobs" .Values.traces.knobs }}
{{- end }}
{{- end -}}

{{/* Keys of a table. Helm reads every number as a fraction; whole ones are written whole, which TOML tells apart. */}}
{{- define "plimsoll.knobs" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ if kindIs "float64" $value }}{{ if eq $value (floor $value) }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- end -}}

{{/* What cannot be meant is refused before anything is installed. */}}
{{- define "plimsoll.check" -}}
{{- $keys := list .Values.secret.openai .Values.secret.anthropic .Values.secret.tokens .Values.secret.adminToken .Values.ledger.secretKey .Values.traces.secretKey -}}
{{- if and (not .Values.secret.name) (compact $keys) -}}
{{- fail "secret.name is missing: keys are named, but not the Secret that has them" -}}
{{- end -}}
{{- if and (eq .Values.ledger.store "redis") (not .Values.ledger.secretKey) -}}
{{- fail "ledger.secretKey is missing: replicas that share Redis share a secret, so that no tenant can reach another's" -}}
{{- end -}}
{{- if and .Values.tls.clientCa (not .Values.tls.secretName) -}}
{{- fail "tls.clientCa needs tls.secretName" -}}
{{- end -}}
{{- if and (eq .Values.mode "sidecar") (not .Values.sidecar.containers) -}}
{{- fail "sidecar.containers is missing: the agent that the proxy stands beside" -}}
{{- end -}}
{{- end -}}
