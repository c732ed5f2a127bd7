import { extname } from 'node:path';
import type { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { AppError } from '#src/errors.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { createExportedRecordsRepository, type Reading, type RecordLine } from './exported-records.repository.ts';
import { kindsFor, type RecordKind } from './exported-records.ts';
import { type ExportPlace, type RecordCounts, type VolumeFacts, volumeName } from './exports.model.ts';
import { manifestOf, readMe, totalOf } from './manifest.ts';
import { type ArchivedFile, createVolumeArchive, type VolumeArchive } from './volume-archive.ts';

/** Small enough to be made again, to be downloaded again, and for a copy within a store of objects. */
const VOLUME_BYTES = 1024 ** 3;
const FILES_OF_A_VOLUME = 20_000;
/** What a killed worker repeats at most. */
const VOLUME_MS = 10 * 60_000;
const ROWS_AT_ONCE = 100;

/** `reading` decides what is in it; `userId` is who asked for it, null for an operator. */
export type VolumeOrder = {
  exportId: string;
  createdAt: Date;
  userId: string | null;
  reading: Reading;
  number: number;
  /** Where it begins; null for the first. */
  from: ExportPlace | null;
  previous: readonly VolumeFacts[];
  signal: AbortSignal;
  /** Hears now and then how many records it has. */
  onProgress?: (records: number) => void;
};

/** `end` settles when `content` was read to its end. */
export type OpenVolume = { content: Readable; end: Promise<{ records: RecordCounts; nextPlace: ExportPlace | null }> };

export type VolumeWriter = ReturnType<typeof createVolumeWriter>;

/**
 * Writes an organization into archives, one after the other: each begins where the one before it has ended, and ends when
 * it is large enough. What changes meanwhile is as it is when it is come to.
 */
export function createVolumeWriter(deps: { db: Knex; blobs: Pick<BlobStore, 'read'>; volumeBytes?: number }) {
  const { db, blobs, volumeBytes = VOLUME_BYTES } = deps;
  const records = createExportedRecordsRepository(db);

  async function write(order: VolumeOrder, archive: VolumeArchive) {
    const { reading, number, from, signal } = order;
    const endMs = performance.now() + VOLUME_MS;
    const counts: Record<string, number> = {};
    const isFull = () =>
      archive.bytes >= volumeBytes ||
      // The lines of documents are in memory, whether these have files or not.
      Math.max(archive.files.length, counts.documents ?? 0) >= FILES_OF_A_VOLUME ||
      performance.now() > endMs;
    const fileName = `${String(number).padStart(4, '0')}`;

    /** Rows behind a place, until the volume is full. The place of the last is what the next volume begins behind. */
    async function* rowsOf(kind: RecordKind, place: { after: readonly string[] | null; isOver: boolean }) {
      while (!place.isOver) {
        signal.throwIfAborted();
        const rows = await records.list(kind, reading, { after: place.after, limit: ROWS_AT_ONCE });
        for (const row of rows) {
          yield row;
          place.after = row.place;
          counts[kind.name] = (counts[kind.name] ?? 0) + 1;
          if (isFull()) return;
        }
        order.onProgress?.(totalOf(counts));
        place.isOver = rows.length < ROWS_AT_ONCE;
      }
    }

    async function addDocument({ line, place: [documentId = ''] }: RecordLine): Promise<string> {
      const isWithheld = (JSON.parse(line) as { malware: string | null }).malware !== null;
      const original = isWithheld ? null : await addOriginal(documentId);
      const files = await records.findFiles(reading.orgId, documentId);
      const conversionId = files?.conversionId ?? null;
      const text = conversionId === null ? null : await addText(documentId, conversionId);
      return `${line.slice(0, -1)},"original":${JSON.stringify(original)},"text":${JSON.stringify(text)}}\n`;
    }

    /** Null where there is none, or none any more. */
    async function addOriginal(documentId: string): Promise<ArchivedFile | null> {
      const files = await records.findFiles(reading.orgId, documentId);
      if (files === undefined) return null;
      const { blobKey, sizeBytes } = files;
      const content = await blobs.read(blobKey).catch((error: unknown) => {
        if (error instanceof AppError && error.code === 'blob_missing') return null;
        throw error;
      });
      if (content === null) {
        const now = await records.findFiles(reading.orgId, documentId);
        return now === undefined || now.blobKey === blobKey ? null : addOriginal(documentId);
      }
      const path = `documents/originals/${documentId}${extensionOf(files.fileName)}`;
      return archive.add(path, content, { isPacked: true, sizeBytes });
    }

    const addText = (documentId: string, conversionId: string) =>
      archive.add(`documents/texts/${documentId}.md`, records.readText(reading.orgId, conversionId));

    async function* linesOf(rows: AsyncIterable<RecordLine>): AsyncGenerator<string> {
      for await (const { line } of rows) yield `${line}\n`;
    }

    /** @returns the place to go on from in the next volume; null when all of the kind is written */
    async function addKind(kind: RecordKind, after: readonly string[] | null): Promise<ExportPlace | null> {
      const place = { after, isOver: false };
      const path = `${kind.name}/${fileName}.jsonl`;
      if (kind.hasFiles) {
        const lines: string[] = [];
        for await (const row of rowsOf(kind, place)) lines.push(await addDocument(row));
        if (lines.length > 0) await archive.add(path, of(lines));
      } else if ((await records.list(kind, reading, { after, limit: 1 })).length > 0) {
        await archive.add(path, linesOf(rowsOf(kind, place)));
      } else {
        return null;
      }
      return place.isOver ? null : { kind: kind.name, after: place.after };
    }

    async function addKinds(): Promise<ExportPlace | null> {
      const kinds = kindsFor(reading.keys);
      const first = from === null ? 0 : kinds.findIndex(({ name }) => name === from.kind);
      if (first < 0) throw new Error(`there is nothing of the kind ${from?.kind} to export`);
      for (const [index, kind] of kinds.entries()) {
        if (index < first) continue;
        if (index > first && isFull()) return { kind: kind.name, after: null };
        const next = await addKind(kind, index === first ? (from?.after ?? null) : null);
        if (next !== null) return next;
      }
      return null;
    }

    if (number === 1) await archive.add('README.txt', of([readMe]));
    const nextPlace = await addKinds();
    const name = volumeName(order.exportId, number);
    const own = { volume: name, records: counts, files: archive.files };
    await archive.add(`manifests/${fileName}.json`, of([`${JSON.stringify(own, null, 1)}\n`]));
    if (nextPlace === null) await archive.add('manifest.json', of([manifestOf(order, counts)]));
    archive.end();
    return { records: counts, nextPlace };
  }

  return {
    /** How many records there are for this reader. */
    async count(reading: Reading): Promise<number> {
      let total = 0;
      for (const kind of kindsFor(reading.keys)) total += await records.count(kind, reading);
      return total;
    },

    /** Begins with a volume, which is made as fast as its content is read. Whoever stops reading destroys it. */
    open(order: VolumeOrder): OpenVolume {
      const archive = createVolumeArchive(order.createdAt);
      const end = write(order, archive);
      // Whoever reads the content hears of it there, too.
      end.catch((error: unknown) => archive.fail(error));
      return { content: archive.content, end };
    },
  };
}

async function* of(pieces: readonly string[]): AsyncGenerator<string> {
  yield* pieces;
}

/** Of the name that somebody has given his file, what says how to open it. */
function extensionOf(fileName: string): string {
  return /^\.[a-z0-9]{1,12}$/.exec(extname(fileName).toLowerCase())?.[0] ?? '';
}
