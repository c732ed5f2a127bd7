/** Runs a task in the turn of its owner, an organization as a rule: turns of owners go round. */
export type FairGate = <Result>(owner: string, task: () => Promise<Result>) => Promise<Result>;
