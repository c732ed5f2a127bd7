import { expect } from 'chai';
import type { Knex } from 'knex';
import { advanceStoreAudit, initialStoreAuditProgress } from '#src/domain/documents/audit-report.ts';
import type { Stack } from './stack.ts';

/** Fails with the findings of a store audit, in a stack in which no work is under way. */
export async function expectStoresMatch({ container }: Pick<Stack, 'container'>): Promise<void> {
  let progress = initialStoreAuditProgress;
  while (progress.pass !== null) {
    const { pass, after } = progress;
    const page = await container.storeAudit.auditPage({ pass, after, repair: false, graceSeconds: 0 });
    progress = advanceStoreAudit(progress, pass, page);
  }
  expect(progress.report.findings).deep.equal({});
}

/**
 * Reads the keys of a document's data in all stores, to look them up after its deletion. What an ingestion adds later is
 * found by the document's id.
 */
export async function tracesOf({ container: { db } }: Stack, documentId: string) {
  const [document] = await db('documents').where({ id: documentId });
  const sources = [document, ...(await db('documentGenerations').where({ documentId }))];
  const chunks: { textSha256: Buffer }[] = await db('chunks').where({ documentId });
  return {
    documentId,
    orgId: document.orgId,
    name: document.name,
    blobKeys: sources.map(({ blobKey }): string => blobKey),
    contents: sources.map(({ contentSha256 }): string => contentSha256),
    texts: chunks.map(({ textSha256 }) => textSha256),
  };
}

type Traces = Awaited<ReturnType<typeof tracesOf>>;

export async function remainsOf({ container: { db, blobs } }: Stack, traces: Traces): Promise<string[]> {
  const { documentId, orgId, name, contents, texts } = traces;
  const tables = ['folderLinks', 'documentGenerations', 'chunks', 'chunkVectors', 'recognizedPages'];
  const rows: Record<string, Knex.QueryBuilder> = {
    documents: db('documents').where({ id: documentId }),
    ...Object.fromEntries(tables.map((table) => [table, db(table).where({ documentId })])),
    jobs: db('jobs').where({ documentId }).whereRaw('position(? in start::text) > 0', [name]),
    conversions: db('conversions').where({ orgId }).whereIn('contentSha256', contents),
    embeddings: db('embeddings').where({ orgId }).whereIn('textSha256', texts),
  };
  const remains: string[] = [];
  for (const [store, found] of Object.entries(rows)) if (await found.first(db.raw('1'))) remains.push(store);
  for (const key of traces.blobKeys) if (await blobs.exists(key)) remains.push(`blob ${key}`);
  return remains;
}

/** Tables that an erasure keeps, that have no personal data, or whose rows go with those of another table. */
const unchecked = [
  ...['audit_log', 'embedding_models', 'knex_migrations', 'knex_migrations_lock', 'model_pauses', 'rate_limits'],
  // Rows expire within minutes, and the user is not known yet. Tokens are deleted with `refresh_token_families`.
  ...['sign_in_states', 'refresh_tokens', 'organizations'],
];

/** Returns the stores that still have data of the organization or its members, whose ids are read before the erasure. */
export async function remainsOfOrganization(
  { container: { db, vectors, blobs } }: Stack,
  orgId: string,
  userIds: readonly string[],
): Promise<string[]> {
  const { rows: columns } = await db.raw<{ rows: { table: string; names: string[] }[] }>(`
    select table_name as "table", array_agg(column_name::text) as names from information_schema.columns
    join information_schema.tables using (table_schema, table_name)
    where table_type = 'BASE TABLE' and table_schema = current_schema() group by table_name order by table_name`);
  const isThere = async (table: string, column: string, values: readonly string[]) =>
    (await db(table).whereIn(column, values).first(db.raw('1'))) !== undefined;
  const remains: string[] = [];
  for (const { table, names } of columns.filter(({ table }) => !unchecked.includes(table))) {
    const userColumn = table === 'users' ? 'id' : 'user_id';
    const [hasOrganization, hasUser] = ['org_id', userColumn].map((name) => names.includes(name));
    if (!hasOrganization && !hasUser)
      throw new Error(`table ${table} has neither org_id nor user_id: erase its rows, and list it here`);
    const isOfOrganization = hasOrganization && (await isThere(table, 'org_id', [orgId]));
    if (isOfOrganization || (hasUser && (await isThere(table, userColumn, userIds)))) remains.push(table);
  }
  if ((await db('organizations').where({ id: orgId }).first()).name !== '') remains.push('name');
  const { generations } = await vectors.listGenerations({ after: null, limit: 1_000 });
  if (generations.some((of) => of.orgId === orgId)) remains.push('vectors');
  const stored = await blobs.list({ after: null, limit: 1_000 });
  if (stored.some(({ key }) => key.startsWith(`${orgId}/`))) remains.push('blobs');
  return remains;
}

export async function membersAndRemains(stack: Stack, orgId: string) {
  const userIds: string[] = await stack.container.db('memberships').where({ orgId }).pluck('user_id');
  return { userIds, remains: await remainsOfOrganization(stack, orgId, userIds) };
}
