import { execFile } from 'node:child_process';
import { extname } from 'node:path';
import { promisify } from 'node:util';

/** What the usual program for a kind of file reads; null if there is none, or if it is not installed. */
export type PeerReading = { peer: string; text: string };

const run = promisify(execFile);

const pandocFormats: Record<string, string> = {
  '.docx': 'docx',
  '.odt': 'odt',
  '.rtf': 'rtf',
  '.epub': 'epub',
  '.fb2': 'fb2',
  '.html': 'html',
  '.md': 'markdown',
  '.csv': 'csv',
};

export async function readByPeer(name: string, path: string): Promise<PeerReading | null> {
  const [peer, command] = peerOf(name, path) ?? [];
  if (peer === undefined || command === undefined) return null;
  const [program = '', ...args] = command;
  try {
    const { stdout } = await run(program, args, { maxBuffer: 64 * 1024 ** 2 });
    return { peer, text: stdout };
  } catch (error) {
    // A program that refuses a file has read nothing.
    return Object(error).code === 'ENOENT' || Object(error).code === 127 ? null : { peer, text: '' };
  }
}

function peerOf(name: string, path: string): [peer: string, command: string[]] | null {
  const extension = extname(name);
  if (name.startsWith('scan-')) {
    const scanned = ['sh', '-c', 'pdftoppm -r 300 -gray "$0" | tesseract - -', path];
    return ['Tesseract', extension === '.pdf' ? scanned : ['tesseract', path, '-']];
  }
  if (extension === '.pdf') return ['pdftotext', ['pdftotext', path, '-']];
  if (extension === '.doc') return ['antiword', ['antiword', '-m', 'UTF-8.txt', path]];
  if (extension === '.xls') return ['xls2csv', ['xls2csv', '-d', 'utf-8', path]];
  const format = name.endsWith('.jats.xml') ? 'jats' : pandocFormats[extension];
  return format === undefined ? null : ['pandoc', ['pandoc', '-f', format, '-t', 'plain', '--wrap=none', path]];
}
