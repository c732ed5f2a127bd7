import type { Knex } from 'knex';

/** Tells chunks on which pages they are, where the pages of the text that they were cut from are known. */
export async function numberPages(db: Knex, of: { orgId: string; conversionId: string }): Promise<void> {
  await db.raw(
    `update chunks c set page_number = numbered.page_number
     from (
       select old.id, greatest(1, width_bucket(old.content_offset, v.page_map)) as page_number
       from conversions v
       join document_generations g on g.org_id = v.org_id and g.conversion_id = v.id
       join chunks old on old.org_id = g.org_id and old.document_id = g.document_id and old.generation = g.generation
       where v.org_id = :orgId and v.id = :conversionId and v.page_map is not null
     ) numbered
     where c.id = numbered.id and c.page_number <> numbered.page_number`,
    of,
  );
}
