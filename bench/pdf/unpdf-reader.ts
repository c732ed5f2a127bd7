// `node unpdf-reader.ts FILE`: extracts the text of a PDF with unpdf and prints its cost, in a process of its own.
import { readFile } from 'node:fs/promises';
import { extractText, getDocumentProxy } from 'unpdf';

const bytes = new Uint8Array(await readFile(process.argv[2] ?? ''));
const before = process.cpuUsage();
const { totalPages, text } = await extractText(await getDocumentProxy(bytes), { mergePages: false });
const { user, system } = process.cpuUsage(before);
console.log(
  JSON.stringify({
    pages: totalPages,
    letters: text.join('').length,
    cpuSeconds: (user + system) / 1e6,
    peakMegabytes: process.resourceUsage().maxRSS / 1_024,
  }),
);
