export type Tier = 'free' | 'pro' | 'max';

/** Upper bounds of an organization. Counts are of live rows; sizes are in bytes. */
export type TierLimits = {
  members: number;
  agents: number;
  draftsPerUser: number;
  versionsPerDraft: number;
  documents: number;
  fileSizeBytes: number;
  storageBytes: number;
  /** To providers of files. */
  connections: number;
  /** From midnight to midnight, UTC. */
  evaluationCasesPerDay: number;
};

const MB = 1024 ** 2;
const GB = 1024 ** 3;

export const defaultTierLimits: Readonly<Record<Tier, TierLimits>> = {
  free: {
    members: 10,
    agents: 10,
    draftsPerUser: 25,
    versionsPerDraft: 50,
    documents: 1_000,
    fileSizeBytes: 100 * MB,
    storageBytes: 2 * GB,
    connections: 5,
    evaluationCasesPerDay: 500,
  },
  pro: {
    members: 100,
    agents: 100,
    draftsPerUser: 250,
    versionsPerDraft: 200,
    documents: 50_000,
    fileSizeBytes: 512 * MB,
    storageBytes: 100 * GB,
    connections: 50,
    evaluationCasesPerDay: 10_000,
  },
  max: {
    members: 1_000,
    agents: 1_000,
    draftsPerUser: 2_500,
    versionsPerDraft: 1_000,
    documents: 1_000_000,
    fileSizeBytes: 2 * GB,
    storageBytes: 1024 * GB,
    connections: 500,
    evaluationCasesPerDay: 100_000,
  },
};
