import { DOMParser, type HTMLElement } from 'linkedom';
import { parse, serialize } from 'parse5';
import { appError } from '#src/errors.ts';
import { checkNesting, htmlToMarkdown } from '../html-to-markdown.ts';
import type { ParsedDocument } from '../parsed-document.ts';

const unseen = 'script, style, noscript, template, svg, iframe, title, [hidden]';
const hiding = /display\s*:\s*none|visibility\s*:\s*hidden/i;

/** The text that a reader of the mail sees: mails hide lines for previews, and lay themselves out in tables. */
function mailHtmlToMarkdown(html: string): string {
  checkNesting(html);
  const { body } = new DOMParser().parseFromString(serialize(parse(html)), 'text/html');
  for (const element of body.querySelectorAll(unseen)) element.remove();
  for (const element of body.querySelectorAll('[style]'))
    if (hiding.test(element.getAttribute('style') ?? '')) element.remove();
  for (const table of body.querySelectorAll('table')) if (isLayout(table)) unwrapTable(table);
  return htmlToMarkdown(body.innerHTML).trim();
}

/** A table of data has several columns and no tables in its cells. */
function isLayout(table: HTMLElement): boolean {
  if (table.getAttribute('role') === 'presentation' || table.querySelector('table')) return true;
  return [...table.querySelectorAll('tr')].every((row) => row.querySelectorAll('td, th').length <= 1);
}

function unwrapTable(table: HTMLElement): void {
  const cells = [...table.querySelectorAll('td, th')].filter((cell) => cell.closest('table') === table);
  const blocks = cells.map((cell) => {
    const block = table.ownerDocument.createElement('div');
    block.append(...cell.childNodes);
    return block;
  });
  table.replaceWith(...blocks);
}

/** A message, whichever program has stored it. */
type Mail = {
  subject: string;
  from: string;
  to: string;
  cc: string;
  /** ISO 8601, or null when it says none. */
  date: string | null;
  html: string;
  text: string;
  /** Null where the size is not told, as of a message in a message. */
  attachments: { name: string; bytes: number | null }[];
};

const encryptedTypes = /^(?:multipart\/encrypted|application\/(?:x-)?pkcs7-mime)\b/i;
const encryptedText = /^\s*-----BEGIN PGP MESSAGE-----/;

/** The subject as the title, who wrote to whom and when, the text with what it quotes, and the names of attachments. */
export function renderMail(mail: Mail): ParsedDocument {
  if (encryptedText.test(mail.text)) throw encryptedMail();
  const content = mailHtmlToMarkdown(mail.html) || mail.text.trim();
  const attachments = mail.attachments.map(({ name, bytes }) => `- ${oneLine(name)}${sizeText(bytes)}`);
  const subject = oneLine(mail.subject);
  if (!subject && !content && attachments.length === 0) return { body: '', title: null };
  const head = [
    ['From', mail.from],
    ['To', mail.to],
    ['Cc', mail.cc],
    ['Date', mail.date?.replace(/T(\d\d:\d\d).*/, ' $1 UTC')],
  ].flatMap(([label, value]) => (value ? [`${label}: ${oneLine(value)}`] : []));
  const parts = [
    subject && `# ${subject}`,
    head.join('\n'),
    content,
    attachments.length > 0 && `Attachments:\n\n${attachments.join('\n')}`,
  ];
  return { body: parts.filter(Boolean).join('\n\n'), title: subject || null };
}

/** @throws AppError encrypted_document when the text is in an envelope that only its receiver can open */
export function refuseEncrypted(contentType: string | undefined): void {
  if (contentType && encryptedTypes.test(contentType)) throw encryptedMail();
}

/** `Ann Lee <ann@example.org>`, or what there is of it. */
export function addressText({ name, address }: { name?: string | undefined; address?: string | undefined }): string {
  return name && address && name !== address ? `${name} <${address}>` : name || address || '';
}

function encryptedMail() {
  return appError('encrypted_document', {
    detail: 'The message is encrypted; open it in the mail program and upload its text or its attachments.',
  });
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

function sizeText(bytes: number | null): string {
  if (bytes === null) return '';
  const kibibytes = Math.max(1, Math.round(bytes / 1024));
  return kibibytes < 1024 ? ` (${kibibytes} KiB)` : ` (${(kibibytes / 1024).toFixed(1)} MiB)`;
}
