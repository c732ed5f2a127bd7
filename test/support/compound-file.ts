import { CFB } from '@e965/xlsx';

/** A compound file, as old Office programs and Outlook write them, with these streams; a `/` makes a storage. One more signs the writer. */
export function compoundFile(streams: Record<string, string | Buffer>): Buffer {
  const container = CFB.utils.cfb_new();
  for (const [path, content] of Object.entries(streams)) CFB.utils.cfb_add(container, `/${path}`, Buffer.from(content));
  return Buffer.from(CFB.write(container, { type: 'buffer' }));
}
