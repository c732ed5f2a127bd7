import msgReader, { type FieldsData } from '@kenjiuno/msgreader';
import iconv from 'iconv-lite';
import { DOMParser, type HTMLElement } from 'linkedom';
import { parse, serialize } from 'parse5';
import PostalMime, { type Address } from 'postal-mime';
import { appError } from '#src/errors.ts';
import { decodeText, detectUnicodeEncoding, findDeclaredEncoding } from '../decode-text.ts';
import { checkHtmlNestingDepth, htmlToMarkdown } from '../html-to-markdown.ts';
import type { DocumentParser, ParsedDocument } from '../parsed-document.ts';

/** Reads Internet mail (RFC 5322): its HTML, or its text if it has none. Attachments are listed but never opened. */
export const parseEml: DocumentParser = async ({ bytes }) => {
  // Some text editors save a mail as UTF-16, which PostalMime does not read.
  const mail = await PostalMime.parse(detectUnicodeEncoding(bytes) ? Buffer.from(decodeText(bytes)) : bytes);
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
      .filter(({ related, mimeType }) => !(related && mimeType.startsWith('image/')))
      .map(({ filename, mimeType, content }) => ({ name: filename || mimeType, bytes: Buffer.byteLength(content) })),
  });
};

function namesOf(addresses: Address[]): string {
  return addresses
    .map((each) => (each.group ? `${each.name}: ${each.group.map(addressText).join(', ')}` : addressText(each)))
    .join(', ');
}

/**
 * Reads Outlook messages; of other Outlook items, reads only the subject and text. Lists attachments without opening
 * them.
 */
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

/** A message that is not in Unicode states its code page, so it is parsed a second time with that code page. */
function readMessage(bytes: Buffer): FieldsData {
  const reader = new msgReader.default(new Uint8Array(bytes).buffer);
  const message = reader.getFileData();
  const codePage = `cp${message.messageCodepage}`;
  if (!iconv.encodingExists(codePage)) return message;
  reader.parserConfig = { ansiEncoding: codePage };
  return reader.getFileData();
}

function decodeHtml(bytes: Buffer): string {
  return decodeText(bytes, findDeclaredEncoding(bytes));
}

const invisibleElements = 'script, style, noscript, template, svg, iframe, title, [hidden]';
const hidingStyle = /display\s*:\s*none|visibility\s*:\s*hidden/i;

/** Converts the HTML of a mail without hidden elements (such as preview lines) and without layout tables. */
function mailHtmlToMarkdown(html: string): string {
  checkHtmlNestingDepth(html);
  const { body } = new DOMParser().parseFromString(serialize(parse(html)), 'text/html');
  for (const element of body.querySelectorAll(invisibleElements)) element.remove();
  for (const element of body.querySelectorAll('[style]'))
    if (hidingStyle.test(element.getAttribute('style') ?? '')) element.remove();
  for (const table of body.querySelectorAll('table')) if (isLayout(table)) unwrapTable(table);
  return htmlToMarkdown(body.innerHTML).trim();
}

/** A layout table has the role `presentation`, contains other tables, or has at most one cell per row. */
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

type Mail = {
  subject: string;
  from: string;
  to: string;
  cc: string;
  date: string | null;
  html: string;
  text: string;
  /** `bytes` is null when an attachment's size is unknown, such as that of an attached message. */
  attachments: { name: string; bytes: number | null }[];
};

const encryptedTypes = /^(?:multipart\/encrypted|application\/(?:x-)?pkcs7-mime)\b/i;
const encryptedText = /^\s*-----BEGIN PGP MESSAGE-----/;

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

function refuseEncrypted(contentType: string | undefined): void {
  if (contentType && encryptedTypes.test(contentType)) throw encryptedMail();
}

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
