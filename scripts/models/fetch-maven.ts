import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { runQuietly } from '../bootstrap/child.mjs';
import { archiveMember } from './archive-member.ts';
import { SourceFailure } from './fetch-failure.ts';
import type { PartialFile } from './partial-file.ts';

export async function fetchMaven(options: { artifact: string; member: string; partial: PartialFile }): Promise<void> {
  const { artifact, member, partial } = options;
  const folder = `${partial.path}-jar`;
  try {
    const copy = [`-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`, '-Dmdep.overWriteReleases=true'];
    const { code } = await runQuietly('mvn', ['-B', '-q', 'dependency:copy', ...copy]).catch(() => {
      throw new SourceFailure('mvn is not installed');
    });
    if (code !== 0) throw new SourceFailure(`mvn could not fetch ${artifact}`);
    const [jar = ''] = await readdir(folder);
    await partial.cutTo(0);
    await partial.append(archiveMember(join(folder, jar), member));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
