import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(String.raw`
    -- A name as it is looked for: without case, accents and separators; where no spaces are written, each character is a
    -- word. The collation is that of Postgres itself, so that it depends on no server's locale.
    create function name_key(name text) returns text language sql immutable strict parallel safe
    return left(btrim(regexp_replace(
      regexp_replace(
        normalize(
          regexp_replace(casefold(normalize(name, NFKD) collate pg_unicode_fast), '[\u0300-\u036f]', '', 'g'),
          NFC
        ),
        '([\u3040-\u30ff\u3400-\u9fff])', ' \1 ', 'g'
      ),
      '[^[:alnum:]]+', ' ', 'g'
    )), 255);

    alter table documents
      add column name_key text collate "C" not null generated always as (name_key(name)) stored;
    create index documents_name_idx on documents (org_id, name_key);

    create table document_name_words (
      org_id uuid not null,
      document_id uuid not null,
      word text collate "C" not null,
      primary key (org_id, document_id, word),
      foreign key (org_id, document_id) references documents (org_id, id) on delete cascade
    );
    -- Newest documents first: a search reads so many of a frequent word.
    create index document_name_words_search_idx on document_name_words (org_id, word, document_id desc);

    insert into document_name_words (org_id, document_id, word)
    select distinct org_id, id, word from documents cross join lateral string_to_table(name_key, ' ') as word
    where word <> '';

    create function index_new_names() returns trigger language plpgsql as $$
    begin
      insert into document_name_words (org_id, document_id, word)
      select distinct org_id, id, word from added cross join lateral string_to_table(name_key, ' ') as word
      where word <> '';
      return null;
    end $$;
    create trigger documents_added after insert on documents
      referencing new table as added for each statement execute function index_new_names();

    create function index_new_name() returns trigger language plpgsql as $$
    begin
      delete from document_name_words where org_id = old.org_id and document_id = old.id;
      insert into document_name_words (org_id, document_id, word)
      select distinct new.org_id, new.id, word from string_to_table(new.name_key, ' ') as word
      where word <> '';
      return null;
    end $$;
    create trigger documents_renamed after update of name on documents
      for each row when (old.name_key is distinct from new.name_key) execute function index_new_name();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop trigger documents_added on documents;
    drop trigger documents_renamed on documents;
    drop function index_new_names, index_new_name;
    drop table document_name_words;
    alter table documents drop column name_key;
    drop function name_key;
  `);
}
