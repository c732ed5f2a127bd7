/** Position after a page of a keyset list: the sort key as text (keeps microseconds of times), and the id for ties. */
export type ListPosition = { sortKey: string; id: string };
