export type OrganizationTier = 'free' | 'pro' | 'max';

/** Quotas of an organization. Counts exclude deleted rows; sizes are in bytes. */
export type TierLimits = {
  members: number;
  agents: number;
  draftsPerUser: number;
  versionsPerDraft: number;
  documents: number;
  fileSizeBytes: number;
  storageBytes: number;
  connections: number;
  evaluationCasesPerDay: number;
};

const MB = 1024 ** 2;
const GB = 1024 ** 3;

export const defaultTierLimits: Readonly<Record<OrganizationTier, TierLimits>> = {
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

export type RateLimit = { count: number; seconds: number };

export type ConcurrencyLimit = { perUser: number; perOrganization: number };

/**
 * Name of a rate limit. Requests are counted per user; without authentication, per client network or per network and
 * email. The `limits` of each route define which. `login_account` counts failed sign-ins per email across all networks.
 */
export type RateLimitName =
  | 'login'
  | 'login_ip'
  | 'login_account'
  | 'register'
  | 'register_ip'
  | 'refresh'
  | 'sso_authorize'
  | 'sso_callback'
  | 'chat'
  | 'upload'
  | 'connect'
  | 'read'
  | 'write'
  | 'search'
  | 'preview';

const minute = 60;

export const defaultRateLimits: Readonly<Record<RateLimitName, RateLimit>> = {
  login: { count: 10, seconds: 15 * minute },
  login_ip: { count: 100, seconds: 15 * minute },
  // Allows ten failed sign-ins per account without delay, then delays each attempt by up to 15 minutes: about 110
  // guesses per day.
  login_account: { count: 10, seconds: 15 * minute },
  register: { count: 10, seconds: 15 * minute },
  register_ip: { count: 100, seconds: 15 * minute },
  refresh: { count: 60, seconds: minute },
  sso_authorize: { count: 60, seconds: minute },
  sso_callback: { count: 60, seconds: minute },
  chat: { count: 60, seconds: minute },
  upload: { count: 1_000, seconds: 10 * minute },
  connect: { count: 60, seconds: 10 * minute },
  // Reads and writes have short windows, because a user may spend a whole window in one burst, which delays other
  // users.
  read: { count: 300, seconds: 10 },
  write: { count: 200, seconds: 10 },
  search: { count: 30, seconds: 10 },
  preview: { count: 10, seconds: 10 },
};

/**
 * Rate limits that each process counts in memory. They need not be exact, because they only prevent one user from
 * taking all capacity of a process. The other limits are counted in Postgres across processes.
 */
export const rateLimitsCountedInMemory: ReadonlySet<RateLimitName> = new Set([
  'read',
  'write',
  'search',
  'preview',
] as const);

/** Counts the concurrent requests of each user or organization. The caller enforces the limits. */
export function createConcurrencyCounter() {
  const taken = new Map<string, number>();
  const of = (owner: string) => taken.get(owner) ?? 0;
  const add = (owner: string, difference: 1 | -1) => {
    const count = of(owner) + difference;
    if (count > 0) taken.set(owner, count);
    else taken.delete(owner);
  };

  return {
    of,
    /**
     * Adds one concurrent request per owner (user or organization). Call the returned function once to subtract it.
     */
    take(...owners: readonly string[]): () => void {
      for (const owner of owners) add(owner, 1);
      return () => {
        for (const owner of owners) add(owner, -1);
      };
    },
  };
}
