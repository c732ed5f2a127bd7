import type { Knex } from 'knex';
import { integer, text } from '#src/adapters/postgres/columns.ts';
import { isNarrow, openedCounts, openedDocuments, openedHashes } from '#src/adapters/postgres/opened-documents.ts';
import { isReadable, readableValues } from '#src/adapters/postgres/readable.ts';
import { rowsWithin } from '#src/adapters/postgres/rows-within.ts';
import { type Shape, shape } from '#src/adapters/postgres/shapes.ts';
import { type Actor, keysOf } from '#src/domain/access/visibility.ts';
import { maxRanked, type WantedName } from '#src/domain/retrieval/search-ranking.ts';
import { type NameCandidate, nameCandidate } from './search.model.ts';

/** Who may read no more has all their names compared: of a frequent word, others' documents would be most. */
const documentsByThemselves = 300;
/** So many names are looked at that begin with the query, and that have one of its words with a typo in it. */
const others = 250;
/** So many that have its rarest word, of several: the others are to be in some of them. Of one, as many as are found. */
const withRarest = 1_000;

const timeoutMs = 10_000;

const prepared = shape({ key: text(), opened: integer(), stored: integer() });

const columns = 'd.id as document_id, d.name, d.name_key, d.updated_at';

/** Behind all texts that begin with another, in the order of bytes. */
const endOf = (text: string) => `${text}\u{10ffff}`;

/** The documents with the words, newest first of each; nothing takes a place in the limit but what may be read. */
const withWords = (condition: string, limit: number, isNarrow: boolean) => `
  (select readable.*
   from document_name_words w
   cross join lateral (
     select ${columns} from documents d where d.id = w.document_id and ${isReadable} limit 1
   ) readable
   where w.org_id = :orgId and ${condition}
     ${isNarrow ? 'and (w.document_id in (select id from opened)) is true' : ''}
   order by w.word, w.document_id desc
   limit ${limit})`;

const beginsWith = (word: string) => `w.word >= ${word} and w.word < ${word} || :last::text`;

export type NamesRepository = ReturnType<typeof createNamesRepository>;

export function createNamesRepository(db: Knex) {
  function ask<S extends Shape>(actor: Actor, source: S, sql: string, values: Record<string, unknown>) {
    const readable = readableValues({ orgId: actor.orgId, acl: keysOf(actor) });
    return rowsWithin(timeoutMs, db, source, sql, { ...readable, last: endOf(''), ...values });
  }

  return {
    /**
     * The text as names are looked for; and whether the caller reads so few documents that all are candidates, or so
     * small a part of them that a search should know which.
     */
    async prepare(actor: Actor, asked: string): Promise<{ key: string; readsFew: boolean; readsPart: boolean }> {
      const [row = { key: '', opened: 0, stored: 0 }] = await ask(
        actor,
        prepared,
        `select name_key(:asked::text) as key, counts.* from (${openedCounts}) counts`,
        { asked },
      );
      return { key: row.key, readsFew: row.opened <= documentsByThemselves, readsPart: isNarrow(row) };
    },

    listReadable(actor: Actor): Promise<NameCandidate[]> {
      return ask(actor, nameCandidate, `select ${columns} from documents d where ${isReadable}`, {});
    },

    /**
     * Documents whose names may be wanted: they begin so, or they have the rarest of the words, or a typo of one. Where
     * thousands do, not all of them: those of the words that come first by their letters, and the newest of each.
     */
    listCandidates(actor: Actor, { key, words }: WantedName, readsPart: boolean): Promise<NameCandidate[]> {
      return ask(
        actor,
        nameCandidate,
        `with opened as materialized (${openedDocuments}),
         rarest as materialized (
           select word from unnest(:words::text[]) as q (word)
           cross join lateral (
             select count(*) as names from (
               select from document_name_words w where w.org_id = :orgId and ${beginsWith('q.word')}
               limit ${withRarest + 1}
             ) counted
           ) counts
           -- Of equally frequent ones the longest, which is the narrowest.
           order by names, length(word) desc, word
           limit 1
         )
         (select ${columns} from documents d
          where ${isReadable} and d.id = any (array(
            select n.id from documents n
            where n.org_id = :orgId and n.name_key >= :key and n.name_key < :key || :last::text
              -- Looked up in a hash table, not joined: it is read in its order, and no further than it has to be.
              and (n.acl_hash in (${openedHashes})) is true
            order by n.name_key
            limit ${others}
          )))
         union all
         ${withWords(beginsWith('(select word from rarest)'), words.length > 1 ? withRarest : maxRanked, readsPart)}
         union all
         ${withWords('w.word = any (:typos::text[])', others, readsPart)}`,
        { key, words: words.map(({ word }) => word), typos: words.flatMap(({ typos }) => [...typos]) },
      );
    },
  };
}
