/**
 * Does work on a whole database while no other process does so, in whatever way.
 * @throws Error in words for the operator, at once, while another one is at it
 */
export type MaintenanceTurn = <T>(work: () => Promise<T>) => Promise<T>;
