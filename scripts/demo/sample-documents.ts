import { createWriteStream } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { marked, type Token, type Tokens } from 'marked';
import PDFDocument from 'pdfkit';

const docs = fileURLToPath(new URL('../../docs', import.meta.url));

/**
 * Creates the demo's sample documents from pages of the docs: one Markdown, one HTML and one PDF file. HTML and PDF are
 * generated, so that they never differ from the docs.
 * @returns the paths of the three files
 */
export async function makeSampleDocuments(directory: string): Promise<string[]> {
  await mkdir(directory, { recursive: true });
  const html = path.join(directory, 'operators.html');
  const pdf = path.join(directory, 'alignment.pdf');
  await writeFile(html, webPage('Operators’ guide', await readFile(path.join(docs, 'operators.md'), 'utf8')));
  await writePdf(pdf, await readFile(path.join(docs, 'alignment.md'), 'utf8'));
  return [path.join(docs, 'architecture.md'), html, pdf];
}

function webPage(title: string, markdown: string): string {
  const body = marked.parse(markdown, { async: false });
  return `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>${title}</title></head>\n<body><main>${body}</main></body></html>\n`;
}

async function writePdf(file: string, markdown: string): Promise<void> {
  const pdf = new PDFDocument({ size: 'A4', margin: 56, info: { Title: path.basename(file, '.pdf') } });
  const written = pipeline(pdf, createWriteStream(file));
  for (const token of marked.lexer(markdown)) drawBlock(pdf, token);
  pdf.end();
  await written;
}

function drawBlock(pdf: PDFKit.PDFDocument, token: Token): void {
  const plain = (text: string): string => text.replace(/\*\*|`|\[([^\]]*)\]\([^)]*\)/g, '$1');
  if (token.type === 'heading') {
    const { depth, text } = token as Tokens.Heading;
    pdf
      .moveDown(0.6)
      .font('Helvetica-Bold')
      .fontSize(20 - 3 * Math.min(depth, 3))
      .text(plain(text))
      .moveDown(0.3);
    return;
  }
  pdf.font('Helvetica').fontSize(11);
  if (token.type === 'list') {
    for (const item of (token as Tokens.List).items) pdf.text(`- ${plain(item.text)}`, { indent: 12 });
  } else if (token.type === 'table') {
    const { header, rows } = token as Tokens.Table;
    for (const row of [header, ...rows]) pdf.text(row.map((cell) => plain(cell.text)).join('   '));
  } else if (token.type === 'paragraph' || token.type === 'blockquote' || token.type === 'code') {
    pdf.text(plain((token as Tokens.Paragraph).text));
  } else return;
  pdf.moveDown(0.6);
}
