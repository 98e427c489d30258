{{/* The container of the proxy, the same in both modes. */}}
{{- define "plimsoll.container" -}}
name: plimsoll
image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- if eq .Values.mode "sidecar" }}
# A native sidecar: it is ready before the agent starts, and ends after it.
restartPolicy: Always
{{- end }}
ports:
  {{- if eq .Values.mode "gateway" }}
  - name: agents
    containerPort: 4790
  {{- end }}
  - name: admin
    containerPort: 4791
env:
  - name: PLIMSOLL_LISTEN
    value: {{ printf "%s:4790" (eq .Values.mode "sidecar" | ternary "127.0.0.1" .Values.listenHost) | quote }}
  - name: PLIMSOLL_ADMIN
    value: {{ printf "%s:4791" .Values.listenHost | quote }}
  {{- with .Values.preset }}
  - name: PLIMSOLL_PRESET
    value: {{ . | quote }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
# Upstream has no say in any of these, or an outage there would take every proxy out of service.
startupProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  failureThreshold: 1
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  failureThreshold: 6
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
volumeMounts:
  # Whole folders: a file mounted by subPath would never change.
  - name: plimsoll-config
    mountPath: /etc/plimsoll
    readOnly: true
  {{- if .Values.secret.name }}
  - name: plimsoll-secret
    mountPath: /run/plimsoll/secret
    readOnly: true
  {{- end }}
  {{- if .Values.tls.secretName }}
  - name: plimsoll-tls
    mountPath: /run/plimsoll/tls
    readOnly: true
  {{- end }}
  {{- if .Values.upstreamCa.configMapName }}
  - name: plimsoll-upstream-ca
    mountPath: /run/plimsoll/upstream-ca
    readOnly: true
  {{- end }}
  {{- if eq .Values.ledger.store "disk" }}
  - name: plimsoll-ledger
    mountPath: /var/lib/plimsoll
  {{- end }}
{{- end -}}

{{- define "plimsoll.volumes" -}}
- name: plimsoll-config
  configMap:
    name: {{ include "plimsoll.fullname" . }}
{{- with .Values.secret.name }}
- name: plimsoll-secret
  secret:
    secretName: {{ . }}
    # Readable by the group that fsGroup names, and nobody else.
    defaultMode: 0440
{{- end }}
{{- with .Values.tls.secretName }}
- name: plimsoll-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.upstreamCa.configMapName }}
- name: plimsoll-upstream-ca
  configMap:
    name: {{ . }}
{{- end }}
{{- if eq .Values.ledger.store "disk" }}
- name: plimsoll-ledger
  emptyDir:
    sizeLimit: {{ .Values.ledger.sizeLimit }}
{{- end }}
{{- end -}}

{{/* What a pod says about itself in both modes. */}}
{{- define "plimsoll.metadata" -}}
labels:
  {{- include "plimsoll.labels" . | nindent 2 }}
  {{- with .Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  # What a running process cannot take over changes the pod; everything else is reloaded where it runs.
  plimsoll/ledger: {{ toJson .Values.ledger | sha256sum | trunc 16 | quote }}
  {{- with .Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "plimsoll.placement" -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ add .Values.grace .Values.drainDelay 10 }}
securityContext:
  fsGroup: 65532
{{- with .Values.serviceAccount.name }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .Values.topologySpread }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "plimsoll.selector" . | nindent 8 }}
{{- end }}
{{- end -}}
