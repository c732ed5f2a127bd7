/** Where a page of a list ended: its order's key as text (a time keeps its microseconds so), and the id that breaks ties. */
export type ListPosition = { sortKey: string; id: string };
