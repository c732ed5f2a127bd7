import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- What is written while it is counted would not be.
    lock table documents, folder_links in exclusive mode;

    -- How many live documents there are with the same keys and author, and their size: what a list or a limit would
    -- count one by one. Several rows may be about the same, where one was held by another transaction; their sums are
    -- exact in every snapshot.
    create table document_totals (
      id bigint generated always as identity primary key,
      org_id uuid not null,
      created_by uuid not null,
      acl text[] not null,
      -- Of author and keys, which may be too long for an index.
      of_whom uuid not null,
      documents bigint not null,
      size_bytes bigint not null
    )
    -- Room for changed rows beside the old ones.
    with (fillfactor = 50);
    create index document_totals_of_whom_idx on document_totals (org_id, of_whom);

    -- The document's updated_at, by which a folder is listed; null once it is deleted.
    alter table folder_links add column listed_at timestamptz;

    create function add_to_document_totals(org uuid, author uuid, keys text[], more_documents bigint, more_bytes bigint)
    returns void language plpgsql as $$
    declare
      whom uuid := md5(author || keys::text);
      changed document_totals;
    begin
      -- Never waits: two transactions that change many documents in different orders would wait for each other.
      update document_totals
      set documents = documents + more_documents, size_bytes = size_bytes + more_bytes
      where id = (
        select id from document_totals where org_id = org and of_whom = whom limit 1 for no key update skip locked
      )
      returning * into changed;
      if not found then
        insert into document_totals (org_id, created_by, acl, of_whom, documents, size_bytes)
        values (org, author, keys, whom, more_documents, more_bytes);
      elsif changed.documents = 0 and changed.size_bytes = 0 then
        delete from document_totals where id = changed.id;
      end if;
    end $$;

    create function total_new_documents() returns trigger language plpgsql as $$
    begin
      perform add_to_document_totals(org_id, created_by, acl, count(*), sum(size_bytes)::bigint)
      from after where deleted_at is null group by org_id, created_by, acl;
      return null;
    end $$;

    create function total_gone_documents() returns trigger language plpgsql as $$
    begin
      perform add_to_document_totals(org_id, created_by, acl, -count(*), -sum(size_bytes)::bigint)
      from before where deleted_at is null group by org_id, created_by, acl;
      return null;
    end $$;

    create function total_changed_documents() returns trigger language plpgsql as $$
    begin
      perform add_to_document_totals(org_id, created_by, acl, sum(documents)::bigint, sum(bytes)::bigint)
      from (
        select org_id, created_by, acl, -1 as documents, -size_bytes as bytes from before where deleted_at is null
        union all
        select org_id, created_by, acl, 1, size_bytes from after where deleted_at is null
      ) change
      group by org_id, created_by, acl
      having sum(documents) <> 0 or sum(bytes) <> 0;

      update folder_links l
      set listed_at = case when d.deleted_at is null then d.updated_at end
      from after d
      where l.org_id = d.org_id and l.document_id = d.id
        and l.listed_at is distinct from case when d.deleted_at is null then d.updated_at end;
      return null;
    end $$;

    create function list_new_link() returns trigger language plpgsql as $$
    begin
      -- Held, so that it does not change between this and the end of the transaction without the link knowing.
      select updated_at into new.listed_at from documents
      where org_id = new.org_id and id = new.document_id and deleted_at is null for share;
      return new;
    end $$;

    create trigger documents_totals_insert after insert on documents
      referencing new table as after for each statement execute function total_new_documents();
    create trigger documents_totals_update after update on documents
      referencing old table as before new table as after for each statement execute function total_changed_documents();
    create trigger documents_totals_delete after delete on documents
      referencing old table as before for each statement execute function total_gone_documents();
    create trigger folder_links_listed before insert on folder_links
      for each row execute function list_new_link();

    insert into document_totals (org_id, created_by, acl, of_whom, documents, size_bytes)
    select org_id, created_by, acl, md5(created_by || acl::text)::uuid, count(*), sum(size_bytes)
    from documents where deleted_at is null group by org_id, created_by, acl;
    update folder_links l set listed_at = d.updated_at
    from documents d where d.org_id = l.org_id and d.id = l.document_id and d.deleted_at is null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop trigger folder_links_listed on folder_links;
    drop trigger documents_totals_insert on documents;
    drop trigger documents_totals_update on documents;
    drop trigger documents_totals_delete on documents;
    drop function list_new_link, total_new_documents, total_gone_documents, total_changed_documents,
      add_to_document_totals;
    alter table folder_links drop column listed_at;
    drop table document_totals;
  `);
}
