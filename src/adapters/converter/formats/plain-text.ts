import { codeLanguageOfFile } from '#src/domain/documents/formats.ts';
import { decodeText } from '../decode-text.ts';
import type { DocumentParser } from '../parsed-document.ts';

export const parsePlainText: DocumentParser = ({ bytes, encoding }) => ({
  body: decodeText(bytes, encoding),
  title: null,
});

/** Source code becomes a fenced block, so that lines such as `# comment` are not read as headings. */
export const parseCode: DocumentParser = ({ bytes, fileName, encoding }) => {
  const code = decodeText(bytes, encoding);
  return { body: fencedCodeBlock(code, codeLanguageOfFile(fileName)), title: null };
};

export function fencedCodeBlock(code: string, language: string): string {
  const longest = (code.match(/`{3,}/g) ?? []).reduce((length, run) => Math.max(length, run.length), 2);
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${code.replace(/\s+$/, '')}\n${fence}`;
}
