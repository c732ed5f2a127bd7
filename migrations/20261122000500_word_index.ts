import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- What is written while it is copied would be lost.
    lock table chunks, chunk_terms in exclusive mode;

    -- Begins with what the old index was for.
    alter table document_generations add unique (org_id, document_id, generation);
    drop index document_generations_document_idx;

    -- BM25 postings. Organization first: statistics and hits never cross a tenant. A row holds a term's postings in 128
    -- chunks that follow each other; what an integer of postings says is in src/domain/postings.ts. They are in the
    -- index too, so that a search reads the rows of a term side by side.
    create table document_terms (
      org_id uuid not null,
      term text collate "C" not null,
      document_id uuid not null,
      generation integer not null,
      block integer not null,
      postings integer[] not null,
      primary key (org_id, term, document_id, generation, block) include (postings),
      foreign key (org_id, document_id, generation)
        references document_generations (org_id, document_id, generation) on delete cascade
    )
    -- Searches may read the index alone where the table was vacuumed since its last change.
    with (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.05);
    create index document_terms_generation_idx on document_terms (document_id, generation, block);

    -- In how many of an organization's chunks a term is, and how many chunks, of how many terms, there are: of every
    -- stored generation. They change in the transaction that inserts or deletes the chunks.
    create table term_statistics (
      org_id uuid not null references organizations (id),
      term text collate "C" not null,
      chunk_count integer not null,
      primary key (org_id, term)
    )
    -- Room for a changed row beside the old one.
    with (fillfactor = 70);
    create table chunk_statistics (
      org_id uuid primary key references organizations (id),
      chunk_count bigint not null,
      term_count bigint not null
    )
    with (fillfactor = 50);

    insert into document_terms (org_id, term, document_id, generation, block, postings)
    select t.org_id, t.term, c.document_id, c.generation, c.chunk_index / 128,
           array_agg(
             ((c.chunk_index % 128) << 24) | (least(t.frequency, 1023) << 14) | least(c.term_count, 16383)
             order by c.chunk_index
           )
    from chunk_terms t
    join chunks c on c.org_id = t.org_id and c.id = t.chunk_id
    -- The analyzer cuts longer words.
    where char_length(t.term) <= 64
    group by t.org_id, t.term, c.document_id, c.generation, c.chunk_index / 128;

    insert into term_statistics
    select org_id, term, sum(cardinality(postings)) from document_terms group by org_id, term;
    insert into chunk_statistics
    select org_id, count(*), sum(term_count) from chunks group by org_id;

    drop table chunk_terms;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    create table chunk_terms (
      org_id uuid not null,
      term text not null,
      chunk_id uuid not null,
      frequency integer not null,
      primary key (org_id, term, chunk_id),
      foreign key (org_id, chunk_id) references chunks (org_id, id) on delete cascade
    );
    create index chunk_terms_chunk_idx on chunk_terms (org_id, chunk_id);

    insert into chunk_terms (org_id, term, chunk_id, frequency)
    select t.org_id, t.term, c.id, (posting >> 14) & 1023
    from document_terms t
    cross join unnest(t.postings) as posting
    join chunks c
      on c.document_id = t.document_id and c.generation = t.generation
      and c.chunk_index = t.block * 128 + (posting >> 24);

    drop table document_terms, term_statistics, chunk_statistics;
    create index document_generations_document_idx on document_generations (org_id, document_id);
    alter table document_generations drop constraint document_generations_org_id_document_id_generation_key;
  `);
}
