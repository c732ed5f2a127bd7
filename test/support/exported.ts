import { hash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { expect } from 'chai';
import yauzl from 'yauzl';
import { exportSchema } from '#src/modules/exports/exports.schema.ts';
import type { Member } from './client.ts';
import { untilJob } from './until-job.ts';

export type Exported = Map<string, Buffer>;

export async function exportOf(admin: Member) {
  const { export_id, job_id } = Object((await admin.post('/entity/org/exports', undefined, 202)).body);
  await untilJob(admin, job_id, 'succeeded');
  return exportSchema.parse((await admin.get(`/entity/org/exports/${export_id}`, 200)).body);
}

type Volume = Awaited<ReturnType<typeof exportOf>>['volumes'][number];

export async function downloaded(volumes: readonly Volume[]): Promise<Buffer[]> {
  const download = async ({ name, size_bytes, sha256, download_url }: Volume) => {
    const response = await fetch(download_url ?? '');
    const bytes = Buffer.from(await response.arrayBuffer());
    const facts = { status: response.status, size_bytes: bytes.length, sha256: sha256Of(bytes) };
    expect(facts, name).deep.equal({ status: 200, size_bytes, sha256 });
    return bytes;
  };
  return Promise.all(volumes.map(download));
}

export async function unpack(archives: readonly Buffer[]): Promise<Exported> {
  const files: Exported = new Map();
  for (const archive of archives) {
    const zip = await yauzl.fromBufferPromise(archive);
    for await (const entry of zip.eachEntry()) {
      if (files.has(entry.fileName)) throw new Error(`${entry.fileName} is there twice`);
      files.set(entry.fileName, await buffer(await zip.openReadStreamPromise(entry)));
    }
  }
  return files;
}

export function recordsOf(files: Exported, kind: string): Record<string, unknown>[] {
  const paths = [...files.keys()].filter((path) => path.startsWith(`${kind}/`) && path.endsWith('.jsonl')).sort();
  const lines = paths.flatMap((path) => String(files.get(path)).split('\n'));
  return lines.filter(Boolean).map((line) => JSON.parse(line));
}

export const sha256Of = (bytes: Buffer): string => hash('sha256', bytes);
