import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Command, readFlags } from './command.ts';
import { thisOperator } from './this-operator.ts';
import { isUuid } from './uuid.ts';

export const exportOrganization: Command = {
  takes: '<organization id> --into <folder>',
  does: 'writes all that an organization has, with what its members keep to themselves, into archives of a folder of this machine',
  examples: [['01a20286-f472-72a2-a9c9-368f38795a17 --into /var/exports/acme', 'prints each archive with its SHA-256']],
  read: (args) => {
    const read = readFlags(args, { into: { type: 'string' } });
    if ('wrong' in read) return read;
    const [given = '', ...more] = read.positionals;
    if (!isUuid(given)) return { wrong: `"${given}" is no organization's id, which is a UUID` };
    if (more.length > 0) return { wrong: `"${more.join(' ')}" is not understood` };
    const { into: folder } = read.values;
    if (!folder) return { wrong: '--into needs the folder that the archives are written to' };
    const orgId = given.toLowerCase();
    return async ({ operatorExports }, { print, note }) => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      let total = 0;
      const volumes = operatorExports.exportVolumes(thisOperator(), orgId, async (name, content) => {
        const path = join(folder, name);
        try {
          await pipeline(content, createWriteStream(`${path}.part`, { flags: 'wx', mode: 0o600, flush: true }));
          await rename(`${path}.part`, path);
        } finally {
          await rm(`${path}.part`, { force: true });
        }
      });
      for await (const { name, sizeBytes, sha256, records } of volumes) {
        total += records;
        print(`${sha256}  ${name}`);
        note(`${name}: ${sizeBytes} bytes, ${total} records so far`);
      }
      note(`Done: ${total} records are in ${folder}. They are all that its members have written: keep them safe.`);
      return true;
    };
  },
};
