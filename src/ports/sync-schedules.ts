/** When a connection is synced. `isOn` false: the schedule is there, and paused. */
export type SyncTimes = { isOn: boolean } & ({ everyMinutes: number } | { cron: string });

/** When syncs begin by themselves. Throws when the engine is not reachable. */
export type SyncSchedules = {
  /** Makes the schedule of a connection, or brings it up to date. That an operator has paused it stays as it is. */
  set(of: { orgId: string; connectionId: string }, times: SyncTimes): Promise<void>;
  /** Fine when there is none. */
  remove(connectionId: string): Promise<void>;
};
