import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import type { Knex } from 'knex';
import { ZipFile } from 'yazl';
import { AppError } from '#src/errors.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { type ExportedRecordKind, selectExportedRecordKinds } from './exported-records.ts';
import {
  type ExportRecordPosition,
  type ExportVolumeSummary,
  exportVolumeFileName,
  type RecordCountsByKind,
} from './exports.model.ts';
import {
  createExportedRecordsRepository,
  type ExportAccessScope,
  type ExportedRecordLine,
} from './exports.repository.ts';

/** Size at which a ZIP volume ends: small enough to repeat a failed download, or to copy on the server in S3. */
const VOLUME_BYTES = 1024 ** 3;
const MAX_FILES_PER_VOLUME = 20_000;
/** Time after which a volume ends, so that the death of a worker costs at most this much repeated work. */
const MAX_VOLUME_MS = 10 * 60_000;
const ROWS_PER_QUERY = 100;

/**
 * A request for one volume. `userId` is the requesting admin, or null for an operator. `from` is null for the first
 * volume.
 */
type VolumeRequest = {
  exportId: string;
  createdAt: Date;
  userId: string | null;
  scope: ExportAccessScope;
  number: number;
  from: ExportRecordPosition | null;
  previous: readonly ExportVolumeSummary[];
  signal: AbortSignal;
  onProgress?: (records: number) => void;
};

/** A volume that is being written. The promise `end` settles once the stream `content` has been read to its end. */
type StartedVolume = {
  content: Readable;
  end: Promise<{ records: RecordCountsByKind; nextPlace: ExportRecordPosition | null }>;
};

export type ExportVolumeWriter = ReturnType<typeof createExportVolumeWriter>;

/**
 * Writes the data of an organization into ZIP volumes. Each volume begins where the previous one ended, and ends at a
 * size limit. Records may change during the export; each is exported as it is when it is read.
 */
export function createExportVolumeWriter(deps: { db: Knex; blobs: Pick<BlobStore, 'read'>; volumeBytes?: number }) {
  const { db, blobs, volumeBytes = VOLUME_BYTES } = deps;
  const records = createExportedRecordsRepository(db);

  async function write(request: VolumeRequest, archive: VolumeArchive) {
    const { scope, number, from, signal } = request;
    const endMs = performance.now() + MAX_VOLUME_MS;
    const counts: Record<string, number> = {};
    const isFull = () =>
      archive.bytes >= volumeBytes ||
      // Limits the documents of a volume, because their JSON lines stay in memory until all files are written.
      Math.max(archive.files.length, counts.documents ?? 0) >= MAX_FILES_PER_VOLUME ||
      performance.now() > endMs;
    const fileName = `${String(number).padStart(4, '0')}`;

    /**
     * Yields rows of a record kind until the volume is full or no row is left. Stores the position of the last yielded
     * row in `cursor`.
     */
    async function* rowsOf(kind: ExportedRecordKind, cursor: { after: readonly string[] | null; isDone: boolean }) {
      while (!cursor.isDone) {
        signal.throwIfAborted();
        const rows = await records.list(kind, scope, { after: cursor.after, limit: ROWS_PER_QUERY });
        for (const row of rows) {
          yield row;
          cursor.after = row.position;
          counts[kind.name] = (counts[kind.name] ?? 0) + 1;
          if (isFull()) return;
        }
        request.onProgress?.(sumOfRecordCounts(counts));
        cursor.isDone = rows.length < ROWS_PER_QUERY;
      }
    }

    async function addDocument({ line, position: [documentId = ''] }: ExportedRecordLine): Promise<string> {
      const isWithheld = (JSON.parse(line) as { malware: string | null }).malware !== null;
      const original = isWithheld ? null : await addOriginal(documentId);
      const files = await records.findFiles(scope.orgId, documentId);
      const conversionId = files?.conversionId ?? null;
      const text = conversionId === null ? null : await addText(documentId, conversionId);
      return `${line.slice(0, -1)},"original":${JSON.stringify(original)},"text":${JSON.stringify(text)}}\n`;
    }

    async function addOriginal(documentId: string): Promise<ArchivedFile | null> {
      const files = await records.findFiles(scope.orgId, documentId);
      if (files === undefined) return null;
      const { blobKey, sizeBytes } = files;
      const content = await blobs.read(blobKey).catch((error: unknown) => {
        if (error instanceof AppError && error.code === 'blob_missing') return null;
        throw error;
      });
      if (content === null) {
        const current = await records.findFiles(scope.orgId, documentId);
        return current === undefined || current.blobKey === blobKey ? null : addOriginal(documentId);
      }
      const path = `documents/originals/${documentId}${extensionOf(files.fileName)}`;
      return archive.add(path, content, { isPacked: true, sizeBytes });
    }

    const addText = (documentId: string, conversionId: string) =>
      archive.add(`documents/texts/${documentId}.md`, records.readText(scope.orgId, conversionId));

    async function* linesOf(rows: AsyncIterable<ExportedRecordLine>): AsyncGenerator<string> {
      for await (const { line } of rows) yield `${line}\n`;
    }

    /** Adds rows of a record kind to the volume. Returns where the next volume continues; null at the end. */
    async function addKind(
      kind: ExportedRecordKind,
      after: readonly string[] | null,
    ): Promise<ExportRecordPosition | null> {
      const cursor = { after, isDone: false };
      const path = `${kind.name}/${fileName}.jsonl`;
      if (kind.hasFiles) {
        const lines: string[] = [];
        for await (const row of rowsOf(kind, cursor)) lines.push(await addDocument(row));
        if (lines.length > 0) await archive.add(path, piecesOf(lines));
      } else if ((await records.list(kind, scope, { after, limit: 1 })).length > 0) {
        await archive.add(path, linesOf(rowsOf(kind, cursor)));
      } else {
        return null;
      }
      return cursor.isDone ? null : { kind: kind.name, after: cursor.after };
    }

    async function addKinds(): Promise<ExportRecordPosition | null> {
      const kinds = selectExportedRecordKinds(scope.keys);
      const first = from === null ? 0 : kinds.findIndex(({ name }) => name === from.kind);
      if (first < 0) throw new Error(`the export cannot continue at the unknown record kind ${from?.kind}`);
      for (const [index, kind] of kinds.entries()) {
        if (index < first) continue;
        if (index > first && isFull()) return { kind: kind.name, after: null };
        const next = await addKind(kind, index === first ? (from?.after ?? null) : null);
        if (next !== null) return next;
      }
      return null;
    }

    if (number === 1) await archive.add('README.txt', piecesOf([readMe]));
    const nextPlace = await addKinds();
    const name = exportVolumeFileName(request.exportId, number);
    const own = { volume: name, records: counts, files: archive.files };
    await archive.add(`manifests/${fileName}.json`, piecesOf([`${JSON.stringify(own, null, 1)}\n`]));
    if (nextPlace === null) await archive.add('manifest.json', piecesOf([manifestOf(request, counts)]));
    archive.end();
    return { records: counts, nextPlace };
  }

  return {
    async count(scope: ExportAccessScope): Promise<number> {
      let total = 0;
      for (const kind of selectExportedRecordKinds(scope.keys)) total += await records.count(kind, scope);
      return total;
    },

    /** Starts a volume, which is written while `content` is read. A reader that stops early must destroy `content`. */
    open(request: VolumeRequest): StartedVolume {
      const archive = createZipArchive(request.createdAt);
      const end = write(request, archive);
      end.catch((error: unknown) => archive.fail(error));
      return { content: archive.content, end };
    },
  };
}

async function* piecesOf(pieces: readonly string[]): AsyncGenerator<string> {
  yield* pieces;
}

function extensionOf(fileName: string): string {
  return /^\.[a-z0-9]{1,12}$/.exec(extname(fileName).toLowerCase())?.[0] ?? '';
}

/** Only files above this size are written in the ZIP64 format, because some old programs cannot read it. */
const ZIP64_BYTES = 3 * 1024 ** 3;

type ArchivedFile = { path: string; bytes: number; sha256: string };

type VolumeArchive = ReturnType<typeof createZipArchive>;

/**
 * Creates a ZIP archive as a stream, so that it is never in memory as a whole.
 * @param mtime modification time of every file, so that equal content gives an equal archive
 */
export function createZipArchive(mtime: Date) {
  const zip = new ZipFile();
  const { outputStream: content } = zip;
  if (!(content instanceof Readable)) throw new TypeError('the output of yazl is not a readable stream');
  const closed = new Promise<never>((_, reject) => {
    content.once('close', () =>
      reject(content.errored ?? new Error('the export archive was closed before it was read to its end')),
    );
  });
  closed.catch(() => undefined);
  zip.on('error', (error) => content.destroy(error));
  const files: ArchivedFile[] = [];
  let bytes = 0;

  return {
    content,

    get bytes(): number {
      return bytes;
    },

    get files(): readonly ArchivedFile[] {
      return files;
    },

    /** Adds a file. Resolves once `source` is read; rejects if reading fails or the archive is closed early. */
    async add(
      path: string,
      source: AsyncIterable<Buffer | string>,
      { isPacked = false, sizeBytes = 0 }: { isPacked?: boolean; sizeBytes?: number } = {},
    ): Promise<ArchivedFile> {
      const hash = createHash('sha256');
      let ownBytes = 0;
      async function* measured(): AsyncGenerator<Buffer> {
        for await (const piece of source) {
          const buffer = Buffer.from(piece);
          if (buffer.length === 0) continue;
          hash.update(buffer);
          ownBytes += buffer.length;
          bytes += buffer.length;
          yield buffer;
        }
      }
      const stream = Readable.from(measured(), { objectMode: false });
      const forceZip64Format = sizeBytes > ZIP64_BYTES;
      zip.addReadStream(stream, path, { mtime, compress: !isPacked, forceZip64Format });
      await Promise.race([once(stream, 'end'), closed]).finally(() => stream.destroy());
      const file = { path, bytes: ownBytes, sha256: hash.digest('hex') };
      files.push(file);
      return file;
    },

    end(): void {
      zip.end();
    },

    fail(error: unknown): void {
      content.destroy(error instanceof Error ? error : new Error(String(error)));
    },
  };
}

const EXPORT_VERSION = 1;

const readMe = `A copy of an organization of Agent Conversation Service.

Unpack all volumes into one folder: no two have a file in common.

<kind>/0001.jsonl             records, one JSON object a line, in UTF-8; the number is that of the volume
documents/originals/<id>.*    files as they were uploaded
documents/texts/<id>.md       what was read from them, as Markdown
manifests/0001.json           the files of a volume with their sizes in bytes and SHA-256
manifest.json                 what all volumes hold together; it is in the last one

Times are in ISO 8601, ids are UUIDs, and a field that ends in _id or _by names a record of another kind.
`;

export const sumOfRecordCounts = (counts: RecordCountsByKind): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

function sumOf(all: readonly RecordCountsByKind[]): RecordCountsByKind {
  const totals: Record<string, number> = {};
  for (const counts of all) {
    for (const [kind, count] of Object.entries(counts)) totals[kind] = (totals[kind] ?? 0) + count;
  }
  return totals;
}

/**
 * Builds the manifest of the whole export. It is part of the last volume, so it lacks the size and hash of that volume.
 */
function manifestOf(request: VolumeRequest, counts: RecordCountsByKind): string {
  const { exportId, createdAt, userId, scope, number, previous } = request;
  const manifest = {
    format: 'agent-conversation-service-export',
    version: EXPORT_VERSION,
    export_id: exportId,
    org_id: scope.orgId,
    scope: scope.keys === null ? 'everything' : 'readable',
    requested_by: userId,
    created_at: createdAt.toISOString(),
    records: sumOf([...previous.map((volume) => volume.records), counts]),
    volumes: [
      ...previous.map((volume) => ({
        name: exportVolumeFileName(exportId, volume.number),
        size_bytes: volume.sizeBytes,
        sha256: volume.sha256,
        records: volume.records,
      })),
      { name: exportVolumeFileName(exportId, number), records: counts },
    ],
  };
  return `${JSON.stringify(manifest, null, 1)}\n`;
}
