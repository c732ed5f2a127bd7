import type { Knex } from 'knex';
import { hasOnlyAccessKeysOfDeletedUsersSql, recomputeDocumentAccessKeys } from '#src/adapters/postgres/readable.ts';
import {
  booleanColumn,
  defineRowShape,
  pickColumns,
  queryOneRow,
  queryRows,
  type SqlRow,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ErasureSubject, SqlOnlyErasureStage } from '#src/contracts/deletion.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import { MembershipModel, UserModel } from '#src/modules/auth/auth.model.ts';
import { ConnectionModel } from '#src/modules/connectors/connections.model.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { FolderModel } from '#src/modules/folders/folders.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';

const ROWS_AT_ONCE = 200;
const SMALL_ROWS_AT_ONCE = 5_000;

const erasableDocument = pickColumns(DocumentModel, 'id', 'createdBy');
const deletion = defineRowShape({ ...erasableDocument.columns, isStopped: booleanColumn() });
const rest = defineRowShape({ isLeft: booleanColumn() });
const late = defineRowShape({ orgId: uuidColumn(), userId: uuidColumn(), dueAt: timestampColumn() });

export type DocumentToErase = SqlRow<typeof erasableDocument>;

/**
 * SQL condition that a row `t` belongs to the erased user: a document if the user is in its ACL, a folder if the user
 * owns the tree, any other row if the user created it.
 */
function belongsTo(table: string, userId: string): string {
  if (table === 'documents') return `t.acl @> array['user:' || ${userId}]`;
  return table === 'folders' ? `t.owner_id = ${userId}` : `t.created_by = ${userId}`;
}

/** Tables that an erasure checks again before it ends, because requests in progress may have written new rows. */
const contentTables = ['documents', 'chats', 'drafts', 'folders'] as const;

/**
 * Erases the data of a deleted user or organization. Every SQL statement checks that the user or organization is still
 * deleted, so that nothing is erased after a restore of an older database.
 */
export function createErasureRepository(db: Knex) {
  function isErasable({ userId }: ErasureSubject, table: string): string {
    if (userId === null) {
      return `t.org_id = :orgId
        and exists (select from organizations o where o.id = t.org_id and o.deleted_at is not null)`;
    }
    return `t.org_id = :orgId and ${belongsTo(table, ':userId')} and ${hasOnlyAccessKeysOfDeletedUsersSql('t')}`;
  }

  async function deleteSome(
    of: ErasureSubject,
    table: string,
    { key = 'id', condition = isErasable(of, table), limit = ROWS_AT_ONCE } = {},
  ): Promise<number> {
    return db(table)
      .whereRaw(`(${key}) in (select ${key} from ${table} t where ${condition} limit ${limit})`, of)
      .delete();
  }

  async function deleteAgents(of: ErasureSubject): Promise<number> {
    const hasChats = 'exists (select from chats c where c.org_id = t.org_id and c.agent_id = t.id)';
    const condition = `${isErasable(of, 'agents')} and not ${hasChats}`;
    const deleted = await deleteSome(of, 'agents', { condition });
    // An agent that still has chats stays as a deleted agent with an empty prompt.
    const emptied = await AgentModel.query(db)
      .alias('t')
      .whereRaw(`${isErasable(of, 'agents')} and (t.deleted_at is null or t.agent_prompt <> '')`, of)
      .patch({
        deletedAt: db.raw('coalesce(t.deleted_at, now())'),
        agentPrompt: '',
        anchorWordCandidates: [],
        updatedAt: db.fn.now(),
      });
    return deleted + emptied;
  }

  async function deleteFolders(of: ErasureSubject): Promise<number> {
    const folders = `(select t.id from folders t where ${isErasable(of, 'folders')})`;
    const kept = await unlinkShared(of, folders);
    if (kept > 0) return kept;
    const links = { key: 'document_id, folder_id', condition: `t.folder_id in ${folders}`, limit: SMALL_ROWS_AT_ONCE };
    const unlinked = await deleteSome(of, 'folder_links', links);
    // Folders reference their parents by a foreign key, so one statement must delete all of them.
    return unlinked > 0 ? unlinked : FolderModel.table(db).whereRaw(`id in ${folders}`, of).delete();
  }

  /**
   * Unlinks documents that other users can read from the folders to erase. Such a document stays in its other folders;
   * without any, it moves to the personal root folder of its creator.
   */
  function unlinkShared(of: ErasureSubject, folders: string): Promise<number> {
    return db.transaction(async (trx) => {
      const documents = await queryRows(
        trx,
        pickColumns(DocumentModel, 'id'),
        `select d.id from documents d
         where d.deleted_at is null and not (${hasOnlyAccessKeysOfDeletedUsersSql('d')})
           and d.id in (select l.document_id from folder_links l where l.folder_id in ${folders})
         order by d.id limit ${ROWS_AT_ONCE} for no key update`,
        of,
      );
      const ids = documents.map(({ id }) => id);
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
      await recomputeDocumentAccessKeys(trx, ids);
      return ids.length;
    });
  }

  async function deleteTraces(of: ErasureSubject): Promise<number> {
    const isOver = of.userId === null ? `t.id <> 'erase-' || :orgId` : 't.finished_at is not null';
    const users = `(select u.id from memberships m join users u on u.id = m.user_id
      where m.org_id = :orgId and ${of.userId === null ? 'true' : 'u.id = :userId'} and u.deleted_at is not null)`;
    const condition = `t.user_id in ${users}`;
    const counts = [
      await deleteSome(of, 'jobs', { condition: `${isOver} and ${isErasable(of, 'jobs')}` }),
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
        await deleteSome(of, 'conversions', { condition: `${isErasable(of, 'conversions')} and ${isUnused}` }),
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

  const deletions: { readonly [what in SqlOnlyErasureStage]: (of: ErasureSubject) => Promise<number> } = {
    chats: (of) => deleteSome(of, 'chats'),
    drafts: (of) => deleteSome(of, 'drafts'),
    agents: deleteAgents,
    folders: deleteFolders,
    traces: deleteTraces,
  };

  return {
    deleteRows: (of: ErasureSubject, what: SqlOnlyErasureStage): Promise<number> => deletions[what](of),

    async listOpenRuns(of: ErasureSubject): Promise<string[]> {
      const runs = await queryRows(
        db,
        pickColumns(JobModel, 'id'),
        `select t.id from jobs t
         where t.finished_at is null and t.kind in ('ingest', 'alignment', 'reembed', 'anchors', 'preview', 'evaluate', 'compare', 'import', 'sync', 'export') and ${isErasable(of, 'jobs')}
         order by t.id`,
        of,
      );
      return runs.map(({ id }) => id);
    },

    /** Whether the user or organization is still deleted: a restore of an older database can undo that. */
    async isGone({ orgId, userId }: ErasureSubject): Promise<boolean> {
      const left =
        userId === null ? OrganizationModel.query(db).where({ id: orgId }) : UserModel.query(db).where({ id: userId });
      return (await left.whereNotNull('deletedAt').resultSize()) > 0;
    },

    async listConnections(of: ErasureSubject): Promise<string[]> {
      const isGone =
        of.userId === null ? 'o.deleted_at is not null' : 't.user_id = :userId and u.deleted_at is not null';
      const connections = await queryRows(
        db,
        pickColumns(ConnectionModel, 'id'),
        `select t.id from connections t join users u on u.id = t.user_id join organizations o on o.id = t.org_id
         where t.org_id = :orgId and ${isGone}
         order by t.id`,
        of,
      );
      return connections.map(({ id }) => id);
    },

    listDocuments(of: ErasureSubject, limit: number) {
      return queryRows(
        db,
        erasableDocument,
        `select t.id, t.created_by from documents t
         where t.deleted_at is null and ${isErasable(of, 'documents')}
         order by t.id limit :limit`,
        { ...of, limit },
      );
    },

    /** Lists documents whose deletion is unfinished. `isStopped`: the deletion job has ended or is missing. */
    listDeletions(of: ErasureSubject) {
      const isTheirs = of.userId === null ? 'true' : `(d.created_by = :userId or j.request_id = 'erase-' || :userId)`;
      return queryRows(
        db,
        deletion,
        `select d.id, d.created_by, (j.id is null or j.finished_at is not null) as is_stopped
         from documents d left join jobs j on j.id = 'delete-' || d.id
         where d.org_id = :orgId and d.deleted_at is not null and ${isTheirs}
         order by d.id`,
        of,
      );
    },

    async isContentLeft(of: ErasureSubject): Promise<boolean> {
      const isThere = contentTables.map((table) => `exists (select from ${table} t where ${isErasable(of, table)})`);
      return (await queryOneRow(db, rest, `select ${isThere.join(' or ')} as is_left`, of)).isLeft;
    },

    /**
     * Erases the personal data of a deleted user, except the display name that shared content shows. Returns false if
     * the data was already erased.
     */
    async forgetUser(userId: string): Promise<boolean> {
      const forgotten = await UserModel.query(db)
        .where({ id: userId })
        .whereNotNull('deletedAt')
        .whereNot({ email: '' })
        .patch({
          email: '',
          passwordHash: null,
          firstName: null,
          lastName: null,
          avatarUrl: null,
          updatedAt: db.fn.now(),
        });
      return forgotten > 0;
    },

    /** Erases name and members of a deleted organization, but keeps its row. False if they were erased before. */
    async forgetOrganization(orgId: string): Promise<boolean> {
      const forgotten = await OrganizationModel.query(db)
        .where({ id: orgId })
        .whereNotNull('deletedAt')
        .whereNot({ name: '' })
        .patch({ name: '', updatedAt: db.fn.now() });
      if (forgotten === 0) return false;
      const userIds = (await MembershipModel.table(db).where({ orgId }).select('userId')).map(({ userId }) => userId);
      for (const table of ['team_memberships', 'teams', 'jobs', 'memberships'])
        await db(table).where({ orgId }).delete();
      await UserModel.query(db).whereIn('id', userIds).delete();
      return true;
    },

    listLate(limit: number) {
      const isThere = contentTables.map((table) => {
        const isTheirs = belongsTo(table, 'gone.id');
        return `exists (select from ${table} t where t.org_id = m.org_id and ${isTheirs} and ${hasOnlyAccessKeysOfDeletedUsersSql('t')})`;
      });
      return queryRows(
        db,
        late,
        `select m.org_id, gone.id as user_id, gone.erase_due_at as due_at
         from users gone
         join memberships m on m.user_id = gone.id
         join jobs j on j.id = 'erase-' || gone.id and j.status = 'succeeded'
         where gone.deleted_at is not null and (${isThere.join(' or ')})
         order by gone.id limit :limit`,
        { limit },
      );
    },
  };
}
