import { renewDocumentKeys } from '#src/adapters/postgres/document-keys.ts';
import { isLeftBehind } from '#src/adapters/postgres/left-behind.ts';
import type { ErasedRows, Legacy } from '#src/contracts/erasure.ts';
import type { Db } from '#src/ports/database.ts';

/** Rows of one statement, each with what hangs on it: well below the time that it may take. */
const ROWS_AT_ONCE = 200;
/** The same of small rows without anything else. */
const SMALL_ROWS_AT_ONCE = 5_000;

export type LeftDocument = { id: string; createdBy: string };

/** A condition on rows `t`. A document may come to be somebody else's, a folder goes with its tree; all else is its creator's. */
function isHis(table: string, userId: string): string {
  if (table === 'documents') return `t.acl @> array['user:' || ${userId}]`;
  return table === 'folders' ? `t.owner_id = ${userId}` : `t.created_by = ${userId}`;
}

/** Tables whose rows have keys, and that are asked once more at the end: a request may have been under way. */
const contentTables = ['documents', 'chats', 'drafts', 'folders'] as const;

/**
 * What a user, or an organization, leaves behind. Nothing of it is found while he, or it, is living: a run that an older
 * database does not know of finds nothing to do there.
 */
export function createErasureRepository(db: Db) {
  /** A condition on a row `t` of the table. */
  function isLeft({ userId }: Legacy, table: string): string {
    if (userId === null) {
      return `t.org_id = :orgId
        and exists (select from organizations o where o.id = t.org_id and o.deleted_at is not null)`;
    }
    return `t.org_id = :orgId and ${isHis(table, ':userId')} and ${isLeftBehind('t')}`;
  }

  async function change(sql: string, values: Legacy): Promise<number> {
    const { rowCount } = await db.raw<{ rowCount: number }>(sql, values);
    return rowCount;
  }

  /** Some rows `t`; `key` names one. */
  function deleteSome(
    of: Legacy,
    table: string,
    { key = 'id', condition = isLeft(of, table), limit = ROWS_AT_ONCE } = {},
  ): Promise<number> {
    return change(
      `delete from ${table} where (${key}) in (select ${key} from ${table} t where ${condition} limit ${limit})`,
      of,
    );
  }

  async function deleteAgents(of: Legacy): Promise<number> {
    const isAsked = 'exists (select from chats c where c.org_id = t.org_id and c.agent_id = t.id)';
    const condition = `${isLeft(of, 'agents')} and not ${isAsked}`;
    const deleted = await deleteSome(of, 'agents', { condition });
    // A chat that others read goes on to show that there was one.
    const emptied = await change(
      `update agents t set deleted_at = coalesce(t.deleted_at, now()), agent_prompt = '', anchor_word_candidates = '{}',
         updated_at = now()
       where ${isLeft(of, 'agents')} and (t.deleted_at is null or t.agent_prompt <> '')`,
      of,
    );
    return deleted + emptied;
  }

  async function deleteFolders(of: Legacy): Promise<number> {
    const folders = `(select t.id from folders t where ${isLeft(of, 'folders')})`;
    const kept = await takeOut(of, folders);
    if (kept > 0) return kept;
    const links = { key: 'document_id, folder_id', condition: `t.folder_id in ${folders}`, limit: SMALL_ROWS_AT_ONCE };
    const unlinked = await deleteSome(of, 'folder_links', links);
    // All at once: they refer to each other.
    return unlinked > 0 ? unlinked : change(`delete from folders where id in ${folders}`, of);
  }

  /** Documents that others read stay: in their other folders, or else in the personal root of who has made them. */
  function takeOut(of: Legacy, folders: string): Promise<number> {
    return db.transaction(async (trx) => {
      const { rows } = await trx.raw<{ rows: { id: string }[] }>(
        `select d.id from documents d
         where d.deleted_at is null and not (${isLeftBehind('d')})
           and d.id in (select l.document_id from folder_links l where l.folder_id in ${folders})
         order by d.id limit ${ROWS_AT_ONCE} for no key update`,
        of,
      );
      const ids = rows.map(({ id }) => id);
      const values = { ...of, ids };
      await trx.raw(
        `delete from folder_links where document_id = any (:ids::uuid[]) and folder_id in ${folders}`,
        values,
      );
      await trx.raw(
        `insert into folder_links (org_id, folder_id, document_id, created_by)
         select d.org_id, root.id, d.id, d.created_by
         from documents d
         join folders root on root.owner_id = d.created_by and root.system_role = 'personal_root'
         where d.id = any (:ids::uuid[]) and not exists (select from folder_links l where l.document_id = d.id)`,
        values,
      );
      await renewDocumentKeys(trx, ids);
      return ids.length;
    });
  }

  /** What is remembered of people and of content that are gone. */
  async function deleteTraces(of: Legacy): Promise<number> {
    const isOver = of.userId === null ? `t.id <> 'erase-' || :orgId` : 't.finished_at is not null';
    const users = `(select u.id from memberships m join users u on u.id = m.user_id
      where m.org_id = :orgId and ${of.userId === null ? 'true' : 'u.id = :userId'} and u.deleted_at is not null)`;
    const condition = `t.user_id in ${users}`;
    const counts = [
      await deleteSome(of, 'jobs', { condition: `${isOver} and ${isLeft(of, 'jobs')}` }),
      await deleteSome(of, 'evaluation_runs'),
      await deleteSome(of, 'idempotency_keys', { key: 'user_id, route, key', condition }),
      await deleteSome(of, 'refresh_token_families', { condition }),
      await deleteSome(of, 'avatars', { key: 'user_id', condition }),
      await deleteSome(of, 'hidden_drafts', { key: 'user_id, draft_id', condition }),
      await deleteSome(of, 'hidden_agents', { key: 'user_id, agent_id', condition }),
    ];
    if (of.userId === null) {
      const small = { limit: SMALL_ROWS_AT_ONCE };
      const isUnused = 'not exists (select from document_generations g where g.conversion_id = t.id)';
      counts.push(
        await deleteSome(of, 'conversions', { condition: `${isLeft(of, 'conversions')} and ${isUnused}` }),
        await deleteSome(of, 'round_events', { key: 'stream_id, first_seq', ...small }),
        await deleteSome(of, 'judgements', { key: 'org_id, cache_key', ...small }),
        await deleteSome(of, 'generated_answers', { key: 'org_id, cache_key', ...small }),
        await deleteSome(of, 'evaluation_days', { key: 'org_id, day' }),
        await deleteSome(of, 'model_calls'),
        await deleteSome(of, 'embeddings', { key: 'org_id, model, text_sha256', ...small }),
        await deleteSome(of, 'term_statistics', { key: 'org_id, term', ...small }),
        await deleteSome(of, 'chunk_statistics', { key: 'org_id' }),
        await deleteSome(of, 'tool_connections'),
        await deleteSome(of, 'connections'),
        await deleteSome(of, 'oauth_states', { key: 'state_hash' }),
      );
    }
    return counts.reduce((sum, count) => sum + count);
  }

  const deletions: { readonly [what in ErasedRows]: (of: Legacy) => Promise<number> } = {
    chats: (of) => deleteSome(of, 'chats'),
    drafts: (of) => deleteSome(of, 'drafts'),
    agents: deleteAgents,
    folders: deleteFolders,
    traces: deleteTraces,
  };

  return {
    /** Some of them. @returns how many; 0 when nothing is left */
    deleteRows: (of: Legacy, what: ErasedRows): Promise<number> => deletions[what](of),

    /** Open jobs that work for nobody any more. */
    async listOpenRuns(of: Legacy): Promise<string[]> {
      const { rows } = await db.raw<{ rows: { id: string }[] }>(
        `select t.id from jobs t
         where t.finished_at is null and t.kind in ('ingest', 'alignment', 'reembed', 'anchors', 'preview', 'evaluate', 'compare', 'import', 'sync', 'export') and ${isLeft(of, 'jobs')}
         order by t.id`,
        of,
      );
      return rows.map(({ id }) => id);
    },

    /** False on a database of before he, or it, left. */
    async isGone({ orgId, userId }: Legacy): Promise<boolean> {
      const left = await (userId === null
        ? db('organizations').where({ id: orgId })
        : db('users').where({ id: userId })
      )
        .whereNotNull('deletedAt')
        .first('id');
      return left !== undefined;
    },

    /** To providers of files. */
    async listConnections(of: Legacy): Promise<string[]> {
      const isGone =
        of.userId === null ? 'o.deleted_at is not null' : 't.user_id = :userId and u.deleted_at is not null';
      const { rows } = await db.raw<{ rows: { id: string }[] }>(
        `select t.id from connections t join users u on u.id = t.user_id join organizations o on o.id = t.org_id
         where t.org_id = :orgId and ${isGone}
         order by t.id`,
        of,
      );
      return rows.map(({ id }) => id);
    },

    /** Documents that nobody has begun to delete. */
    async listDocuments(of: Legacy, limit: number): Promise<LeftDocument[]> {
      const { rows } = await db.raw<{ rows: LeftDocument[] }>(
        `select t.id, t.created_by from documents t
         where t.deleted_at is null and ${isLeft(of, 'documents')}
         order by t.id limit :limit`,
        { ...of, limit },
      );
      return rows;
    },

    /** Documents whose deletion has begun; it is stopped when nobody works on it. */
    async listDeletions(of: Legacy): Promise<(LeftDocument & { isStopped: boolean })[]> {
      const isHis = of.userId === null ? 'true' : `(d.created_by = :userId or j.request_id = 'erase-' || :userId)`;
      const { rows } = await db.raw<{ rows: (LeftDocument & { isStopped: boolean })[] }>(
        `select d.id, d.created_by, (j.id is null or j.finished_at is not null) as is_stopped
         from documents d left join jobs j on j.id = 'delete-' || d.id
         where d.org_id = :orgId and d.deleted_at is not null and ${isHis}
         order by d.id`,
        of,
      );
      return rows;
    },

    async isContentLeft(of: Legacy): Promise<boolean> {
      const isThere = contentTables.map((table) => `exists (select from ${table} t where ${isLeft(of, table)})`);
      const { rows } = await db.raw<{ rows: [{ isLeft: boolean }] }>(`select ${isThere.join(' or ')} as is_left`, of);
      return rows[0].isLeft;
    },

    /** Leaves the name that stands beside what stays. @returns false when that was done before */
    async forgetUser(userId: string): Promise<boolean> {
      const forgotten = await db('users')
        .where({ id: userId })
        .whereNotNull('deletedAt')
        .whereNot({ email: '' })
        .update({
          email: '',
          passwordHash: null,
          firstName: null,
          lastName: null,
          avatarUrl: null,
          updatedAt: db.fn.now(),
        });
      return forgotten > 0;
    },

    /** Leaves a row without a name. @returns false when that was done before */
    async forgetOrganization(orgId: string): Promise<boolean> {
      const forgotten = await db('organizations')
        .where({ id: orgId })
        .whereNotNull('deletedAt')
        .whereNot({ name: '' })
        .update({ name: '', updatedAt: db.fn.now() });
      if (forgotten === 0) return false;
      const userIds: string[] = await db('memberships').where({ orgId }).pluck('user_id');
      for (const table of ['team_memberships', 'teams', 'jobs', 'memberships'])
        await db(table).where({ orgId }).delete();
      await db('users').whereIn('id', userIds).delete();
      return true;
    },

    /** Who has left something that was stored after his erasure had ended. */
    async listLate(limit: number): Promise<{ orgId: string; userId: string; dueAt: Date }[]> {
      const isThere = contentTables.map((table) => {
        const isTheirs = isHis(table, 'gone.id');
        return `exists (select from ${table} t where t.org_id = m.org_id and ${isTheirs} and ${isLeftBehind('t')})`;
      });
      const { rows } = await db.raw<{ rows: { orgId: string; userId: string; dueAt: Date }[] }>(
        `select m.org_id, gone.id as user_id, gone.erase_due_at as due_at
         from users gone
         join memberships m on m.user_id = gone.id
         join jobs j on j.id = 'erase-' || gone.id and j.status = 'succeeded'
         where gone.deleted_at is not null and (${isThere.join(' or ')})
         order by gone.id limit :limit`,
        { limit },
      );
      return rows;
    },
  };
}
