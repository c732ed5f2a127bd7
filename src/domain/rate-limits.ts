/** So many requests in a window of so many seconds, which begins with the first of them. */
export type RateLimit = { count: number; seconds: number };

/** How many may be open at once in one process: of a user, and of all users of an organization. */
export type ConcurrencyLimit = { perUser: number; perOrganization: number };

/** What is counted: one person's attempts at one account (`…_ip` from one address at all), or one user's requests. */
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
  // Failures without a delay, and the longest delay: an attacker has some 110 guesses a day at an account.
  login_account: { count: 10, seconds: 15 * minute },
  register: { count: 10, seconds: 15 * minute },
  register_ip: { count: 100, seconds: 15 * minute },
  refresh: { count: 60, seconds: minute },
  sso_authorize: { count: 60, seconds: minute },
  sso_callback: { count: 60, seconds: minute },
  chat: { count: 60, seconds: minute },
  upload: { count: 1_000, seconds: 10 * minute },
  connect: { count: 60, seconds: 10 * minute },
  // Short windows: what comes at the beginning of one holds up others.
  read: { count: 300, seconds: 10 },
  write: { count: 200, seconds: 10 },
  search: { count: 30, seconds: 10 },
  preview: { count: 10, seconds: 10 },
};

/**
 * Counted by each process for itself, without a query: they need not be exact, since they only keep one user from
 * taking a process whole. The others are counted in Postgres for all processes together.
 */
export const countedByProcess: ReadonlySet<RateLimitName> = new Set(['read', 'write', 'search', 'preview'] as const);
