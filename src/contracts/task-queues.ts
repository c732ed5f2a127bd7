/** One task queue per pipeline; its worker has the same name. */
export const taskQueues = {
  ingestion: 'ingestion',
  alignment: 'alignment',
  anchoring: 'anchoring',
  previews: 'previews',
  deletion: 'deletion',
  reembedding: 'reembedding',
  erasure: 'erasure',
  exports: 'exports',
  evaluation: 'evaluation',
  connectors: 'connectors',
  storeAudit: 'store-audit',
} as const;

export type TaskQueue = (typeof taskQueues)[keyof typeof taskQueues];
