/** Sweeps that the schedule `clean-up-hourly` runs: they delete what has expired. */
export const hourlySweeps = [
  'forget old answers',
  'forget consents that never came',
  'forget sign-ins that never came',
  'forget windows of rate limits',
  'delete expired exports',
  'delete stray uploads',
] as const;

/** Sweeps that the schedule `clean-up-daily` runs: they read whole tables. The longest are last. */
export const dailySweeps = [
  'erase what came late',
  'forget expired sessions',
  'forget old imports',
  'forget evaluations without a draft',
  'forget unused conversions',
  'forget unused situations',
  'forget unused embeddings',
  'maintain the vector store',
] as const;

export type SweepName = (typeof hourlySweeps)[number] | (typeof dailySweeps)[number];

export type CleanUpInput = { sweeps: readonly SweepName[] };

export type RunSweepInput = { sweep: SweepName };

/** Number of rows, files or runs that each sweep removed or queued. */
export type CleanUpResult = Partial<Record<SweepName, number>>;
