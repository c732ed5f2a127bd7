import type { Knex } from 'knex';
import { NIL } from 'uuid';
import type { Row } from '#src/adapters/postgres/columns.ts';
import { firstRow, pick } from '#src/adapters/postgres/shapes.ts';
import { ContextualTextModel } from './ingestion.model.ts';

/** A place in the order of the table's key. */
const situationKey = pick(ContextualTextModel, 'orgId', 'conversionId', 'model', 'promptVersion', 'chunkSha256');
export type SituationKey = Row<typeof situationKey>;

/** What was said, by which prompt of which model, of which body. */
export type SituationSource = Omit<SituationKey, 'chunkSha256'>;

export function createSituationsRepository(db: Knex) {
  return {
    /** @returns those that are known, by the hash in hex */
    async find(source: SituationSource, hashes: readonly Buffer[]): Promise<Map<string, string>> {
      const known = await ContextualTextModel.table(db)
        .where(source)
        .whereRaw('chunk_sha256 = any (?::bytea[])', [[...hashes]])
        .select('chunkSha256', 'situation');
      return new Map(known.map(({ chunkSha256, situation }) => [chunkSha256.toString('hex'), situation]));
    },

    /** The first one stays. Does nothing once the body is gone. */
    async insert(key: SituationKey, situation: string): Promise<void> {
      await db.raw(
        `insert into contextual_texts (org_id, conversion_id, model, prompt_version, chunk_sha256, situation)
         select org_id, id, :model, :promptVersion, :chunkSha256, :situation
         from conversions where org_id = :orgId and id = :conversionId
         on conflict do nothing`,
        { ...key, situation },
      );
    },

    /**
     * Looks at `limit` rows after `after`, and deletes those older than a day whose text no chunk of the body has, unless
     * one of its generations has yet to be cut. @returns the last of them, or null when there are no more
     */
    async deleteUnusedAfter(after: SituationKey | null, limit: number): Promise<SituationKey | null> {
      const last = await firstRow(
        db,
        situationKey,
        `with page as (
           select org_id, conversion_id, model, prompt_version, chunk_sha256, created_at from contextual_texts
           where (org_id, conversion_id, model, prompt_version, chunk_sha256)
             > (:orgId::uuid, :conversionId::uuid, :model, :promptVersion::integer, :chunkSha256::bytea)
           order by org_id, conversion_id, model, prompt_version, chunk_sha256
           limit :limit
         ),
         made as materialized (
           select g.conversion_id, sha256(convert_to(c.content, 'UTF8')) as chunk_sha256, g.chunked_at is null as is_coming
           from (select distinct org_id, conversion_id from page where created_at < now() - interval '1 day') body
           join document_generations g on g.org_id = body.org_id and g.conversion_id = body.conversion_id
           left join chunks c
             on c.org_id = g.org_id and c.document_id = g.document_id and c.generation = g.generation
         ),
         unused as (
           delete from contextual_texts t using page p
           where t.org_id = p.org_id and t.conversion_id = p.conversion_id and t.model = p.model
             and t.prompt_version = p.prompt_version and t.chunk_sha256 = p.chunk_sha256
             and p.created_at < now() - interval '1 day'
             and not exists (
               select from made m
               where m.conversion_id = p.conversion_id and (m.is_coming or m.chunk_sha256 = p.chunk_sha256)
             )
         )
         select org_id, conversion_id, model, prompt_version, chunk_sha256 from page
         order by org_id, conversion_id, model, prompt_version, chunk_sha256
         offset :limit - 1`,
        { orgId: NIL, conversionId: NIL, model: '', promptVersion: 0, chunkSha256: Buffer.alloc(0), ...after, limit },
      );
      return last ?? null;
    },
  };
}
