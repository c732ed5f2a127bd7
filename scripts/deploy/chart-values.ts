const required = {
  existingSecret: 'acs',
  settings: { TEMPORAL_ADDRESS: 'temporal:7233', S3_BUCKET: 'originals', QDRANT_URL: 'http://qdrant:6333' },
};
const autoscaling = { enabled: true, minReplicas: 2, maxReplicas: 10, targetCPUUtilizationPercentage: 70 };

export const chartValues = {
  'as it comes': required,
  'with everything': {
    ...required,
    filesSecret: 'acs-files',
    imagePullSecrets: [{ name: 'registry' }],
    settings: {
      ...required.settings,
      BASE_PATH: '/agents',
      DATABASE_POOL_SIZE: 20,
      S3_ENDPOINT: 'http://s3:7070',
      GOTENBERG_URL: 'http://gotenberg:3000/base',
      CLAMD_ADDRESS: 'clamd:3310',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example.com',
    },
    api: {
      autoscaling,
      disruptionBudget: { minAvailable: '50%', maxUnavailable: null },
      settings: { LOG_LEVEL: 'debug' },
      podAnnotations: { note: 'api' },
      nodeSelector: { pool: 'api' },
      tolerations: [{ key: 'pool', operator: 'Exists' }],
      affinity: { podAntiAffinity: {} },
    },
    workers: {
      ingestion: { autoscaling, settings: { OCR_LANGUAGES: 'eng' }, podAnnotations: { note: 'ingestion' } },
      all: { queues: [], replicas: 1, resources: { limits: { memory: '4Gi' } } },
    },
    ingress: {
      enabled: true,
      className: 'nginx',
      annotations: { 'nginx.ingress.kubernetes.io/proxy-body-size': '0' },
      tls: [{ secretName: 'tls', hosts: ['agents.example.com'] }],
    },
    podMonitor: { enabled: true, labels: { release: 'prometheus' } },
    serviceAccount: { annotations: { note: 'account' } },
    service: { annotations: { note: 'service' } },
    networkPolicy: {
      ingress: { api: [{ namespaceSelector: { matchLabels: { name: 'ingress-nginx' } } }] },
      egress: {
        postgres: { ports: [6432], peers: [{ ipBlock: { cidr: '10.1.2.3/32' } }] },
        temporal: { peers: [{ namespaceSelector: { matchLabels: { name: 'temporal' } } }] },
      },
      extraEgress: [{ ports: [{ port: 8443 }], to: [{ ipBlock: { cidr: '10.9.0.0/16' } }] }],
    },
  },
  'with models elsewhere': {
    ...required,
    settings: {
      ...required.settings,
      OPENAI_BASE_URL: 'https://models.example.com/v1',
      ALIGNMENT_EMBEDDING_BASE_URL: 'https://models.example.com/v1',
    },
    modelServer: { enabled: false },
    migrations: { enabled: false },
    networkPolicy: { enabled: false },
    serviceAccount: { create: false },
  },
};
