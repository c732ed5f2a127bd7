/** Access keys that limit an export to the rows that an admin may read; null, for operators, exports all rows. */
export type ExportAccessKeys = readonly string[] | null;

/**
 * A kind of records in an export: one `.jsonl` file per volume, with one line per SQL row. The SQL fragments below call
 * the row `t`; the rows are ordered by `keys`.
 */
export type ExportedRecordKind = {
  name: string;
  from: string;
  keys: readonly { column: string; type: 'uuid' | 'text' | 'integer' | 'bigint' | 'date' }[];
  fields: string;
  where?: string;
  /**
   * SQL column with access keys: an admin's export contains only rows with one of the admin's keys. A kind without
   * `acl` and `holder` is exported completely.
   */
  acl?: string;
  holder?: string;
  isForOperatorsOnly?: true;
  hasFiles?: true;
};

const id = [{ column: 't.id', type: 'uuid' }] as const;

/**
 * All record kinds in the order of an export; docs/export.md describes the fields. Columns are listed by name, so that
 * a new column, which may hold a secret, is not exported by default.
 */
export const exportedRecordKinds: readonly ExportedRecordKind[] = [
  {
    name: 'organization',
    from: '(select *, id as org_id from organizations) t',
    keys: id,
    fields: 't.id as org_id, t.name, t.tier, t.team_admins_contribute, t.created_at, t.deleted_at',
  },
  {
    name: 'users',
    from: '(select u.*, m.org_id, m.is_org_admin, m.added_at from memberships m join users u on u.id = m.user_id) t',
    keys: id,
    fields: `t.id as user_id, t.email, t.first_name, t.last_name, t.display_name, t.is_api_key, t.is_org_admin,
      t.disabled_at, t.deleted_at, t.created_at, t.added_at`,
  },
  {
    name: 'api_keys',
    from: 'api_keys t',
    keys: [{ column: 't.user_id', type: 'uuid' }],
    fields: 't.user_id, t.hint, t.scopes, t.expires_at, t.last_used_at, t.created_by, t.created_at',
  },
  {
    name: 'avatars',
    from: 'avatars t',
    keys: [{ column: 't.user_id', type: 'uuid' }],
    fields: `t.user_id, 'image/webp' as media_type, t.sha256, translate(encode(t.content, 'base64'), E'\\n', '') as base64,
      t.updated_at`,
  },
  {
    name: 'sign_in_identities',
    from: '(select i.*, m.org_id from user_identities i join memberships m on m.user_id = i.user_id) t',
    keys: [
      { column: 't.issuer', type: 'text' },
      { column: 't.subject', type: 'text' },
    ],
    fields: 't.user_id, t.issuer, t.subject, t.created_at',
    isForOperatorsOnly: true,
  },
  {
    name: 'sessions',
    from: '(select f.*, m.org_id from refresh_token_families f join memberships m on m.user_id = f.user_id) t',
    keys: id,
    fields: 't.id as session_id, t.user_id, t.created_at, t.expires_at, t.revoked_at, t.cut_off_at',
    isForOperatorsOnly: true,
  },
  {
    name: 'teams',
    from: 'teams t',
    keys: id,
    fields: 't.id as team_id, t.name, t.disabled_at, t.created_at',
  },
  {
    name: 'team_members',
    from: 'team_memberships t',
    keys: [
      { column: 't.team_id', type: 'uuid' },
      { column: 't.user_id', type: 'uuid' },
    ],
    fields: 't.team_id, t.user_id, t.is_team_admin, t.added_by, t.added_at',
  },
  {
    name: 'folders',
    from: 'folders t',
    keys: id,
    fields: `t.id as folder_id, t.parent_id, t.root_id, t.name, t.kind, t.system_role, t.visibility, t.owner_id, t.team_id,
      t.created_by, t.created_at, t.updated_at`,
    acl: 't.acl',
  },
  {
    name: 'documents',
    from: 'documents t',
    keys: id,
    fields: `t.id as document_id, t.name, t.file_name, t.media_type, t.source_format, t.size_bytes,
      t.content_sha256 as sha256, t.import_source_provider, t.import_source_url, t.rag_config,
      case when t.malware ->> 'sha256' = t.content_sha256 then t.malware ->> 'signature' end as malware,
      array(
        select l.folder_id from folder_links l join folders f on f.id = l.folder_id
        where l.document_id = t.id and (:keys::text[] is null or f.acl && :keys::text[]) order by l.folder_id
      ) as folder_ids,
      t.created_by, t.created_at, t.updated_by, t.updated_at`,
    where: 't.deleted_at is null',
    acl: 't.acl',
    hasFiles: true,
  },
  {
    name: 'agents',
    from: 'agents t',
    keys: id,
    fields: `t.id as agent_id, t.agent_name, t.agent_prompt, t.tags, t.color, t.icon_name, t.chat_model, t.temperature,
      t.max_tokens, t.user_off_topic_streak_threshold, t.user_on_topic_streak_threshold, t.enabled_tools, t.anchor_words,
      t.anchor_word_candidates, t.visibility, t.team_ids, t.source_draft_id, t.source_version_id,
      case when t.document_scope is not null then jsonb_build_object(
        'folder_ids', t.document_scope -> 'folderIds', 'document_ids', t.document_scope -> 'documentIds'
      ) end as document_scope,
      t.created_by, t.created_at, t.updated_at, t.deleted_at`,
    acl: 't.acl',
  },
  {
    name: 'drafts',
    from: 'drafts t',
    keys: id,
    fields: 't.id as draft_id, t.visibility, t.team_ids, t.head_version_id, t.created_by, t.created_at, t.updated_at',
    acl: 't.acl',
  },
  {
    name: 'draft_versions',
    from: '(select v.*, d.acl from draft_versions v join drafts d on d.org_id = v.org_id and d.id = v.draft_id) t',
    keys: id,
    fields: `t.id as version_id, t.draft_id, t.parent_version_id, t.version_number, t.title, t.agent_name, t.agent_prompt,
      t.tags, t.color, t.icon_name, t.chat_model, t.temperature, t.max_tokens, t.anchor_words, t.enabled_tools,
      t.golden_cases, t.eval_scores, t.eval_status, t.eval_run_id as evaluation_id, t.created_by, t.created_at`,
    acl: 't.acl',
  },
  {
    name: 'evaluations',
    from: 'evaluation_runs t',
    keys: [{ column: 't.id', type: 'text' }],
    fields: `t.id as evaluation_id, t.draft_id, t.version_id, t.baseline_version_id, t.specification, t.results,
      t.failed_units, t.created_by, t.created_at, t.finished_at`,
    acl: 't.acl',
  },
  {
    name: 'chats',
    from: 'chats t',
    keys: id,
    fields: `t.id as chat_id, t.agent_id, t.draft_version_id, t.title, t.visibility, t.team_ids, t.round_count, t.echo_round, t.echo_state,
      t.ewma, t.alignment_score, t.input_tokens, t.completion_tokens, t.latency_ms, t.rag_enabled, t.rag_reranking,
      t.rag_reranking_type, t.rag_include_document_ids, t.rag_exclude_document_ids,
      t.created_by, t.created_at, t.updated_at`,
    acl: 't.acl',
  },
  {
    name: 'rounds',
    from: '(select r.*, c.acl from rounds r join chats c on c.org_id = r.org_id and c.id = r.chat_id) t',
    keys: [
      { column: 't.chat_id', type: 'uuid' },
      { column: 't.round', type: 'integer' },
    ],
    fields: `t.chat_id, t.round, t.status, t.user_content, t.assistant_reply, t.model, t.citations, t.tool_calls,
      t.answer_events, t.input_tokens, t.cached_input_tokens, t.completion_tokens, t.cost_usd, t.price_version,
      t.latency_ms, t.error_code, t.pruned, t.started_at, t.finished_at, t.scored_at, t.scorer_version, t.score_source,
      t.user_score, t.agent_score, t.neutral, t.refusal_kind, t.alignment_score, t.ewma, t.echo_state, t.events`,
    acl: 't.acl',
  },
  {
    name: 'connections',
    from: 'connections t',
    keys: id,
    fields: `t.id as connection_id, t.user_id, t.provider, t.display_name, t.status, t.last_error, t.account_id, t.config,
      t.scopes, t.expires_at, t.created_at, t.updated_at`,
    holder: 't.user_id',
  },
  {
    name: 'imports',
    from: `(select r.*, c.user_id from import_runs r
      join connections c on c.org_id = r.org_id and c.id = r.connection_id) t`,
    keys: id,
    fields: `t.id as import_id, t.connection_id, t.kind, t.status, t.error_code, t.error_message, t.target_folder_id,
      t.folder, t.total, t.added, t.updated, t.unchanged, t.deleted, t.failed, t.created_at, t.finished_at`,
    holder: 't.user_id',
  },
  {
    name: 'tool_connections',
    from: 'tool_connections t',
    keys: id,
    fields: 't.id as connection_id, t.provider, t.status, t.scopes, t.expires_at, t.created_at, t.updated_at',
  },
  {
    name: 'usage',
    from: `(select r.org_id, date_trunc('month', r.started_at at time zone 'utc')::date as month, r.model,
        count(*) as rounds, sum(r.input_tokens) as input_tokens, sum(r.cached_input_tokens) as cached_input_tokens,
        sum(r.completion_tokens) as completion_tokens, sum(r.cost_usd) as cost_usd
      from rounds r join chats c on c.org_id = r.org_id and c.id = r.chat_id
      where r.org_id = :orgId and c.draft_version_id is null and (:keys::text[] is null or c.acl && :keys::text[])
      group by 1, 2, 3) t`,
    keys: [
      { column: 't.month', type: 'date' },
      { column: 't.model', type: 'text' },
    ],
    fields: `t.month, t.model, t.rounds, t.input_tokens, t.cached_input_tokens, t.completion_tokens, t.cost_usd`,
  },
  {
    name: 'evaluation_days',
    from: 'evaluation_days t',
    keys: [{ column: 't.day', type: 'date' }],
    fields: 't.day, t.cases',
  },
  {
    name: 'audit_log',
    from: 'audit_log t',
    keys: [{ column: 't.id', type: 'bigint' }],
    fields: 't.id, t.at, t.actor_id, t.action, t.target, t.detail, t.request_id',
  },
];

export const selectExportedRecordKinds = (keys: ExportAccessKeys): readonly ExportedRecordKind[] =>
  exportedRecordKinds.filter(({ isForOperatorsOnly }) => keys === null || isForOperatorsOnly !== true);
