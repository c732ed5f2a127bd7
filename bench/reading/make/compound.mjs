// Reads `{"path": "base64"}` and writes a compound file with these streams, as Outlook does.
import { readFileSync } from 'node:fs';
import { CFB } from '@e965/xlsx';

const container = CFB.utils.cfb_new();
for (const [path, content] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
  CFB.utils.cfb_add(container, `/${path}`, Buffer.from(content, 'base64'));
}
process.stdout.write(CFB.write(container, { type: 'buffer' }));
