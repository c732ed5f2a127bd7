/** So many requests in a window of so many seconds, which begins with the first of them. */
export type RateLimit = { count: number; seconds: number };

/** What is counted: one person's attempts at one account (`…_ip` from one address at all), or one user's requests. */
export type RateLimitName =
  | 'login'
  | 'login_ip'
  | 'register'
  | 'register_ip'
  | 'refresh'
  | 'sso_authorize'
  | 'sso_callback'
  | 'chat'
  | 'upload'
  | 'connect';

const minute = 60;

export const defaultRateLimits: Readonly<Record<RateLimitName, RateLimit>> = {
  login: { count: 10, seconds: 15 * minute },
  login_ip: { count: 100, seconds: 15 * minute },
  register: { count: 10, seconds: 15 * minute },
  register_ip: { count: 100, seconds: 15 * minute },
  refresh: { count: 60, seconds: minute },
  sso_authorize: { count: 60, seconds: minute },
  sso_callback: { count: 60, seconds: minute },
  chat: { count: 60, seconds: minute },
  upload: { count: 1_000, seconds: 10 * minute },
  connect: { count: 60, seconds: 10 * minute },
};
