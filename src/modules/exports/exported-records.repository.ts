import type { Knex } from 'knex';
import {
  bigint,
  firstRow,
  oneRow,
  type Row,
  rows,
  shape,
  text,
  textArray,
  uuid,
} from '#src/adapters/postgres/shapes.ts';
import type { ReaderKeys, RecordKind } from './exported-records.ts';

/** A line of JSON and where it stands in its order. */
const recordLine = shape({ line: text(), place: textArray() });
export type RecordLine = Row<typeof recordLine>;

/** Who reads which organization. */
export type Reading = { orgId: string; keys: ReaderKeys };

/** What there is of a document beside its line. */
const documentFiles = shape({
  blobKey: text(),
  sizeBytes: bigint(),
  fileName: text(),
  conversionId: uuid().nullable(),
});
export type DocumentFiles = Row<typeof documentFiles>;

const total = shape({ count: bigint() });
const textPiece = shape({ piece: text() });

const TEXT_PIECE_CHARS = 1_000_000;

export function createExportedRecordsRepository(db: Knex) {
  function conditionOf({ where, acl, holder }: RecordKind): string {
    const conditions = [
      't.org_id = :orgId',
      ...(where === undefined ? [] : [where]),
      ...(acl === undefined ? [] : [`(:keys::text[] is null or ${acl} && :keys::text[])`]),
      ...(holder === undefined ? [] : [`(:keys::text[] is null or 'user:' || ${holder} = any (:keys::text[]))`]),
    ];
    return conditions.join(' and ');
  }
  const valuesOf = ({ orgId, keys }: Reading) => ({ orgId, keys: keys === null ? null : [...keys] });

  return {
    async count(kind: RecordKind, reading: Reading): Promise<number> {
      const { count } = await oneRow(
        db,
        total,
        `select count(*) from ${kind.from} where ${conditionOf(kind)}`,
        valuesOf(reading),
      );
      return count;
    },

    /** In the order of their keys, behind a place. */
    async list(
      kind: RecordKind,
      reading: Reading,
      { after, limit }: { after: readonly string[] | null; limit: number },
    ): Promise<RecordLine[]> {
      const columns = kind.keys.map(({ column }) => column).join(', ');
      const place = kind.keys.map(({ column }) => `${column}::text`).join(', ');
      const bounds = kind.keys.map(({ type }, index) => `(:after::text[])[${index + 1}]::${type}`).join(', ');
      const isBehind = after === null ? '' : `and (${columns}) > (${bounds})`;
      return rows(
        db,
        recordLine,
        `select row_to_json(r)::text as line, array[${place}] as place
         from ${kind.from} cross join lateral (select ${kind.fields}) r
         where ${conditionOf(kind)} ${isBehind}
         order by ${columns} limit :limit`,
        { ...valuesOf(reading), limit, ...(after !== null && { after: [...after] }) },
      );
    },

    /** Undefined once it is deleted. */
    async findFiles(orgId: string, documentId: string): Promise<DocumentFiles | undefined> {
      return firstRow(
        db,
        documentFiles,
        `select d.blob_key, d.size_bytes, d.file_name, g.conversion_id
         from documents d
         left join document_generations g on g.document_id = d.id and g.generation = d.active_generation
         where d.org_id = :orgId and d.id = :documentId and d.deleted_at is null`,
        { orgId, documentId },
      );
    },

    /** The text of a document, in pieces. */
    async *readText(orgId: string, conversionId: string): AsyncGenerator<string> {
      for (let from = 1; ; from += TEXT_PIECE_CHARS) {
        const found = await firstRow(
          db,
          textPiece,
          'select substr(body, :from, :length) as piece from conversions where org_id = :orgId and id = :conversionId',
          { orgId, conversionId, from, length: TEXT_PIECE_CHARS },
        );
        const piece = found?.piece ?? '';
        if (piece.length > 0) yield piece;
        if (piece.length < TEXT_PIECE_CHARS) return;
      }
    },
  };
}
