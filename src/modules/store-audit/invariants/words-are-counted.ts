import { bigint, type Row } from '#src/adapters/postgres/columns.ts';
import { oneRow, pick, shape } from '#src/adapters/postgres/shapes.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import type { Db } from '#src/ports/database.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { pagesOf } from './rows.ts';

const counts = shape({
  /** Words of which another number of chunks is counted than have them. */
  wrongTerms: bigint(),
  countedChunks: bigint(),
  countedTerms: bigint(),
  chunks: bigint(),
  terms: bigint(),
});

/** I2: what a search by words weighs them by is what is stored. */
export const wordsAreCounted: InvariantCheck = {
  invariant: 'I2',
  title: 'the chunks of an organization, and the chunks of each of its words, are as many as are counted',
  async run({ db }, _patience, found) {
    let checked = 0;
    for await (const organizations of pagesOf(
      db,
      pick(OrganizationModel, 'id'),
      'select id from organizations where id > :after',
    )) {
      for (const { id: orgId } of organizations) {
        const { wrongTerms, countedChunks, countedTerms, chunks, terms } = await recount(db, orgId);
        if (wrongTerms > 0)
          found({ orgId, detail: `The chunks of ${wrongTerms} words are not as many as are counted.` });
        if (countedChunks !== chunks || countedTerms !== terms) {
          const counted = `${countedChunks} chunks of ${countedTerms} words are counted`;
          found({ orgId, detail: `${counted}, and there are ${chunks} of ${terms}.` });
        }
      }
      checked += organizations.length;
    }
    return checked;
  },
};

/** In one statement, so that it sees both sides at one time. */
function recount(db: Db, orgId: string): Promise<Row<typeof counts>> {
  return oneRow(
    db,
    counts,
    `select
       (select count(*)
        from (select term, chunk_count from term_statistics where org_id = :orgId) counted
        full join (
          select term, sum(cardinality(postings)) as chunk_count from document_terms where org_id = :orgId group by term
        ) stored using (term)
        where coalesce(counted.chunk_count, 0) <> coalesce(stored.chunk_count, 0)) as wrong_terms,
       coalesce(counted.chunk_count, 0) as counted_chunks, coalesce(counted.term_count, 0) as counted_terms,
       stored.chunks, stored.terms
     from (select count(*) as chunks, coalesce(sum(term_count), 0) as terms from chunks where org_id = :orgId) stored
     left join chunk_statistics counted on counted.org_id = :orgId`,
    { orgId },
  );
}
