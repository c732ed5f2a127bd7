import msgReader, { type FieldsData } from '@kenjiuno/msgreader';
import iconv from 'iconv-lite';
import { DOMParser, type HTMLElement } from 'linkedom';
import { parse, serialize } from 'parse5';
import PostalMime, { type Address } from 'postal-mime';
import { appError } from '#src/errors.ts';
import { decodeText, htmlEncoding, unicodeEncoding } from '../decode-text.ts';
import { checkNesting, htmlToMarkdown } from '../html-to-markdown.ts';
import type { DocumentParser, ParsedDocument } from '../parsed-document.ts';

/** Internet mail (RFC 5322): its HTML, else its text. Attachments are named and never opened. */
export const parseEml: DocumentParser = async ({ bytes }) => {
  // Only a text editor writes a mail in UTF-16; its headers are ASCII otherwise.
  const mail = await PostalMime.parse(unicodeEncoding(bytes) ? Buffer.from(decodeText(bytes)) : bytes);
  refuseEncrypted(mail.headers.find(({ key }) => key === 'content-type')?.value);
  return renderMail({
    subject: mail.subject ?? '',
    from: mail.from ? namesOf([mail.from]) : '',
    to: namesOf(mail.to ?? []),
    cc: namesOf(mail.cc ?? []),
    date: mail.date ?? null,
    html: mail.html ?? '',
    text: mail.text ?? '',
    attachments: mail.attachments
      // Pictures in the text are part of it.
      .filter(({ related, mimeType }) => !(related && mimeType.startsWith('image/')))
      .map(({ filename, mimeType, content }) => ({ name: filename || mimeType, bytes: Buffer.byteLength(content) })),
  });
};

function namesOf(addresses: Address[]): string {
  return addresses
    .map((each) => (each.group ? `${each.name}: ${each.group.map(addressText).join(', ')}` : addressText(each)))
    .join(', ');
}

/** Outlook messages, and appointments, contacts and tasks by their subject and text. Attachments are only named. */
export const parseMsg: DocumentParser = ({ bytes }) => {
  const message = readMessage(bytes);
  if (message.error) throw appError('corrupt_document', { detail: `The message is damaged: ${message.error}.` });
  refuseEncrypted(/^content-type:\s*(.*)/im.exec(message.headers ?? '')?.[1]);
  if (/^IPM\.Note\.SMIME$/i.test(message.messageClass ?? '')) refuseEncrypted('application/pkcs7-mime');
  const recipients = (type: string) =>
    (message.recipients ?? [])
      .filter(({ recipType }) => recipType === type)
      .map(({ name, smtpAddress, email }) => addressText({ name, address: smtpAddress || email }))
      .filter(Boolean)
      .join(', ');
  const date = new Date(message.clientSubmitTime ?? message.messageDeliveryTime ?? '');
  return renderMail({
    subject: message.subject ?? '',
    from: addressText({ name: message.senderName, address: message.senderSmtpAddress || message.senderEmail }),
    to: recipients('to'),
    cc: recipients('cc'),
    date: Number.isNaN(date.getTime()) ? null : date.toISOString(),
    html: message.html ? decodeHtml(Buffer.from(message.html)) : (message.bodyHtml ?? ''),
    text: message.body ?? '',
    attachments: (message.attachments ?? [])
      .filter(({ attachmentHidden }) => !attachmentHidden)
      .map(({ fileName, name, contentLength }) => ({
        name: fileName || name || 'unnamed',
        bytes: contentLength ?? null,
      })),
  });
};

/** Messages of old programs are in the code page that they name. */
function readMessage(bytes: Buffer): FieldsData {
  const reader = new msgReader.default(new Uint8Array(bytes).buffer);
  const message = reader.getFileData();
  const codePage = `cp${message.messageCodepage}`;
  if (!iconv.encodingExists(codePage)) return message;
  reader.parserConfig = { ansiEncoding: codePage };
  return reader.getFileData();
}

function decodeHtml(bytes: Buffer): string {
  return decodeText(bytes, htmlEncoding(bytes));
}

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
function renderMail(mail: Mail): ParsedDocument {
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
function refuseEncrypted(contentType: string | undefined): void {
  if (contentType && encryptedTypes.test(contentType)) throw encryptedMail();
}

/** `Ann Lee <ann@example.org>`, or what there is of it. */
function addressText({ name, address }: { name?: string | undefined; address?: string | undefined }): string {
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
