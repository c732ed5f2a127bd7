/** The versions of a resource that a client has read and wants to change (`If-Match`); null when any version will do. */
export type ExpectedVersions = readonly number[] | null;
